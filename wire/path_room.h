// SPDX-License-Identifier: Apache-2.0
/// @file
/// The gradients that a packet can carry over a path without fragments.
///
/// Units:   Bytes of an IP packet, gradients of 32 bits.
/// Threads: Pure functions.
/// Errors:  None; a path too narrow for one gradient counts as wide enough for one.
/// Tests:   tests/wire/path_room_test.cc
#pragma once

#include <algorithm>
#include <cstdint>

#include "auth/mode.h"
#include "wire/headers.h"
#include "wire/trio_ml.h"

namespace tributary::wire {

/// Returns the number of gradients that fit an IP packet of the path, at least 1.
[[nodiscard]] constexpr uint32_t gradients_in(uint32_t path_mtu_bytes, bool ipv4, auth::Mode mode) {
  const uint32_t headers =
      (ipv4 ? Ipv4Header::kBytes : Ipv6Header::kBytes) + UdpHeader::kBytes + head_bytes_max(mode);
  const uint32_t room = std::max(path_mtu_bytes, headers) - headers;
  return std::max(room / kGradientBytes, uint32_t{1});
}

}  // namespace tributary::wire
