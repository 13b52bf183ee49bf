// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes a text of another process harmless to a terminal: it can neither move the cursor, change
/// the title or clear the screen, nor show its characters in another order.
///
/// Threads: Pure functions.
/// Tests:   tests/base/terminal_text_test.cc
#pragma once

#include <string>
#include <string_view>

namespace tributary {

enum class LineEnds : bool { kEscape, kKeep };

/// Returns the text with an escape such as \u001b in place of each control character (C0, DEL, C1),
/// line separator and bidirectional control, and U+FFFD in place of each byte that is not UTF-8.
/// JSON keeps its value, because these characters stand only within its strings.
/// @param line_ends Whether a newline stays.
[[nodiscard]] std::string terminal_text(std::string_view text,
                                        LineEnds line_ends = LineEnds::kEscape);

}  // namespace tributary
