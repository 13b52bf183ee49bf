// SPDX-License-Identifier: Apache-2.0
/// @file
/// The inside of a node at one moment, as tables that people and programs read.
///
/// Model:   Each kind of node fills in what it has: a PFE its threads, banks, waiting packets and
///          block records, a switch the registers of a slot. A cell is text; a table that would be
///          longer than rows_max is cut, and says how many rows are missing.
/// Threads: Plain data.
/// Tests:   tests/lab/trace/snapshot_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace tributary::lab {

struct SnapshotTable {
  std::string name;  ///< "threads", "banks", …; one word, what people ask for it by.
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  ///< Shape [rows][columns].
  std::set<size_t> text_columns = {};          ///< Those that hold words.
  uint64_t rows_left_out = 0;

  /// Appends unless the table is full; then it is counted.
  void add(std::vector<std::string> row, size_t rows_max) {
    if (rows.size() < rows_max) {
      rows.push_back(std::move(row));
    } else {
      rows_left_out++;
    }
  }
};

/// What somebody wants to see.
struct SnapshotWish {
  Instant at;                     ///< Now: not before the last event, and before the next.
  std::optional<uint64_t> block;  ///< Only this block's record.
  std::optional<uint64_t> slot;   ///< This slot's registers; without it slot 0's.
  size_t rows_max = 40;           ///< Of each table.
};

struct NodeSnapshot {
  std::string node;
  std::vector<SnapshotTable> tables;  ///< None: this kind of node has no inside to show.
};

[[nodiscard]] std::string snapshot_text(const NodeSnapshot& snapshot, Instant at);
/// An object: node, at_ns, and for each table its name with a list of objects, a column each.
[[nodiscard]] std::string snapshot_json_line(const NodeSnapshot& snapshot, Instant at);

}  // namespace tributary::lab
