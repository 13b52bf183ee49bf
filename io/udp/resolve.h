// SPDX-License-Identifier: Apache-2.0
/// @file
/// From what a person types to an Endpoint, by the system's name service.
///
/// Threads: Any; may block for as long as the name service does, so only at the start.
/// Errors:  One line that names the text and the cause.
/// Tests:   tests/io/udp/resolve_test.cc
#pragma once

#include <cstdint>
#include <string_view>

#include "base/endpoint.h"
#include "base/result.h"

namespace tributary::io {

/// Accepts "host:port", "host", "1.2.3.4:5", "1.2.3.4", "[v6]:port", "[v6]" and "v6" without
/// brackets, with an interface after % for link-local addresses. Numeric addresses never ask the
/// name service; of several answers the system's first choice is taken.
/// @param default_port Taken when `text` names none; 0 makes a missing port an error.
[[nodiscard]] Result<Endpoint> resolve(std::string_view text, uint16_t default_port);

}  // namespace tributary::io
