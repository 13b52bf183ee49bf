// SPDX-License-Identifier: Apache-2.0
// Method: cuts by hand, then random sequences of tensors: whole blocks that cover each tensor, the
//         promised sizes, and totals that follow the weights.
#include "plan/part_cutter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/seed.h"

namespace tributary::plan {
namespace {

using ::testing::ElementsAre;

std::vector<uint64_t> counts_of(const std::vector<Part>& parts) {
  std::vector<uint64_t> counts;
  for (const Part& part : parts) counts.push_back(part.element_count);
  return counts;
}

std::vector<uint32_t> aggregators_of(const std::vector<Part>& parts) {
  std::vector<uint32_t> aggregators;
  for (const Part& part : parts) aggregators.push_back(part.aggregator);
  return aggregators;
}

/// Cuts one tensor with blocks of ten elements of four bytes.
std::vector<uint64_t> first_cut(std::vector<uint32_t> weights, uint64_t element_count) {
  return counts_of(PartCutter(std::move(weights)).cut(element_count, 10, 4));
}

TEST(PartCutter, EqualWeightsMakeEqualParts) {
  // 1,005 blocks, the last one of 3 elements: 335 for each of three aggregators.
  EXPECT_THAT(first_cut({1, 1, 1}, 10'043), ElementsAre(3350, 3350, 3343));
  // With 1,006 blocks the first part has one more, with 1,007 also the second.
  EXPECT_THAT(first_cut({1, 1, 1}, 10'053), ElementsAre(3360, 3350, 3343));
  EXPECT_THAT(first_cut({7, 7, 7}, 10'070), ElementsAre(3360, 3360, 3350));
  EXPECT_THAT(first_cut({1}, 900'000), ElementsAre(900'000));
}

TEST(PartCutter, FewBlocksMakeFewParts) {
  EXPECT_THAT(first_cut({1, 1, 1, 1}, 1), ElementsAre(1));
  EXPECT_THAT(first_cut({1, 1, 1, 1}, 630), ElementsAre(630));             // 63 blocks,
  EXPECT_THAT(first_cut({1, 1, 1, 1}, 631), ElementsAre(320, 311));        // 64,
  EXPECT_THAT(first_cut({1, 1, 1, 1}, 1000), ElementsAre(340, 330, 330));  // 100.
}

TEST(PartCutter, TensorWithoutElementsIsOneEmptyPart) {
  PartCutter cutter({0, 1, 1});
  EXPECT_THAT(cutter.cut(0, 10, 4), ElementsAre(Part{.aggregator = 1}));
  EXPECT_THAT(cutter.cut(5, 10, 4), ElementsAre(Part{.aggregator = 1, .element_count = 5}));
  EXPECT_THAT(cutter.cut(0, 10, 4), ElementsAre(Part{.aggregator = 2}));
}

TEST(PartCutter, LargeTensorsAreCutByWeight) {
  PartCutter cutter({3, 0, 1, 6});
  const auto parts = cutter.cut(10'000, 10, 4);
  EXPECT_THAT(counts_of(parts), ElementsAre(3000, 1000, 6000));
  EXPECT_THAT(aggregators_of(parts), ElementsAre(0, 2, 3));
  EXPECT_EQ(parts[2].element_first, 4000U);
}

TEST(PartCutter, LeftOverBlocksTakeTurns) {
  PartCutter cutter({1, 1, 1});
  // 100 blocks: 34, 33, 33. The block that is left over goes to another one each time.
  EXPECT_THAT(counts_of(cutter.cut(1000, 10, 4)), ElementsAre(340, 330, 330));
  EXPECT_THAT(counts_of(cutter.cut(1000, 10, 4)), ElementsAre(330, 340, 330));
  EXPECT_THAT(counts_of(cutter.cut(1000, 10, 4)), ElementsAre(330, 330, 340));
}

TEST(PartCutter, SmallTensorsTakeTurnsByWeight) {
  PartCutter cutter({1, 2});
  // Each tensor of 40 blocks goes to one of them: to the second for two of three.
  std::vector<uint32_t> turns;
  for (uint32_t i = 0; i < 6; i++) turns.push_back(aggregators_of(cutter.cut(400, 10, 4)).at(0));
  EXPECT_THAT(turns, ElementsAre(1, 0, 1, 1, 0, 1));
}

TEST(PartCutter, RareWeightsGetAWholePartOnceDue) {
  PartCutter cutter({9, 1});
  // 100 blocks entitle the second one to 10. After the fourth tensor it has credit for 40.
  EXPECT_THAT(counts_of(cutter.cut(1000, 10, 4)), ElementsAre(1000));
  EXPECT_THAT(counts_of(cutter.cut(1000, 10, 4)), ElementsAre(1000));
  EXPECT_THAT(counts_of(cutter.cut(1000, 10, 4)), ElementsAre(1000));
  EXPECT_THAT(counts_of(cutter.cut(1000, 10, 4)), ElementsAre(600, 400));
}

TEST(PartCutter, LongRangesAreCutAtFourMegabytes) {
  PartCutter cutter({1, 3});
  // Blocks of 4,000 bytes, so 1,000 in a part. 2,500 and 7,501 blocks make 3 and 8 parts.
  const auto parts = cutter.cut(10'001'000, 1000, 4);
  EXPECT_THAT(aggregators_of(parts), ElementsAre(0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(counts_of(parts), ElementsAre(834'000, 833'000, 833'000, 938'000, 938'000, 938'000,
                                            938'000, 938'000, 937'000, 937'000, 937'000));
  // A block above the limit is a part of its own.
  EXPECT_THAT(first_cut({1}, 10), ElementsAre(10));
  EXPECT_THAT(counts_of(PartCutter({1}).cut(5, 2, 3'000'000)), ElementsAre(2, 2, 1));
}

TEST(PartCutter, MoreAggregatorsThanBlocks) {
  PartCutter cutter(std::vector<uint32_t>(256, 65'535));
  for (uint32_t i = 0; i < 512; i++) {
    EXPECT_THAT(aggregators_of(cutter.cut(15, 10, 4)), ElementsAre(i % 256));
  }
}

/// A random job and the totals of its aggregators.
struct RandomJob {
  explicit RandomJob(testing::Prng& prng)
      : weights(1 + prng.below(16)), gradients(1 + prng.below(prng.chance(0.5) ? 8 : 2048)) {
    const uint32_t weight_max = prng.chance(0.5) ? 8 : 65'535;
    for (uint32_t& weight : weights) weight = prng.chance(0.2) ? 0 : 1 + prng.below(weight_max);
    weights[prng.below(static_cast<uint32_t>(weights.size()))] = 1 + prng.below(weight_max);
    sum = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
    given.assign(weights.size(), 0);
  }
  [[nodiscard]] double share(size_t aggregator) const {
    return 1.0 * weights[aggregator] / static_cast<double>(sum);
  }

  std::vector<uint32_t> weights;
  uint32_t gradients;
  uint64_t sum;
  std::vector<uint64_t> given;  ///< Elements, shape [aggregators].
  uint64_t total = 0;
};

/// Checks form and sizes of one tensor's parts, and adds them to the job's totals.
void check_parts(RandomJob& job, uint64_t element_count, const std::vector<Part>& parts) {
  const uint32_t g = job.gradients;
  std::vector<uint64_t> blocks(job.weights.size(), 0);
  uint64_t covered = 0;
  uint32_t last = 0;
  for (const Part& part : parts) {
    ASSERT_EQ(part.element_first, covered);
    ASSERT_EQ(part.element_first % g, 0U);
    ASSERT_GE(part.aggregator, last);
    ASSERT_GT(job.weights[part.aggregator], 0U);
    if (part.element_count > g) {
      ASSERT_LE(part.element_count * 4, kPartBytesMax);
    }
    covered += part.element_count;
    last = part.aggregator;
    blocks[part.aggregator] += (part.element_count + g - 1) / g;
    job.given[part.aggregator] += part.element_count;
  }
  ASSERT_EQ(covered, element_count);
  job.total += element_count;
  const uint64_t all = std::accumulate(blocks.begin(), blocks.end(), uint64_t{0});
  bool large = true;
  for (size_t i = 0; i < blocks.size(); i++) {
    if (blocks[i] > 0 && blocks[i] < all) {
      ASSERT_GE(blocks[i], kPartBlocksMin);
    }
    large = large && (job.weights[i] == 0 || all * job.weights[i] / job.sum >= kPartBlocksMin);
  }
  for (size_t i = 0; large && i < blocks.size(); i++) {
    const double due = job.share(i) * static_cast<double>(all);
    ASSERT_LE(std::abs(static_cast<double>(blocks[i]) - due), 1 + 1e-6);  // 1e-6: rounding of due.
  }
}

TEST(PartCutter, RandomTensorsFollowTheWeights) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  double drift_max = 0;
  for (uint32_t step = 0; step < 300; step++) {
    RandomJob job(prng);
    PartCutter cutter(job.weights);
    PartCutter other_rank(job.weights);
    const uint64_t blocks_max = uint64_t{1} << prng.below(13);
    for (uint32_t tensor = 0; tensor < 300; tensor++) {
      const uint64_t count = prng.any_u64() % (blocks_max * job.gradients);
      const auto parts = cutter.cut(count, job.gradients, 4);
      ASSERT_EQ(parts, other_rank.cut(count, job.gradients, 4));
      check_parts(job, count, parts);
      if (HasFatalFailure()) FAIL() << "step " << step << ", tensor " << tensor;
      for (size_t i = 0; i < job.weights.size(); i++) {
        const double due = job.share(i) * static_cast<double>(job.total);
        const double drift = std::abs(static_cast<double>(job.given[i]) - due) / job.gradients;
        drift_max = std::max(drift_max, drift);
        // The part that an aggregator got early or has yet to get.
        ASSERT_LE(drift, 4 * kPartBlocksMin) << "step " << step << ", tensor " << tensor;
      }
    }
  }
  RecordProperty("drift_max", std::to_string(drift_max));
}

TEST(PartCutter, RandomTensorsOfEqualWeightsHaveEqualParts) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (uint32_t step = 0; step < 3000; step++) {
    const uint32_t gradients = 1 + prng.below(2048);
    const uint32_t aggregators = 1 + prng.below(16);
    const uint64_t count = 1 + prng.below(1 + prng.below(3'000'000));
    const auto parts = PartCutter(std::vector<uint32_t>(aggregators, 1)).cut(count, gradients, 1);
    const uint64_t blocks = (count + gradients - 1) / gradients;
    const uint64_t expected = std::clamp<uint64_t>(blocks / kPartBlocksMin, 1, aggregators);
    ASSERT_EQ(parts.size(), expected) << "step " << step;
    for (uint64_t i = 0; i < expected; i++) {
      const uint64_t part_blocks = (parts[i].element_count + gradients - 1) / gradients;
      ASSERT_EQ(parts[i].aggregator, i) << "step " << step;
      ASSERT_EQ(part_blocks, blocks / expected + (i < blocks % expected ? 1 : 0));
    }
  }
}

}  // namespace
}  // namespace tributary::plan
