// SPDX-License-Identifier: Apache-2.0
// Method: workers of an asynchronous job over a faulty network, in virtual time. Each rank counts
// its pushes in bits of its own of every parameter, so a value says which pushes it holds: exactly
// the receiver's own, and of each other rank at least as many as before and at most as many as
// sent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "auth/keys.h"
#include "base/prng.h"
#include "tests/support/seed.h"
#include "tests/support/virtual_net.h"

namespace tributary::testing {
namespace {

using host::Status;
using ::testing::HasSubstr;

constexpr uint32_t kWorld = 3;
constexpr uint32_t kParameters = 38;  // Blocks of 4, the last one of 2.
constexpr uint32_t kGradients = 4;
constexpr uint64_t kBlocks = 10;
constexpr uint32_t kBitsOfRank = 9;
/// Above the bits of all ranks.
constexpr int32_t kInitial = 5 << (kWorld * kBitsOfRank);

uint32_t pushes_in(int32_t value, uint32_t rank) {
  return static_cast<uint32_t>(value) >> (rank * kBitsOfRank) & ((1U << kBitsOfRank) - 1);
}

/// A rank that pushes one after another, and checks each value that it gets.
struct Rank {
  std::vector<int32_t> tensor = std::vector<int32_t>(kParameters);
  host::Transfer transfer;
  uint32_t pushes = 0;  ///< Submitted, without the initial one.
  bool initialised = false;
  bool busy = false;
  std::array<std::vector<uint32_t>, kWorld> seen;  ///< Pushes of each rank in each parameter.
};

class AsynchronousWalk : public ::testing::Test {
 protected:
  void start(uint64_t seed, const net::LinkFaults& faults, uint32_t window) {
    net_ = std::make_unique<VirtualNet>(seed, faults);
    trio_ml::JobConfig job;
    job.sources = kWorld;
    job.block_cnt_max = 64;
    job.block_grad_max = kGradients;
    job.asynchronous = true;
    job.parameters = kParameters;
    job.auth = auth_;
    net_->add_aggregator(job, server_);
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      host::CommunicatorConfig config;
      config.server = server_;
      config.rank = rank;
      config.world = kWorld;
      config.gradients = kGradients;
      config.window = window;
      config.asynchronous = true;
      config.auth = auth_;
      net_->add_worker(config, VirtualNet::address(1, rank));
      for (auto& seen : ranks_[rank].seen) seen.assign(kParameters, 0);
    }
    net_->run_for(seconds(2));
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      ASSERT_EQ(net_->worker(rank).phase(), host::TensorProtocol::Phase::kRunning)
          << net_->worker(rank).status_text();
    }
  }
  void push(uint32_t rank) {
    Rank& r = ranks_[rank];
    int32_t change = 1 << (rank * kBitsOfRank);
    if (r.initialised) {
      r.pushes++;
    } else {
      change = rank == 0 ? kInitial : 0;
    }
    std::fill(r.tensor.begin(), r.tensor.end(), change);
    r.transfer = host::Transfer{};
    r.transfer.integers = r.tensor;
    r.busy = true;
    net_->submit(rank, r.transfer);
  }
  void check(uint32_t rank) {
    Rank& r = ranks_[rank];
    ASSERT_EQ(r.transfer.outcome.status, Status::kOk) << r.transfer.outcome.text;
    uint64_t others = 0;
    for (uint32_t i = 0; i < kParameters; i++) {
      ASSERT_EQ(r.tensor[i] >> (kWorld * kBitsOfRank), 5) << "parameter " << i;
      for (uint32_t other = 0; other < kWorld; other++) {
        const uint32_t held = pushes_in(r.tensor[i], other);
        uint32_t& seen = r.seen[other][i];
        if (other == rank) {
          ASSERT_EQ(held, r.pushes) << "rank " << rank << " parameter " << i;
        } else {
          ASSERT_GE(held, seen);
          ASSERT_LE(held, ranks_[other].pushes);
          if (i % kGradients == 0) others += held - seen;
        }
        seen = held;
      }
    }
    r.busy = false;
    // Exact unless an answer was repeated: the aggregator cannot know which copy the rank took.
    if (r.initialised) {
      stale_counted_ += r.transfer.outcome.staleness.pushes_sum;
      stale_true_ += others;
    }
    r.initialised = true;
  }
  /// Runs until the rank's transfer is done, and checks it.
  void finish(uint32_t rank) {
    ASSERT_TRUE(
        net_->run_until(net_->now() + seconds(60), [&] { return ranks_[rank].transfer.done; }))
        << "rank " << rank;
    check(rank);
  }

  auth::JobAuth auth_;
  const Endpoint server_ = VirtualNet::address(0, 0);
  std::unique_ptr<VirtualNet> net_;
  std::array<Rank, kWorld> ranks_;
  uint64_t stale_counted_ = 0;
  uint64_t stale_true_ = 0;
};

TEST_F(AsynchronousWalk, RanksGoOnAtTheirOwnSpeed) {
  start(1, VirtualNet::kCalm, /*window=*/64);  // All initial pushes are held for rank 0's.
  push(1);
  push(2);
  net_->run_for(milliseconds(5));
  push(0);
  for (uint32_t rank = 0; rank < kWorld; rank++) ASSERT_NO_FATAL_FAILURE(finish(rank));
  // Rank 1 pushes ten times while rank 2 does nothing.
  for (uint32_t i = 0; i < 10; i++) {
    push(1);
    ASSERT_NO_FATAL_FAILURE(finish(1));
  }
  push(2);
  ASSERT_NO_FATAL_FAILURE(finish(2));
  EXPECT_EQ(ranks_[2].transfer.outcome.blocks, kBlocks);
  EXPECT_EQ(ranks_[2].transfer.outcome.staleness.pushes_sum, 10 * kBlocks);
  EXPECT_EQ(ranks_[2].transfer.outcome.staleness.pushes_max, 10U);
  EXPECT_EQ(stale_counted_, stale_true_);
}

TEST_F(AsynchronousWalk, InitialValuesWaitForRank0) {
  start(2, VirtualNet::kCalm, /*window=*/64);
  push(1);
  push(2);
  net_->run_for(milliseconds(300));
  EXPECT_FALSE(ranks_[1].transfer.done);
  push(0);
  for (uint32_t rank = 0; rank < kWorld; rank++) ASSERT_NO_FATAL_FAILURE(finish(rank));
}

TEST_F(AsynchronousWalk, CrashedRankStopsNobody) {
  start(3, VirtualNet::kCalm, /*window=*/8);
  for (uint32_t rank = 0; rank < kWorld; rank++) push(rank);
  for (uint32_t rank = 0; rank < kWorld; rank++) ASSERT_NO_FATAL_FAILURE(finish(rank));
  net_->crash(2);
  for (uint32_t i = 0; i < 20; i++) {
    net_->run_for(milliseconds(500));
    push(0);
    push(1);
    ASSERT_NO_FATAL_FAILURE(finish(0));
    ASSERT_NO_FATAL_FAILURE(finish(1));
  }
}

TEST_F(AsynchronousWalk, OtherTensorIsRefusedByName) {
  start(4, VirtualNet::kCalm, /*window=*/8);
  Rank& r = ranks_[0];
  r.tensor.resize(kParameters + 1);
  r.transfer.integers = r.tensor;
  net_->submit(0, r.transfer);
  ASSERT_TRUE(net_->run_until(net_->now() + seconds(1), [&] { return r.transfer.done; }));
  EXPECT_EQ(r.transfer.outcome.status, Status::kMismatch);
  EXPECT_THAT(r.transfer.outcome.text, HasSubstr("keeps 38 parameters"));
}

TEST_F(AsynchronousWalk, AnswersAreSealed) {
  auth_ = {auth::Mode::kFull, auth::key_of_seed(5)};
  start(5, VirtualNet::kCalm, /*window=*/8);
  for (uint32_t i = 0; i < 3; i++) {
    for (uint32_t rank = 0; rank < kWorld; rank++) push(rank);
    for (uint32_t rank = 0; rank < kWorld; rank++) ASSERT_NO_FATAL_FAILURE(finish(rank));
  }
  EXPECT_EQ(net_->worker(1).counters().forged_packets, 0U);
}

TEST_F(AsynchronousWalk, EveryPushCountsOnceUnderFaults) {
  const uint64_t first_seed = seed_from_env();
  for (uint64_t seed = first_seed; seed < first_seed + 8; seed++) {
    SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
    ranks_ = {};
    stale_counted_ = stale_true_ = 0;
    Prng prng(seed);
    start(seed,
          {.loss = 0.1,
           .duplicate = 0.05,
           .reorder = 0.05,
           .jitter = microseconds(30),
           .reorder_max = microseconds(200)},
          1 + prng.below(12));
    ASSERT_FALSE(HasFatalFailure());
    for (uint32_t step = 0; step < 200; step++) {
      const uint32_t rank = prng.below(kWorld);
      if (!ranks_[rank].busy) {
        push(rank);
      } else if (ranks_[rank].initialised || ranks_[0].busy || ranks_[0].initialised) {
        ASSERT_NO_FATAL_FAILURE(finish(rank));
      }
      net_->run_for(microseconds(prng.below(300)));
    }
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      if (!ranks_[rank].busy && !ranks_[rank].initialised) push(rank);
    }
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      if (ranks_[rank].busy) {
        ASSERT_NO_FATAL_FAILURE(finish(rank));
      }
    }
    // Nothing is under way: one more push of each rank shows everything.
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      push(rank);
      ASSERT_NO_FATAL_FAILURE(finish(rank));
    }
    for (uint32_t other = 0; other < kWorld; other++) {
      for (const int32_t value : ranks_[kWorld - 1].tensor) {
        ASSERT_EQ(pushes_in(value, other), ranks_[other].pushes) << "rank " << other;
      }
    }
    // The aggregator counts the initial pushes, too, which this test does not see.
    EXPECT_LE(stale_counted_, stale_true_ + kWorld * (kWorld - 1) * kBlocks);
    EXPECT_GE(stale_counted_ * 10, stale_true_ * 9);
  }
}

}  // namespace
}  // namespace tributary::testing
