// SPDX-License-Identifier: Apache-2.0
/// @file
/// A port of 127.0.0.1 that nobody uses now, for programs that this one starts.
///
/// Errors: What the operating system refused. Another program may take the port before the child
///         does; then the child says so and the run ends.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace tributary::io {

enum class Transport : uint8_t { kUdp, kTcp };

[[nodiscard]] Result<uint16_t> free_port(Transport transport);

}  // namespace tributary::io
