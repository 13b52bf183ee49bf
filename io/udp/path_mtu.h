// SPDX-License-Identifier: Apache-2.0
/// @file
/// How large a packet may be on the way to an address.
///
/// Units:   Bytes of an IP packet, its own header included.
/// Threads: Any; asks the kernel, sends nothing.
/// Errors:  None; an address that cannot be reached has the least MTU there is.
/// Tests:   tests/host/auto_terms_test.cc
#pragma once

#include <cstdint>

#include "base/endpoint.h"

namespace tributary::io {

/// What every path carries unfragmented. Source: RFC 8200 §5 (IPv6 links have at least 1280).
inline constexpr uint32_t kPathMtuMin = 1280;

/// The MTU that the kernel knows for the path to `to`: that of the interface, or less once a router
/// has complained. 65536 on the loopback interface.
[[nodiscard]] uint32_t path_mtu(const Endpoint& to);

}  // namespace tributary::io
