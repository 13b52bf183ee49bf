// SPDX-License-Identifier: Apache-2.0
// Method: how fast a window advances over a lossy network, in virtual time, so the result is the
// same on every machine. The bounds are a third of the measured rates: they detect a repair that is
// far too slow, and do not fix a figure.
#include <fmt/core.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/virtual_net.h"

namespace tributary::testing {
namespace {

constexpr uint32_t kWorld = 4;
constexpr uint32_t kGradients = 8;
constexpr uint32_t kWindow = 256;

/// Returns the blocks per second of virtual time that one of the workers completes.
double blocks_per_second(double loss, uint64_t blocks) {
  VirtualNet net(/*seed=*/7, {.loss = loss, .jitter = microseconds(10)});
  trio_ml::JobConfig job;
  job.sources = kWorld;
  job.block_cnt_max = kWindow;
  job.block_grad_max = kGradients;
  const Endpoint server = VirtualNet::address(0, 0);
  net.add_aggregator(job, server);
  net.add_workers(server, kWorld, kGradients, kWindow);
  net.run_for(milliseconds(500));  // All workers have joined.
  std::vector<int32_t> ones(blocks * kGradients, 1);
  std::vector<std::vector<int32_t>> tensors(kWorld, ones);
  std::vector<host::Transfer> transfers(kWorld);
  const Instant begun_at = net.now();
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    transfers[rank].integers = tensors[rank];
    net.submit(rank, transfers[rank]);
  }
  const bool ended = net.run_until(begun_at + seconds(60), [&transfers] {
    return std::all_of(transfers.begin(), transfers.end(),
                       [](const host::Transfer& transfer) { return transfer.done; });
  });
  EXPECT_TRUE(ended);
  return static_cast<double>(blocks) / in_seconds(net.now() - begun_at);
}

TEST(LossThroughput, RepairKeepsThroughputAtFivePercentLoss) {
  const double at_5_percent = blocks_per_second(0.05, 3000);
  const double at_10_percent = blocks_per_second(0.1, 3000);
  RecordProperty("blocks_per_second_at_5_percent", static_cast<int>(at_5_percent));
  RecordProperty("blocks_per_second_at_10_percent", static_cast<int>(at_10_percent));
  fmt::print("5 %: {:.0f} blocks/s, 10 %: {:.0f} blocks/s\n", at_5_percent, at_10_percent);
  EXPECT_GT(at_5_percent, 40000);
  EXPECT_GT(at_10_percent, 9000);
}

}  // namespace
}  // namespace tributary::testing
