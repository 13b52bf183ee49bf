// SPDX-License-Identifier: Apache-2.0
/// @file
/// Points and lengths of virtual time as people write and read them.
///
/// Tests:   tests/lab/trace/time_text_test.cc
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace tributary::lab {

/// "12us", "1.5ms", "300ns", "2s", "0"; at most 1e6 s. Refuses everything else, and says what is
/// allowed.
[[nodiscard]] Result<Duration> parse_time(std::string_view text);

/// With the unit that suits it and every digit: "835.52 ns", "12.03455 us".
[[nodiscard]] std::string time_text(Duration time);

/// Nanoseconds with two digits behind the point: a tick is a hundredth.
[[nodiscard]] std::string nanoseconds_text(Duration time);
[[nodiscard]] double nanoseconds_number(Duration time);

}  // namespace tributary::lab
