// SPDX-License-Identifier: Apache-2.0
// Method: streams of results by hand, with windows that take a known time.
#include "host/nap_rule.h"

#include <gtest/gtest.h>

namespace tributary::host {
namespace {

constexpr uint32_t kWindow = 100;
constexpr Duration kNone{};

/// A stream that is far from its end, and that a thread reads ten times in each window.
class NapRules : public ::testing::Test {
 protected:
  /// Lets a window of results come. @return the nap after it.
  Duration hear_window(Duration time) {
    Duration nap;
    for (int i = 0; i < 10; i++) {
      now_ = now_ + time / 10;
      progress_.heard += kWindow / 10;
      nap = rule_.next(progress_, kWindow, timeout_, now_);
    }
    return nap;
  }
  /// Lets the channel begin, with a first window that takes long.
  void begin() {
    rule_.begin();
    static_cast<void>(rule_.next(progress_, kWindow, timeout_, now_));
    EXPECT_EQ(hear_window(seconds(1)), kNone);
  }
  /// Begins, and lets the windows that are measured come. @return the nap.
  Duration measure(Duration time) {
    begin();
    for (uint32_t i = 1; i < NapRule::kMeasured; i++) EXPECT_EQ(hear_window(time), kNone);
    return hear_window(time);
  }

  NapRule rule_;
  Instant now_;
  Duration timeout_;  ///< Of mitigation.
  Progress progress_{.submitted = 1'000'000};
};

TEST_F(NapRules, ANapTakesASixthOfTheTimeOfAWindow) {
  EXPECT_EQ(measure(milliseconds(18)), milliseconds(3));
  EXPECT_EQ(measure(milliseconds(12)), milliseconds(2));
}

TEST_F(NapRules, FastLinksHaveNone) {
  EXPECT_EQ(measure(milliseconds(4)), kNone);
  EXPECT_EQ(measure(NapRule::kMin * NapRule::kPerWindow), NapRule::kMin);
}

TEST_F(NapRules, SlowLinksHaveBoundedNaps) { EXPECT_EQ(measure(seconds(1)), NapRule::kMax); }

// A processor that is busy elsewhere makes some windows long.
TEST_F(NapRules, TheShortestWindowCounts) {
  begin();
  for (const int64_t time_ms : {12, 4, 12}) hear_window(milliseconds(time_ms));
  EXPECT_EQ(hear_window(milliseconds(12)), kNone);
}

TEST_F(NapRules, LaterWindowsChangeNothingUntilTheNextPause) {
  EXPECT_EQ(measure(milliseconds(12)), milliseconds(2));
  for (int i = 0; i < 20; i++) EXPECT_EQ(hear_window(milliseconds(18)), milliseconds(2));
  EXPECT_EQ(measure(milliseconds(18)), milliseconds(3));
}

TEST_F(NapRules, AStreamWithoutPausesIsMeasuredAgain) {
  EXPECT_EQ(measure(milliseconds(18)), milliseconds(3));
  for (uint32_t i = 0; i < NapRule::kMeasuredEvery + NapRule::kMeasured + 3; i++) {
    hear_window(milliseconds(1));
  }
  EXPECT_EQ(hear_window(milliseconds(1)), kNone);
}

TEST_F(NapRules, TheLastResultsDoNotWait) {
  EXPECT_EQ(measure(milliseconds(18)), milliseconds(3));
  progress_.submitted = progress_.heard + 2 * kWindow;
  EXPECT_EQ(rule_.next(progress_, kWindow, kNone, now_), milliseconds(3));
  progress_.heard++;
  EXPECT_EQ(rule_.next(progress_, kWindow, kNone, now_), kNone);
  progress_.heard = progress_.submitted + 50;  // The others have continued without this rank.
  EXPECT_EQ(rule_.next(progress_, kWindow, kNone, now_), kNone);
}

TEST_F(NapRules, NapsFitManyTimesIntoAStragglerTimeout) {
  timeout_ = milliseconds(16);
  EXPECT_EQ(measure(milliseconds(12)), milliseconds(2));
}

TEST_F(NapRules, NothingIsMeasuredBeforeTheJoin) {
  for (int i = 0; i < 10; i++) EXPECT_EQ(rule_.next({}, /*window=*/0, kNone, now_), kNone);
}

}  // namespace
}  // namespace tributary::host
