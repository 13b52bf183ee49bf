// SPDX-License-Identifier: Apache-2.0
/// @file
/// Shares an interface's frames among the sockets of several cores, in the kernel.
///
/// Tests: tests/system/inline_test.cc
#pragma once

#include <cstdint>

namespace tributary::io {

enum class Steering : uint8_t {
  kByFlow,         ///< By a hash that is the same for both directions of a flow.
  kByDestination,  ///< By the IP destination, for programs whose state belongs to destinations.
};

}  // namespace tributary::io
