// SPDX-License-Identifier: Apache-2.0
#include "microcode/access_meter.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/assert.h"
#include "microcode/machine.h"
#include "microcode/rule.h"

namespace tributary::microcode {
namespace {

bool is_same_text(const char* a, const char* b) {
  return a == b || (a != nullptr && b != nullptr && std::strcmp(a, b) == 0);
}

}  // namespace

AccessCount largest(const AccessCount& a, const AccessCount& b) {
  return {.head_bytes = std::max(a.head_bytes, b.head_bytes),
          .lmem_reads = std::max(a.lmem_reads, b.lmem_reads),
          .lmem_writes = std::max(a.lmem_writes, b.lmem_writes),
          .register_reads = std::max(a.register_reads, b.register_reads),
          .register_writes = std::max(a.register_writes, b.register_writes),
          .xtxns = std::max(a.xtxns, b.xtxns)};
}

void check_xtxn(const Xtxn& xtxn, const std::source_location& place) {
  if (xtxn.kind == XtxnKind::kTailRead || xtxn.kind == XtxnKind::kTailWrite) return;
  TRIB_REQUIRE_AT(xtxn.target != nullptr, rule::kXtxnTarget, place);
  TRIB_REQUIRE_AT(xtxn.size_bytes > 0 &&
                      (xtxn.size_bytes <= kXtxnBytesMax || xtxn.kind == XtxnKind::kFetchAndOp),
                  rule::kXtxnSize, place);
}

std::string place_text(const std::source_location& place) {
  return std::string(place.file_name()) + ":" + std::to_string(place.line());
}

void AccessMeter::RegisterSet::include(const void* name) {
  const uint32_t known = std::min<uint32_t>(count, static_cast<uint32_t>(names.size()));
  for (uint32_t i = 0; i < known; i++) {
    if (names[i] == name) return;
  }
  if (count < names.size()) names[count] = name;
  count++;
}

void AccessMeter::LocalVariables::include(const void* first, uint32_t size_bytes) {
  const auto accesses_of = [](uint32_t bytes) {
    return (bytes + kLmemAccessBytes - 1) / kLmemAccessBytes;
  };
  for (uint32_t i = 0; i < count; i++) {
    Variable& variable = known[i];
    if (variable.first != first) continue;
    if (size_bytes > variable.size_bytes) {
      access_count += accesses_of(size_bytes) - accesses_of(variable.size_bytes);
      variable.size_bytes = size_bytes;
    }
    return;
  }
  if (count < known.size()) known[count++] = {first, size_bytes};
  access_count += accesses_of(size_bytes);
}

AccessMeter::~AccessMeter() {
  if (running_program() == &running_) set_running_program(nullptr);
}

void AccessMeter::name(const Position& position) {
  running_.instruction = position.mark;
  running_.place = position.place;
  set_running_program(&running_);
}

void AccessMeter::end_naming() { set_running_program(nullptr); }

void AccessMeter::resume(const Position& position) {
  close();
  name(position);
  open_.after = position;
}

void AccessMeter::begin(const Instruction& mark, uint64_t times, const Place& place) {
  close();
  running_.instruction = mark.name;
  running_.place = place;
  const auto known =
      std::find_if(instructions_.begin(), instructions_.end(), [&](const InstructionRow& row) {
        return is_same_text(row.name, mark.name) && row.budget == mark.use;
      });
  open_.row = static_cast<uint32_t>(known - instructions_.begin());
  if (known == instructions_.end()) instructions_.push_back({mark.name, mark.use});
  instructions_[open_.row].executed += times;
  open_.is_priced = true;
  open_.place = place;
}

void AccessMeter::read_head(uint32_t offset_bytes, uint32_t size_bytes, const Place& place) {
  TRIB_ASSERT(uint64_t{offset_bytes} + size_bytes <= kHeadroomBytes + kHeadBytes);
  if (size_bytes > 0) touch(place);
  for (uint32_t i = offset_bytes; i < offset_bytes + size_bytes; i++) {
    open_.head[i / 64] |= uint64_t{1} << (i % 64);
  }
}

void AccessMeter::read_register(const void* name, const Place& place) {
  touch(place);
  open_.reads.include(name);
}

void AccessMeter::write_register(const void* name, const Place& place) {
  touch(place);
  open_.writes.include(name);
}

void AccessMeter::write_lmem(const void* first, uint32_t size_bytes, const Place& place) {
  touch(place);
  open_.lmem_writes.include(first, size_bytes);
}

void AccessMeter::read_lmem(const void* first, uint32_t size_bytes, const Place& place) {
  touch(place);
  open_.lmem_reads.include(first, size_bytes);
}

void AccessMeter::issue_xtxn(const Place& place) {
  touch(place);
  open_.xtxns++;
}

AccessCount AccessMeter::count() const {
  AccessCount count{.lmem_reads = open_.lmem_reads.access_count,
                    .lmem_writes = open_.lmem_writes.access_count,
                    .register_reads = open_.reads.count,
                    .register_writes = open_.writes.count,
                    .xtxns = open_.xtxns};
  uint32_t covered_until = 0;  // Accesses so far reach up to this byte.
  for (uint32_t word = 0; word < open_.head.size(); word++) {
    for (uint64_t left = open_.head[word]; left != 0; left &= left - 1) {
      count.head_bytes++;
      const uint32_t byte = word * 64 + static_cast<uint32_t>(std::countr_zero(left));
      if (byte < covered_until) continue;
      count.lmem_reads++;
      covered_until = byte + kLmemAccessBytes;
    }
  }
  return count;
}

void AccessMeter::close() {
  if (open_.is_touched) {
    const AccessCount used = count();
    if (open_.is_priced) {
      InstructionRow& row = instructions_[open_.row];
      row.most = largest(row.most, used);
      check_budget(row, used);
    } else {
      add_unpriced(used);
    }
  }
  open_.is_priced = false;
  open_.after = {};
  open_.is_touched = false;
  open_.head = {};
  open_.reads.count = 0;
  open_.writes.count = 0;
  open_.lmem_reads.count = open_.lmem_reads.access_count = 0;
  open_.lmem_writes.count = open_.lmem_writes.access_count = 0;
  open_.xtxns = 0;
}

void AccessMeter::add_unpriced(const AccessCount& used) {
  const auto is_same = [&](const UnpricedRow& row) {
    return row.place.line() == open_.place.line() &&
           is_same_text(row.place.file_name(), open_.place.file_name()) &&
           is_same_text(row.after.mark, open_.after.mark) &&
           is_same_text(row.after.reply, open_.after.reply);
  };
  auto row = std::find_if(unpriced_.begin(), unpriced_.end(), is_same);
  if (row == unpriced_.end()) row = unpriced_.insert(row, {open_.after, open_.place});
  row->executed++;
  row->most = largest(row->most, used);
}

void AccessMeter::check_budget(const InstructionRow& row, const AccessCount& used) const {
  const InstructionUse& budget = row.budget;
  if (used.lmem_reads > budget.lmem_reads) {
    stop(row, "local memory reads", budget.lmem_reads, used.lmem_reads);
  }
  if (used.lmem_writes > budget.lmem_writes) {
    stop(row, "local memory writes", budget.lmem_writes, used.lmem_writes);
  }
  if (used.register_reads > budget.register_reads) {
    stop(row, "register reads", budget.register_reads, used.register_reads);
  }
  if (used.register_writes > budget.register_writes) {
    stop(row, "register writes", budget.register_writes, used.register_writes);
  }
}

void AccessMeter::stop_endless(const Place& place) const {
  std::fprintf(
      stderr,
      "tributary: bug: a thread of program '%s' makes more than %llu instructions and XTXNs; "
      "the one at %s follows instruction '%s'; end its loop\n",
      program_.c_str(), static_cast<unsigned long long>(kThreadStepsMax), place_text(place).c_str(),
      running_.instruction == nullptr ? "none" : running_.instruction);
  std::abort();
}

void AccessMeter::stop(const InstructionRow& row, const char* what, uint32_t budget,
                       uint32_t used) const {
  std::fprintf(stderr,
               "tributary: bug: instruction '%s' of program '%s' at %s makes %u %s; its budget is "
               "%u; split it, or raise its budget within the limits of microcode/instruction.h\n",
               row.name, program_.c_str(), place_text(open_.place).c_str(), used, what, budget);
  std::abort();
}

}  // namespace tributary::microcode
