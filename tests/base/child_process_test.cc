// SPDX-License-Identifier: Apache-2.0
// Method: real children that run short shell commands. The tests wait with poll() on their pipes,
// whose ends the kernel closes when a child ends.
#include "base/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace tributary {
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

/// Returns all lines until the child ends.
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

TEST(ChildProcess, ReturnsLinesErrorsAndStatus) {
  ChildProcess child = shell("echo one; echo two; echo trouble >&2; exit 3");
  EXPECT_THAT(lines_until_end(child), ElementsAre("one", "two"));
  EXPECT_EQ(child.stderr_tail(), "trouble\n");
  EXPECT_EQ(child.end_text(), "exit status 3");
  EXPECT_FALSE(child.ended_well());
}

TEST(ChildProcess, LastOutputIsOneLine) {
  ChildProcess child = shell("printf 'one\\ntwo\\n\\n' >&2");
  lines_until_end(child);
  EXPECT_EQ(child.last_output(), "one two");
  EXPECT_EQ(child.stderr_tail(), "one\ntwo\n\n");
  ChildProcess silent = shell("true");
  lines_until_end(silent);
  EXPECT_EQ(silent.last_output(), "");
}

TEST(ChildProcess, CarriageReturnEndsALineAndStays) {
  ChildProcess child = shell("printf 'one\\r\\ntwo\\r'; printf 'three\\n\\r\\nfour'");
  EXPECT_THAT(lines_until_end(child), ElementsAre("one", "two\r", "three", ""));
  EXPECT_EQ(child.stdout_rest(), "four");
}

TEST(ChildProcess, StatusZeroIsSuccess) {
  ChildProcess child = shell("exit 0");
  EXPECT_TRUE(lines_until_end(child).empty());
  EXPECT_TRUE(child.ended_well());
}

TEST(ChildProcess, EndTextNamesTheSignal) {
  ChildProcess child = shell("echo up; exec sleep 1000");
  wait_for_output(child);
  EXPECT_EQ(child.end_text(), "");
  child.signal(SIGKILL);
  lines_until_end(child);
  EXPECT_EQ(child.end_text(), "signal 9 (Killed)");
}

TEST(ChildProcess, ReportsAMissingProgram) {
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

/// A pipe whose reading end sees end-of-file when the last process with the writing end has ended.
class EndWatch {
 public:
  EndWatch() { EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0); }
  ~EndWatch() {
    close(ends_[0]);
    close_writing_end();
  }
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

  [[nodiscard]] int writing_end() const { return ends_[1]; }
  void close_writing_end() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  /// Returns false if a process still has the writing end after a minute.
  bool all_gone() {
    close_writing_end();
    pollfd file{ends_[0], POLLIN, 0};
    char byte = 0;
    return poll(&file, 1, 60'000) == 1 && read(ends_[0], &byte, 1) == 0;
  }

 private:
  std::array<int, 2> ends_{};
};

TEST(ChildProcess, DestructorKillsTheChild) {
  EndWatch watch;
  { const ChildProcess child = shell("exec sleep 1000", {watch.writing_end()}); }
  EXPECT_TRUE(watch.all_gone());
}

TEST(ChildProcess, ChildDiesWithItsParent) {
  EndWatch watch;
  const pid_t middle = fork();
  if (middle == 0) {
    ChildProcess child = shell("echo up; exec sleep 1000", {watch.writing_end()});
    wait_for_output(child);
    _exit(0);  // No destructor runs, as after a crash.
  }
  EXPECT_EQ(waitpid(middle, nullptr, 0), middle);
  EXPECT_TRUE(watch.all_gone());
}

}  // namespace
}  // namespace tributary
