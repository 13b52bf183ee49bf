// SPDX-License-Identifier: Apache-2.0
/// @file
/// The largest packet that the path to an address carries.
///
/// Units:   Bytes of an IP packet, including its header.
/// Threads: Any. Asks the kernel; sends nothing.
/// Errors:  None; returns the smallest MTU for an address that cannot be reached.
/// Tests:   tests/host/auto_terms_test.cc
#pragma once

#include <cstdint>

#include "base/endpoint.h"

namespace tributary::io {

/// Every path carries packets of this size unfragmented. Source: RFC 8200 §5 (IPv6 links).
inline constexpr uint32_t kPathMtuMin = 1280;

/// Returns the MTU that the kernel knows for the path to `to`. This is the interface's MTU, or less
/// if a router has reported a smaller one. The loopback interface has 65536.
[[nodiscard]] uint32_t path_mtu(const Endpoint& to);

}  // namespace tributary::io
