// SPDX-License-Identifier: Apache-2.0
// Method: the first samples by hand, then the estimator's main property: a minority of slow samples
// does not move it.
#include "host/trio_ml/rtt_estimator.h"

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace tributary::host {
namespace {

TEST(RttEstimator, EstimatesMatchHandWorkedValues) {
  RttEstimator rtt;
  EXPECT_EQ(rtt.timeout(seconds(1)), milliseconds(20));  // Before any sample.
  rtt.sample(milliseconds(16));
  EXPECT_EQ(rtt.median(), milliseconds(16));
  EXPECT_EQ(rtt.timeout(seconds(1)), milliseconds(32));
  rtt.sample(milliseconds(30));  // One sixteenth up, whatever the sample.
  EXPECT_EQ(rtt.median(), milliseconds(17));
  rtt.sample(microseconds(100));  // One sixteenth down.
  EXPECT_EQ(rtt.median(), microseconds(17'000) - microseconds(17'000) / 16);
}

TEST(RttEstimator, EstimateNeverPassesTheSample) {
  RttEstimator rtt;
  rtt.sample(milliseconds(16));
  rtt.sample(microseconds(16'500));  // A whole step would be 1 ms.
  EXPECT_EQ(rtt.median(), microseconds(16'500));
}

TEST(RttEstimator, TimeOutsAreBounded) {
  RttEstimator rtt;
  rtt.sample(microseconds(50));
  EXPECT_EQ(rtt.timeout(seconds(1)), RttEstimator::kMin);
  EXPECT_EQ(rtt.timeout(milliseconds(1)), milliseconds(1));  // The caller's bound is lower.
  for (int i = 0; i < 200; i++) rtt.sample(seconds(1));
  EXPECT_EQ(rtt.timeout(seconds(1)), RttEstimator::kMax);
}

TEST(RttEstimator, IgnoresAQuarterOfSlowAnswers) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  RttEstimator rtt;
  for (uint32_t i = 0; i < 10'000; i++) {
    const bool repaired = prng.chance(0.25);
    rtt.sample(repaired ? milliseconds(50) : microseconds(4000 + prng.below(200)));
    if (i < 100) continue;  // The first samples may have been slow ones.
    ASSERT_LT(rtt.median(), milliseconds(25)) << "sample " << i;
    ASSERT_GE(rtt.median(), microseconds(3750)) << "sample " << i;
  }
}

}  // namespace
}  // namespace tributary::host
