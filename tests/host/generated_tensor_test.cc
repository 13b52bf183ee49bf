// SPDX-License-Identifier: Apache-2.0
// Method: values that must never change, then refusals. Then random all-reduces with known damage,
// computed one element at a time with the scalar definitions.
#include "host/generated_tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include "host/formats/number_format.h"
#include "tests/support/seed.h"

namespace tributary::host {
namespace {

SourceSet set_of(const std::vector<uint32_t>& ranks) {
  SourceSet set{};
  for (const uint32_t rank : ranks) set[rank / 64] |= uint64_t{1} << (rank % 64);
  return set;
}

using Ranges = std::vector<DegradedRange>;

Outcome outcome_with(const Ranges& degraded) {
  Outcome outcome;
  outcome.degraded = degraded;
  return outcome;
}

TEST(GeneratedTensor, ValuesAreTheSameOnEveryBuild) {
  const GeneratedTensor tensor(1, 4);
  std::vector<int32_t> ints(3);
  tensor.fill(2, 5, 1000, ints);
  EXPECT_EQ(ints, (std::vector<int32_t>{-1643692574, -101575480, -1225892535}));
  std::vector<float> floats(3);
  tensor.fill(2, 5, 1000, floats);
  // The integers' upper 25 bits (-1643692574 = -12841349 * 128 + 98). This run's values are smaller
  // by 2^-7.
  constexpr float kUnit = 0x1p-28F * 0x1p-7F;
  EXPECT_EQ(floats, (std::vector<float>{-12841349 * kUnit, -793559 * kUnit, -9577286 * kUnit}));
}

TEST(GeneratedTensor, PiecesMatchTheWholeTensor) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  const GeneratedTensor tensor(seed, 256);
  std::vector<float> whole(1000);
  std::vector<int32_t> whole_ints(1000);
  tensor.fill(255, 3, 0, whole);
  tensor.fill(255, 3, 0, whole_ints);
  for (uint32_t step = 0; step < 200; step++) {
    const uint32_t first = prng.below(1000);
    std::vector<float> piece(prng.below(1000 - first));
    tensor.fill(255, 3, first, piece);
    ASSERT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + first));
    std::vector<int32_t> piece_ints(piece.size());
    tensor.fill(255, 3, first, piece_ints);
    ASSERT_TRUE(std::equal(piece_ints.begin(), piece_ints.end(), whole_ints.begin() + first));
  }
}

TEST(GeneratedTensor, RanksIterationsSeedsAndRunsDiffer) {
  std::set<std::vector<int32_t>> seen;
  for (const uint64_t seed : {0, 1}) {
    for (const uint32_t rank : {0, 1, 255}) {
      for (const uint64_t iteration : {0, 1, 2}) {
        for (const uint64_t run : {0, 1, 2}) {
          std::vector<int32_t> values(4);
          GeneratedTensor(seed, 256).fill(rank, iteration, run * GeneratedTensor::kRunElements,
                                          values);
          seen.insert(values);
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), 2U * 3 * 3 * 3);
}

TEST(GeneratedTensor, FloatsFit256RanksAtTheDefaultScale) {
  const GeneratedTensor tensor(9, 256);
  std::vector<float> values(100'000);
  tensor.fill(0, 0, 0, values);
  const float scale = AllReduceOptions{}.scale;
  std::set<int8_t> exponents;
  for (size_t i = 0; i < values.size(); i++) {
    ASSERT_LE(std::fabs(values[i]), 0x1p-4F);
    ASSERT_LE(std::abs(to_fixed(values[i], scale)), lane_magnitude_max(256));
    if (i % GeneratedTensor::kRunElements == 0 &&
        i + GeneratedTensor::kRunElements <= values.size()) {
      exponents.insert(block_exponent(std::span(values).subspan(i, GeneratedTensor::kRunElements)));
    }
  }
  EXPECT_GE(exponents.size(), GeneratedTensor::kShiftMax + 1);  // Every size occurs.
}

/// Computes one all-reduce as an aggregator does, one element at a time.
struct Model {
  GeneratedTensor tensor;
  uint64_t iteration;
  AllReduceOptions options;
  uint32_t gradients;
  uint32_t element_count;

  std::vector<float> values(uint32_t rank) const {
    std::vector<float> all(element_count);
    tensor.fill(rank, iteration, 0, all);
    return all;
  }

  /// Returns the result over `sources`, with block exponents agreed by `exponent_sources` and
  /// raised by `headroom`.
  std::vector<float> reduce(const std::vector<uint32_t>& sources,
                            const std::vector<uint32_t>& exponent_sources,
                            int8_t headroom = 0) const {
    std::vector<int32_t> sums(element_count, 0);
    const std::vector<double> scales = scales_of(exponent_sources, headroom);
    for (const uint32_t rank : sources) {
      const std::vector<float> mine = values(rank);
      for (uint32_t i = 0; i < element_count; i++) sums[i] += to_fixed(mine[i], scales[i]);
    }
    const bool mean = options.op == ReduceOp::kMean;
    std::vector<float> result(element_count);
    for (uint32_t i = 0; i < element_count; i++) {
      result[i] = from_fixed(sums[i], scales[i], mean ? static_cast<uint32_t>(sources.size()) : 1);
    }
    return result;
  }

  uint64_t check(const std::vector<float>& result, const Ranges& degraded) const {
    return check_float(tensor, iteration, result, options, gradients, outcome_with(degraded));
  }

 private:
  std::vector<double> scales_of(const std::vector<uint32_t>& ranks, int8_t headroom) const {
    if (options.format == FloatFormat::kFixedScale) {
      return std::vector<double>(element_count, options.scale);
    }
    std::vector<int8_t> exponents((element_count + gradients - 1) / gradients, kNoExponent);
    for (const uint32_t rank : ranks) {
      const std::vector<float> mine = values(rank);
      for (uint32_t block = 0; block < exponents.size(); block++) {
        const uint32_t first = block * gradients;
        const auto slice =
            std::span(mine).subspan(first, std::min(gradients, element_count - first));
        exponents[block] = std::max(exponents[block], block_exponent(slice));
      }
    }
    std::vector<double> scales(element_count);
    for (uint32_t i = 0; i < element_count; i++) {
      const int exponent = exponents[i / gradients] + headroom;
      scales[i] = scale_for_exponent(static_cast<int8_t>(exponent), tensor.world());
    }
    return scales;
  }
};

/// Replaces the elements of `range` by those of `from`.
void splice(std::vector<float>& result, const DegradedRange& range,
            const std::vector<float>& from) {
  std::copy_n(from.begin() + static_cast<ptrdiff_t>(range.element_first), range.element_count,
              result.begin() + static_cast<ptrdiff_t>(range.element_first));
}

class GeneratedTensorCheck : public ::testing::TestWithParam<std::tuple<FloatFormat, ReduceOp>> {
 protected:
  Model model(uint64_t seed, uint32_t gradients, uint32_t element_count) const {
    return Model{.tensor = GeneratedTensor(seed, 4),
                 .iteration = 11,
                 .options = {.op = std::get<1>(GetParam()), .format = std::get<0>(GetParam())},
                 .gradients = gradients,
                 .element_count = element_count};
  }
};

INSTANTIATE_TEST_SUITE_P(All, GeneratedTensorCheck,
                         ::testing::Combine(::testing::Values(FloatFormat::kFixedScale,
                                                              FloatFormat::kBlockExponent),
                                            ::testing::Values(ReduceOp::kSum, ReduceOp::kMean)));

TEST_P(GeneratedTensorCheck, CountsTheDamagedElements) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t step = 0; step < 20; step++) {
    const Model m = model(seed + step, 1 + prng.below(400), 1 + prng.below(4000));
    std::vector<float> result = m.reduce({0, 1, 2, 3}, {0, 1, 2, 3});
    ASSERT_EQ(m.check(result, {}), 0U);
    std::set<uint32_t> damaged;
    for (uint32_t i = 0; i < 5; i++) damaged.insert(prng.below(m.element_count));
    for (const uint32_t at : damaged) result[at] = std::nextafter(result[at], 1.0F);
    ASSERT_EQ(m.check(result, {}), damaged.size());
  }
}

TEST_P(GeneratedTensorCheck, DegradedRangesNameTheirSources) {
  const Model m = model(3, 100, 1050);
  const DegradedRange first{200, 100, set_of({0, 3})};
  const DegradedRange last{1000, 50, set_of({2})};
  const std::vector<float> full = m.reduce({0, 1, 2, 3}, {0, 1, 2, 3});
  std::vector<float> result = full;
  splice(result, first, m.reduce({0, 3}, {0, 1, 2, 3}));
  splice(result, last, m.reduce({2}, {2}));  // No other rank's exponent arrived.

  EXPECT_EQ(m.check(result, {first, last}), 0U);
  // If the range is not reported, or with other sources, (nearly) all of its elements are wrong.
  EXPECT_GT(m.check(result, {last}), 90U);
  EXPECT_GT(m.check(result, {first}), 40U);
  EXPECT_GT(m.check(result, {{200, 100, set_of({0, 2})}, last}), 90U);
  EXPECT_GT(m.check(full, {first}), 90U);
  result[210] += 1.0F;
  EXPECT_EQ(m.check(result, {first, last}), 1U);
}

TEST_P(GeneratedTensorCheck, AcceptsALargerExponentInImpreciseRangesOnly) {
  const Model m = model(3, 100, 300);
  std::vector<float> result = m.reduce({0, 1, 2, 3}, {0, 1, 2, 3});
  DegradedRange range{100, 100, set_of({0, 1, 2, 3})};
  splice(result, range, m.reduce({0, 1, 2, 3}, {0, 1, 2, 3}, kDegradedHeadroom));
  if (m.options.format == FloatFormat::kBlockExponent) {
    EXPECT_GT(m.check(result, {range}), 90U);
  }
  range.imprecise = true;
  EXPECT_EQ(m.check(result, {range}), 0U);
  result[150] += 1.0F;
  EXPECT_EQ(m.check(result, {range}), 1U);
}

TEST_P(GeneratedTensorCheck, RandomDegradedRangesAreAcceptedAtEitherExponent) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t step = 0; step < 100; step++) {
    const Model m = model(seed + step, 20 + prng.below(300), 1 + prng.below(3000));
    std::vector<float> result = m.reduce({0, 1, 2, 3}, {0, 1, 2, 3});
    Ranges degraded;
    uint32_t first = prng.below(m.element_count);
    while (first < m.element_count) {  // Ranges need not align to blocks.
      const uint32_t count = 1 + prng.below(m.element_count - first);
      const uint32_t bits = 1 + prng.below(15);
      std::vector<uint32_t> sources;
      for (uint32_t rank = 0; rank < 4; rank++) {
        if ((bits >> rank & 1) != 0) sources.push_back(rank);
      }
      degraded.push_back({first, count, set_of(sources)});
      const std::vector<uint32_t> all{0, 1, 2, 3};
      splice(result, degraded.back(), m.reduce(sources, prng.chance(0.5) ? sources : all));
      first += count + prng.below(500);
    }
    ASSERT_EQ(m.check(result, degraded), 0U) << "step " << step;
    const uint32_t at = prng.below(m.element_count);
    result[at] += 1.0F;
    ASSERT_EQ(m.check(result, degraded), 1U) << "step " << step;
  }
}

TEST_P(GeneratedTensorCheck, InvalidOutcomesMakeEveryElementWrong) {
  const Model m = model(3, 100, 300);
  const std::vector<float> full = m.reduce({0, 1, 2, 3}, {0, 1, 2, 3});
  const SourceSet all = set_of({0, 1, 2, 3});
  ASSERT_EQ(m.check(full, {{0, 100, all}, {100, 200, all}}), 0U);
  EXPECT_EQ(m.check(full, {{100, 100, all}, {0, 100, all}}), 300U);  // Order.
  EXPECT_EQ(m.check(full, {{0, 101, all}, {100, 100, all}}), 300U);  // Overlap.
  EXPECT_EQ(m.check(full, {{200, 101, all}}), 300U);                 // Too long.
  EXPECT_EQ(m.check(full, {{UINT64_MAX, 1, all}}), 300U);
  EXPECT_EQ(m.check(full, {{0, 100, SourceSet{}}}), 300U);     // No sources.
  EXPECT_EQ(m.check(full, {{0, 100, set_of({0, 4})}}), 300U);  // No rank 4.
}

TEST(GeneratedTensor, IntegerSumsWrapAndMeansRoundTowardZero) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  constexpr uint32_t kElementCount = 2500;
  const GeneratedTensor tensor(seed, 3);
  const DegradedRange range{500, 1100, set_of({0, 2})};
  std::vector<uint32_t> sums(kElementCount, 0);
  for (const uint32_t rank : {0U, 1U, 2U}) {
    std::vector<int32_t> values(kElementCount);
    tensor.fill(rank, 0, 0, values);
    for (uint32_t i = 0; i < kElementCount; i++) {
      const bool missing = rank == 1 && i >= 500 && i < 1600;
      sums[i] += missing ? 0U : static_cast<uint32_t>(values[i]);
    }
  }
  std::vector<int32_t> sum(kElementCount);
  std::vector<int32_t> mean(kElementCount);
  for (uint32_t i = 0; i < kElementCount; i++) {
    sum[i] = static_cast<int32_t>(sums[i]);
    mean[i] = sum[i] / (i >= 500 && i < 1600 ? 2 : 3);
  }
  const Outcome outcome = outcome_with({range});
  EXPECT_EQ(check_int32(tensor, 0, sum, ReduceOp::kSum, outcome), 0U);
  EXPECT_EQ(check_int32(tensor, 0, mean, ReduceOp::kMean, outcome), 0U);
  EXPECT_GE(check_int32(tensor, 1, sum, ReduceOp::kSum, outcome), kElementCount - 1);
  EXPECT_GE(check_int32(tensor, 0, sum, ReduceOp::kSum, {}), range.element_count - 1);
  sum[0]++;
  sum[2499]--;
  sum[600]++;
  EXPECT_EQ(check_int32(tensor, 0, sum, ReduceOp::kSum, outcome), 3U);
  EXPECT_EQ(check_int32(tensor, 0, {}, ReduceOp::kSum, {}), 0U);
}

}  // namespace
}  // namespace tributary::host
