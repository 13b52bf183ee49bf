// SPDX-License-Identifier: Apache-2.0
/// @file
/// Converts hexadecimal text to bytes.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace tributary {

using Bytes = std::vector<std::byte>;

/// Parses "45 00 00 1d": two lower-case hexadecimal digits per byte, separated by blanks.
inline Bytes from_hex(std::string_view text) {
  Bytes bytes;
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (size_t i = 0; i + 1 < text.size(); i++) {
    if (text[i] == ' ' || text[i] == '\n') continue;
    bytes.push_back(static_cast<std::byte>(digit(text[i]) * 16 + digit(text[i + 1])));
    i++;
  }
  return bytes;
}

}  // namespace tributary
