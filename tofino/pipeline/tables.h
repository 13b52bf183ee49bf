// SPDX-License-Identifier: Apache-2.0
/// @file
/// The tables of a running program with the entries that the control plane has set. All pipes of a
/// switch share them, so each runs the same program with the same entries.
///
/// Threads: One. Entries change between packets.
/// Errors:  An entry that does not suit its table, or one too many, is refused with the table's
///          name and the allowed values. The entries then stay unchanged.
/// Tests:   tests/tofino/pipeline/switch_test.cc, tests/tofino/compile/check_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tofino/pipeline/match_table.h"
#include "tofino/program/program.h"

namespace tributary::tofino {

class Tables {
 public:
  explicit Tables(std::shared_ptr<const Program> program);

  [[nodiscard]] Result<TableId> find(std::string_view name) const;
  /// Returns the action of that name; the first one if several have it.
  [[nodiscard]] Result<ActionId> find_action(std::string_view name) const;

  /// Replaces all entries.
  [[nodiscard]] Result<void> set_entries(TableId table, std::vector<Entry> entries);
  /// Appends an entry.
  [[nodiscard]] Result<void> add_entry(TableId table, Entry entry);
  [[nodiscard]] const std::vector<Entry>& entries(TableId table) const {
    return state_[table].entries;
  }

  /// Returns a number that changes with every change of an entry; it starts at 1.
  [[nodiscard]] uint64_t generation() const { return generation_; }

  /// The action to run for a row of MatchTable::lookup(), including kMiss.
  struct Row {
    ActionId action = kNone;  ///< kNone for nothing.
    uint32_t parameters = 0;  ///< Index into parameters().
  };
  [[nodiscard]] const MatchTable& match(TableId table) const { return state_[table].match; }
  /// Returns the rows of a table's entries, then the row for a miss.
  [[nodiscard]] const std::vector<Row>& rows(TableId table) const { return state_[table].rows; }
  [[nodiscard]] const Row& row(TableId table, uint32_t entry) const {
    const State& state = state_[table];
    return entry == MatchTable::kMiss ? state.rows.back() : state.rows[entry];
  }
  /// Returns true if both tables find the same entry for every PHV.
  [[nodiscard]] bool finds_same_entry(TableId one, TableId other) const {
    return match_class_[one] == match_class_[other];
  }
  [[nodiscard]] const uint32_t* parameters(TableId table, const Row& row) const {
    return state_[table].parameters.data() + row.parameters;
  }

 private:
  struct State {
    std::vector<Entry> entries;
    MatchTable match;
    std::vector<Row> rows;  ///< Shape [entries + 1]; the last is for a miss.
    std::vector<uint32_t> parameters;
  };
  void classify();
  [[nodiscard]] State state_of(const Table& table, std::vector<Entry> entries) const;

  std::shared_ptr<const Program> program_;
  std::vector<State> state_;
  uint64_t generation_ = 0;
  std::vector<TableId> match_class_;  ///< Shape [tables]: the first table with equal matches.
};

}  // namespace tributary::tofino
