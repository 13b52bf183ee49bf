// SPDX-License-Identifier: Apache-2.0
// Method: an inner observer by hand; on no terminal, and on a pseudo-terminal until the line
//         appears.
#include "cli/lab/run_progress.h"

#include <gtest/gtest.h>

#include "tests/cli/pty.h"

namespace tributary::cli {
namespace {

struct Inner final : lab::RunObserver {
  Result<void> begin(const lab::RunInside&) override { return {}; }
  bool before_event(Instant next) override {
    last = next;
    return next < Instant(seconds(9));
  }
  Instant last;
};

TEST(RunProgress, LeavesTheRunAloneWithoutATerminal) {
  const io::FileDescriptor nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
  Inner inner;
  EXPECT_EQ(RunProgress(&inner, nowhere.get()).observer(), &inner);
  EXPECT_EQ(RunProgress(nullptr, nowhere.get()).observer(), nullptr);
}

TEST(RunProgress, ShowsTheVirtualTimeAndAsksTheInnerObserver) {
  Pty pty(80);
  Inner inner;
  RunProgress progress(&inner, pty.terminal.get());
  lab::RunObserver* const observer = progress.observer();
  ASSERT_EQ(observer, &progress);
  EXPECT_TRUE(observer->before_event(Instant(milliseconds(1500))));
  EXPECT_EQ(inner.last, Instant(milliseconds(1500)));
  EXPECT_TRUE(pty.wait_for(" s, at 1.500000 s of virtual time"));
  EXPECT_FALSE(observer->before_event(Instant(seconds(9))));
}

}  // namespace
}  // namespace tributary::cli
