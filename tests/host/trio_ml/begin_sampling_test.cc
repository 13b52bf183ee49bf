// SPDX-License-Identifier: Apache-2.0
// Method: all-reduces at hand-picked times, and the numbers that are reported.
#include "host/trio_ml/begin_sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tributary::host {
namespace {

using ::testing::ElementsAre;

/// Returns the numbers that are reported of `count` all-reduces, `gap` apart.
std::vector<uint32_t> taken(BeginSampling& sampling, uint32_t count, Duration gap) {
  std::vector<uint32_t> numbers;
  for (uint32_t number = 1; number <= count; number++) {
    if (sampling.take(number, Instant() + gap * number)) numbers.push_back(number);
  }
  return numbers;
}

TEST(BeginSamplingTest, SlowAllReducesAreAllReported) {
  BeginSampling sampling;
  EXPECT_THAT(taken(sampling, 4, BeginSampling::kGapMin), ElementsAre(1, 2, 3, 4));
}

// 2 comes 150 ms after 1: stride 2. The other gaps are 300 ms and more.
TEST(BeginSamplingTest, FastOnesAreReportedByStrides) {
  BeginSampling sampling;
  EXPECT_THAT(taken(sampling, 9, milliseconds(150)), ElementsAre(1, 4, 6, 8));
  BeginSampling fast;
  // 2 raises the stride to 2, 4 (30 ms after 1) to 4, 8 to 8, 16 to 16; 32 is 310 ms after 1.
  EXPECT_THAT(taken(fast, 64, milliseconds(10)), ElementsAre(1, 32, 64));
}

TEST(BeginSamplingTest, StrideFallsWhenReportsAreRare) {
  BeginSampling sampling;
  EXPECT_TRUE(sampling.take(1, Instant()));
  EXPECT_FALSE(sampling.take(2, Instant() + milliseconds(10)));
  EXPECT_FALSE(sampling.take(3, Instant() + seconds(1)));
  EXPECT_TRUE(sampling.take(4, Instant() + seconds(2)));
  EXPECT_TRUE(sampling.take(5, Instant() + seconds(3)));
}

TEST(BeginSamplingTest, StrideHalvesAfterFourGapsAndStopsAtOne) {
  BeginSampling sampling;
  EXPECT_TRUE(sampling.take(1, Instant()));
  EXPECT_FALSE(sampling.take(2, Instant() + milliseconds(10)));  // Stride 2.
  EXPECT_FALSE(sampling.take(4, Instant() + milliseconds(20)));  // Stride 4.
  EXPECT_TRUE(sampling.take(8, Instant() + milliseconds(799)));  // Less than 4 x 200 ms: still 4.
  EXPECT_FALSE(sampling.take(10, Instant() + seconds(2)));
  EXPECT_TRUE(sampling.take(12, Instant() + milliseconds(1599)));  // 800 ms: stride 2.
  EXPECT_FALSE(sampling.take(13, Instant() + seconds(3)));
  EXPECT_TRUE(sampling.take(14, Instant() + seconds(3)));  // Stride 1.
  for (uint32_t i = 0; i < 3; i++) EXPECT_TRUE(sampling.take(15 + i, Instant() + seconds(4 + i)));
}

TEST(BeginSamplingTest, StrideHasALimit) {
  constexpr uint32_t kFast = 1 << 18;
  BeginSampling sampling;
  EXPECT_TRUE(sampling.take(1, Instant()));
  for (uint32_t number = 2; number <= kFast; number++) {
    EXPECT_FALSE(sampling.take(number, Instant() + milliseconds(10)));
  }
  EXPECT_FALSE(sampling.take(kFast + (1 << 15), Instant() + seconds(1)));
  EXPECT_TRUE(sampling.take(kFast + (1 << 16), Instant() + seconds(1)));
}

// Ranks with any two strides have the numbers of the larger one in common.
TEST(BeginSamplingTest, StridesArePowersOfTwo) {
  BeginSampling slower;
  BeginSampling faster;
  const auto some = taken(slower, 64, milliseconds(30));
  const auto more = taken(faster, 64, milliseconds(60));
  for (size_t i = 1; i < some.size(); i++) EXPECT_THAT(more, ::testing::Contains(some[i]));
  EXPECT_GT(some.size(), 4U);
  EXPECT_GT(more.size(), some.size());
}

}  // namespace
}  // namespace tributary::host
