// SPDX-License-Identifier: Apache-2.0
// Method: streams of results by hand, with windows that take a known time.
#include "host/nap_policy.h"

#include <gtest/gtest.h>

namespace tributary::host {
namespace {

constexpr uint32_t kWindow = 100;
constexpr Duration kNone{};

/// A stream that is far from its end, and that a thread reads ten times in each window.
class NapPolicys : public ::testing::Test {
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
    for (uint32_t i = 1; i < NapPolicy::kMeasured; i++) EXPECT_EQ(hear_window(time), kNone);
    return hear_window(time);
  }

  NapPolicy rule_;
  Instant now_;
  Duration timeout_;  ///< Mitigation timeout.
  Progress progress_{.submitted = 1'000'000};
};

TEST_F(NapPolicys, ANapTakesASixthOfTheTimeOfAWindow) {
  EXPECT_EQ(measure(milliseconds(18)), milliseconds(3));
  EXPECT_EQ(measure(milliseconds(12)), milliseconds(2));
}

TEST_F(NapPolicys, FastLinksHaveNone) {
  EXPECT_EQ(measure(milliseconds(4)), kNone);
  EXPECT_EQ(measure(NapPolicy::kMin * NapPolicy::kPerWindow), NapPolicy::kMin);
}

TEST_F(NapPolicys, SlowLinksHaveBoundedNaps) { EXPECT_EQ(measure(seconds(1)), NapPolicy::kMax); }

// A processor that is busy elsewhere makes some windows long.
TEST_F(NapPolicys, TheShortestWindowCounts) {
  begin();
  for (const int64_t time_ms : {12, 4, 12}) hear_window(milliseconds(time_ms));
  EXPECT_EQ(hear_window(milliseconds(12)), kNone);
}

TEST_F(NapPolicys, LaterWindowsChangeNothingUntilTheNextPause) {
  EXPECT_EQ(measure(milliseconds(12)), milliseconds(2));
  for (int i = 0; i < 20; i++) EXPECT_EQ(hear_window(milliseconds(18)), milliseconds(2));
  EXPECT_EQ(measure(milliseconds(18)), milliseconds(3));
}

TEST_F(NapPolicys, AStreamWithoutPausesIsMeasuredAgain) {
  EXPECT_EQ(measure(milliseconds(18)), milliseconds(3));
  for (uint32_t i = 0; i < NapPolicy::kMeasuredEvery + NapPolicy::kMeasured + 3; i++) {
    hear_window(milliseconds(1));
  }
  EXPECT_EQ(hear_window(milliseconds(1)), kNone);
}

TEST_F(NapPolicys, TheLastResultsDoNotWait) {
  EXPECT_EQ(measure(milliseconds(18)), milliseconds(3));
  progress_.submitted = progress_.heard + 2 * kWindow;
  EXPECT_EQ(rule_.next(progress_, kWindow, kNone, now_), milliseconds(3));
  progress_.heard++;
  EXPECT_EQ(rule_.next(progress_, kWindow, kNone, now_), kNone);
  progress_.heard = progress_.submitted + 50;  // The others have continued without this rank.
  EXPECT_EQ(rule_.next(progress_, kWindow, kNone, now_), kNone);
}

TEST_F(NapPolicys, NapsFitManyTimesIntoAStragglerTimeout) {
  timeout_ = milliseconds(16);
  EXPECT_EQ(measure(milliseconds(12)), milliseconds(2));
}

TEST_F(NapPolicys, NothingIsMeasuredBeforeTheJoin) {
  for (int i = 0; i < 10; i++) EXPECT_EQ(rule_.next({}, /*window=*/0, kNone, now_), kNone);
}

}  // namespace
}  // namespace tributary::host
