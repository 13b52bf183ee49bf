// SPDX-License-Identifier: Apache-2.0
/// @file
/// A table's entries in a form that is fast to look up: directly by a short key, by hash for an
/// exact one, and a short scan for a ternary one.
///
/// Model:   lookup() gives the row of the first entry that matches, or the table's miss.
/// Shapes:  Row i is entry i; its parameters lie one after another.
/// Threads: One. Entries may change between packets, not during one.
/// Errors:  None; entries were checked (check_entry()).
/// Memory:  Taken when the table is built.
/// Tests:   tests/tofino/switch_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tofino/program.h"

namespace tributary::tofino {

class MatchTable {
 public:
  static constexpr uint32_t kMiss = UINT32_MAX;

  /// @param program Must outlive the table's building only.
  MatchTable(const Program& program, const Table& table, std::span<const Entry> entries);

  /// @param phv Shape [fields of the program].
  /// @return the entry's number, or kMiss.
  [[nodiscard]] uint32_t lookup(const uint32_t* phv) const {
    switch (kind_) {
      case Kind::kEmpty:
        return kMiss;
      case Kind::kDirect:
        return direct_[packed_key(phv)];
      case Kind::kHash:
        return lookup_hashed(phv);
      case Kind::kScan:
        return lookup_scanned(phv);
    }
    return kMiss;
  }

  /// Whether both have the same entries in the same order, actions and parameters aside: what one
  /// finds is what the other finds.
  [[nodiscard]] bool matches_as(const MatchTable& other) const {
    return fields_ == other.fields_ && words_ == other.words_;
  }

 private:
  enum class Kind : uint8_t { kEmpty, kDirect, kHash, kScan };
  /// Keys of up to this many bits get a row each.
  static constexpr uint32_t kDirectBits = 12;
  /// A ternary table is divided by a key of up to this many bits.
  static constexpr uint32_t kSelectorBits = 8;

  struct Word {
    uint32_t value;
    uint32_t mask;
    friend bool operator==(const Word&, const Word&) = default;
  };

  [[nodiscard]] uint32_t packed_key(const uint32_t* phv) const {
    uint32_t key = 0;
    for (size_t i = 0; i < fields_.size(); i++) key = key << widths_[i] | phv[fields_[i]];
    return key;
  }
  [[nodiscard]] bool entry_matches(uint32_t entry, const uint32_t* phv) const {
    const Word* words = &words_[size_t{entry} * fields_.size()];
    for (size_t i = 0; i < fields_.size(); i++) {
      if ((phv[fields_[i]] & words[i].mask) != words[i].value) return false;
    }
    return true;
  }
  [[nodiscard]] uint64_t hash_of(const uint32_t* phv) const;
  [[nodiscard]] uint32_t lookup_hashed(const uint32_t* phv) const;
  [[nodiscard]] uint32_t lookup_scanned(const uint32_t* phv) const;
  void build_direct(uint32_t bits, size_t field_count);
  void build_hash(size_t field_count);
  void build_scan();

  Kind kind_ = Kind::kEmpty;
  uint32_t entry_count_ = 0;
  std::vector<FieldId> fields_;
  std::vector<uint32_t> widths_;  ///< Bits of each key.
  std::vector<Word> words_;       ///< Shape [entries][keys].
  std::vector<uint32_t> direct_;  ///< Row by packed key.
  std::vector<uint32_t> slots_;   ///< Open addressing: entry, or kMiss; a power of two.
  size_t selector_ = 0;           ///< Which key divides a ternary table.
  uint32_t selector_mask_ = 0;
  std::vector<uint32_t> bucket_first_;  ///< Shape [buckets + 1] into bucket_entries_.
  std::vector<uint32_t> bucket_entries_;
};

}  // namespace tributary::tofino
