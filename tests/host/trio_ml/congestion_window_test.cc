// SPDX-License-Identifier: Apache-2.0
// Method: windows by hand: growth below and above the threshold, cuts by marks and losses, alpha.
// Then a closed loop against a queue, from several starts.
#include "host/trio_ml/congestion_window.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tributary::host {
namespace {

void take(CongestionWindow& window, uint32_t results, bool marked) {
  for (uint32_t i = 0; i < results; i++) window.on_result(marked);
}

TEST(CongestionWindow, DoublesInEachRoundUpToItsLimit) {
  CongestionWindow window(CongestionControl::kAimd, 4, 20);
  take(window, 4, false);
  EXPECT_EQ(window.packets(), 8U);
  take(window, 8, false);
  EXPECT_EQ(window.packets(), 16U);
  take(window, 16, false);
  EXPECT_EQ(window.packets(), 20U);
}

TEST(CongestionWindow, MarkHalvesItOnceInARound) {
  CongestionWindow window(CongestionControl::kAimd, 64, 64);
  take(window, 40, true);
  EXPECT_EQ(window.packets(), 32U);
  take(window, 24, false);  // The rest of the round of 64.
  EXPECT_EQ(window.packets(), 32U);
  take(window, 1, true);
  EXPECT_EQ(window.packets(), 16U);
}

TEST(CongestionWindow, GrowsByOnePacketInARoundAboveTheThreshold) {
  CongestionWindow window(CongestionControl::kAimd, 16, 100);
  take(window, 16, true);
  ASSERT_EQ(window.packets(), 8U);
  // Eight results at 1/8 and less: a little under 9.
  take(window, 8, false);
  EXPECT_EQ(window.packets(), 8U);
  take(window, 1, false);
  EXPECT_EQ(window.packets(), 9U);
}

TEST(CongestionWindow, LossHalvesEither) {
  for (const auto control : {CongestionControl::kAimd, CongestionControl::kDctcp}) {
    CongestionWindow window(control, 10, 10);
    window.on_loss();
    window.on_loss();
    EXPECT_EQ(window.packets(), 5U);
  }
}

TEST(CongestionWindow, NeverFallsBelowOnePacket) {
  CongestionWindow window(CongestionControl::kAimd, 3, 8);
  take(window, 20, true);
  EXPECT_EQ(window.packets(), 1U);
}

TEST(CongestionWindow, DctcpCutsByTheShareOfMarks) {
  CongestionWindow window(CongestionControl::kDctcp, 100, 100);
  EXPECT_EQ(window.alpha(), 1);
  // Rounds without a mark: alpha becomes 15/16 of itself in each.
  take(window, 100, false);
  EXPECT_DOUBLE_EQ(window.alpha(), 15.0 / 16);
  take(window, 100, false);
  EXPECT_DOUBLE_EQ(window.alpha(), 15.0 / 16 * 15 / 16);
  for (int round = 0; round < 60; round++) take(window, 100, false);
  const double alpha = window.alpha();
  EXPECT_LT(alpha, 0.02);
  // A round with one mark in four: one cut by alpha/2, and alpha moves by 1/16 of the way to 1/4.
  take(window, 75, false);
  take(window, 25, true);
  EXPECT_DOUBLE_EQ(window.alpha(), alpha * 15 / 16 + 0.25 / 16);
  EXPECT_EQ(window.packets(), static_cast<uint32_t>(100 * (1 - alpha / 2)));
}

/// A link that keeps `room` packets in flight without a queue, and marks packets that find more
/// than `mark` of them waiting. Returns the mean of the window in the second half.
double closed_loop(CongestionControl control, uint32_t start, uint32_t room, uint32_t mark) {
  CongestionWindow window(control, start, 4096);
  double sum = 0;
  constexpr uint32_t kRounds = 2000;
  for (uint32_t round = 0; round < kRounds; round++) {
    const uint32_t flying = window.packets();
    const uint32_t queued = flying - std::min(flying, room);
    for (uint32_t i = 0; i < flying; i++) window.on_result(queued > mark);
    if (round >= kRounds / 2) sum += flying;
  }
  return sum / (kRounds / 2);
}

TEST(CongestionWindow, SettlesAtTheLinkFromAnyStart) {
  for (const uint32_t start : {1U, 50U, 4096U}) {
    const double aimd = closed_loop(CongestionControl::kAimd, start, 100, 20);
    EXPECT_GT(aimd, 80) << start;
    EXPECT_LT(aimd, 122) << start;
    // A smaller cut: the queue is never empty.
    const double dctcp = closed_loop(CongestionControl::kDctcp, start, 100, 20);
    EXPECT_GT(dctcp, 100) << start;
    EXPECT_LT(dctcp, 122) << start;
  }
}

}  // namespace
}  // namespace tributary::host
