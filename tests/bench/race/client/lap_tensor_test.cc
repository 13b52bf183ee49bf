// SPDX-License-Identifier: Apache-2.0
// Method:  adds the contributions of all ranks, in both orders. Then produces each kind of wrong
//          sum.
#include "bench/race/client/lap_tensor.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace tributary::race {
namespace {

constexpr uint32_t kWorkers = 5;
constexpr uint32_t kReduction = 3;

std::vector<float> summed(uint32_t workers, bool backwards = false) {
  std::vector<float> sum(1000);
  std::vector<float> one(sum.size());
  for (uint32_t i = 0; i < workers; i++) {
    fill(one, backwards ? workers - 1 - i : i, kReduction);
    for (size_t j = 0; j < sum.size(); j++) sum[j] += one[j];
  }
  return sum;
}

TEST(LapTensor, SumsAreTheSameBitsInAnyOrder) {
  for (const uint32_t workers : {1U, 2U, kWorkers, kWorkersMax}) {
    EXPECT_EQ(count_wrong(summed(workers), workers, kReduction, {}), 0U) << workers;
    EXPECT_EQ(count_wrong(summed(workers, true), workers, kReduction, {}), 0U) << workers;
  }
}

TEST(LapTensor, ValuesAreWholeAtTheFixedScaleAndSumsFitAnInt32) {
  const std::vector<float> sum = summed(kWorkersMax);
  for (const float value : sum) {
    const double scaled = static_cast<double>(value) * static_cast<double>(kFixedScale);
    EXPECT_EQ(scaled, static_cast<double>(static_cast<int32_t>(scaled)));
  }
}

TEST(LapTensor, DetectsMissingDoubledAndForeignValues) {
  const std::vector<float> right = summed(kWorkers);
  std::vector<float> rank(right.size());
  fill(rank, 1, kReduction);
  std::vector<float> tensor = right;
  tensor[7] -= rank[7];
  tensor[8] += rank[8];
  std::swap(tensor[20], tensor[21]);
  EXPECT_EQ(count_wrong(tensor, kWorkers, kReduction, {}), 4U);
  // With another reduction's values, few patterns agree.
  EXPECT_GT(count_wrong(right, kWorkers, kReduction + 1, {}), 990U);
}

TEST(LapTensor, PartialSumsAreCheckedAgainstTheirWeight) {
  std::vector<float> tensor = summed(kWorkers);
  const std::vector<float> part = summed(2);  // Ranks 0 and 1: weight 1 + 2.
  std::copy(part.begin() + 100, part.begin() + 150, tensor.begin() + 100);
  const std::array<PartialSum, 1> named{PartialSum{100, 50, 3}};
  EXPECT_EQ(count_wrong(tensor, kWorkers, kReduction, named), 0U);
  EXPECT_GT(count_wrong(tensor, kWorkers, kReduction, {}), 45U);
  const std::array<PartialSum, 1> other_weight{PartialSum{100, 50, 4}};
  EXPECT_GT(count_wrong(tensor, kWorkers, kReduction, other_weight), 45U);
}

TEST(LapTensor, InvalidPartialSumsMakeEveryElementWrong) {
  const std::vector<float> tensor = summed(kWorkers);
  const std::array<PartialSum, 1> outside{PartialSum{990, 11, 15}};
  const std::array<PartialSum, 2> overlapping{PartialSum{10, 10, 15}, PartialSum{19, 1, 15}};
  EXPECT_EQ(count_wrong(tensor, kWorkers, kReduction, outside), tensor.size());
  EXPECT_EQ(count_wrong(tensor, kWorkers, kReduction, overlapping), tensor.size());
}

}  // namespace
}  // namespace tributary::race
