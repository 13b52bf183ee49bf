// SPDX-License-Identifier: Apache-2.0
#include "tofino/pipe.h"

#include <algorithm>
#include <cstring>

#include "base/byte_order.h"
#include "tofino/limits.h"

namespace tributary::tofino {
namespace {

/// CRC-32 of IEEE 802.3 (reflected, polynomial 0xedb88320), a byte at a time.
constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); byte++) {
    uint32_t value = byte;
    for (uint32_t bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0xedb88320U : 0U);
    table[byte] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = crc_table();

/// Adds the low `bytes` bytes of `word`, most significant first.
uint32_t crc_add(uint32_t crc, uint32_t word, uint32_t bytes) {
  for (uint32_t i = bytes; i-- > 0;) crc = crc >> 8 ^ kCrcTable[(crc ^ word >> (8 * i)) & 0xff];
  return crc;
}

/// The bytes before `end` as one number, at least five of them as far as they exist.
uint64_t bits_before(std::span<const std::byte> bytes, size_t end) {
  if (end >= sizeof(uint64_t)) return load_be<uint64_t>(bytes.data() + end - sizeof(uint64_t));
  if (bytes.size() >= sizeof(uint64_t)) {
    return load_be<uint64_t>(bytes.data()) >> (8 * (sizeof(uint64_t) - end));
  }
  uint64_t bits = 0;
  for (size_t i = 0; i < end; i++) bits = bits << 8 | std::to_integer<uint64_t>(bytes[i]);
  return bits;
}

}  // namespace

Pipe::Pipe(const Executable& executable, const Tables& tables, uint64_t seed)
    : executable_(executable),
      tables_(tables),
      prng_(seed),
      phv_(executable.phv_words),
      header_count_(static_cast<uint32_t>(executable.program->headers.size())),
      header_at_(header_count_) {
  for (const Executable::BankCode& bank : executable.banks) {
    banks_.emplace_back(size_t{bank.entries} * bank.registers * (bank.pair ? 2 : 1));
  }
  const Program& program = *executable.program;
  for (RegisterId id = 0; id < program.registers.size(); id++) {
    const Register& reg = program.registers[id];
    const uint32_t entries = executable.banks[executable.bank_of[id].bank].entries;
    for (uint32_t entry = 0; entry < entries; entry++) {
      for (uint32_t word = 0; word < (reg.pair ? 2 : 1); word++) {
        set_register_word(id, entry, word, reg.initial[word]);
      }
    }
  }
  for (const Counter& counter : program.counters) counters_.emplace_back(counter.entries);
}

size_t Pipe::word_index(RegisterId reg, uint32_t entry, uint32_t word) const {
  const Executable::BankPlace place = executable_.bank_of[reg];
  const Executable::BankCode& bank = executable_.banks[place.bank];
  const size_t entry_words = size_t{bank.registers} * (bank.pair ? 2 : 1);
  return entry * entry_words + word * size_t{bank.registers} + place.position;
}

uint32_t Pipe::register_word(RegisterId reg, uint32_t entry, uint32_t word) const {
  return banks_[executable_.bank_of.at(reg).bank].at(word_index(reg, entry, word));
}

void Pipe::set_register_word(RegisterId reg, uint32_t entry, uint32_t word, uint32_t value) {
  banks_[executable_.bank_of.at(reg).bank].at(word_index(reg, entry, word)) = value;
}

uint64_t Pipe::counter(CounterId counter, uint32_t entry) const {
  return counters_.at(counter).at(entry);
}

void Pipe::begin() {
  std::fill(phv_.begin(), phv_.end(), 0);
  std::fill(header_at_.begin(), header_at_.end(), kNotParsed);
  if (tables_generation_ != tables_.generation()) find_rows();
}

Verdict Pipe::run(const Executable::GressCode& gress, PacketView packet, PacketBuffer& out) {
  Cursor cursor;
  const Verdict verdict = parse(gress, packet, cursor);
  if (verdict != Verdict::kPassed) return verdict;
  control(gress);
  if (get(executable_.program->intrinsics.drop) != 0) return Verdict::kDropped;
  deparse(gress, packet, cursor, out);
  return Verdict::kPassed;
}

// --- Parser
// ---------------------------------------------------------------------------------------

Verdict Pipe::parse(const Executable::GressCode& gress, PacketView packet, Cursor& cursor) {
  if (gress.states.first == gress.states.last) return Verdict::kPassed;
  uint16_t at = 0;
  while (at != kAccept) {
    if (at == kReject) return Verdict::kParserReject;
    const Executable::StateCode& state = executable_.states[gress.states.first + at];
    for (uint32_t i = state.extracts.first; i < state.extracts.last; i++) {
      if (!extract(header_code(gress, executable_.header_ids[i]), packet, cursor)) {
        return Verdict::kParserShort;
      }
    }
    for (uint32_t i = state.sets.first; i < state.sets.last; i++) {
      phv_[executable_.sets[i].first] = executable_.sets[i].second;
    }
    at = next_state(state);
  }
  return Verdict::kPassed;
}

uint16_t Pipe::next_state(const Executable::StateCode& state) const {
  if (state.transitions.first == state.transitions.last) return state.otherwise;
  const uint32_t width = state.select.last - state.select.first;
  for (uint32_t i = state.transitions.first; i < state.transitions.last; i++) {
    const Executable::TransitionCode& transition = executable_.transitions[i];
    bool all = true;
    for (uint32_t j = 0; j < width && all; j++) {
      const Match& match = executable_.matches[transition.first_match + j];
      const uint32_t value = phv_[executable_.field_ids[state.select.first + j]];
      all = (value & match.mask) == match.value;
    }
    if (all) return transition.next;
  }
  return state.otherwise;
}

void Pipe::load(const Executable::HeaderCode& header, PacketView packet, size_t at) {
  const std::byte* from = packet.stored.data() + at;
  const uint32_t count = header.loads.last - header.loads.first;
  if (header.words && count == header.bytes / 4) {
    uint32_t* to = &phv_[header.first_field];
    for (uint32_t i = 0; i < count; i++) to[i] = load_be<uint32_t>(from + 4 * i);
    return;
  }
  const Executable::HeaderField* fields = executable_.header_fields.data();
  uint32_t* phv = phv_.data();
  for (uint32_t i = header.loads.first; i < header.loads.last; i++) {
    const Executable::HeaderField& field = fields[i];
    phv[field.field] =
        static_cast<uint32_t>(bits_before(packet.stored, at + field.byte + field.byte_count) >>
                              field.shift) &
        field.mask;
  }
}

bool Pipe::extract(const Executable::HeaderCode& header, PacketView packet, Cursor& cursor) {
  if (packet.size_bytes - cursor.size_at < header.bytes) return false;
  if (header.elided) {
    cursor.at = std::min(cursor.at + header.bytes, packet.stored.size());
  } else {
    if (packet.stored.size() - cursor.at < header.bytes) return false;
    load(header, packet, cursor.at);
    header_at_[header.id] = static_cast<uint32_t>(cursor.at);
    cursor.at += header.bytes;
  }
  cursor.size_at += header.bytes;
  phv_[header.valid] = 1;
  return true;
}

// --- Control
// --------------------------------------------------------------------------------------

void Pipe::control(const Executable::GressCode& gress) {
  uint32_t entry = MatchTable::kMiss;  // What the table before has found.
  TableId before = kNone;
  uint32_t at = gress.steps.first;
  while (at < gress.steps.last) {
    const Executable::Step& step = executable_.steps[at];
    switch (step.kind) {
      case Executable::StepKind::kTable: {
        if (row_at_step_[at] != kNoRow) {
          at = run_row(rows_[row_at_step_[at]]);
          break;
        }
        const MatchTable& match = tables_.match(step.table);
        if (!step.same_keys_as_previous || !tables_.finds_as(step.table, before)) {
          entry = match.lookup(phv_.data());
        }
        before = step.table;
        const Tables::Row& row = tables_.row(step.table, entry);
        if (row.action != kNone) {
          act(executable_.actions[row.action], tables_.parameters(step.table, row));
        }
        at = entry != MatchTable::kMiss ? step.then : step.otherwise;
        break;
      }
      case Executable::StepKind::kCondition:
        at = holds(step) ? step.then : step.otherwise;
        break;
      case Executable::StepKind::kJump:
        at = step.then;
        break;
    }
  }
}

uint32_t Pipe::run_row(const RowOfTables& row) {
  const TableId table = executable_.steps[row.first_step].table;
  const uint32_t entry = tables_.match(table).lookup(phv_.data());
  const uint32_t call = entry == MatchTable::kMiss ? row.calls.back() : row.calls[entry];
  if (call != kNoCall) call_many(call, row.count);
  return row.first_step + row.count;
}

void Pipe::call_many(uint32_t first, uint32_t count) {
  const Executable::CallCode& call = executable_.calls[first];
  const Executable::BankPlace place = executable_.bank_of[call.reg];
  const Executable::BankCode& bank = executable_.banks[place.bank];
  const uint32_t index = phv_[call.index];
  if (index >= bank.entries) [[unlikely]] {
    bad_index_count_ += count;
    std::fill_n(&phv_[call.output], count, 0);
    return;
  }
  uint32_t* low = &banks_[place.bank][word_index(call.reg, index, 0)];
  executable_.register_actions[call.action].execute_many(
      low, low + bank.registers, &phv_[call.inputs[0]], &phv_[call.inputs[1]], &phv_[call.output],
      count);
}

bool Pipe::holds(const Executable::Step& step) const {
  for (uint32_t i = step.terms.first; i < step.terms.last; i++) {
    const Executable::TermCode& term = executable_.terms[i];
    if (((phv_[term.field] & term.mask) == term.value) == term.negated) return false;
  }
  return true;
}

void Pipe::act(const Executable::ActionCode& action, const uint32_t* parameters) {
  for (uint32_t i = action.draws.first; i < action.draws.last; i++) {
    const FieldId target = executable_.field_ids[i];
    phv_[target] = prng_.any_u32() >> (32 - executable_.program->fields[target].bits);
  }
  for (uint32_t i = action.hashes.first; i < action.hashes.last; i++) hash(executable_.hashes[i]);
  for (uint32_t i = action.calls.first; i < action.calls.last; i++) call(executable_.calls[i]);
  for (uint32_t i = action.counts.first; i < action.counts.last; i++) {
    const CounterCall& count = executable_.counts[i];
    const uint32_t index = phv_[count.index];
    if (index < counters_[count.counter].size()) {
      counters_[count.counter][index]++;
    } else {
      bad_index_count_++;
    }
  }
  for (uint32_t i = action.operations.first; i < action.operations.last; i++) {
    operate(executable_.operations[i], parameters);
  }
}

void Pipe::call(const Executable::CallCode& call) {
  const Executable::BankPlace place = executable_.bank_of[call.reg];
  const Executable::BankCode& bank = executable_.banks[place.bank];
  const uint32_t index = phv_[call.index];
  if (index >= bank.entries) [[unlikely]] {
    bad_index_count_++;
    phv_[call.output] = 0;
    return;
  }
  uint32_t* low = &banks_[place.bank][word_index(call.reg, index, 0)];
  phv_[call.output] = executable_.register_actions[call.action].execute(
      low, low + bank.registers, phv_[call.inputs[0]], phv_[call.inputs[1]]);
}

void Pipe::hash(const Executable::HashCode& hash) {
  uint32_t value = 0xffffffff;
  for (uint32_t i = hash.inputs.first; i < hash.inputs.last; i++) {
    const FieldId input = executable_.field_ids[i];
    const uint32_t bytes = (executable_.program->fields[input].bits + 7) / 8;
    value = crc_add(value, phv_[input], bytes);
  }
  value = ~value;
  const uint32_t bits = executable_.program->fields[hash.target].bits;
  phv_[hash.target] = bits == 32 ? value : value & ((1U << bits) - 1);
}

uint32_t Pipe::operand(OperandKind kind, uint32_t value, const uint32_t* parameters) const {
  switch (kind) {
    case OperandKind::kField:
      return phv_[value];
    case OperandKind::kConstant:
      return value;
    case OperandKind::kParameter:
      return parameters[value];
  }
  return 0;
}

void Pipe::operate(const Executable::OperationCode& operation, const uint32_t* parameters) {
  const uint32_t a = operand(operation.a_kind, operation.a, parameters);
  const uint32_t b = operand(operation.b_kind, operation.b, parameters);
  uint64_t result = 0;
  switch (operation.op) {
    case AluOp::kSet:
      result = a;
      break;
    case AluOp::kAdd:
      result = uint64_t{a} + b;
      break;
    case AluOp::kSubtract:
      result = uint64_t{a} - b;
      break;
    case AluOp::kAddSaturated:
      result = std::min<uint64_t>(uint64_t{a} + b, operation.mask);
      break;
    case AluOp::kAnd:
      result = a & b;
      break;
    case AluOp::kOr:
      result = a | b;
      break;
    case AluOp::kXor:
      result = a ^ b;
      break;
    case AluOp::kAndNot:
      result = a & ~b;
      break;
    case AluOp::kMin:
      result = std::min(a, b);
      break;
    case AluOp::kMax:
      result = std::max(a, b);
      break;
  }
  phv_[operation.target] = static_cast<uint32_t>(result) & operation.mask;
}

// --- Deparser
// -------------------------------------------------------------------------------------

void Pipe::store(const Slice& fields, std::byte* to) const {
  for (uint32_t i = fields.first; i < fields.last; i++) {
    const Executable::HeaderField& field = executable_.header_fields[i];
    if (field.whole) {
      const uint32_t value = phv_[field.field];
      if (field.byte_count == 1) {
        to[field.byte] = static_cast<std::byte>(value);
      } else if (field.byte_count == 2) {
        store_be(to + field.byte, static_cast<uint16_t>(value));
      } else {
        store_be(to + field.byte, value);
      }
      continue;
    }
    const uint64_t clear = uint64_t{field.mask} << field.shift;
    uint64_t bits = 0;
    for (uint32_t b = 0; b < field.byte_count; b++) {
      bits = bits << 8 | std::to_integer<uint64_t>(to[field.byte + b]);
    }
    bits = (bits & ~clear) | uint64_t{phv_[field.field]} << field.shift;
    for (uint32_t b = field.byte_count; b-- > 0; bits >>= 8) {
      to[field.byte + b] = static_cast<std::byte>(bits);
    }
  }
}

void Pipe::emit_whole(const Executable::HeaderCode& header, std::byte* to) const {
  if (header.words) {
    const uint32_t* from = &phv_[header.first_field];
    for (uint32_t i = 0; i < header.bytes / 4; i++) store_be<uint32_t>(to + 4 * i, from[i]);
    return;
  }
  std::memset(to, 0, header.bytes);
  store(header.fields, to);
}

/// What came, with what has changed; or all of it, if the program has made the header.
void Pipe::emit(const Executable::HeaderCode& header, PacketView packet, std::byte* to) const {
  const uint32_t at = header_at_[header.id];
  const uint32_t changed = header.stores.last - header.stores.first;
  if (at == kNotParsed || (header.words && changed == header.bytes / 4)) {
    return emit_whole(header, to);
  }
  std::memcpy(to, packet.stored.data() + at, header.bytes);
  store(header.stores, to);
}

/// RFC 1071 over the header's bytes with the checksum's own field as 0.
void Pipe::checksum(const Executable::HeaderCode& header, FieldId target) {
  if (phv_[header.valid] == 0) return;
  std::array<std::byte, kChecksumHeaderBytes> bytes{};
  phv_[target] = 0;
  emit_whole(header, bytes.data());
  uint64_t sum = 0;
  for (uint32_t i = 0; i < header.bytes; i += 2) sum += load_be<uint16_t>(&bytes[i]);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  phv_[target] = static_cast<uint32_t>(~sum & 0xffff);
}

void Pipe::deparse(const Executable::GressCode& gress, PacketView packet, const Cursor& cursor,
                   PacketBuffer& out) {
  for (const Checksum& one : gress.checksums) {
    checksum(header_code(gress, one.header), one.target);
  }
  uint32_t stored = 0;
  uint32_t elided = 0;
  for (uint32_t i = gress.deparser.first; i < gress.deparser.last; i++) {
    const Executable::HeaderCode& header = header_code(gress, executable_.header_ids[i]);
    if (phv_[header.valid] == 0) continue;
    (header.elided ? elided : stored) += header.bytes;
  }
  // Behind elided bytes nothing can be stored: a packet keeps its beginning.
  const size_t tail = elided > 0 ? 0 : packet.stored.size() - cursor.at;
  out.size_bytes = stored + elided + (packet.size_bytes - cursor.size_at);
  out.stored.resize(stored + tail);
  std::byte* to = out.stored.data();
  for (uint32_t i = gress.deparser.first; i < gress.deparser.last; i++) {
    const Executable::HeaderCode& header = header_code(gress, executable_.header_ids[i]);
    if (phv_[header.valid] == 0 || header.elided) continue;
    emit(header, packet, to);
    to += header.bytes;
  }
  if (tail > 0) std::memcpy(to, packet.stored.data() + cursor.at, tail);
}

}  // namespace tributary::tofino
