// SPDX-License-Identifier: Apache-2.0
/// @file
/// Table rows with the lateness of ranks, as numbers and as a drawing.
///
/// Tests:   tests/server/control/pages_test.cc
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "server/control/html.h"

namespace tributary::control {

/// Adds the newest lateness, the longest one and the drawing.
void add_lateness(Cells& cells, const nlohmann::json& lateness_ms);

/// Returns a row for each entry of /v1/history's `lateness`.
[[nodiscard]] std::string late_rows(const nlohmann::json& lateness);

/// Says how many ranks the rows leave out.
[[nodiscard]] std::string left_out_text(const nlohmann::json& history);

/// Returns a row for each source that reports the beginnings of all-reduces.
/// @param all_reduces The all-reduces of /v1/history/ID.
[[nodiscard]] std::string begin_rows(const nlohmann::json& sources,
                                     const nlohmann::json& all_reduces);

/// Names the all-reduces of these rows.
[[nodiscard]] std::string begin_range_text(const nlohmann::json& all_reduces);

}  // namespace tributary::control
