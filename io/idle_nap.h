// SPDX-License-Identifier: Apache-2.0
/// @file
/// Computes how long a queue that must poll may nap while nothing arrives.
///
/// Threads: Pure.
/// Tests:   tests/io/idle_nap_test.cc
#pragma once

#include <algorithm>

#include "base/time.h"

namespace tributary::io {

/// A nap takes this share of the time since the last packet. It then delays a packet by little
/// compared with the silence before it, and an idle core costs next to nothing.
inline constexpr int64_t kNapShare = 16;
inline constexpr Duration kNapMax = milliseconds(1);
/// A shorter nap is not worth its system call.
inline constexpr Duration kNapMin = microseconds(20);

/// Returns the nap of a queue that has received nothing for `idle`; zero if it would be too short.
[[nodiscard]] constexpr Duration idle_nap(Duration idle) {
  const Duration nap = std::min(idle / kNapShare, kNapMax);
  return nap < kNapMin ? Duration() : nap;
}

}  // namespace tributary::io
