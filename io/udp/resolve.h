// SPDX-License-Identifier: Apache-2.0
/// @file
/// Turns an address that a person typed into an Endpoint, using the system's name service.
///
/// Threads: Any. May block as long as the name service does, so call it only at the start.
/// Errors:  One line that names the text and the cause. A name that the name service does not know
///          is ErrorKind::kPassing.
/// Tests:   tests/io/udp/resolve_test.cc
#pragma once

#include <cstdint>
#include <string_view>

#include "base/endpoint.h"
#include "base/result.h"

namespace tributary::io {

/// Accepts "host:port", "host", "1.2.3.4:5", "1.2.3.4", "[v6]:port", "[v6]" and "v6" without
/// brackets. A link-local address may name an interface after %. Numeric addresses need no name
/// service. If there are several answers, resolve() takes the system's first choice.
/// @param default_port Used if `text` names no port; 0 makes a missing port an error.
[[nodiscard]] Result<Endpoint> resolve(std::string_view text, uint16_t default_port);

}  // namespace tributary::io
