// SPDX-License-Identifier: Apache-2.0
/// @file
/// The error of a system call: its text, its kind, and both as an Error.
///
/// Threads: any; unlike std::strerror().
/// Tests:   tests/base/result_test.cc
#pragma once

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "base/result.h"

namespace tributary {

/// Returns the text of an errno value, as in "Permission denied".
[[nodiscard]] inline std::string errno_text(int error) {
  return std::system_category().message(error);
}

/// Returns kPassing if the cause may end by itself: a port or an address in use or not there yet, a
/// network that is down, or too many open files.
[[nodiscard]] constexpr ErrorKind errno_kind(int error) {
  switch (error) {
    case EADDRINUSE:
    case EADDRNOTAVAIL:
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENETDOWN:
    case ENETUNREACH:
      return ErrorKind::kPassing;
    default:
      return ErrorKind::kLasting;
  }
}

/// Returns true if a call on a non-blocking file may succeed later without a change: nothing is
/// ready yet, or a signal interrupted it.
[[nodiscard]] constexpr bool is_retryable(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/// Returns the error "WHAT: TEXT OF ERRNO" with the kind of that errno value.
inline tl::unexpected<Error> system_failure(int error, std::string_view what) {
  return failure(std::string(what) + ": " + errno_text(error), errno_kind(error));
}

}  // namespace tributary
