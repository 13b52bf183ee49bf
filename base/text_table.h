// SPDX-License-Identifier: Apache-2.0
/// @file
/// A table for a terminal; each column is as wide as its widest cell.
///
/// Model:   Columns of words are left-aligned, all others right-aligned. Lines have no trailing
///          blanks. A line may have fewer cells than the head.
/// Threads: One object, one thread.
/// Tests:   tests/base/text_table_test.cc
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tributary {

class TextTable {
 public:
  /// @param text_columns Columns of words, which are left-aligned.
  explicit TextTable(std::set<size_t> text_columns = {}) : text_columns_(std::move(text_columns)) {}

  /// Appends a line. The first line is the head.
  void add(std::vector<std::string> cells) { lines_.push_back(std::move(cells)); }

  [[nodiscard]] std::string text() const;

 private:
  std::set<size_t> text_columns_;
  std::vector<std::vector<std::string>> lines_;
};

}  // namespace tributary
