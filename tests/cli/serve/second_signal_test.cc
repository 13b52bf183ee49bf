// SPDX-License-Identifier: Apache-2.0
// Method: sends signals to a child process whose core never answers, answers, or answers late.
#include "cli/serve/second_signal.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <utility>

namespace tributary::cli {
namespace {

/// Sends `count` signals to this process while it waits for its cores. Exits with 7 if it lives on.
void signal_often(uint32_t count, SecondSignal::LateCore late_core) {
  SecondSignal::block();
  const SecondSignal second("title", "planted", std::move(late_core));
  SecondSignal::unblock();
  for (uint32_t i = 0; i < count; i++) std::raise(i % 2 == 0 ? SIGTERM : SIGINT);
  std::_Exit(SecondSignal::has_come() ? 7 : 8);
}

TEST(SecondSignalDeathTest, TheFirstIsOnlyRecorded) {
  EXPECT_EXIT(signal_often(1, [] { return 3; }), ::testing::ExitedWithCode(7), "");
  EXPECT_EXIT(signal_often(0, [] { return 3; }), ::testing::ExitedWithCode(8), "");
}

TEST(SecondSignalDeathTest, TheSecondEndsAProcessWithALateCore) {
  EXPECT_EXIT(signal_often(2, [] { return 30; }), ::testing::ExitedWithCode(1),
              "title: ended by a second signal: core 30 does not return from program 'planted'");
}

TEST(SecondSignalDeathTest, HealthyCoresGetTimeToAnswer) {
  EXPECT_EXIT(signal_often(3, [] { return std::nullopt; }), ::testing::ExitedWithCode(7), "");
  uint32_t asked = 0;
  const auto late_twice = [&asked]() -> std::optional<uint32_t> {
    if (++asked > 2) return std::nullopt;
    return 0;
  };
  EXPECT_EXIT(signal_often(2, late_twice), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace tributary::cli
