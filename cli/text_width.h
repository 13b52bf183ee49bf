// SPDX-License-Identifier: Apache-2.0
/// @file
/// Fits text and tables into the width of a terminal.
///
/// Model:   A table drops its least important columns. Any other line is folded at a space, and its
///          rest is indented. No line reaches the terminal's last column, where some terminals
///          wrap.
/// Units:   A character of UTF-8 counts as one column.
/// Threads: Pure functions, except output_columns().
/// Errors:  None.
/// Tests:   tests/cli/text_width_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tributary::cli {

/// The width of output that is not a terminal.
inline constexpr uint32_t kNoLimit = UINT32_MAX;

/// Returns the width of a terminal: that of the environment variable COLUMNS if it is set, else the
/// width that the terminal states. kNoLimit if the file is not a terminal.
[[nodiscard]] uint32_t output_columns(int file);

/// Folds each line that does not fit. A word that does not fit is cut into pieces.
[[nodiscard]] std::string fold_text(std::string_view text, uint32_t columns);

struct TableColumn {
  std::string title;
  uint32_t width = 0;       ///< Cells and title are right-aligned in this width; 0: left-aligned.
  uint32_t importance = 0;  ///< The least important column is dropped first.
};

/// Returns a line of titles and one for each row, without the columns that do not fit.
/// @param rows Each with a cell for each column.
[[nodiscard]] std::string table_text(std::span<const TableColumn> table,
                                     std::span<const std::vector<std::string>> rows,
                                     uint32_t columns);

}  // namespace tributary::cli
