// SPDX-License-Identifier: Apache-2.0
// Method: logarithm and exponential against the library's; a table of three ranks by hand; the
// frequencies of many draws against their expectation, within five standard deviations.
#include "traffic/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::traffic {
namespace {

TEST(Sampling, LogarithmMatchesTheLibrary) {
  for (const double x : {1e-300, 1e-16, 0.5, 0.7071067811865475, 0.999999, 1.0, 1.000001, 1.5, 2.0,
                         10.0, 1e7, 1e300}) {
    EXPECT_NEAR(natural_log(x), std::log(x), 1e-12 + 1e-15 * std::abs(std::log(x))) << x;
  }
  EXPECT_EQ(natural_log(1.0), 0.0);
}

TEST(Sampling, ExponentialMatchesTheLibrary) {
  for (const double x : {-700.0, -80.6, -1.0, -1e-9, 0.0, 0.3, 0.35, 1.0, 20.0, 700.0}) {
    EXPECT_NEAR(exponential(x) / std::exp(x), 1.0, 1e-12) << x;
  }
}

TEST(Sampling, RandomValuesMatchTheLibrary) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (int i = 0; i < 100'000; i++) {
    const double x = prng.unit() + 1e-17;
    ASSERT_NEAR(natural_log(x), std::log(x), 1e-12) << x;
    ASSERT_NEAR(exponential(natural_log(x)) / x, 1.0, 1e-12) << x;
  }
}

TEST(Sampling, GapsHaveTheMeanAndTheSpreadOfAPoissonProcess) {
  Prng prng(7);
  constexpr int kDraws = 200'000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; i++) {
    const double gap = in_seconds(poisson_gap(prng, 1000.0));
    ASSERT_GE(gap, 0.0);
    sum += gap;
    squares += gap * gap;
  }
  const double mean = sum / kDraws;
  // Mean and standard deviation are both 1 ms; the mean of 200,000 draws lies within 5 * 1/447 ms.
  EXPECT_NEAR(mean, 1e-3, 5e-3 / std::sqrt(kDraws));
  EXPECT_NEAR(std::sqrt(squares / kDraws - mean * mean), 1e-3, 2e-5);
}

TEST(Sampling, OneRankIsAlwaysDrawn) {
  const ZipfTable table(1, 1.1);
  Prng prng(1);
  for (int i = 0; i < 100; i++) EXPECT_EQ(table.draw(prng), 0U);
}

TEST(Sampling, ThreeRanksByHand) {
  // Exponent 1: shares 6/11, 3/11, 2/11. Exponent 0: a third each.
  const std::vector<std::pair<double, std::vector<double>>> cases{
      {1.0, {6.0 / 11, 3.0 / 11, 2.0 / 11}}, {0.0, {1.0 / 3, 1.0 / 3, 1.0 / 3}}};
  constexpr int kDraws = 110'000;
  for (const auto& [exponent, shares] : cases) {
    const ZipfTable table(3, exponent);
    Prng prng(3);
    std::vector<int> count(3);
    for (int i = 0; i < kDraws; i++) count[table.draw(prng)]++;
    for (uint32_t rank = 0; rank < 3; rank++) {
      const double deviation = std::sqrt(kDraws * shares[rank] * (1 - shares[rank]));
      EXPECT_NEAR(count[rank], kDraws * shares[rank], 5 * deviation) << exponent << " " << rank;
    }
  }
}

TEST(Sampling, FrequenciesFollowZipf) {
  constexpr uint32_t kRanks = 10'000;
  constexpr int kDraws = 1'000'000;
  for (const double exponent : {0.9, 1.1, 1.3}) {
    const ZipfTable table(kRanks, exponent);
    double total = 0;
    for (uint32_t rank = 0; rank < kRanks; rank++) total += std::pow(rank + 1.0, -exponent);
    Prng prng(11);
    std::vector<int> count(kRanks);
    for (int i = 0; i < kDraws; i++) count[table.draw(prng)]++;
    for (const uint32_t rank : {0U, 1U, 2U, 9U, 99U, 999U}) {
      const double share = std::pow(rank + 1.0, -exponent) / total;
      EXPECT_NEAR(count[rank], kDraws * share, 5 * std::sqrt(kDraws * share)) << exponent;
    }
  }
}

}  // namespace
}  // namespace tributary::traffic
