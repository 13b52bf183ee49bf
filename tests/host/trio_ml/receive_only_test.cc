// SPDX-License-Identifier: Apache-2.0
// Method: a rank that receives sums without contributing to them. First packet by packet against a
// simulated aggregator, then with real peers that have continued without it. Virtual time only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/host/trio_ml/protocol_bed.h"
#include "tests/support/seed.h"
#include "tests/support/virtual_net.h"

namespace tributary::testing {
namespace {

using host::Status;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// --- Packet by packet ---

class ReceiveOnly : public ::testing::Test {
 protected:
  /// Submits blocks of four elements and returns the probes of the first window.
  std::vector<SentMessage> begin(uint32_t blocks) {
    bed.join();
    tensor.emplace(std::vector<int32_t>(size_t{blocks} * 4, 9));
    tensor->transfer.receive_only = true;
    bed.protocol.submit(tensor->transfer, bed.now);
    return bed.take_sent();
  }
  void result(uint32_t block, const std::array<int32_t, 4>& sum) {
    bed.receive(bed.result(block, 4, tensor->transfer), sum);
  }

  ProtocolBed bed;
  std::optional<IntTransfer> tensor;
};

TEST_F(ReceiveOnly, SendsProbesAndNoContributions) {
  const auto sent = begin(2);
  ASSERT_THAT(sent, SizeIs(2));
  for (uint32_t block = 0; block < 2; block++) {
    EXPECT_EQ(sent[block].type(), MessageType::kProbe);
    EXPECT_EQ(sent[block].block(), block);
    EXPECT_EQ(sent[block].message.header.grad_cnt, 4);
    EXPECT_THAT(sent[block].lanes, IsEmpty());
  }
  result(0, {1, 2, 3, 4});
  result(1, {5, 6, 7, 8});
  EXPECT_TRUE(tensor->transfer.done);
  EXPECT_THAT(tensor->tensor, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST_F(ReceiveOnly, StaysWithinTheWindow) {
  EXPECT_THAT(begin(6), SizeIs(4));
  result(0, {});
  EXPECT_THAT(bed.take_sent(), SizeIs(1));
}

TEST_F(ReceiveOnly, NeverAnswersARequestForItsContribution) {
  begin(1);
  bed.have(0, {0, 2});  // Rank 1 is missing.
  EXPECT_THAT(bed.take_sent(), IsEmpty());
  bed.pass(milliseconds(100));
  const auto sent = bed.take_sent();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].type(), MessageType::kProbe);
  EXPECT_EQ(bed.protocol.counters().retransmitted, 0U);
}

TEST_F(ReceiveOnly, EndsAtTheDeadline) {
  begin(1);
  bed.pass(milliseconds(1000));
  EXPECT_EQ(tensor->transfer.outcome.status, Status::kAggregatorGone);
}

TEST_F(ReceiveOnly, NamesTheOthersAtTheDeadline) {
  begin(1);
  bed.pass(milliseconds(900));
  bed.have(0, {0, 2});  // This is rank 1, and rank 3 is missing.
  bed.pass(milliseconds(100));
  EXPECT_EQ(tensor->transfer.outcome.status, Status::kPeerMissing);
  EXPECT_EQ(tensor->transfer.outcome.text,
            "rank 3 has not contributed to block 0 for 1.0 s (aggregator 10.0.0.1:12000 answers)");
}

// --- Progress of the other ranks ---

TEST(Progress, CountsSubmittedBlocksAndLaterResults) {
  ProtocolBed bed;
  bed.join();
  IntTransfer one({1, 2, 3, 4, 5});  // Two blocks.
  bed.protocol.submit(one.transfer, bed.now);
  EXPECT_EQ(bed.protocol.progress().submitted, 2U);
  EXPECT_EQ(bed.protocol.progress().heard, 0U);
  const std::array<int32_t, 4> sum{};
  bed.receive(bed.result(5, 4, one.transfer), sum);  // Belongs to a later tensor.
  EXPECT_EQ(bed.protocol.progress().heard, 6U);
  bed.receive(bed.result(0, 4, one.transfer), sum);
  bed.receive(bed.result(0xFFFFFFFF, 4, one.transfer), sum);  // Its number is far in the past.
  EXPECT_EQ(bed.protocol.progress().heard, 6U);
  EXPECT_EQ(bed.protocol.progress().submitted, 2U);
}

// --- With real peers ---

TEST(ReceiveOnlyWalk, ReceivesTheOthersSums) {
  constexpr uint32_t kElements = 37;
  constexpr uint32_t kSteps = 40;
  const uint64_t seed = seed_from_env();
  SCOPED_TRACE(replay_hint(seed));
  Prng prng(seed);
  VirtualNet net(seed, {.loss = 0.02,
                        .duplicate = 0.02,
                        .reorder = 0.02,
                        .jitter = microseconds(10),
                        .reorder_max = milliseconds(1)});
  const Endpoint server = VirtualNet::address(1, 0);
  trio_ml::JobConfig job;
  job.sources = 3;
  job.mitigation = true;
  job.block_cnt_max = 64;
  net.add_aggregator(job, server);
  for (uint32_t rank = 0; rank < 3; rank++) {
    host::CommunicatorConfig config = small_config();
    config.server = server;
    config.job_id = job.id;
    config.rank = rank;
    config.world = 3;
    config.deadline = seconds(5);
    net.add_worker(config, VirtualNet::address(2, rank));
  }
  net.run_for(milliseconds(300));

  for (uint32_t step = 0; step < kSteps; step++) {
    // Rank 2 adds to some steps and only receives the others, after ranks 0 and 1 have completed
    // them.
    const bool takes_part = prng.below(2) == 0;
    std::vector<std::vector<int32_t>> tensors;
    std::array<host::Transfer, 3> transfers;
    for (uint32_t rank = 0; rank < 3; rank++) {
      tensors.emplace_back(kElements, static_cast<int32_t>(1 + rank * 10 + step * 100));
    }
    for (uint32_t rank = 0; rank < 3; rank++) transfers[rank].integers = tensors[rank];
    const auto done = [&](uint32_t count) {
      return net.run_until(net.now() + seconds(4), [&] {
        return std::all_of(transfers.begin(), transfers.begin() + count,
                           [](const host::Transfer& transfer) { return transfer.done; });
      });
    };
    net.submit(0, transfers[0]);
    net.submit(1, transfers[1]);
    if (!takes_part) {
      ASSERT_TRUE(done(2));
      const host::Progress progress = net.worker(2).progress();
      EXPECT_GE(progress.heard, progress.submitted + 1) << "step " << step;
    }
    transfers[2].receive_only = !takes_part;
    net.submit(2, transfers[2]);
    ASSERT_TRUE(done(3)) << "step " << step;
    EXPECT_EQ(tensors[0], tensors[1]);
    EXPECT_EQ(tensors[0], tensors[2]) << "step " << step;
    ASSERT_EQ(transfers[2].outcome.status, Status::kOk) << transfers[2].outcome.text;
    if (takes_part) continue;
    EXPECT_THAT(tensors[2], Each(static_cast<int32_t>(12 + step * 200))) << "step " << step;
    EXPECT_EQ(transfers[2].outcome.degraded.size(), transfers[2].outcome.blocks);
  }
}

}  // namespace
}  // namespace tributary::testing
