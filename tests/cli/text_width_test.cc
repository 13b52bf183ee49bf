// SPDX-License-Identifier: Apache-2.0
// Method: texts and tables by hand, and random texts at every width.
#include "cli/text_width.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/cli/pty.h"
#include "tests/support/seed.h"

namespace tributary::cli {
namespace {

const std::vector<TableColumn> kTable{{"job", 5, 9}, {"session", 8, 2}, {"rate", 6, 7}};
const std::vector<std::vector<std::string>> kRows{{"7", "runs", "12"}};

TEST(TextWidth, LineFoldsAtASpace) {
  EXPECT_EQ(fold_text("in 20 packets/s, out 30 packets/s\n", 24),
            "in 20 packets/s, out 30\n  packets/s\n");
  EXPECT_EQ(fold_text("in 20 packets/s, out 30 packets/s\n", 23),
            "in 20 packets/s, out\n  30 packets/s\n");
  EXPECT_EQ(fold_text("short\n\nlines\n", 24), "short\n\nlines\n");
}

TEST(TextWidth, LongWordIsCut) {
  EXPECT_EQ(fold_text(std::string(20, 'x'), 17), std::string(16, 'x') + "\n  xxxx\n");
}

TEST(TextWidth, IndentedLineKeepsItsIndent) {
  EXPECT_EQ(fold_text("     look at the machine of rank 2", 20),
            "     look at the\n  machine of rank 2\n");
}

TEST(TextWidth, OutputThatIsNoTerminalIsNotChanged) {
  const std::string text(500, 'x');
  EXPECT_EQ(fold_text(text, kNoLimit), text);
}

TEST(TextWidth, TableDropsTheLeastImportantColumn) {
  EXPECT_EQ(table_text(kTable, kRows, 80), "  job  session   rate\n    7     runs     12\n");
  EXPECT_EQ(table_text(kTable, kRows, 22), "  job  session   rate\n    7     runs     12\n");
  EXPECT_EQ(table_text(kTable, kRows, 21), "  job   rate\n    7     12\n");
  EXPECT_EQ(table_text(kTable, kRows, 10), "  job\n    7\n");
  EXPECT_EQ(table_text(kTable, kRows, 1), "  job\n    7\n");
}

TEST(TextWidth, RandomTextFitsAndKeepsItsWords) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t step = 0; step < 2'000; step++) {
    std::string text;
    std::string letters;
    for (uint32_t i = prng.below(200); i > 0; i--) {
      constexpr std::string_view kLetters = "ab     \n";
      const char letter = kLetters[prng.below(kLetters.size())];
      text += letter;
      if (letter != ' ' && letter != '\n') letters += letter;
    }
    const uint32_t columns = 17 + prng.below(60);
    const std::string folded = fold_text(text, columns);
    size_t length = 0;
    std::string kept;
    for (const char letter : folded) {
      length = letter == '\n' ? 0 : length + 1;
      ASSERT_LT(length, columns) << text;
      if (letter != ' ' && letter != '\n') kept += letter;
    }
    ASSERT_EQ(kept, letters);
  }
}

TEST(TextWidth, TerminalStatesItsWidth) {
  unsetenv("COLUMNS");
  const Pty pty(40);
  EXPECT_EQ(output_columns(pty.terminal.get()), 40U);
  setenv("COLUMNS", "33", /*overwrite=*/1);
  EXPECT_EQ(output_columns(pty.terminal.get()), 33U);
  for (const char* wrong : {"", "0", "x", "12x", "-4"}) {
    setenv("COLUMNS", wrong, /*overwrite=*/1);
    EXPECT_EQ(output_columns(pty.terminal.get()), 40U) << wrong;
  }
  unsetenv("COLUMNS");
  const io::FileDescriptor file(open("/dev/null", O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(output_columns(file.get()), kNoLimit);
}

}  // namespace
}  // namespace tributary::cli
