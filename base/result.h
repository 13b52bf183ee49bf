// SPDX-License-Identifier: Apache-2.0
/// @file
/// Errors as values. A configuration error is one line with the key, the value and the allowed
/// values. Code that talks to a person prints it.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace tributary {

struct Error {
  std::string text;  ///< One line, no final period, no newline.
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> failure(std::string text) {
  return tl::unexpected<Error>(Error{std::move(text)});
}

}  // namespace tributary
