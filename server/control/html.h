// SPDX-License-Identifier: Apache-2.0
/// @file
/// Small parts of HTML: escaped text, rows of tables, templates, and the numbers in them.
///
/// Model:   A Cell is text, which is escaped, or HTML that this program has made. web/live.js
///          writes numbers in the same way.
/// Threads: Pure functions.
/// Tests:   tests/server/control/html_test.cc
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tributary::control {

/// Returns the text with & < > " ' as entities: safe in elements and in quoted attributes.
[[nodiscard]] std::string escaped(std::string_view text);

/// One cell of a table.
class Cell {
 public:
  /// @param classes Classes of the style sheet; may be empty.
  static Cell text(std::string_view content, std::string_view classes = {});
  static Cell number(uint64_t value);
  static Cell link(std::string_view content, std::string_view to);
  /// @param made HTML that this program has made.
  static Cell html(std::string made);

  [[nodiscard]] const std::string& to_html() const { return html_; }

 private:
  explicit Cell(std::string made) : html_(std::move(made)) {}
  std::string html_;
};

using Cells = std::vector<Cell>;

/// Returns rows for a tbody; if there are none, one row with the text `none`.
[[nodiscard]] std::string table_rows(const std::vector<Cells>& rows, std::string_view none);

/// Replaces each {{name}}. A value may contain anything: it is not searched for names.
/// @pre `values` has every name of the template.
[[nodiscard]] std::string fill(std::string_view page,
                               const std::map<std::string, std::string, std::less<>>& values);

/// Returns "340 ms" or "2.4 s"; "unknown" for null.
[[nodiscard]] std::string duration_text(const nlohmann::json& milliseconds);
/// Returns "1.50 kB" for (1500, "B").
[[nodiscard]] std::string scaled_text(double value, std::string_view unit);
/// Returns the digits in groups of three: "1,234".
[[nodiscard]] std::string count_text(uint64_t value);
/// Returns "1, 2"; "none" for an empty list.
[[nodiscard]] std::string ranks_text(const nlohmann::json& ranks);

/// Returns a drawing of the lateness in up to kSamplesMax samples, the newest at the right.
[[nodiscard]] std::string lateness_strip(const nlohmann::json& lateness_ms);
/// Returns the key of that drawing's colours.
[[nodiscard]] std::string lateness_key();

}  // namespace tributary::control
