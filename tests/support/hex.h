// SPDX-License-Identifier: Apache-2.0
/// @file
/// Bytes written as a person reads them off a capture.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace tributary {

using Bytes = std::vector<std::byte>;

/// "45 00 00 1d": two lower-case hexadecimal digits a byte, blanks between them.
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
