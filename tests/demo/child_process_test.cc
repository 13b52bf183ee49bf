// SPDX-License-Identifier: Apache-2.0
// Method: real children, all of them short shell commands. Waiting is by poll() on their pipes,
// whose ends the kernel closes when they end.
#include "cli/demo/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

namespace tributary::demo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ChildProcess shell(const std::string& command, std::vector<int> inherited = {}) {
  auto child = ChildProcess::start({.name = "child",
                                    .program = "/bin/sh",
                                    .arguments = {"-c", command},
                                    .inherited_files = std::move(inherited)});
  EXPECT_TRUE(child) << child.error().text;
  return std::move(*child);
}

void wait_for_output(ChildProcess& child) {
  pollfd file{child.stdout_file(), POLLIN, 0};
  poll(&file, 1, 1000);
}

/// All lines until the end.
std::vector<std::string> lines_until_end(ChildProcess& child) {
  std::vector<std::string> lines;
  const auto take = [&] {
    for (std::string& line : child.take_lines()) lines.push_back(std::move(line));
  };
  while (!child.has_ended()) {
    wait_for_output(child);
    take();
  }
  take();
  return lines;
}

TEST(ChildProcess, GivesLinesErrorsAndStatus) {
  ChildProcess child = shell("echo one; echo two; echo trouble >&2; exit 3");
  EXPECT_THAT(lines_until_end(child), ElementsAre("one", "two"));
  EXPECT_EQ(child.stderr_tail(), "trouble\n");
  EXPECT_EQ(child.end_text(), "exit status 3");
  EXPECT_FALSE(child.ended_well());
}

TEST(ChildProcess, EndsWellWithStatusZero) {
  ChildProcess child = shell("exit 0");
  EXPECT_TRUE(lines_until_end(child).empty());
  EXPECT_TRUE(child.ended_well());
}

TEST(ChildProcess, SignalEndsItAndIsNamed) {
  ChildProcess child = shell("echo up; exec sleep 1000");
  wait_for_output(child);
  EXPECT_EQ(child.end_text(), "");
  child.signal(SIGKILL);
  lines_until_end(child);
  EXPECT_EQ(child.end_text(), "signal 9 (Killed)");
}

TEST(ChildProcess, MissingProgramIsSaid) {
  auto child = ChildProcess::start(
      {.name = "child", .program = "/nowhere/program", .arguments = {}, .inherited_files = {}});
  ASSERT_TRUE(child);
  lines_until_end(*child);
  EXPECT_EQ(child->end_text(), "exit status 127");
  EXPECT_THAT(child->stderr_tail(), HasSubstr("No such file"));
}

TEST(ChildProcess, KeepsOnlyTheTailOfErrors) {
  ChildProcess child = shell("i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done");
  while (!child.has_ended()) {
    wait_for_output(child);
    child.stderr_tail();
  }
  EXPECT_EQ(child.stderr_tail().size(), kStderrTailBytes);
  EXPECT_TRUE(child.stderr_tail().ends_with("line 1999\n"));
}

TEST(ChildProcess, OnlyNamedFilesAreInherited) {
  const int named = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ChildProcess child = shell("for f in " + std::to_string(named) + " " + std::to_string(other) +
                                 "; do test -e /proc/self/fd/$f && echo $f; done; true",
                             {named});
  EXPECT_THAT(lines_until_end(child), ElementsAre(std::to_string(named)));
  close(named);
  close(other);
}

TEST(ChildProcess, DestructorKills) {
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  {
    const ChildProcess child = shell("exec sleep 1000", {pipe_ends[1]});
    close(pipe_ends[1]);
  }
  // The child held the last writing end; now it is closed, so reading meets the end.
  char byte;
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0);
  close(pipe_ends[0]);
}

}  // namespace
}  // namespace tributary::demo
