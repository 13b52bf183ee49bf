// SPDX-License-Identifier: Apache-2.0
// Method: weights by hand, then random shares, which must come back within the error that the
//         header promises.
#include "plan/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "plan/byteps_equations.h"
#include "tests/support/seed.h"

namespace tributary::plan {
namespace {

using ::testing::ElementsAre;
using Shares = std::vector<double>;

TEST(Weights, SimpleSharesGetSmallWeights) {
  EXPECT_THAT(weights_of(Shares{1}), ElementsAre(1));
  EXPECT_THAT(weights_of(Shares{0.25, 0.25, 0.25, 0.25}), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(weights_of(Shares{0.3, 0.1, 0.6}), ElementsAre(3, 1, 6));
  EXPECT_THAT(weights_of(Shares{0, 1, 0}), ElementsAre(0, 1, 0));
  // Equations 1 and 2 for four workers and one spare machine: 6/18 and 3/18.
  const double worker = byteps_worker_share(4, 1);
  EXPECT_THAT(weights_of(Shares{worker, worker, worker, worker, byteps_spare_share(4, 1)}),
              ElementsAre(1, 1, 1, 1, 2));
}

TEST(Weights, TinySharesGetNothing) {
  EXPECT_THAT(weights_of(Shares{0.99995, 0.00005}), ElementsAre(1, 0));
  EXPECT_THAT(weights_of(Shares{0.9, 0.1 - 1e-6, 1e-6}), ElementsAre(9, 1, 0));
}

TEST(Weights, UnequalSharesUseALargeSum) {
  // No sum below 10,000 comes close to both.
  EXPECT_THAT(shares_of(weights_of(Shares{0.70711, 0.29289})),
              ElementsAre(::testing::DoubleNear(0.70711, kShareErrorMax),
                          ::testing::DoubleNear(0.29289, kShareErrorMax)));
}

TEST(Weights, RangesLimitTheRounding) {
  // Sum 5 is the first whose largest weights, 3, 2 and 0, reach it.
  EXPECT_THAT(weights_within(Shares{0.6, 0.39, 0.01},
                             std::vector<ShareRange>{{0, 0.61}, {0, 0.41}, {0, 0.012}}),
              ::testing::Optional(ElementsAre(3, 2, 0)));
  // 66 / 67 = 0.98507; with a smaller sum, one less than it is below the least share.
  EXPECT_THAT(weights_within(Shares{0.99, 0.01}, std::vector<ShareRange>{{0.985, 0.995}, {0, 1}}),
              ::testing::Optional(ElementsAre(66, 1)));
  EXPECT_FALSE(weights_within(Shares{0.5, 0.5}, std::vector<ShareRange>{{0, 0.5}, {0, 0.4999}}));
}

TEST(Weights, SharesOfWeights) {
  EXPECT_THAT(shares_of(std::vector<uint32_t>{1, 0, 3}), ElementsAre(0.25, 0, 0.75));
}

TEST(Weights, RandomSharesComeBack) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t step = 0; step < 300; step++) {
    Shares shares(1 + prng.below(32));
    for (double& share : shares) share = prng.chance(0.2) ? 0 : prng.unit();
    shares[0] += 0.01;
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) share /= sum;

    const auto weights = weights_of(shares);
    ASSERT_LE(std::accumulate(weights.begin(), weights.end(), 0U), kWeightSumMax);
    const auto back = shares_of(weights);
    for (size_t i = 0; i < shares.size(); i++) {
      ASSERT_NEAR(back[i], shares[i], kShareErrorMax * 1.000001) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace tributary::plan
