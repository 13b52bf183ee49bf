// SPDX-License-Identifier: Apache-2.0
/// @file
/// Converts instants and durations of virtual time to and from text.
///
/// Tests:   tests/lab/trace/time_text_test.cc
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace tributary::lab {

/// Parses "12us", "1.5ms", "300ns", "2s" or "0", at most 1e6 s. Refuses anything else with the
/// allowed forms.
[[nodiscard]] Result<Duration> parse_time(std::string_view text);

/// Formats a duration exactly, in the most suitable unit: "835.52 ns", "12.03455 us".
[[nodiscard]] std::string time_text(Duration time);

/// Formats nanoseconds with two decimals; a tick is 0.01 ns.
[[nodiscard]] std::string nanoseconds_text(Duration time);
[[nodiscard]] double nanoseconds_number(Duration time);

}  // namespace tributary::lab
