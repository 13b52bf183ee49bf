// SPDX-License-Identifier: Apache-2.0
/// @file
/// A table for a terminal: columns as wide as their widest cell.
///
/// Model:   Columns of words stand to the left, all others to the right; lines have no blanks at
///          their ends. A line may have fewer cells than the head.
/// Threads: One object, one thread.
/// Tests:   tests/lab/report/text_table_test.cc
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tributary::lab {

class TextTable {
 public:
  /// @param text_columns Columns of words, which stand to the left.
  explicit TextTable(std::set<size_t> text_columns = {}) : text_columns_(std::move(text_columns)) {}

  /// The first line is the head.
  void add(std::vector<std::string> cells) { lines_.push_back(std::move(cells)); }

  [[nodiscard]] std::string text() const;

 private:
  std::set<size_t> text_columns_;
  std::vector<std::vector<std::string>> lines_;
};

}  // namespace tributary::lab
