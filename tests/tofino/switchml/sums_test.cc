// SPDX-License-Identifier: Apache-2.0
// Method: SwitchML on the modelled switch. Whole tensors under loss, duplication and jitter give
// exact sums. Times and passes are computed by hand.
#include <gtest/gtest.h>

#include "tests/support/seed.h"
#include "tests/tofino/switchml/bed.h"

namespace tributary::tofino {
namespace {

using testing::BedFaults;
using testing::CollectingSink;
using testing::frame_of;
using testing::session_of;
using testing::SwitchmlBed;
using testing::worker_address;
using testing::worker_port;
using tributary::testing::Prng;

std::vector<std::vector<int32_t>> random_tensors(Prng& prng, uint32_t workers, uint64_t count) {
  std::vector<std::vector<int32_t>> tensors(workers, std::vector<int32_t>(count));
  for (auto& tensor : tensors) {
    for (int32_t& value : tensor) value = prng.any_i32();
  }
  return tensors;
}

void expect_sums(const SwitchmlBed& bed, const std::vector<std::vector<int32_t>>& tensors) {
  std::vector<int32_t> sums(tensors[0].size());
  for (const auto& tensor : tensors) {
    for (size_t i = 0; i < sums.size(); i++) {
      sums[i] =
          static_cast<int32_t>(static_cast<uint32_t>(sums[i]) + static_cast<uint32_t>(tensor[i]));
    }
  }
  for (uint32_t w = 0; w < tensors.size(); w++) EXPECT_EQ(bed.result(w), sums) << "worker " << w;
}

class SwitchmlSums : public ::testing::TestWithParam<uint32_t> {};

TEST_P(SwitchmlSums, AreExactWithoutFaults) {
  SwitchmlBed bed({.elements = GetParam()}, 4, 8, 1, {});
  Prng prng(1);
  const auto tensors = random_tensors(prng, 4, uint64_t{GetParam()} * 50);
  ASSERT_TRUE(bed.reduce(tensors, seconds(1)));
  expect_sums(bed, tensors);
  EXPECT_EQ(bed.resent(), 0U);
}

TEST_P(SwitchmlSums, AreExactUnderLossDuplicationAndJitter) {
  const uint64_t seed = tributary::testing::seed_from_env();
  SCOPED_TRACE(tributary::testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t round = 0; round < 6; round++) {
    const uint32_t workers = 1 + prng.below(16);
    const BedFaults faults{.loss = 0.2 * prng.unit(),
                           .duplicate = 0.2 * prng.unit(),
                           .jitter = nanoseconds(prng.below(2'000))};
    SwitchmlBed bed({.elements = GetParam()}, workers, 1 + prng.below(16), prng.any_u64(), faults);
    ASSERT_TRUE(bed.device().set_loss(0.05, 0.05).has_value());
    const auto tensors = random_tensors(prng, workers, uint64_t{GetParam()} * (1 + prng.below(60)));
    ASSERT_TRUE(bed.reduce(tensors, seconds(10)));
    expect_sums(bed, tensors);
  }
}

TEST_P(SwitchmlSums, SameSeedSameDigest) {
  uint64_t digests[2];
  for (uint64_t& digest : digests) {
    SwitchmlBed bed({.elements = GetParam()}, 3, 4, 77,
                    {.loss = 0.05, .duplicate = 0.05, .jitter = nanoseconds(900)});
    Prng prng(5);
    const auto tensors = random_tensors(prng, 3, uint64_t{GetParam()} * 20);
    ASSERT_TRUE(bed.reduce(tensors, seconds(5)));
    digest = bed.digest();
  }
  EXPECT_EQ(digests[0], digests[1]);
}

INSTANTIATE_TEST_SUITE_P(Variants, SwitchmlSums, ::testing::Values(64, 256));

}  // namespace
}  // namespace tributary::tofino
