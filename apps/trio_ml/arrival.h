// SPDX-License-Identifier: Apache-2.0
/// @file
/// apps/arrival.h with Trio-ML's names for what can be wrong with a frame.
///
/// Tests:  tests/apps/trio_ml/arrival_test.cc
#pragma once

#include "apps/arrival.h"
#include "apps/trio_ml/counters.h"

namespace tributary::trio_ml {

using apps::Arrival;
using apps::frame_payload_offset;
using apps::payload_arrival;

/// What locating a message found: fine, or why not.
struct Located {
  bool ok = true;
  Outcome refused = Outcome::kCount;
};

/// The counter of what is wrong with a frame. @pre fit is not kFits.
[[nodiscard]] constexpr Outcome outcome_of(apps::Fit fit) {
  // Both lists have these in the same order.
  static_assert(
      static_cast<uint32_t>(Outcome::kTruncated) - static_cast<uint32_t>(Outcome::kNotIp) ==
      static_cast<uint32_t>(apps::Fit::kTruncated) - static_cast<uint32_t>(apps::Fit::kNotIp));
  return static_cast<Outcome>(static_cast<uint32_t>(Outcome::kNotIp) + static_cast<uint32_t>(fit) -
                              static_cast<uint32_t>(apps::Fit::kNotIp));
}

/// Finds the UDP payload addressed to `udp_port` in the packet at hand.
/// @param arrival As payload_arrival() has made it.
template <microcode::Machine M>
Located locate_message(M& m, uint16_t udp_port, Arrival& arrival) {
  const apps::Fit fit = apps::locate_udp_payload(m, udp_port, arrival);
  if (fit == apps::Fit::kFits) return {};
  return {false, outcome_of(fit)};
}

}  // namespace tributary::trio_ml
