// SPDX-License-Identifier: Apache-2.0
#include "tofino/pipeline/match_table.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "tofino/compile/resources.h"

namespace tributary::tofino {
namespace {

constexpr uint64_t full_mask(uint32_t bits) { return (uint64_t{1} << bits) - 1; }

}  // namespace

MatchTable::MatchTable(const Program& program, const Table& table, std::span<const Entry> entries)
    : entry_count_(static_cast<uint32_t>(entries.size())) {
  pack_fields(program, table);
  pack_entries(entries);
  if (entries.empty() || fields_.empty()) return;
  uint32_t bits = 0;
  for (const PackedField& one : fields_) bits += one.bits;
  if (bits <= kDirectBits) {
    build_direct(bits);
  } else if (is_ternary(table)) {
    build_scan();
  } else {
    build_hash();
  }
}

void MatchTable::pack_fields(const Program& program, const Table& table) {
  uint32_t used = 64;
  for (const Key& key : table.keys) {
    const uint32_t bits = program.fields[key.field].bits;
    if (used + bits > 64) {
      used = 0;
      lane_count_++;
      lane_ends_.push_back(0);
    }
    TRIB_ASSERT(lane_count_ <= kLanesMax);
    fields_.push_back({key.field, static_cast<uint8_t>(lane_count_ - 1), static_cast<uint8_t>(used),
                       static_cast<uint8_t>(bits)});
    used += bits;
    lane_ends_.back() = static_cast<uint32_t>(fields_.size());
  }
}

void MatchTable::pack_entries(std::span<const Entry> entries) {
  words_.resize(entries.size() * lane_count_);
  for (size_t entry = 0; entry < entries.size(); entry++) {
    for (size_t i = 0; i < fields_.size(); i++) {
      const PackedField& one = fields_[i];
      const Match& match = entries[entry].keys[i];
      Word& word = words_[entry * lane_count_ + one.lane];
      word.value |= uint64_t{match.value} << one.shift;
      word.mask |= (match.mask & full_mask(one.bits)) << one.shift;
    }
  }
}

void MatchTable::build_direct(uint32_t bits) {
  kind_ = Kind::kDirect;
  direct_.assign(size_t{1} << bits, kMiss);
  for (uint64_t key = 0; key < direct_.size(); key++) {
    for (uint32_t entry = 0; entry < entry_count_ && direct_[key] == kMiss; entry++) {
      if (matches(&words_[entry], &key, 1)) direct_[key] = entry;
    }
  }
}

uint64_t MatchTable::hash_of(const uint64_t* key) const {
  uint64_t hash = 0;
  for (uint32_t i = 0; i < lane_count_; i++) {
    hash = (hash ^ key[i]) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29;
  }
  return hash;
}

void MatchTable::build_hash() {
  kind_ = Kind::kHash;
  slots_.assign(std::bit_ceil(size_t{entry_count_} * 2), kMiss);
  std::array<uint64_t, kLanesMax> key;
  for (uint32_t entry = 0; entry < entry_count_; entry++) {
    for (uint32_t i = 0; i < lane_count_; i++) {
      key[i] = words_[size_t{entry} * lane_count_ + i].value;
    }
    size_t at = hash_of(key.data()) & (slots_.size() - 1);
    while (slots_[at] != kMiss) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = entry;
  }
}

uint32_t MatchTable::lookup_hashed(const uint64_t* key) const {
  size_t at = hash_of(key) & (slots_.size() - 1);
  while (slots_[at] != kMiss) {
    if (matches(&words_[size_t{slots_[at]} * lane_count_], key, lane_count_)) return slots_[at];
    at = (at + 1) & (slots_.size() - 1);
  }
  return kMiss;
}

void MatchTable::build_scan() {
  kind_ = Kind::kScan;
  // Divide the table by the narrow key that most entries match in full.
  uint32_t best = 0;
  for (const PackedField& one : fields_) {
    if (one.bits > kSelectorBits) continue;
    const uint64_t full = full_mask(one.bits) << one.shift;
    uint32_t named = 0;
    for (uint32_t entry = 0; entry < entry_count_; entry++) {
      const Word& word = words_[size_t{entry} * lane_count_ + one.lane];
      if ((word.mask & full) == full) named++;
    }
    if (named > best) {
      best = named;
      selector_ = one;
      selector_mask_ = full_mask(one.bits);
    }
  }
  for (uint64_t bucket = 0; bucket <= selector_mask_; bucket++) {
    bucket_first_.push_back(static_cast<uint32_t>(bucket_entries_.size()));
    for (uint32_t entry = 0; entry < entry_count_; entry++) {
      const Word* words = &words_[size_t{entry} * lane_count_];
      const uint64_t mask = words[selector_.lane].mask >> selector_.shift & selector_mask_;
      const uint64_t value = words[selector_.lane].value >> selector_.shift & mask;
      if ((bucket & mask) != value) continue;
      bucket_entries_.push_back(entry);
      scan_words_.insert(scan_words_.end(), words, words + lane_count_);
    }
  }
  bucket_first_.push_back(static_cast<uint32_t>(bucket_entries_.size()));
  scan_words_.resize(scan_words_.size() + lane_count_);
}

}  // namespace tributary::tofino
