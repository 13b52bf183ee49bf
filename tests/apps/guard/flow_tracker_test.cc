// SPDX-License-Identifier: Apache-2.0
// Method: each arrow of the drawing by hand, with windows of one second, then a random walk against
// a model that keeps all windows.
#include "apps/guard/flow_tracker.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/seed.h"

namespace tributary::guard {
namespace {

constexpr Terms kTerms{.pps = 10,
                       .window_min = milliseconds(500),
                       .detect_time = seconds(3),
                       .quiet_time = seconds(3),
                       .recover_time = seconds(10),
                       .timeout_time = nanoseconds(-1)};

Instant at(int64_t second) { return Instant() + seconds(second); }

/// A tracker that is judged once a second.
class Walk {
 public:
  explicit Walk(const Terms& terms = kTerms) : terms_(terms) { tracker.begin(at(0)); }
  Change second(uint32_t packets) {
    for (uint32_t i = 0; i < packets; i++) tracker.count();
    return tracker.judge(terms_, at(++now_));
  }
  FlowTracker tracker;

 private:
  Terms terms_;
  int64_t now_ = 0;
};

TEST(FlowTracker, DetectsAfterTheDetectTime) {
  Walk walk;
  EXPECT_EQ(walk.second(10), Change::kNone);  // At its bandwidth, not above.
  EXPECT_EQ(walk.tracker.phase(), Phase::kNormal);
  EXPECT_EQ(walk.second(11), Change::kNone);
  EXPECT_EQ(walk.tracker.phase(), Phase::kSuspicious);
  EXPECT_EQ(walk.tracker.above_since(), at(1));
  EXPECT_EQ(walk.second(20), Change::kNone);
  EXPECT_EQ(walk.second(11), Change::kDetected);  // Above from 1 s to 4 s.
  EXPECT_TRUE(walk.tracker.is_culprit());
  EXPECT_EQ(walk.tracker.pps_max(), 20U);
}

TEST(FlowTracker, SuspectsNobodyBeforeItMay) {
  Terms terms = kTerms;
  terms.may_suspect = false;
  FlowTracker tracker;
  tracker.begin(at(0));
  auto second = [&, now = int64_t{0}]() mutable {
    for (uint32_t i = 0; i < 20; i++) tracker.count();
    return tracker.judge(terms, at(++now));
  };
  for (int i = 0; i < 10; i++) EXPECT_EQ(second(), Change::kNone);
  EXPECT_EQ(tracker.phase(), Phase::kNormal);
  terms.may_suspect = true;
  EXPECT_EQ(second(), Change::kNone);
  EXPECT_EQ(tracker.above_since(), at(10));
  terms.may_suspect = false;  // A suspicion goes on.
  EXPECT_EQ(second(), Change::kNone);
  EXPECT_EQ(second(), Change::kDetected);
}

TEST(FlowTracker, AForgivenFlowBeginsAnew) {
  Walk walk;
  for (int i = 0; i < 2; i++) EXPECT_EQ(walk.second(20), Change::kNone);
  walk.tracker.forgive(at(2));
  EXPECT_EQ(walk.tracker.phase(), Phase::kNormal);
  for (int i = 0; i < 2; i++) EXPECT_EQ(walk.second(20), Change::kNone);
  EXPECT_EQ(walk.second(20), Change::kDetected);
  walk.tracker.forgive(at(5));
  EXPECT_TRUE(walk.tracker.is_culprit());
}

TEST(FlowTracker, ForgetsASuspicionAfterTheQuietTime) {
  Walk walk;
  EXPECT_EQ(walk.second(11), Change::kNone);
  for (int i = 0; i < 3; i++) EXPECT_EQ(walk.second(0), Change::kNone);
  EXPECT_EQ(walk.tracker.phase(), Phase::kSuspicious);  // Quiet for 3 s, not longer.
  EXPECT_EQ(walk.second(0), Change::kNone);
  EXPECT_EQ(walk.tracker.phase(), Phase::kNormal);
}

TEST(FlowTracker, DetectsPulses) {
  Walk walk;
  EXPECT_EQ(walk.second(100), Change::kNone);
  EXPECT_EQ(walk.second(0), Change::kNone);
  EXPECT_EQ(walk.second(0), Change::kNone);
  EXPECT_EQ(walk.second(100), Change::kDetected);
}

// A limit of the guard (apps/guard/README.md): pulses of 2.5 s with pauses of 3.5 s, at the default
// detect time of 3 s and timer period of 250 ms. Pauses of 2.5 s do not hide them.
TEST(FlowTracker, PulsesWithPausesAboveTheQuietTimeEscape) {
  for (const uint32_t pause : {14U, 10U}) {
    Terms terms = kTerms;
    terms.window_min = milliseconds(125);
    FlowTracker tracker;
    tracker.begin(at(0));
    uint32_t detected = 0;
    for (uint32_t window = 0; window < 240; window++) {  // A minute.
      const bool on = window % (10 + pause) < 10;
      for (uint32_t i = 0; on && i < 1'000; i++) tracker.count();
      const Instant now = at(0) + milliseconds(250) * (window + 1);
      detected += tracker.judge(terms, now) == Change::kDetected ? 1 : 0;
    }
    EXPECT_EQ(detected, pause == 14 ? 0U : 1U) << pause;
  }
}

TEST(FlowTracker, RecoversBelowItsBandwidth) {
  Walk walk;
  for (int i = 0; i < 3; i++) static_cast<void>(walk.second(50));
  ASSERT_TRUE(walk.tracker.is_culprit());
  for (int i = 0; i < 9; i++) EXPECT_EQ(walk.second(10), Change::kNone);
  EXPECT_EQ(walk.second(50), Change::kNone);  // Begins anew.
  for (int i = 0; i < 9; i++) EXPECT_EQ(walk.second(10), Change::kNone);
  EXPECT_EQ(walk.second(10), Change::kRecovered);
  EXPECT_EQ(walk.tracker.phase(), Phase::kNormal);
  EXPECT_EQ(walk.second(11), Change::kNone);
}

TEST(FlowTracker, TimesOutWhileAbove) {
  Terms terms = kTerms;
  terms.timeout_time = seconds(5);
  Walk walk(terms);
  for (int i = 0; i < 2; i++) EXPECT_EQ(walk.second(50), Change::kNone);
  EXPECT_EQ(walk.second(50), Change::kDetected);
  for (int i = 0; i < 4; i++) EXPECT_EQ(walk.second(50), Change::kNone);
  EXPECT_EQ(walk.second(50), Change::kTimedOut);
}

TEST(FlowTracker, ExplainedPacketsDoNotCount) {
  Walk walk;
  walk.tracker.explain();  // Nothing to take back.
  for (int i = 0; i < 20; i++) walk.tracker.count();
  for (int i = 0; i < 10; i++) walk.tracker.explain();
  EXPECT_EQ(walk.second(0), Change::kNone);
  EXPECT_EQ(walk.tracker.phase(), Phase::kNormal);
}

TEST(FlowTracker, AShortWindowGoesOn) {
  FlowTracker tracker;
  tracker.begin(at(0));
  tracker.count();
  // One packet in a microsecond is no rate of a million.
  EXPECT_EQ(tracker.judge(kTerms, at(0) + microseconds(1)), Change::kNone);
  EXPECT_EQ(tracker.phase(), Phase::kNormal);
  for (int i = 0; i < 10; i++) tracker.count();
  EXPECT_EQ(tracker.judge(kTerms, at(1)), Change::kNone);
  EXPECT_EQ(tracker.phase(), Phase::kSuspicious);  // Eleven packets in a second.
}

TEST(FlowTracker, AnEmptyOrBackwardWindowDecidesNothing) {
  FlowTracker tracker;
  tracker.begin(at(5));
  for (int i = 0; i < 1000; i++) tracker.count();
  EXPECT_EQ(tracker.judge(kTerms, at(5)), Change::kNone);
  EXPECT_EQ(tracker.judge(kTerms, at(4)), Change::kNone);
  EXPECT_EQ(tracker.phase(), Phase::kNormal);
}

TEST(FlowTracker, RandomWalkMatchesModel) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  Walk walk;
  std::vector<bool> above;  // Of each second since the last return to normal.
  bool culprit = false;
  for (int step = 0; step < 20'000; step++) {
    const bool loud = prng.chance(prng.chance(0.5) ? 0.1 : 0.6);
    const Change change = walk.second(loud ? 11 + prng.below(5) : prng.below(11));
    if (loud || !above.empty()) above.push_back(loud);
    uint32_t quiet = 0;
    while (quiet < above.size() && !above[above.size() - 1 - quiet]) quiet++;
    Change expected = Change::kNone;
    if (culprit && quiet >= 10) expected = Change::kRecovered;
    if (!culprit && loud && above.size() >= 3) expected = Change::kDetected;
    if (expected == Change::kDetected) culprit = true;
    if (expected == Change::kRecovered || (!culprit && quiet > 3)) {
      culprit = false;
      above.clear();
    }
    ASSERT_EQ(change, expected) << "step " << step;
    ASSERT_EQ(walk.tracker.is_culprit(), culprit) << "step " << step;
  }
}

}  // namespace
}  // namespace tributary::guard
