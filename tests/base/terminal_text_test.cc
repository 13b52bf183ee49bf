// SPDX-License-Identifier: Apache-2.0
#include "base/terminal_text.h"

#include <gtest/gtest.h>

namespace tributary {
namespace {

TEST(TerminalText, KeepsPrintableCharacters) {
  for (const char* const text :
       {"", "rack-4 \"b\" \\", "Überlast 100 %", "日本", "\xf0\x9f\x99\x82"}) {
    EXPECT_EQ(terminal_text(text), text);
  }
}

TEST(TerminalText, EscapesControlCharacters) {
  EXPECT_EQ(terminal_text("\x1b]0;pwned\x07\x1b[2Jx\ty\x7f"),
            "\\u001b]0;pwned\\u0007\\u001b[2Jx\\u0009y\\u007f");
  EXPECT_EQ(terminal_text("\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0"), "\\u0080\\u009b\\u009f\xc2\xa0");
  EXPECT_EQ(terminal_text(std::string_view("a\0b", 3)), "a\\u0000b");
  EXPECT_EQ(terminal_text("a\nb\r\n"), "a\\u000ab\\u000d\\u000a");
  EXPECT_EQ(terminal_text("a\nb\r\n", LineEnds::kKeep), "a\nb\\u000d\n");
}

TEST(TerminalText, EscapesBidirectionalControlsAndLineSeparators) {
  EXPECT_EQ(terminal_text("a\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069"),
            "a\\u061c\\u200e\\u200f\\u2028\\u2029\\u202a\\u202e\\u2066\\u2069");
  EXPECT_EQ(terminal_text("\u2027\u202f\u2065\u206a"), "\u2027\u202f\u2065\u206a");
}

// A terminal without UTF-8 takes the byte 9b as "escape [".
TEST(TerminalText, ReplacesBytesThatAreNotUtf8) {
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(terminal_text("a\x9b"
                          "31m"),
            "a" + bad + "31m");
  EXPECT_EQ(terminal_text("\xc2"), bad);
  EXPECT_EQ(terminal_text("\xc0\x9b"), bad + bad);            // Overlong.
  EXPECT_EQ(terminal_text("\xe0\x82\x9b"), bad + bad + bad);  // Overlong.
  EXPECT_EQ(terminal_text("\xed\xa0\x80"), bad + bad + bad);  // Surrogate.
  EXPECT_EQ(terminal_text("\xf4\x90\x80\x80"), bad + bad + bad + bad);
}

}  // namespace
}  // namespace tributary
