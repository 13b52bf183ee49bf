// SPDX-License-Identifier: Apache-2.0
// Method: three workers at one aggregator in virtual time. Rank 2 misses the exponent round of its
// tensor's only block but delivers the block's values in time. Then the reports and the sums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "tests/support/virtual_net.h"

namespace tributary::testing {
namespace {

using host::Status;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint32_t kWorld = 3;
constexpr uint32_t kLate = 2;
constexpr Duration kTimeout = milliseconds(10);

class DegradedExponent : public ::testing::Test {
 protected:
  using Tensor = std::array<float, 4>;
  /// A tensor of each rank, in flight or done.
  struct Round {
    std::array<Tensor, kWorld> tensors{};
    std::array<host::Transfer, kWorld> transfers;
    wire::ElementFormat format = wire::ElementFormat::kBlockExponent;
  };

  void SetUp() override {
    net.add_aggregator(job(), root);
    net.add_workers(root, kWorld, /*gradients=*/4, /*window=*/8);
    start();
  }

  static trio_ml::JobConfig job() {
    trio_ml::JobConfig job;
    job.sources = kWorld;
    job.block_cnt_max = 8;
    job.block_grad_max = 32;
    job.mitigation = true;
    job.timeout = kTimeout;
    return job;
  }

  void start() {
    ASSERT_TRUE(net.run_until(net.now() + seconds(5), [this] {
      for (uint32_t rank = 0; rank < kWorld; rank++) {
        if (net.worker(rank).phase() != host::TensorProtocol::Phase::kRunning) return false;
      }
      return true;
    }));
    net.run_for(seconds(2));  // Mitigation begins when every rank has been heard.
  }

  void submit(Round& round, uint32_t rank) {
    round.transfers[rank].floats = round.tensors[rank];
    round.transfers[rank].format = round.format;
    net.submit(rank, round.transfers[rank]);
  }

  void finish(const Round& round) {
    ASSERT_TRUE(net.run_until(net.now() + seconds(1), [&round] {
      return round.transfers[0].done && round.transfers[1].done && round.transfers[2].done;
    }));
    for (const host::Transfer& transfer : round.transfers) {
      EXPECT_EQ(transfer.outcome.status, Status::kOk);
    }
    EXPECT_EQ(round.tensors[1], round.tensors[0]);
    EXPECT_EQ(round.tensors[2], round.tensors[0]);
  }

  /// Runs a tensor to which every rank contributes in time.
  void run_in_time(Round& round) {
    for (uint32_t rank = 0; rank < kWorld; rank++) submit(round, rank);
    ASSERT_NO_FATAL_FAILURE(finish(round));
    for (const host::Transfer& transfer : round.transfers) {
      EXPECT_THAT(transfer.outcome.degraded, IsEmpty());
    }
  }

  /// Runs a tensor whose exponent was agreed without rank kLate.
  void run_late_exponent(Round& round) {
    const uint64_t first = net.worker(0).progress().heard;
    submit(round, 0);
    submit(round, 1);
    ASSERT_TRUE(net.run_until(net.now() + kTimeout * 8,
                              [&] { return net.worker(0).progress().heard > first; }));
    submit(round, kLate);
    ASSERT_NO_FATAL_FAILURE(finish(round));
  }

  /// Expects that every rank reports the block as imprecise, with all ranks in its sum.
  static void expect_reported(const Round& round) {
    for (const host::Transfer& transfer : round.transfers) {
      ASSERT_THAT(transfer.outcome.degraded, SizeIs(1));
      const host::DegradedRange& range = transfer.outcome.degraded[0];
      EXPECT_EQ(range.element_first, 0U);
      EXPECT_EQ(range.element_count, 4U);
      EXPECT_TRUE(range.imprecise);
      EXPECT_EQ(range.sources, (host::SourceSet{0b111}));
    }
  }

  const Endpoint root = VirtualNet::address(0, 0);
  VirtualNet net{1};
};

/// Ranks 0 and 1 below one aggregator, and rank kLate alone below another.
class DegradedExponentInTree : public DegradedExponent {
 protected:
  void SetUp() override {
    trio_ml::JobConfig upper = job();
    upper.sources = 2;
    upper.world = kWorld;
    upper.sources_are_aggregators = true;
    upper.timeout = kTimeout * 3;  // Longer than a lower aggregator waits for its own sources.
    net.add_aggregator(upper, root);
    for (uint32_t leaf = 0; leaf < 2; leaf++) {
      trio_ml::JobConfig lower = job();
      lower.sources = 2 - leaf;
      lower.world = kWorld;
      lower.rank_base = 2 * leaf;
      lower.upstream = root;
      lower.upstream_source = leaf;
      net.add_aggregator(lower, VirtualNet::address(1, leaf));
    }
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      host::CommunicatorConfig config;
      config.server = VirtualNet::address(1, rank / 2);
      config.rank = rank;
      config.source = rank % 2;
      config.world = kWorld;
      config.gradients = 4;
      config.window = 8;
      net.add_worker(config, VirtualNet::address(2, rank));
    }
    start();
  }
};

TEST_F(DegradedExponent, LostPrecisionIsReportedOnEveryRank) {
  Round round;
  round.tensors[kLate] = {1e-7F, 3e-6F, -3e-6F, 0.0F};
  ASSERT_NO_FATAL_FAILURE(run_late_exponent(round));
  ASSERT_NO_FATAL_FAILURE(expect_reported(round));
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    EXPECT_EQ(net.worker(rank).counters().degraded_blocks, 1U);
  }
}

TEST_F(DegradedExponent, ZerosWithoutTheStragglerTakeTheExponentOfThePreviousTensor) {
  Round before;
  for (auto& tensor : before.tensors) tensor = {1e-6F, -1e-6F, 0.0F, 2e-7F};
  ASSERT_NO_FATAL_FAILURE(run_in_time(before));

  Round round;
  round.tensors[kLate] = {1e-7F, 3e-6F, -3e-6F, 0.0F};
  const Tensor given = round.tensors[kLate];
  ASSERT_NO_FATAL_FAILURE(run_late_exponent(round));
  // 1e-6 has exponent -19, so the block has -11 and a unit of 2^-40 (29 bits for three ranks).
  for (uint32_t i = 0; i < given.size(); i++) {
    EXPECT_LE(std::fabs(round.tensors[0][i] - given[i]), 0x1p-41F);
  }
  ASSERT_NO_FATAL_FAILURE(expect_reported(round));
}

TEST_F(DegradedExponent, ValuesThatSurviveAreNotReported) {
  Round round;
  for (auto& tensor : round.tensors) tensor = {0x1p-20F, -0x1p-22F, 0.0F, 0x3p-20F};
  ASSERT_NO_FATAL_FAILURE(run_late_exponent(round));
  EXPECT_EQ(round.tensors[0], (Tensor{0x3p-20F, -0x3p-22F, 0.0F, 0x9p-20F}));
  for (const host::Transfer& transfer : round.transfers) {
    EXPECT_THAT(transfer.outcome.degraded, IsEmpty());
  }
}

TEST_F(DegradedExponent, HeadroomThatCostsPrecisionIsReported) {
  Round round;
  for (auto& tensor : round.tensors) tensor = {0.1F, 0.2F, 0.3F, 1e-7F};
  ASSERT_NO_FATAL_FAILURE(run_late_exponent(round));
  ASSERT_NO_FATAL_FAILURE(expect_reported(round));
  // Exponent -1 and 8 of headroom: a unit of 2^-22, half of it lost by each of three ranks.
  EXPECT_NEAR(round.tensors[0][0], 0.3F, 3 * 0x1p-23);
}

TEST_F(DegradedExponent, ValuesThatDoNotFitAreLeftOutOfTheSum) {
  Round round;
  for (auto& tensor : round.tensors) tensor = {1.0F, 2.0F, -3.0F, 0.5F};
  // The largest value of the others is below 2^2, so values below 2^10 fit.
  round.tensors[kLate] = {0x1p11F, 0.0F, 0.0F, 0.0F};
  ASSERT_NO_FATAL_FAILURE(run_late_exponent(round));
  EXPECT_EQ(round.tensors[0], (Tensor{2.0F, 4.0F, -6.0F, 1.0F}));
  for (const host::Transfer& transfer : round.transfers) {
    ASSERT_THAT(transfer.outcome.degraded, SizeIs(1));
    EXPECT_EQ(transfer.outcome.degraded[0].sources, (host::SourceSet{0b011}));
    EXPECT_FALSE(transfer.outcome.degraded[0].imprecise);
  }
  // It asks for the result at the intervals of a lost packet, not once for each answer.
  EXPECT_LE(net.worker(kLate).counters().probes, 40U);
  EXPECT_EQ(net.worker(kLate).counters().retransmitted, 0U);

  Round next;
  for (auto& tensor : next.tensors) tensor = {0x1p10F, 1.0F, 0.0F, 0.0F};
  ASSERT_NO_FATAL_FAILURE(run_in_time(next));
  EXPECT_EQ(next.tensors[0], (Tensor{0x3p10F, 3.0F, 0.0F, 0.0F}));
}

TEST_F(DegradedExponent, SixteenBitValuesThatDoNotFitAreLeftOutOfTheSum) {
  Round round;
  round.format = wire::ElementFormat::kBlockExponent16;
  for (auto& tensor : round.tensors) tensor = {1.0F, 2.0F, -3.0F, 0.5F};
  round.tensors[kLate] = {0.0F, 0.0F, 0.0F, -0x1p20F};
  ASSERT_NO_FATAL_FAILURE(run_late_exponent(round));
  EXPECT_EQ(round.tensors[0], (Tensor{2.0F, 4.0F, -6.0F, 1.0F}));
}

TEST_F(DegradedExponentInTree, ValuesThatDoNotFitAreLeftOutOfTheSum) {
  Round round;
  for (auto& tensor : round.tensors) tensor = {1.0F, 2.0F, -3.0F, 0.5F};
  round.tensors[kLate] = {0x1p20F, 0.0F, 0.0F, 0.0F};
  // No source of its aggregator begins the block there, but kLate still gets the result.
  ASSERT_NO_FATAL_FAILURE(run_late_exponent(round));
  EXPECT_EQ(round.tensors[0], (Tensor{2.0F, 4.0F, -6.0F, 1.0F}));
  for (const host::Transfer& transfer : round.transfers) {
    ASSERT_THAT(transfer.outcome.degraded, SizeIs(1));
    EXPECT_EQ(transfer.outcome.degraded[0].sources, (host::SourceSet{0b011}));
  }
}

}  // namespace
}  // namespace tributary::testing
