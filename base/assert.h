// SPDX-License-Identifier: Apache-2.0
/// @file
/// The assertion for broken caller contracts. It is checked in every build: a bug stops the process
/// with file, line and the failed condition. Never assert a condition that a packet or a
/// configuration can break: count it or return an Error.
#pragma once

namespace tributary {

/// Prints the failed condition to standard error and aborts.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace tributary

#define TRIB_ASSERT(condition)                                       \
  do {                                                               \
    if (!(condition)) [[unlikely]] {                                 \
      ::tributary::assertion_failed(#condition, __FILE__, __LINE__); \
    }                                                                \
  } while (false)
