// SPDX-License-Identifier: Apache-2.0
#include "tofino/match_table.h"

#include <algorithm>
#include <bit>

#include "tofino/resources.h"

namespace tributary::tofino {

MatchTable::MatchTable(const Program& program, const Table& table, std::span<const Entry> entries)
    : entry_count_(static_cast<uint32_t>(entries.size())) {
  uint32_t bits = 0;
  uint32_t field_limit = 0;
  for (const Key& key : table.keys) {
    fields_.push_back(key.field);
    widths_.push_back(program.fields[key.field].bits);
    bits += widths_.back();
    field_limit = std::max<uint32_t>(field_limit, key.field + 1);
  }
  for (const Entry& entry : entries) {
    for (size_t i = 0; i < fields_.size(); i++) {
      const uint32_t full = widths_[i] >= 32 ? 0xffffffff : (1U << widths_[i]) - 1;
      words_.push_back({entry.keys[i].value, entry.keys[i].mask & full});
    }
  }
  if (entries.empty() || fields_.empty()) return;
  if (bits <= kDirectBits) {
    build_direct(bits, field_limit);
  } else if (is_ternary(table)) {
    build_scan();
  } else {
    build_hash(field_limit);
  }
}

void MatchTable::build_direct(uint32_t bits, size_t field_count) {
  kind_ = Kind::kDirect;
  std::vector<uint32_t> phv(field_count);
  direct_.assign(size_t{1} << bits, kMiss);
  for (uint32_t key = 0; key < direct_.size(); key++) {
    uint32_t rest = key;
    for (size_t i = fields_.size(); i-- > 0;) {
      phv[fields_[i]] = rest & ((1U << widths_[i]) - 1);
      rest >>= widths_[i];
    }
    for (uint32_t entry = 0; entry < entry_count_ && direct_[key] == kMiss; entry++) {
      if (entry_matches(entry, phv.data())) direct_[key] = entry;
    }
  }
}

uint64_t MatchTable::hash_of(const uint32_t* phv) const {
  uint64_t hash = 0;
  for (const FieldId id : fields_) {
    hash = (hash ^ phv[id]) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29;
  }
  return hash;
}

void MatchTable::build_hash(size_t field_count) {
  kind_ = Kind::kHash;
  std::vector<uint32_t> phv(field_count);
  slots_.assign(std::bit_ceil(size_t{entry_count_} * 2), kMiss);
  for (uint32_t entry = 0; entry < entry_count_; entry++) {
    for (size_t i = 0; i < fields_.size(); i++) {
      phv[fields_[i]] = words_[size_t{entry} * fields_.size() + i].value;
    }
    size_t at = hash_of(phv.data()) & (slots_.size() - 1);
    while (slots_[at] != kMiss) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = entry;
  }
}

uint32_t MatchTable::lookup_hashed(const uint32_t* phv) const {
  size_t at = hash_of(phv) & (slots_.size() - 1);
  while (slots_[at] != kMiss) {
    if (entry_matches(slots_[at], phv)) return slots_[at];
    at = (at + 1) & (slots_.size() - 1);
  }
  return kMiss;
}

void MatchTable::build_scan() {
  kind_ = Kind::kScan;
  // The narrow key that most entries name in full divides the table best.
  uint32_t best = 0;
  for (size_t i = 0; i < fields_.size(); i++) {
    if (widths_[i] > kSelectorBits) continue;
    const uint32_t full = (1U << widths_[i]) - 1;
    uint32_t named = 0;
    for (uint32_t entry = 0; entry < entry_count_; entry++) {
      if (words_[size_t{entry} * fields_.size() + i].mask == full) named++;
    }
    if (named > best) {
      best = named;
      selector_ = i;
      selector_mask_ = full;
    }
  }
  for (uint32_t bucket = 0; bucket <= selector_mask_; bucket++) {
    bucket_first_.push_back(static_cast<uint32_t>(bucket_entries_.size()));
    for (uint32_t entry = 0; entry < entry_count_; entry++) {
      const Word& word = words_[size_t{entry} * fields_.size() + selector_];
      const uint32_t mask = word.mask & selector_mask_;
      if ((bucket & mask) == (word.value & mask)) bucket_entries_.push_back(entry);
    }
  }
  bucket_first_.push_back(static_cast<uint32_t>(bucket_entries_.size()));
}

uint32_t MatchTable::lookup_scanned(const uint32_t* phv) const {
  const uint32_t bucket = phv[fields_[selector_]] & selector_mask_;
  for (uint32_t i = bucket_first_[bucket]; i < bucket_first_[bucket + 1]; i++) {
    if (entry_matches(bucket_entries_[i], phv)) return bucket_entries_[i];
  }
  return kMiss;
}

}  // namespace tributary::tofino
