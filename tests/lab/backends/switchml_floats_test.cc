// SPDX-License-Identifier: Apache-2.0
// Method: floats through worker, network and the Tofino's program with agreed exponents, also over
// links that lose packets. Checks errors against the bound, blocks of zeros, and values that are
// not finite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/lab/run_bed.h"
#include "tests/support/seed.h"

namespace tributary::lab {
namespace {

using host::Outcome;
using host::Status;
using testing::run_well;

/// One tensor of floats for each worker, and its outcome.
class Floats final : public TensorExchange {
 public:
  explicit Floats(std::vector<std::vector<float>> of_workers) : sent(std::move(of_workers)) {
    got = sent;
    outcomes.resize(sent.size());
  }
  std::span<float> tensor(uint32_t worker, uint32_t, bool) override { return got[worker]; }
  [[nodiscard]] wire::ElementFormat format() const override {
    return wire::ElementFormat::kBlockExponent;
  }
  [[nodiscard]] float scale() const override { return 1; }
  void reduced(uint32_t worker, uint32_t, const Outcome& outcome) override {
    outcomes[worker] = outcome;
  }
  void iteration_ended(uint32_t, uint32_t, Instant) override {}

  std::vector<std::vector<float>> sent;
  std::vector<std::vector<float>> got;
  std::vector<Outcome> outcomes;
};

Scenario floats_on(Backend backend, uint32_t workers) {
  Scenario scenario;
  scenario.backend = backend;
  scenario.workers = workers;
  scenario.iterations = 1;
  scenario.switchml.pool = 16;
  scenario.model = {.kind = Model::kCustom, .bucket_bytes = {1024}, .forward = {}, .backward = {}};
  return scenario;
}

class SwitchmlFloats : public ::testing::TestWithParam<Backend> {
 protected:
  [[nodiscard]] static uint32_t elements() { return GetParam() == Backend::kSwitchml64 ? 64 : 256; }
};

TEST_P(SwitchmlFloats, MeansStayWithinTheBoundAtAnyMagnitude) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  for (const double loss : {0.0, 0.02}) {
    constexpr uint32_t kWorkers = 5;
    constexpr size_t kCount = 5'000;  // More blocks than slots, and a last block that is not full.
    std::vector<std::vector<float>> tensors(kWorkers, std::vector<float>(kCount));
    std::vector<double> magnitudes;  // The largest of any worker, by block.
    for (size_t first = 0; first < kCount; first += elements()) {
      magnitudes.push_back(0);
      for (auto& tensor : tensors) {
        // Each worker's block has its own magnitude, 10^-30 to 10^30; some are zeros.
        const double magnitude = prng.chance(0.2) ? 0 : std::pow(10, prng.unit() * 60 - 30);
        for (size_t i = first; i < std::min(kCount, first + elements()); i++) {
          tensor[i] = static_cast<float>((prng.unit() * 2 - 1) * magnitude);
          magnitudes.back() = std::max(magnitudes.back(), std::fabs(double{tensor[i]}));
        }
      }
    }
    Scenario scenario = floats_on(GetParam(), kWorkers);
    scenario.seed = prng.any_u32();
    scenario.link.faults.loss = loss;
    scenario.host.retransmission = loss > 0;
    Floats floats(tensors);
    run_well(scenario, &floats);
    for (uint32_t worker = 0; worker < kWorkers; worker++) {
      ASSERT_EQ(floats.outcomes[worker].status, Status::kOk) << floats.outcomes[worker].text;
      ASSERT_EQ(floats.got[worker], floats.got[0]);  // Bit for bit.
    }
    for (size_t i = 0; i < kCount; i++) {
      double sum = 0;
      for (const auto& tensor : tensors) sum += double{tensor[i]};
      // Each value is scaled in float32 (24 bits) and rounded to a unit of n x 2^m / 2^31, where
      // 2^m is at most twice the largest (SwitchML paper, Appendix C). The mean has the same bound.
      const double largest = magnitudes[i / elements()];
      const double each = largest * 2 * kWorkers * 0x1p-32 + largest * 0x1p-23;
      const double mean = sum / kWorkers;
      ASSERT_NEAR(floats.got[0][i], mean, each + std::fabs(mean) * 0x1p-22 + 1e-44)
          << "element " << i;
      // The bound is useful: values near the largest keep six digits.
      ASSERT_LE(each, 1e-6 * largest);
    }
  }
}

TEST_P(SwitchmlFloats, ZerosStayZeroAndTheLargestFloatsFit) {
  std::vector<std::vector<float>> tensors(2, std::vector<float>(elements() * size_t{3}, 0.0F));
  const float most = std::numeric_limits<float>::max();
  for (auto& tensor : tensors) {
    tensor[3] = -0.0F;                // Block 0: only zeros,
    tensor[elements()] = most;        // block 1: the largest value,
    tensor[2 * elements()] = 1e-45F;  // block 2: the smallest value.
  }
  Floats floats(tensors);
  run_well(floats_on(GetParam(), 2), &floats);
  for (uint32_t worker = 0; worker < 2; worker++) {
    EXPECT_EQ(floats.outcomes[worker].status, Status::kOk);
    for (size_t i = 0; i < elements(); i++) EXPECT_EQ(floats.got[worker][i], 0.0F);
    EXPECT_NEAR(floats.got[worker][elements()] / most, 1, 0x1p-22);
    EXPECT_EQ(floats.got[worker][elements() + 1], 0.0F);
  }
}

TEST_P(SwitchmlFloats, NonFiniteValuesReachEveryWorker) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<std::vector<float>> tensors(3, std::vector<float>(elements() * size_t{40}, 1.0F));
    tensors[1][elements() * size_t{33} + 7] = bad;
    Floats floats(tensors);
    run_well(floats_on(GetParam(), 3), &floats);
    for (const Outcome& outcome : floats.outcomes) {
      EXPECT_EQ(outcome.status, Status::kNotFinite);
      EXPECT_THAT(outcome.text, ::testing::HasSubstr("an infinity or a NaN"));
    }
    // Other blocks keep their sums.
    EXPECT_EQ(floats.got[2][0], 1.0F);
    EXPECT_EQ(floats.got[0][elements() * size_t{39}], 1.0F);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, SwitchmlFloats,
                         ::testing::Values(Backend::kSwitchml64, Backend::kSwitchml256,
                                           Backend::kSwitchmlOnTrio),
                         [](const auto& parameter) {
                           std::string name = name_of(parameter.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tributary::lab
