// SPDX-License-Identifier: Apache-2.0
// Method: texts cut by hand; then a line on a narrow pseudo-terminal, read until it appears.
#include "cli/status_line.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "tests/cli/pty.h"

namespace tributary::cli {
namespace {

TEST(StatusLine, IsCutToTheWidth) {
  EXPECT_EQ(clip_line("12 of 24 points", 80), "12 of 24 points");
  EXPECT_EQ(clip_line("12 of 24 points", 9), "12 of 24");
  EXPECT_EQ(clip_line("12 of 24", 9), "12 of 24");
  EXPECT_EQ(clip_line("\u00b5\u00b5\u00b5", 3), "\u00b5\u00b5");
  EXPECT_EQ(clip_line("x", 1), "");
  EXPECT_EQ(clip_line("", 0), "");
}

TEST(StatusLine, AppearsOnATerminalAndNeverWraps) {
  Pty pty(20);
  {
    const StatusLine line([](double) { return std::string(200, 'x'); }, pty.terminal.get());
    EXPECT_TRUE(line.is_shown());
    EXPECT_TRUE(pty.wait_for(std::string(19, 'x')));
  }
  pty.terminal = io::FileDescriptor();  // The screen's output then ends.
  while (pty.read_some()) {
  }
  EXPECT_EQ(pty.seen.find(std::string(20, 'x')), std::string::npos);
  EXPECT_EQ(pty.seen.find('\n'), std::string::npos);
  EXPECT_TRUE(pty.seen.ends_with("\r\x1b[K"));  // The line is wiped.
}

TEST(StatusLine, PrintsNothingElsewhere) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  const io::FileDescriptor reader(ends[0]);
  const io::FileDescriptor writer(ends[1]);
  const StatusLine line([](double) { return std::string("x"); }, writer.get());
  EXPECT_FALSE(line.is_shown());
}

}  // namespace
}  // namespace tributary::cli
