// SPDX-License-Identifier: Apache-2.0
// Method: one rank of four joins and never contributes, so every block waits for it and ages out.
// The links lose packets. The workers have to repair these losses before the blocks age: no result
// may lack a rank that contributed. Virtual time, so a seed gives the same result on every machine.
#include <fmt/core.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/virtual_net.h"

namespace tributary::testing {
namespace {

constexpr uint32_t kWorld = 4;
constexpr uint32_t kHealthy = 3;  ///< The last rank is absent.
constexpr uint32_t kGradients = 8;
constexpr uint32_t kWindow = 256;
constexpr uint32_t kBlocks = 4263;

struct Case {
  uint64_t seed;
  double loss;
  Duration delay;  ///< One way.
};

struct Counts {
  /// Contributions of healthy ranks that are missing from results, summed over the healthy ranks.
  uint64_t degraded_by_loss_alone = 0;
  uint64_t probes = 0;  ///< Probes of all healthy ranks.
  uint64_t retransmitted = 0;
  Duration took;
};

/// Counts the ranges of a result whose sum lacks `rank`.
uint64_t ranges_without(const host::Outcome& outcome, uint32_t rank) {
  return static_cast<uint64_t>(std::count_if(
      outcome.degraded.begin(), outcome.degraded.end(),
      [rank](const host::DegradedRange& range) { return (range.sources[0] >> rank & 1) == 0; }));
}

/// Reduces one tensor without the absent rank.
Counts reduce(const Case& at) {
  VirtualNet net(at.seed, {.loss = at.loss, .jitter = microseconds(10)}, at.delay);
  trio_ml::JobConfig job;
  job.sources = kWorld;
  job.block_cnt_max = kWindow;
  job.block_grad_max = kGradients;
  job.mitigation = true;
  job.timeout = milliseconds(10);
  const Endpoint server = VirtualNet::address(0, 0);
  net.add_aggregator(job, server);
  net.add_workers(server, kWorld, kGradients, kWindow);
  net.run_for(milliseconds(500));  // All workers have joined.

  std::vector<int32_t> ones(size_t{kBlocks} * kGradients, 1);
  std::vector<std::vector<int32_t>> tensors(kHealthy, ones);
  std::vector<host::Transfer> transfers(kHealthy);
  const Instant begun_at = net.now();
  for (uint32_t rank = 0; rank < kHealthy; rank++) {
    transfers[rank].integers = tensors[rank];
    net.submit(rank, transfers[rank]);
  }
  EXPECT_TRUE(net.run_until(begun_at + seconds(60), [&transfers] {
    return std::all_of(transfers.begin(), transfers.end(),
                       [](const host::Transfer& transfer) { return transfer.done; });
  }));

  Counts counts{.took = net.now() - begun_at};
  for (uint32_t rank = 0; rank < kHealthy; rank++) {
    EXPECT_EQ(transfers[rank].outcome.status, host::Status::kOk) << transfers[rank].outcome.text;
    counts.degraded_by_loss_alone += ranges_without(transfers[0].outcome, rank);
    counts.probes += net.worker(rank).counters().probes;
    counts.retransmitted += net.worker(rank).counters().retransmitted;
  }
  return counts;
}

class LossBehindStraggler : public ::testing::TestWithParam<Duration> {};

TEST_P(LossBehindStraggler, ExcludesNoHealthyRank) {
  for (const double loss : {0.01, 0.05}) {
    for (uint64_t seed = 1; seed <= 3; seed++) {
      const Case at{.seed = seed, .loss = loss, .delay = GetParam()};
      const Counts counts = reduce(at);
      fmt::print(
          "delay {} us, loss {}, seed {}: degraded_by_loss_alone {}, probes per block {:.2f}, "
          "retransmitted {}, {} ms\n",
          in_nanoseconds(at.delay) / 1000, loss, seed, counts.degraded_by_loss_alone,
          static_cast<double>(counts.probes) / kHealthy / kBlocks, counts.retransmitted,
          in_milliseconds(counts.took));
      EXPECT_EQ(counts.degraded_by_loss_alone, 0U) << "loss " << loss << ", seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Delays, LossBehindStraggler,
                         ::testing::Values(microseconds(20), microseconds(100), microseconds(200),
                                           milliseconds(1)),
                         [](const auto& delay) {
                           return fmt::format("{}us", in_nanoseconds(delay.param) / 1000);
                         });

}  // namespace
}  // namespace tributary::testing
