// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads a number from a text that consists of nothing else: a flag's value, an item of a list.
///
/// Code that reads on after the number ("64K", "3ms"), or that distinguishes a number that is out
/// of range, calls std::from_chars() itself.
///
/// Tests: tests/base/number_text_test.cc
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace tributary {

/// Returns the decimal number that `text` consists of. A "-" is allowed for signed and floating
/// types only. Returns nothing if the number does not fit T, and for other texts: the empty one,
/// and those with blanks, a "+" or a unit. For a floating type, "1e-3", "inf" and "nan" are
/// numbers; the caller refuses the last two where they have no meaning.
template <class T>
requires std::integral<T> || std::floating_point<T>
[[nodiscard]] std::optional<T> parse_number(std::string_view text) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace tributary
