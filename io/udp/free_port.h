// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds a free port of 127.0.0.1, for programs that this one starts.
///
/// Errors: The cause that the operating system gave. Another program may take the port before the
///         child does; then the child reports it and the run ends.
/// Tests:  tests/io/udp/free_port_test.cc
#pragma once

#include <cstdint>

#include "base/result.h"

namespace tributary::io {

enum class Transport : uint8_t { kUdp, kTcp };

/// Returns a port that no program uses at the moment.
[[nodiscard]] Result<uint16_t> free_port(Transport transport);

}  // namespace tributary::io
