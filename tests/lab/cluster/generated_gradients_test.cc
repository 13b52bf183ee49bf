// SPDX-License-Identifier: Apache-2.0
// Method: sums over known and over unknown sources, then with a wrong element.
#include "lab/cluster/generated_gradients.h"

#include <gtest/gtest.h>

#include <vector>

namespace tributary::lab {
namespace {

constexpr uint32_t kIteration = 3;
constexpr uint32_t kBucket = 1;
constexpr uint32_t kWorkers = 5;

std::vector<int32_t> sums_of(const std::vector<uint32_t>& ranks) {
  std::vector<int32_t> sums(100);
  for (uint64_t i = 0; i < sums.size(); i++) {
    for (const uint32_t rank : ranks) sums[i] += generated_gradient(rank, kIteration, kBucket, i);
  }
  return sums;
}

TEST(SumChecker, FindsEveryWrongElement) {
  const SumChecker checker(kIteration, kBucket, kWorkers);
  std::vector<int32_t> sums = sums_of({0, 1, 2, 3, 4});
  EXPECT_EQ(checker.wrong_sums(sums, 0, 100, all_of(kWorkers)), 0U);
  sums[17]++;
  sums[99]--;
  EXPECT_EQ(checker.wrong_sums(sums, 0, 100, all_of(kWorkers)), 2U);
  EXPECT_EQ(checker.wrong_sums(sums, 18, 99, all_of(kWorkers)), 0U);
  EXPECT_EQ(checker.wrong_sums(sums, 0, 100, host::SourceSet{0b10111}), 100U);
}

TEST(SumChecker, ChecksSumsOfAGivenNumberOfSources) {
  const SumChecker checker(kIteration, kBucket, kWorkers);
  std::vector<int32_t> sums = sums_of({1, 2, 4});
  EXPECT_EQ(checker.wrong_sums_of_some(sums, 0, 100, 3), 0U);
  EXPECT_EQ(checker.wrong_sums_of_some(sums, 0, 100, 2), 100U);
  EXPECT_EQ(checker.wrong_sums_of_some(sums, 0, 100, 5), 100U);
  sums[50]++;
  EXPECT_EQ(checker.wrong_sums_of_some(sums, 0, 100, 3), 1U);
  // All elements must have the same sources.
  const std::vector<int32_t> others = sums_of({0, 1, 4});
  std::copy(others.begin() + 60, others.end(), sums.begin() + 60);
  EXPECT_EQ(checker.wrong_sums_of_some(sums, 0, 100, 3), 41U);
  EXPECT_EQ(checker.wrong_sums_of_some(sums_of({3}), 0, 100, 1), 0U);
  EXPECT_EQ(checker.wrong_sums_of_some(sums_of({0, 1, 2, 3, 4}), 0, 100, 5), 0U);
}

}  // namespace
}  // namespace tributary::lab
