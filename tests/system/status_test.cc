// SPDX-License-Identifier: Apache-2.0
// Method:  `status` and `who` write to pseudo-terminals of several widths while a job runs. No line
//          reaches the last column, where a terminal may wrap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "tests/cli/pty.h"
#include "tests/system/control_folder.h"
#include "tests/system/server.h"
#include "tests/system/workers.h"

namespace tributary::system_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kClearScreen = "\x1b[H\x1b[2J";

/// Returns the lines of a screen, without the codes that clear it.
std::vector<std::string> lines_on(const std::string& seen) {
  std::vector<std::string> lines(1);
  for (size_t i = 0; i < seen.size(); i++) {
    if (seen.compare(i, kClearScreen.size(), kClearScreen) == 0)
      i += kClearScreen.size() - 1;
    else if (seen[i] == '\n')
      lines.emplace_back();
    else if (seen[i] != '\r')
      lines.back() += seen[i];
  }
  return lines;
}

size_t longest_on(const std::string& seen) {
  return std::ranges::max(lines_on(seen), {}, &std::string::size).size();
}

class Status : public ControlFolder {
 protected:
  Status() { unsetenv("COLUMNS"); }

  /// Returns two screens of `status --watch` on a terminal.
  static std::string watched(cli::Pty& pty) {
    Process process({"status", "--watch"}, path_of(pty));
    const auto has_two = [&] {
      const size_t first = pty.seen.find(kClearScreen);
      const size_t second =
          first == std::string::npos ? first : pty.seen.find(kClearScreen, first + 1);
      return second != std::string::npos && pty.seen.find("waits", second) != std::string::npos;
    };
    while (!has_two()) {
      if (!pty.read_some()) break;
    }
    EXPECT_TRUE(has_two()) << process.errors();
    return pty.seen;
  }
  static std::string path_of(const cli::Pty& pty) {
    return "/proc/self/fd/" + std::to_string(pty.terminal.get());
  }

  Server server_{{"id=1,sources=2", "id=2,sources=64"}, {"--name", "rack-seven"}};
};

TEST_F(Status, WatchFitsANarrowTerminal) {
  cli::Pty pty(40);
  const std::string seen = watched(pty);
  EXPECT_LT(longest_on(seen), 40U) << seen;
  for (const char* part : {"members", "blocks/s", "degraded", "0/64", "CPU", "drops:"}) {
    EXPECT_THAT(seen, HasSubstr(part));
  }
  EXPECT_THAT(seen, Not(HasSubstr("session")));
}

TEST_F(Status, WatchShowsEveryColumnOnAUsualTerminal) {
  cli::Pty pty(80);
  const std::string seen = watched(pty);
  EXPECT_LT(longest_on(seen), 80U) << seen;
  for (const char* part : {"session", "in flight", "blocks/s", "degraded"}) {
    EXPECT_THAT(seen, HasSubstr(part));
  }
}

TEST_F(Status, TheVariableColumnsWinsOverTheTerminal) {
  setenv("COLUMNS", "40", /*overwrite=*/1);
  cli::Pty pty(80);
  const std::string seen = watched(pty);
  unsetenv("COLUMNS");
  EXPECT_LT(longest_on(seen), 40U) << seen;
}

TEST_F(Status, OutputThatIsNoTerminalIsNotFolded) {
  EXPECT_THAT(run({"status"}), HasSubstr("session   members  in flight"));
}

TEST_F(Status, WhoFitsANarrowTerminal) {
  const auto waiting = start_worker(server_, 0, 2, {"--elements", "1000"});
  cli::Pty pty(40);
  while (pty.seen.find("rank") == std::string::npos ||
         pty.seen.find("no job") != std::string::npos) {
    pty.seen.clear();
    Process process({"who"}, path_of(pty));
    ASSERT_EQ(process.wait_for_end(), 0) << process.errors();
    ASSERT_TRUE(pty.wait_for("\n"));
  }
  EXPECT_LT(longest_on(pty.seen), 40U) << pty.seen;
}

}  // namespace
}  // namespace tributary::system_test
