// SPDX-License-Identifier: Apache-2.0
// Method: the paper's numbers (§4.2), then the best part of brute-force copies against a grid.
#include "plan/local_reduce.h"

#include <gtest/gtest.h>

#include <array>

namespace tributary::plan {
namespace {

/// Rates of §4.2.1: 13.1 GB/s for every PCIe link, 80 Gbit/s across switches.
constexpr PcieMachine kPaper{.gpu_link = 13.1e9, .switch_link = 13.1e9, .across_switches = 10e9};
constexpr double kGigabyte = 1e9;

TEST(LocalReduce, PcieMachineOfThePaper) {
  // The paper solves max((3x + 1) / 13.1, (7 - 3x) / 52.4) for 1 GB: x = 1/5.
  EXPECT_NEAR(best_brute_force(kPaper), 0.2, 1e-12);
  EXPECT_NEAR(pcie_seconds(kPaper, 0.2) * kGigabyte, 1.6 / 13.1, 1e-12);
  EXPECT_NEAR(pcie_seconds(kPaper) * kGigabyte, 7 / 52.4, 1e-12);
  // "9% difference", and "23.7% smaller" than a ring's.
  EXPECT_NEAR(pcie_seconds(kPaper) / pcie_seconds(kPaper, 0.2), 1.09, 0.005);
  EXPECT_NEAR(1 - pcie_seconds(kPaper) / local_ring_seconds(kPaper), 0.237, 0.001);
}

TEST(LocalReduce, BestBruteForceBeatsAGrid) {
  for (const uint32_t gpus : {1U, 2U, 4U, 8U}) {
    for (const double gpu_link : {5e9, 13.1e9, 40e9}) {
      const PcieMachine machine{.gpus_per_switch = gpus,
                                .gpu_link = gpu_link,
                                .switch_link = 13.1e9,
                                .across_switches = 10e9};
      const double best = pcie_seconds(machine, best_brute_force(machine));
      for (int i = 0; i <= 100; i++) EXPECT_LE(best, pcie_seconds(machine, i / 100.0) + 1e-18);
    }
  }
}

TEST(LocalReduce, OneSwitchHasNoCopyAcrossSwitches) {
  PcieMachine machine = kPaper;
  machine.switches = 1;
  EXPECT_DOUBLE_EQ(local_ring_seconds(machine), 1.5 / 13.1e9);  // 2 x 3 / 4.
}

TEST(LocalReduce, RootsBesideTheNicCompeteWithIt) {
  const NvlinkMachine machine{.switch_link = 10e9, .nic = 9e9};
  const std::array<uint32_t, 1> beside{0};
  const std::array<uint32_t, 1> apart{2};
  const std::array<uint32_t, 2> both_apart{2, 3};
  const std::array<uint32_t, 8> all{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_DOUBLE_EQ(nvlink_seconds(machine, apart, 1.75), 1.75 / 9e9);
  EXPECT_DOUBLE_EQ(nvlink_seconds(machine, both_apart, 1.75), 1.75 / 9e9);
  EXPECT_DOUBLE_EQ(nvlink_seconds(machine, beside, 1.75), 2.75 / 10e9);
  EXPECT_DOUBLE_EQ(nvlink_seconds(machine, all, 1.75), 2.0 / 10e9);  // A quarter beside the NIC.
  EXPECT_DOUBLE_EQ(nvlink_seconds(machine, apart, 0.5), 1 / 10e9);   // The GPUs' own link.
}

}  // namespace
}  // namespace tributary::plan
