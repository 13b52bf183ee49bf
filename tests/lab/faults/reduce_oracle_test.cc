// SPDX-License-Identifier: Apache-2.0
// Method: hand-made wrong results, each of which the oracle must detect.
#include "lab/faults/reduce_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>

#include "host/formats/number_format.h"

namespace tributary::lab {
namespace {

using host::Status;
using wire::ElementFormat;

constexpr std::array<uint32_t, 2> kFirstProcesses{0, 0};

/// Two ranks, six elements in blocks of four.
ReduceOracle make(bool mitigation, ElementFormat format = ElementFormat::kInt32,
                  std::optional<BadValue> bad_value = {}) {
  return ReduceOracle({.seed = 1,
                       .world = 2,
                       .gradients = 4,
                       .mitigation = mitigation,
                       .work = {{.element_count = 6, .format = format}},
                       .bad_value = bad_value});
}

ReduceOracle::Given given_to(uint32_t rank, uint64_t session = 1) {
  return {.session = session, .processes = kFirstProcesses, .collective = 0, .rank = rank};
}

host::Outcome outcome_of(uint64_t blocks) {
  host::Outcome outcome;
  outcome.blocks = blocks;
  return outcome;
}

/// The wrapped sum of both ranks' first processes.
Tensor right_sum(const ReduceOracle& oracle) {
  Tensor sum = oracle.input(0, 0, 0);
  const Tensor other = oracle.input(0, 1, 0);
  for (size_t i = 0; i < sum.integers.size(); i++) {
    sum.integers[i] = static_cast<int32_t>(static_cast<uint32_t>(sum.integers[i]) +
                                           static_cast<uint32_t>(other.integers[i]));
  }
  return sum;
}

TEST(ReduceOracle, DetectsAWrongElementAndBlockCount) {
  ReduceOracle oracle = make(false);
  const Tensor sum = right_sum(oracle);
  EXPECT_EQ(oracle.check(given_to(0), sum, outcome_of(2)), "");
  EXPECT_NE(oracle.check(given_to(0), sum, outcome_of(3)), "");
  Tensor wrong = sum;
  wrong.integers[5]++;
  EXPECT_NE(oracle.check(given_to(1), wrong, outcome_of(2)), "");
}

TEST(ReduceOracle, DetectsAWrongReport) {
  ReduceOracle oracle = make(true);
  const Tensor sum = right_sum(oracle);
  EXPECT_EQ(oracle.check(given_to(0), sum, outcome_of(2)), "");

  // Rank 0 alone in the second block: correct for that claim, but rank 0 received both.
  Tensor partial = sum;
  const Tensor own = oracle.input(0, 0, 0);
  for (uint32_t i = 4; i < 6; i++) partial.integers[i] = own.integers[i];
  host::Outcome claim = outcome_of(2);
  claim.degraded = {{.element_first = 4, .element_count = 2, .sources = {1}}};
  EXPECT_EQ(make(true).check(given_to(1), partial, claim), "");
  EXPECT_NE(oracle.check(given_to(1), partial, claim), "");
  // Another session has no other result.
  EXPECT_EQ(oracle.check(given_to(1, 2), partial, claim), "");
  EXPECT_EQ(make(false).check(given_to(1), partial, claim), "degraded without mitigation");

  claim.degraded[0].sources = {3};  // Degraded, but no source is missing.
  EXPECT_NE(make(true).check(given_to(1), sum, claim), "");
  claim.degraded[0] = {.element_first = 4, .element_count = 1, .sources = {1}};
  EXPECT_NE(make(true).check(given_to(1), partial, claim), "");
}

TEST(ReduceOracle, OnlyTheOwnerMayHaveTheSum) {
  const auto owned = [](bool mitigation = false) {
    return ReduceOracle({.seed = 1,
                         .world = 2,
                         .gradients = 4,
                         .mitigation = mitigation,
                         .work = {{.element_count = 6, .owner = 1}}});
  };
  ReduceOracle oracle = owned();
  const Tensor sum = right_sum(oracle);
  const Tensor own = oracle.input(0, 0, 0);
  EXPECT_EQ(oracle.check(given_to(0), own, outcome_of(2)), "");
  EXPECT_EQ(oracle.check(given_to(1), sum, outcome_of(2)), "");
  EXPECT_EQ(owned().check(given_to(0), sum, outcome_of(2)),
            "block 0, whose sum rank 1 owns, is changed");
  EXPECT_NE(owned().check(given_to(1), oracle.input(0, 1, 0), outcome_of(2)), "");
  // The receipt names other sources than the sum.
  host::Outcome claim = outcome_of(2);
  claim.degraded = {{.element_first = 4, .element_count = 2, .sources = {1}}};
  ReduceOracle mitigated = owned(true);
  EXPECT_EQ(mitigated.check(given_to(1), sum, outcome_of(2)), "");
  EXPECT_EQ(mitigated.check(given_to(0), own, claim), "block 1 has other sources than at rank 1");
}

TEST(ReduceOracle, DistinguishesAProcessFromItsPredecessor) {
  ReduceOracle oracle = make(false);
  const Tensor of_first = right_sum(oracle);
  const std::array<uint32_t, 2> restarted{0, 1};
  EXPECT_NE(oracle.input(0, 1, 0).integers, oracle.input(0, 1, 1).integers);
  EXPECT_NE(oracle.check({.session = 1, .processes = restarted, .collective = 0, .rank = 0},
                         of_first, outcome_of(2)),
            "");
}

TEST(ReduceOracle, RequiresReportsOfBadValuesOnly) {
  const BadValue bad{.collective = 0, .rank = 1, .element = 5, .not_finite = true};
  ReduceOracle oracle = make(true, ElementFormat::kFixedScale, bad);
  const Tensor any = oracle.input(0, 0, 0);
  host::Outcome outcome = outcome_of(2);
  EXPECT_NE(oracle.check(given_to(0), any, outcome), "");
  outcome.status = Status::kOverflow;
  EXPECT_NE(oracle.check(given_to(0), any, outcome), "");
  outcome.status = Status::kNotFinite;
  EXPECT_EQ(oracle.check(given_to(0), any, outcome), "");
  // Its block completed without rank 1.
  outcome.degraded = {{.element_first = 4, .element_count = 2, .sources = {1}}};
  EXPECT_NE(oracle.check(given_to(0), any, outcome), "");
  EXPECT_NE(make(false, ElementFormat::kFixedScale).check(given_to(0), any, outcome), "");
}

TEST(ReduceOracle, RequiresReportsOfLostPrecision) {
  const auto inexact = [] { return make(true, ElementFormat::kBlockExponent); };
  // The sum with the exponent of a round that a rank missed: 22 of 30 bits for two ranks.
  ReduceOracle oracle = inexact();
  const std::array inputs{oracle.input(0, 0, 0).floats, oracle.input(0, 1, 0).floats};
  Tensor sum;
  sum.floats.resize(6);
  for (uint32_t first = 0; first < 6; first += 4) {
    const uint32_t count = std::min(4U, 6 - first);
    const auto exponent_of = [&](uint32_t rank) {
      return host::block_exponent(std::span(inputs[rank]).subspan(first, count));
    };
    const int8_t exponent = host::degraded_exponent(std::max(exponent_of(0), exponent_of(1)));
    const double scale = host::scale_for_exponent(exponent, 2);
    for (uint32_t i = first; i < first + count; i++) {
      const int32_t lanes =
          host::to_fixed(inputs[0][i], scale) + host::to_fixed(inputs[1][i], scale);
      sum.floats[i] = host::from_fixed(lanes, scale, 1);
    }
  }
  EXPECT_EQ(oracle.check(given_to(0), sum, outcome_of(2)),
            "block 0 lost precision, and no rank reports it");
  host::Outcome reported = outcome_of(2);
  for (const uint32_t first : {0U, 4U}) {
    reported.degraded.push_back({.element_first = first,
                                 .element_count = first == 0 ? 4U : 2U,
                                 .sources = {3},
                                 .imprecise = true});
  }
  EXPECT_EQ(inexact().check(given_to(0), sum, reported), "");
}

}  // namespace
}  // namespace tributary::lab
