// SPDX-License-Identifier: Apache-2.0
#include "base/terminal_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace tributary {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  ///< U+FFFD.

/// One character of a text.
struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  ///< 0: the text does not begin with valid UTF-8.
};

/// Returns the first character of a text that is not empty. Source: RFC 3629.
Character first_of(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return {};
  uint32_t code = first & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; i++) {
    if ((byte(i) & 0xc0U) != 0x80U) return {};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  const bool is_overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  if (is_overlong || is_surrogate || code > 0x10ffff) return {};
  return {code, bytes};
}

bool is_control(uint32_t code) { return code < 0x20 || (code >= 0x7f && code <= 0x9f); }

/// Tells whether the character changes the order of others, or ends a line. Source: Unicode
/// Standard Annex #9, table 4; U+2028 and U+2029 are the line and paragraph separators.
bool is_layout(uint32_t code) {
  return code == 0x061c || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

/// Returns how many bytes of printable ASCII come first.
size_t plain_bytes(std::string_view text) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
  return static_cast<size_t>(std::ranges::find_if_not(text, is_plain) - text.begin());
}

}  // namespace

std::string terminal_text(std::string_view text, LineEnds line_ends) {
  std::string shown;
  shown.reserve(text.size());
  while (true) {
    const size_t plain = plain_bytes(text);
    shown += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) return shown;
    const auto [code, bytes] = first_of(text);
    if (bytes == 0) {
      shown += kReplacement;
      text.remove_prefix(1);
      continue;
    }
    const bool stays = code == '\n' && line_ends == LineEnds::kKeep;
    if (!stays && (is_control(code) || is_layout(code))) {
      fmt::format_to(std::back_inserter(shown), "\\u{:04x}", code);
    } else {
      shown += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
}

}  // namespace tributary
