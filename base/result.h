// SPDX-License-Identifier: Apache-2.0
/// @file
/// Errors as values. A configuration error is one line with the key, the value and the allowed
/// values. Code that talks to a person prints it.
///
/// Tests: tests/base/result_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace tributary {

/// Tells whether the same attempt may succeed later.
enum class ErrorKind : uint8_t {
  kLasting,  ///< Somebody must first change the configuration, a file or the machine.
  kPassing,  ///< The machine may recover by itself: a port is in use, a name is not found yet.
};

struct Error {
  std::string text;  ///< One line, no final period, no newline.
  ErrorKind kind = ErrorKind::kLasting;
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> failure(std::string text, ErrorKind kind = ErrorKind::kLasting) {
  return tl::unexpected<Error>(Error{std::move(text), kind});
}

/// Puts words before the text of another error, as in failure_in("--listen: ", port.error()), and
/// keeps its kind.
inline tl::unexpected<Error> failure_in(std::string_view words, const Error& cause) {
  return failure(std::string(words) + cause.text, cause.kind);
}

}  // namespace tributary
