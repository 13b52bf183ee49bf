// SPDX-License-Identifier: Apache-2.0
// Method: one fault at a time, in virtual time. Checks which worker gets which error, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/virtual_net.h"

namespace tributary::testing {
namespace {

using host::Status;
using ::testing::HasSubstr;

constexpr Duration kDeadline = milliseconds(500);

/// Three workers at one aggregator or at a tree of two levels, all joined. Each all-reduces on
/// demand.
class Misfortune : public ::testing::Test {
 protected:
  static trio_ml::JobConfig job() {
    trio_ml::JobConfig job;
    job.sources = 3;
    job.block_cnt_max = 8;
    job.block_grad_max = 32;
    return job;
  }

  void start(const trio_ml::JobConfig& job) {
    net.add_aggregator(job, root);
    for (uint32_t rank = 0; rank < 3; rank++) add_worker(rank, root, rank);
    ASSERT_TRUE(all_run());
  }

  /// Ranks 0 and 1 below one aggregator, rank 2 below another.
  void start_tree(trio_ml::JobConfig job) {
    job.world = 3;
    trio_ml::JobConfig upper = job;
    upper.sources = 2;
    upper.sources_are_aggregators = true;
    // A lower aggregator may wait two timeouts for its own sources before it sends up a sum.
    upper.timeout = job.timeout * 3;
    net.add_aggregator(upper, root);
    for (uint32_t leaf = 0; leaf < 2; leaf++) {
      trio_ml::JobConfig lower = job;
      lower.sources = 2 - leaf;
      lower.rank_base = 2 * leaf;
      lower.upstream = root;
      lower.upstream_source = leaf;
      net.add_aggregator(lower, VirtualNet::address(1, leaf));
    }
    for (uint32_t rank = 0; rank < 3; rank++) {
      add_worker(rank, VirtualNet::address(1, rank / 2), rank % 2);
    }
    ASSERT_TRUE(all_run());
  }

  uint32_t add_worker(uint32_t rank, const Endpoint& server, uint32_t source) {
    host::CommunicatorConfig config;
    config.server = server;
    config.rank = rank;
    config.source = source;
    config.world = 3;
    config.gradients = 4;
    config.window = 8;
    config.deadline = kDeadline;
    return net.add_worker(config, VirtualNet::address(2, rank));
  }

  bool all_run() {
    return net.run_until(net.now() + seconds(5), [this] {
      for (uint32_t i = net.worker_count() - 3; i < net.worker_count(); i++) {
        if (net.worker(i).phase() != host::TensorProtocol::Phase::kRunning) return false;
      }
      return true;
    });
  }

  /// All-reduces `element_count` ones from this worker.
  host::Transfer& reduce(uint32_t worker, uint32_t element_count = 40) {
    tensors.push_back(std::make_unique<std::vector<int32_t>>(element_count, 1));
    transfers.push_back(std::make_unique<host::Transfer>());
    transfers.back()->integers = *tensors.back();
    net.submit(worker, *transfers.back());
    return *transfers.back();
  }

  /// Runs until the transfer is done, for at most `longest`.
  bool done_within(const host::Transfer& transfer, Duration longest) {
    return net.run_until(net.now() + longest, [&] { return transfer.done; });
  }

  const Endpoint root = VirtualNet::address(0, 0);
  VirtualNet net{1};
  std::vector<std::unique_ptr<std::vector<int32_t>>> tensors;
  std::vector<std::unique_ptr<host::Transfer>> transfers;
};

TEST_F(Misfortune, CrashedPeerIsNamedAtTheDeadline) {
  start(job());
  net.crash(2);
  const host::Transfer& first = reduce(0);
  const host::Transfer& second = reduce(1);
  ASSERT_TRUE(done_within(first, kDeadline + milliseconds(1)));
  EXPECT_EQ(first.outcome.status, Status::kPeerMissing);
  EXPECT_THAT(first.outcome.text, HasSubstr("rank 2 has not contributed to block 0"));
  // The first worker to fail sends a leave, which may reach the second before its own deadline.
  ASSERT_TRUE(done_within(second, kDeadline + milliseconds(1)));
  EXPECT_NE(second.outcome.status, Status::kOk);
}

TEST_F(Misfortune, LeftPeerIsNamedAtOnce) {
  start(job());
  net.leave(2);
  const host::Transfer& waiting = reduce(0);
  reduce(1);
  ASSERT_TRUE(done_within(waiting, milliseconds(200)));
  EXPECT_EQ(waiting.outcome.status, Status::kPeerLeft);
  EXPECT_THAT(waiting.outcome.text, HasSubstr("rank 2 has left job 1"));
}

TEST(Leaves, OneArrivesAtFortyPercentLoss) {
  constexpr uint64_t kSeeds = 50;
  uint32_t heard = 0;
  for (uint64_t seed = 1; seed <= kSeeds; seed++) {
    VirtualNet net(seed, {.loss = 0.4});
    trio_ml::JobConfig job;
    job.sources = 1;
    const Endpoint server = VirtualNet::address(0, 0);
    net.add_aggregator(job, server);
    host::CommunicatorConfig config;
    config.server = server;
    config.world = 1;
    net.add_worker(config, VirtualNet::address(1, 0));
    net.run_for(seconds(1));  // Joined.
    net.leave(0);
    net.run_for(milliseconds(20));
    if (net.count(0, trio_ml::Outcome::kLeave) > 0) heard++;
  }
  // One leave in a hundred loses all five copies; with two copies it would be one in six.
  EXPECT_GE(heard, kSeeds - 3);
}

TEST_F(Misfortune, StoppedAggregatorIsReportedAtTheDeadline) {
  start(job());
  net.stop_aggregator(0);
  const host::Transfer& waiting = reduce(0);
  ASSERT_TRUE(done_within(waiting, kDeadline + milliseconds(1)));
  EXPECT_EQ(waiting.outcome.status, Status::kAggregatorGone);
}

TEST_F(Misfortune, RestartedAggregatorHasLostTheSession) {
  start(job());
  net.restart_aggregator(0);
  const host::Transfer& waiting = reduce(0);
  ASSERT_TRUE(done_within(waiting, milliseconds(10)));
  EXPECT_EQ(waiting.outcome.status, Status::kSessionLost);
  // Idle workers learn it from the answer to their next keep-alive.
  net.run_for(milliseconds(1100));
  EXPECT_EQ(net.worker(1).status(), Status::kSessionLost);

  for (uint32_t rank = 0; rank < 3; rank++) add_worker(rank, root, rank);
  ASSERT_TRUE(all_run());
  reduce(3);
  reduce(4);
  EXPECT_TRUE(done_within(reduce(5), milliseconds(10)));
  EXPECT_THAT(*tensors.back(), ::testing::Each(3));
}

TEST_F(Misfortune, RankIsTakenUntilItsSilentWorkerExpires) {
  start(job());
  net.crash(2);
  net.run_for(milliseconds(10));
  const uint32_t too_soon = add_worker(2, root, 2);
  net.run_for(kDeadline + milliseconds(1));
  EXPECT_EQ(net.worker(too_soon).status(), Status::kRefused);
  EXPECT_THAT(net.worker(too_soon).status_text(), HasSubstr("rank 2 of job 1 is taken"));

  net.run_for(seconds(4));
  add_worker(2, root, 2);
  net.run_for(milliseconds(100));
  const host::Transfer& first = reduce(0);
  const host::Transfer& second = reduce(1);
  ASSERT_TRUE(done_within(first, milliseconds(200)));
  ASSERT_TRUE(done_within(second, milliseconds(200)));
  EXPECT_EQ(first.outcome.status, Status::kPeerLeft);
  EXPECT_EQ(second.outcome.status, Status::kPeerLeft);
  add_worker(0, root, 0);
  add_worker(1, root, 1);
  EXPECT_TRUE(all_run());  // Together with the new worker of rank 2.
}

TEST_F(Misfortune, PausedPeerCostsAtMostTwoTimeoutsWithMitigation) {
  trio_ml::JobConfig config = job();
  config.mitigation = true;
  config.timeout = milliseconds(20);
  start(config);
  net.run_for(milliseconds(100));
  net.pause(2, milliseconds(200));
  const host::Transfer& waiting = reduce(0, 32);  // One window.
  reduce(1, 32);
  ASSERT_TRUE(done_within(waiting, config.timeout * 2 + milliseconds(1)));
  ASSERT_EQ(waiting.outcome.status, Status::kOk);
  ASSERT_EQ(waiting.outcome.degraded.size(), 8U);
  for (const host::DegradedRange& range : waiting.outcome.degraded) {
    EXPECT_EQ(range.sources, (host::SourceSet{0b011}));
  }
  EXPECT_THAT(*tensors.front(), ::testing::Each(2));

  // The slow worker returns while the cache still holds the results, so it gets the same ones.
  const host::Transfer& late = reduce(2, 32);
  ASSERT_TRUE(done_within(late, milliseconds(300)));
  EXPECT_EQ(late.outcome.status, Status::kOk);
  EXPECT_EQ(late.outcome.degraded.size(), 8U);
  EXPECT_THAT(*tensors.back(), ::testing::Each(2));
}

TEST_F(Misfortune, WorkerPastTheCacheGetsANotice) {
  trio_ml::JobConfig config = job();
  config.mitigation = true;
  start(config);
  net.run_for(milliseconds(100));
  net.pause(2, seconds(2));
  const host::Transfer& first = reduce(0, 400);  // A hundred blocks, and a window of eight.
  reduce(1, 400);
  const host::Transfer& late = reduce(2, 400);
  ASSERT_TRUE(done_within(first, seconds(2)));
  EXPECT_EQ(first.outcome.status, Status::kOk);
  ASSERT_TRUE(done_within(late, seconds(3)));
  EXPECT_EQ(late.outcome.status, Status::kDesynchronised);
  EXPECT_THAT(late.outcome.text, HasSubstr("rank 2 is too far behind"));
}

TEST_F(Misfortune, EveryRankGetsTheMismatchNotice) {
  start(job());
  const host::Transfer& shorter = reduce(0, 39);
  const host::Transfer& longer = reduce(1, 40);
  ASSERT_TRUE(
      net.run_until(net.now() + milliseconds(100), [&] { return shorter.done && longer.done; }));
  EXPECT_EQ(shorter.outcome.status, Status::kMismatch);
  EXPECT_EQ(longer.outcome.status, Status::kMismatch);
}

TEST_F(Misfortune, ARankThatComesAfterAMismatchIsToldOfItAndNotOfTheLeavers) {
  start(job());
  const host::Transfer& shorter = reduce(0, 3);
  const host::Transfer& longer = reduce(1, 4);
  ASSERT_TRUE(
      net.run_until(net.now() + milliseconds(100), [&] { return shorter.done && longer.done; }));
  net.run_until(net.now() + milliseconds(20), [] { return false; });  // Their leaves arrive.
  const host::Transfer& late = reduce(2, 3);
  ASSERT_TRUE(done_within(late, milliseconds(100)));
  EXPECT_EQ(late.outcome.status, Status::kMismatch);
  EXPECT_THAT(late.outcome.text,
              HasSubstr("rank 1 gives the sum of 4 int32 where rank 0 gave the sum of 3"));
}

// --- Sessions ---

TEST_F(Misfortune, BusyAndIdleSessionsStayAlive) {
  start(job());
  for (uint32_t round = 0; round < 100; round++) {  // Ten seconds without a keep-alive.
    reduce(0, 4);
    reduce(1, 4);
    ASSERT_TRUE(done_within(reduce(2, 4), milliseconds(10)));
    ASSERT_EQ(transfers.back()->outcome.status, Status::kOk);
    net.run_for(milliseconds(100));
  }
  net.run_for(seconds(10));
  reduce(0, 4);
  reduce(1, 4);
  EXPECT_TRUE(done_within(reduce(2, 4), milliseconds(10)));
  EXPECT_EQ(transfers.back()->outcome.status, Status::kOk);
}

TEST_F(Misfortune, SessionEndsAtOnceWhenAllHaveLeft) {
  start_tree(job());
  EXPECT_NE(net.job(0).session.number(), 0U);
  for (uint32_t rank = 0; rank < 3; rank++) net.leave(rank);
  net.run_for(milliseconds(1));
  for (uint32_t i = 0; i < 3; i++) EXPECT_EQ(net.job(i).session.number(), 0U) << i;

  for (uint32_t rank = 0; rank < 3; rank++) {
    add_worker(rank, VirtualNet::address(1, rank / 2), rank % 2);
  }
  EXPECT_TRUE(all_run());
}

TEST_F(Misfortune, SessionOfCrashedWorkersExpires) {
  start(job());
  for (uint32_t rank = 0; rank < 3; rank++) net.crash(rank);
  net.run_for(seconds(6));  // 3.5 s of silence, then the next check.
  EXPECT_EQ(net.job(0).session.number(), 0U);
}

// --- Trees ---

TEST_F(Misfortune, TreeNamesAMissingPeerBelowTheSameAggregator) {
  start_tree(job());
  net.crash(1);
  const host::Transfer& near = reduce(0);
  ASSERT_TRUE(done_within(near, kDeadline + milliseconds(1)));
  EXPECT_EQ(near.outcome.status, Status::kPeerMissing);
  EXPECT_THAT(near.outcome.text, HasSubstr("rank 1 has not contributed"));
}

TEST_F(Misfortune, TreeReportsAMissingPeerBelowAnotherAggregator) {
  start_tree(job());
  net.crash(2);
  const host::Transfer& far = reduce(0);
  reduce(1);
  ASSERT_TRUE(done_within(far, kDeadline + milliseconds(1)));
  EXPECT_EQ(far.outcome.status, Status::kPeerMissing);
  EXPECT_THAT(far.outcome.text, HasSubstr("behind another aggregator"));
}

TEST_F(Misfortune, TreeNamesTheRanksOfADegradedBlock) {
  trio_ml::JobConfig config = job();
  config.mitigation = true;
  start_tree(config);
  net.run_for(milliseconds(1500));
  net.pause(0, milliseconds(200));
  const host::Transfer& waiting = reduce(2, 4);
  reduce(1, 4);
  ASSERT_TRUE(done_within(waiting, milliseconds(100)));
  ASSERT_EQ(waiting.outcome.degraded.size(), 1U);
  EXPECT_EQ(waiting.outcome.degraded[0].sources, (host::SourceSet{0b110}));
  EXPECT_THAT(*tensors.front(), ::testing::Each(2));
}

TEST_F(Misfortune, RestartedUpperAggregatorHasLostTheSession) {
  start_tree(job());
  net.restart_aggregator(0);
  const host::Transfer& waiting = reduce(2);
  ASSERT_TRUE(done_within(waiting, milliseconds(100)));
  EXPECT_EQ(waiting.outcome.status, Status::kSessionLost);
}

}  // namespace
}  // namespace tributary::testing
