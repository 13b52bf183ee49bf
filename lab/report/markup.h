// SPDX-License-Identifier: Apache-2.0
/// @file
/// Text for SVG and HTML documents.
///
/// Threads: None; pure functions.
/// Tests:   tests/lab/report/html_report_test.cc
#pragma once

#include <string>
#include <string_view>

namespace tributary::lab {

/// Returns the text with entities for & < > " and ', so that it may stand in an element or in a
/// quoted attribute.
[[nodiscard]] std::string escaped(std::string_view text);

}  // namespace tributary::lab
