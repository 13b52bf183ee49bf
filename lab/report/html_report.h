// SPDX-License-Identifier: Apache-2.0
/// @file
/// A page with all figures: plots, values beside the papers', and how to repeat each figure.
///
/// Model:   The page refers to NAME.svg and NAME.json beside it. It has no script and loads nothing
///          from elsewhere. Colours follow the reader's settings, light or dark.
/// Exact:   Equal reports give equal bytes; the page has no date.
/// Errors:  None. All text is escaped.
/// Threads: None; pure functions.
/// Tests:   tests/lab/report/html_report_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/report/figure_row.h"
#include "lab/report/warning_kinds.h"

namespace tributary::lab {

struct ReportFigure {
  std::string name;         ///< "trio-15".
  std::string description;  ///< One line.
  std::string command;      ///< Makes this figure alone.
  std::string x_name;       ///< Head of the table's second column.
  uint64_t points = 0;      ///< Runs.
  uint64_t seed_first = 0;
  uint64_t seed_last = 0;
  std::vector<FigureRow> rows = {};
  std::vector<std::string> notes = {};
  /// Points that failed, with their reasons. Rows that need them have no value.
  std::vector<std::string> failures = {};
  WarningKinds warnings = {};
  bool has_plots = false;
};

struct Report {
  std::string command;  ///< Makes the whole report.
  std::string version;
  std::string commit;
  std::vector<ReportFigure> figures;
};

/// Returns a complete HTML document.
[[nodiscard]] std::string report_html(const Report& report);

}  // namespace tributary::lab
