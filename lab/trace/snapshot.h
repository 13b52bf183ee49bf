// SPDX-License-Identifier: Apache-2.0
/// @file
/// The internal state of a node at one moment, as tables for people and programs.
///
/// Model:   Each kind of node fills in its tables: a PFE its threads, banks, waiting packets and
///          block records; a switch the registers of a slot. A cell is text. A table longer than
///          rows_max is cut and counts the rows left out.
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
  std::string name;  ///< One word, by which users select it: "threads", "banks", …
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  ///< Shape [rows][columns].
  std::set<size_t> text_columns = {};          ///< Columns of words.
  uint64_t rows_left_out = 0;

  /// Appends a row, or counts it if the table is full.
  void add(std::vector<std::string> row, size_t rows_max) {
    if (rows.size() < rows_max) {
      rows.push_back(std::move(row));
    } else {
      rows_left_out++;
    }
  }
};

/// The request for a snapshot.
struct SnapshotRequest {
  Instant at;  ///< The current time: not before the last event, and before the next.
  std::optional<uint64_t> block;  ///< Show only this block's record.
  std::optional<uint64_t> slot;   ///< Show this slot's registers; slot 0's by default.
  size_t rows_max = 40;           ///< Per table.
};

struct NodeSnapshot {
  std::string node;
  std::vector<SnapshotTable> tables;  ///< Empty: this kind of node has no state to show.
};

[[nodiscard]] std::string snapshot_text(const NodeSnapshot& snapshot, Instant at);
/// Returns an object with node, at_ns, and for each table its name with a list of rows; a row is an
/// object with a key per column.
[[nodiscard]] std::string snapshot_json_line(const NodeSnapshot& snapshot, Instant at);

}  // namespace tributary::lab
