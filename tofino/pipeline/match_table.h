// SPDX-License-Identifier: Apache-2.0
/// @file
/// A table's entries in a form for fast look-ups: an array for a short key, a hash table for an
/// exact key, and a short scan for a ternary key.
///
/// Shapes:  Row i is entry i. A key's fields are packed into lanes of 64 bits, the first field
///          lowest, and entries are compared lane by lane. Few keys need a second lane.
/// Threads: One. Entries may change between packets, not during one.
/// Errors:  None; entries were checked (check_entry()).
/// Memory:  Taken when the table is built.
/// Tests:   tests/tofino/pipeline/switch_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tofino/limits.h"
#include "tofino/program/program.h"

namespace tributary::tofino {

class MatchTable {
 public:
  static constexpr uint32_t kMiss = UINT32_MAX;

  /// @param program Needed only during this call.
  MatchTable(const Program& program, const Table& table, std::span<const Entry> entries);

  /// Returns the number of the first entry that matches, or kMiss.
  /// @param phv Shape [fields of the program].
  [[nodiscard]] uint32_t lookup(const uint32_t* phv) const {
    if (kind_ == Kind::kEmpty) return kMiss;
    if (lane_count_ == 1) {  // True for most keys; the key then stays in a register.
      const uint64_t key = packed_lane(phv, fields_.data(), fields_.data() + fields_.size());
      return find(&key, 1);
    }
    std::array<uint64_t, kLanesMax> key;  // Only the first lane_count_ are set and read.
    const PackedField* one = fields_.data();
    for (uint32_t lane = 0; lane < lane_count_; lane++) {
      const PackedField* end = fields_.data() + lane_ends_[lane];
      key[lane] = packed_lane(phv, one, end);
      one = end;
    }
    return find(key.data(), lane_count_);
  }

  /// Returns true if both tables have the same keys and the same matches in the same order. Actions
  /// and parameters may differ. Both tables then find the same entry.
  [[nodiscard]] bool has_same_matches(const MatchTable& other) const {
    return fields_ == other.fields_ && words_ == other.words_;
  }

 private:
  enum class Kind : uint8_t { kEmpty, kDirect, kHash, kScan };
  /// A key of up to this many bits gets a row for each value.
  static constexpr uint32_t kDirectBits = 12;
  /// A ternary table is divided into buckets by a field of up to this many bits.
  static constexpr uint32_t kSelectorBits = 8;
  /// A stage's crossbar limits the key, and each lane except the last is more than half full.
  static constexpr uint32_t kLanesMax = kStageExactCrossbarBytes * 8 / 32;

  /// The place of a field in the packed key.
  struct PackedField {
    FieldId field;
    uint8_t lane;
    uint8_t shift;
    uint8_t bits;
    friend bool operator==(const PackedField&, const PackedField&) = default;
  };
  /// One lane of an entry.
  struct Word {
    uint64_t value = 0;
    uint64_t mask = 0;
    friend bool operator==(const Word&, const Word&) = default;
  };

  [[nodiscard]] static uint64_t packed_lane(const uint32_t* phv, const PackedField* one,
                                            const PackedField* end) {
    uint64_t packed = 0;
    for (; one != end; one++) packed |= uint64_t{phv[one->field]} << one->shift;
    return packed;
  }
  [[nodiscard]] static bool matches(const Word* words, const uint64_t* key, uint32_t lanes) {
    for (uint32_t i = 0; i < lanes; i++) {
      if ((key[i] & words[i].mask) != words[i].value) return false;
    }
    return true;
  }
  [[nodiscard]] uint32_t find(const uint64_t* key, uint32_t lanes) const {
    if (kind_ == Kind::kDirect) return direct_[key[0]];
    if (kind_ == Kind::kHash) return lookup_hashed(key);
    const uint64_t bucket = key[selector_.lane] >> selector_.shift & selector_mask_;
    uint32_t i = bucket_first_[bucket];
    const Word* words = &scan_words_[size_t{i} * lanes];
    for (; i < bucket_first_[bucket + 1]; i++, words += lanes) {
      if (matches(words, key, lanes)) return bucket_entries_[i];
    }
    return kMiss;
  }
  [[nodiscard]] uint64_t hash_of(const uint64_t* key) const;
  [[nodiscard]] uint32_t lookup_hashed(const uint64_t* key) const;
  void pack_fields(const Program& program, const Table& table);
  void pack_entries(std::span<const Entry> entries);
  void build_direct(uint32_t bits);
  void build_hash();
  void build_scan();

  Kind kind_ = Kind::kEmpty;
  uint32_t lane_count_ = 0;
  std::vector<PackedField> fields_;
  std::vector<uint32_t> lane_ends_;  ///< Shape [lanes], in fields_.
  PackedField selector_{};           ///< The field that divides a ternary table.
  uint64_t selector_mask_ = 0;
  std::vector<uint32_t> direct_;        ///< Row by packed key.
  std::vector<uint32_t> slots_;         ///< Open addressing: entry or kMiss; size a power of two.
  std::vector<uint32_t> bucket_first_;  ///< Shape [buckets + 1]; index into bucket_entries_.
  std::vector<uint32_t> bucket_entries_;
  std::vector<Word> scan_words_;  ///< Shape [bucket_entries_ + 1][lanes]; the last is unused.
  uint32_t entry_count_ = 0;
  std::vector<Word> words_;  ///< Shape [entries][lanes].
};

}  // namespace tributary::tofino
