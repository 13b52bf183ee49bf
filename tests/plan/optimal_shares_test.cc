// SPDX-License-Identifier: Apache-2.0
// Method: sums by hand, then the BytePS equations for every small n and k, then random machines
//         against the best of all shares on a grid.
#include "plan/optimal_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "plan/byteps_equations.h"
#include "tests/support/seed.h"

namespace tributary::plan {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

auto near(double value) { return DoubleNear(value, 1e-9); }

/// Returns `workers` machines that run both and `spares` that only aggregate, all alike.
std::vector<Machine> equal_machines(uint32_t workers, uint32_t spares, double link = 1,
                                    double sum = kUnlimited) {
  std::vector<Machine> machines;
  for (uint32_t i = 0; i < workers + spares; i++) {
    machines.push_back({.name = std::to_string(i),
                        .link_bytes_per_s = link,
                        .sum_bytes_per_s = sum,
                        .worker = i < workers,
                        .aggregator = true});
  }
  return machines;
}

TEST(OptimalShares, LinkOfHalfTheSpeedGetsLess) {
  // Three workers carry 1 + w tensors. With links 2, 2 and 1: 1 + w = 2x, 2x, x with sum 1, so
  // 2(2x - 1) + (x - 1) = 1, x = 0.8. But the third share would be below 0, so x is at least 1.
  auto machines = equal_machines(3, 0, 2);
  machines[2].link_bytes_per_s = 1;
  const OptimalShares best = optimal_shares(machines, {.bytes = 10});
  EXPECT_NEAR(best.seconds, 10, 1e-9);
  EXPECT_THAT(best.shares, ElementsAre(near(0.5), near(0.5), near(0)));

  // Links of 1, 1 and 0.9: 2(x - 1) + (0.9x - 1) = 1, x = 4 / 2.9.
  machines = equal_machines(3, 0, 1);
  machines[2].link_bytes_per_s = 0.9;
  const double x = 4 / 2.9;
  EXPECT_THAT(optimal_shares(machines, {.bytes = 1}).shares,
              ElementsAre(near(x - 1), near(x - 1), near(0.9 * x - 1)));
}

TEST(OptimalShares, CpuLimitsMoveTheShareElsewhere) {
  // Four workers and one spare, x from equation 6: 24 / 18. The spare adds 4w = 4/3 tensors in that
  // time, one for each x. A CPU of 1 is just enough.
  auto machines = equal_machines(4, 1);
  machines[4].sum_bytes_per_s = 1;
  EXPECT_NEAR(optimal_shares(machines, {.bytes = 3}).seconds, 4, 1e-9);
  // With half of that, 4w = x/2 for the spare: x/8 + 4(x - 1)/2 = 1, x = 24 / 17.
  machines[4].sum_bytes_per_s = 0.5;
  const OptimalShares best = optimal_shares(machines, {.bytes = 17});
  EXPECT_NEAR(best.seconds, 24, 1e-9);
  EXPECT_NEAR(best.shares[4], 3.0 / 17, 1e-9);
  const auto times = machine_times(machines, best.shares, {.bytes = 17});
  EXPECT_NEAR(times[4].sum_s, 24, 1e-9);
  EXPECT_NEAR(times[4].link_s, 12, 1e-9);
  EXPECT_NEAR(times[0].link_s, 24, 1e-9);
  EXPECT_EQ(times[0].sum_s, 0);
}

TEST(OptimalShares, HeadersTakeTimeOnLinksOnly) {
  auto machines = equal_machines(4, 4);
  EXPECT_NEAR(optimal_shares(machines, {.bytes = 10, .wire_ratio = 1.1}).seconds, 11, 1e-9);
  machines = equal_machines(4, 4, 100, 1);
  // Each of eight CPUs adds 4 * 10 / 8 bytes, with or without headers.
  EXPECT_NEAR(optimal_shares(machines, {.bytes = 10, .wire_ratio = 1.1}).seconds, 5, 1e-9);
}

TEST(OptimalShares, WorkersWithoutAggregators) {
  auto machines = equal_machines(4, 2);
  for (uint32_t i = 0; i < 4; i++) machines[i].aggregator = false;
  // Each spare carries 4/2 tensors.
  OptimalShares best = optimal_shares(machines, {.bytes = 1});
  EXPECT_NEAR(best.seconds, 2, 1e-9);
  EXPECT_THAT(best.shares, ElementsAre(0, 0, 0, 0, near(0.5), near(0.5)));
  // With fast spares a worker's link decides.
  machines[4].link_bytes_per_s = machines[5].link_bytes_per_s = 8;
  best = optimal_shares(machines, {.bytes = 1});
  EXPECT_NEAR(best.seconds, 1, 1e-9);
  EXPECT_THAT(best.shares, ElementsAre(0, 0, 0, 0, near(0.5), near(0.5)));
}

TEST(OptimalShares, RoundingErrorsDoNotMoveTheResult) {
  // The only aggregator carries two tensors in 1 s of its link; its CPU would take a little less.
  const std::vector<Machine> machines{
      {.name = "a", .link_bytes_per_s = 1.25, .aggregator = false},
      {.name = "b", .link_bytes_per_s = 2, .sum_bytes_per_s = 3.007162},
      {.name = "c", .link_bytes_per_s = 1.75, .aggregator = false}};
  for (const double ratio : {1.0, 1.01, 1.03, 1.05, 1.07, 1.1}) {
    EXPECT_NEAR(optimal_shares(machines, {.bytes = 1, .wire_ratio = ratio}).seconds, ratio, 1e-9);
  }
}

TEST(OptimalShares, MoreSparesThanWorkersShareEqually) {
  const OptimalShares best = optimal_shares(equal_machines(2, 4), {.bytes = 1});
  EXPECT_NEAR(best.seconds, 1, 1e-9);
  EXPECT_THAT(best.shares,
              ElementsAre(near(0), near(0), near(0.25), near(0.25), near(0.25), near(0.25)));
}

TEST(OptimalShares, LoneWorkerNeedsNoNetwork) {
  const OptimalShares alone = optimal_shares(equal_machines(1, 0), {.bytes = 5});
  EXPECT_NEAR(alone.seconds, 0, 1e-12);
  EXPECT_THAT(alone.shares, ElementsAre(near(1)));
  // A CPU of 1 and a link of 1 to a spare: half of the tensor each.
  const OptimalShares shared = optimal_shares(equal_machines(1, 1, 1, 1), {.bytes = 5});
  EXPECT_NEAR(shared.seconds, 2.5, 1e-9);
  EXPECT_THAT(shared.shares, ElementsAre(near(0.5), near(0.5)));
  // The spare's CPU is ten times slower: w / 0.1 = 1 - w.
  auto machines = equal_machines(1, 1, 1, 1);
  machines[1].sum_bytes_per_s = 0.1;
  const OptimalShares slow = optimal_shares(machines, {.bytes = 1});
  EXPECT_NEAR(slow.seconds, 1 / 1.1, 1e-9);
  EXPECT_THAT(slow.shares, ElementsAre(near(1 / 1.1), near(0.1 / 1.1)));
}

TEST(OptimalShares, EqualLinksFollowTheEquations) {
  for (uint32_t n = 2; n <= 16; n++) {
    for (uint32_t k = 0; k <= n; k++) {
      const auto machines = equal_machines(n, k, 125e6);
      const OptimalShares best = optimal_shares(machines, {.bytes = 1e8});
      ASSERT_NEAR(best.seconds, byteps_optimum(n, k) * 1e8 / 125e6, 1e-9) << n << ", " << k;
      for (uint32_t i = 0; i < n + k; i++) {
        const double share = i < n ? byteps_worker_share(n, k) : byteps_spare_share(n, k);
        ASSERT_NEAR(best.shares[i], share, 1e-9) << n << ", " << k << ", machine " << i;
      }
    }
  }
}

/// Returns the least time over all shares that are multiples of 1 / `grid`.
double best_on_grid(const std::vector<Machine>& machines, const TensorSize& tensor, uint32_t grid,
                    std::vector<double>& shares, size_t machine, uint32_t left) {
  if (machine + 1 == machines.size()) {
    if (left > 0 && !machines[machine].aggregator) return kUnlimited;
    shares[machine] = 1.0 * left / grid;
    return longest(machine_times(machines, shares, tensor));
  }
  double best = kUnlimited;
  const uint32_t most = machines[machine].aggregator ? left : 0;
  for (uint32_t share = 0; share <= most; share++) {
    shares[machine] = 1.0 * share / grid;
    best = std::min(best, best_on_grid(machines, tensor, grid, shares, machine + 1, left - share));
  }
  return best;
}

/// Returns one to four machines with random rates and roles that make a job.
std::vector<Machine> random_machines(testing::Prng& prng) {
  std::vector<Machine> machines;
  do {
    machines.clear();
    const uint32_t count = 1 + prng.below(4);
    for (uint32_t i = 0; i < count; i++) {
      machines.push_back({.name = std::to_string(i),
                          .link_bytes_per_s = 0.25 * (1 + prng.below(8)),
                          .worker = prng.chance(0.7),
                          .aggregator = prng.chance(0.8)});
      if (prng.chance(0.4)) machines.back().sum_bytes_per_s = 0.25 + 3 * prng.unit();
    }
  } while (!check_machines(machines));
  return machines;
}

TEST(OptimalShares, RandomMachinesMatchTheBestOfAGrid) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  constexpr uint32_t kGrid = 40;
  for (uint32_t step = 0; step < 300; step++) {
    const auto machines = random_machines(prng);
    const TensorSize tensor{.bytes = 1 + prng.unit(), .wire_ratio = 1 + 0.2 * prng.unit()};
    const OptimalShares best = optimal_shares(machines, tensor);

    double sum = 0;
    for (size_t i = 0; i < machines.size(); i++) {
      ASSERT_GE(best.shares[i], 0) << "step " << step;
      if (!machines[i].aggregator) {
        ASSERT_EQ(best.shares[i], 0) << "step " << step;
      }
      sum += best.shares[i];
    }
    ASSERT_NEAR(sum, 1, 1e-9) << "step " << step;
    ASSERT_NEAR(longest(machine_times(machines, best.shares, tensor)), best.seconds, 1e-9)
        << "step " << step;

    std::vector<double> shares(machines.size());
    const double on_grid = best_on_grid(machines, tensor, kGrid, shares, 0, kGrid);
    ASSERT_GE(on_grid, best.seconds - 1e-9) << "step " << step;
    // Moving a share to the grid changes it by 1 / kGrid at most, and its machine's time by n times
    // that over the slowest rate of all, 0.25.
    const double error =
        1.0 / kGrid * worker_count(machines) * tensor.bytes * tensor.wire_ratio / 0.25;
    ASSERT_LE(on_grid, best.seconds + error) << "step " << step;
  }
}

}  // namespace
}  // namespace tributary::plan
