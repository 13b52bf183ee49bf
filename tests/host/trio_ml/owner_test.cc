// SPDX-License-Identifier: Apache-2.0
// Method: tensors whose result one rank owns. First packet by packet against a simulated
// aggregator, then random operations with and without owners over a faulty network, in virtual
// time, against a plain sum. Last a live aggregator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "host/communicator.h"
#include "tests/host/live_server.h"
#include "tests/host/trio_ml/protocol_bed.h"
#include "tests/support/seed.h"
#include "tests/support/virtual_net.h"

namespace tributary::testing {
namespace {

using host::Status;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// --- Packet by packet ----------------------------------------------------------------------------

/// Rank 1 of 4, with a tensor of two blocks.
class Owner : public ::testing::Test {
 protected:
  void begin(uint32_t owner) {
    bed.join();
    tensor.transfer.owner = owner;
    bed.protocol.submit(tensor.transfer, bed.now);
    const auto sent = bed.take_sent();
    ASSERT_THAT(sent, SizeIs(2));
    for (const SentMessage& packet : sent) {
      EXPECT_EQ(packet.message.extension.scale_bits, (owner + 1) << 8);
    }
  }
  /// Returns the aggregator's message with the result of a block.
  [[nodiscard]] Message message(uint32_t block, MessageType type) const {
    Message result = bed.result(block, block == 0 ? 4 : 1, tensor.transfer);
    result.extension.type = type;
    return result;
  }

  ProtocolBed bed;
  IntTransfer tensor{{1, 2, 3, 4, 5}};
};

TEST_F(Owner, TakesTheSum) {
  begin(1);
  bed.receive(message(0, MessageType::kResult), std::array{10, 20, 30, 40});
  bed.receive(message(1, MessageType::kResult), std::array{50});
  EXPECT_TRUE(tensor.transfer.done);
  EXPECT_THAT(tensor.tensor, ElementsAre(10, 20, 30, 40, 50));
  EXPECT_EQ(bed.protocol.counters().bytes, 20U);
}

TEST_F(Owner, IgnoresReceipts) {
  begin(1);
  bed.receive(message(0, MessageType::kReceipt));
  EXPECT_EQ(bed.protocol.counters().invalid_packets, 1U);
  EXPECT_EQ(bed.protocol.counters().blocks, 0U);
}

TEST_F(Owner, ReceiptsCompleteTheBlocksOfTheOthers) {
  begin(3);
  bed.receive(message(0, MessageType::kReceipt));
  Message degraded = message(1, MessageType::kReceipt);
  degraded.header.degraded = true;
  degraded.extension.flags = wire::kFlagSourceMask;
  degraded.mask = mask_of({0, 1, 3});
  bed.receive(degraded);
  EXPECT_TRUE(tensor.transfer.done);
  EXPECT_EQ(tensor.transfer.outcome.status, Status::kOk);
  EXPECT_THAT(tensor.tensor, ElementsAre(1, 2, 3, 4, 5));
  ASSERT_THAT(tensor.transfer.outcome.degraded, SizeIs(1));
  EXPECT_EQ(tensor.transfer.outcome.degraded[0].sources, mask_of({0, 1, 3}));
  EXPECT_EQ(bed.protocol.counters().blocks, 2U);
  EXPECT_EQ(bed.protocol.counters().bytes, 0U);
}

// An aggregator that knows no owners sends the sum to all.
TEST_F(Owner, KeepsTheTensorsOfTheOthers) {
  begin(3);
  bed.receive(message(0, MessageType::kResult), std::array{10, 20, 30, 40});
  bed.receive(message(1, MessageType::kResult), std::array{50});
  EXPECT_TRUE(tensor.transfer.done);
  EXPECT_THAT(tensor.tensor, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(Owner, ReceiptsOfAnotherOwnerDoNotFit) {
  begin(3);
  Message other = message(0, MessageType::kReceipt);
  other.extension.scale_bits = wire::owner_bits(wire::ElementFormat::kInt32, 2);
  bed.receive(other);
  EXPECT_EQ(bed.protocol.counters().invalid_packets, 1U);
}

TEST_F(Owner, NotFiniteSpoilsOnlyTheOwnersTensor) {
  bed.join();
  std::array<float, 4> floats{1, 2, 3, 4};
  host::Transfer transfer;
  transfer.floats = floats;
  transfer.owner = 0;
  transfer.format = wire::ElementFormat::kFixedScale;  // Goes to all: the scale has no room.
  bed.protocol.submit(transfer, bed.now);
  ASSERT_THAT(bed.take_sent(), SizeIs(1));
  Message result = bed.result(0, 4, transfer);
  result.extension.flags = wire::kFlagNotFinite;
  bed.receive(result, std::array{1, 1, 1, 1});
  EXPECT_EQ(transfer.outcome.status, Status::kNotFinite);
  EXPECT_THAT(floats, ElementsAre(1, 2, 3, 4));
}

TEST_F(Owner, JoinsOfferToTakeReceipts) {
  const auto sent = bed.take_sent();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_TRUE(sent[0].message.body.receipts);
}

TEST_F(Owner, AMismatchNamesBothOwners) {
  begin(3);
  Message notice = bed.control(MessageType::kNotice, 0);
  notice.extension.tensor_elements = 5;
  notice.extension.scale_bits = 0x100;
  notice.extension.flags = wire::kFlagSourceMask;
  notice.mask = mask_of({0});
  notice.body.reason = Reason::kMismatch;
  notice.body.mask = mask_of({1});
  notice.body.given = {.tensor_elements = 5, .scale_bits = 0x400};
  bed.receive(notice);
  EXPECT_EQ(tensor.transfer.outcome.status, Status::kMismatch);
  EXPECT_THAT(tensor.transfer.outcome.text,
              AllOf(HasSubstr("the sum of 5 int32 for rank 3"), HasSubstr("for rank 0")));
}

// --- Random operations under faults --------------------------------------------------------------

constexpr uint32_t kWorld = 4;

/// One operation on all ranks: integers, floats or halves.
struct Operation {
  std::optional<uint32_t> owner;
  std::array<std::vector<int32_t>, kWorld> integers;
  std::array<std::vector<float>, kWorld> floats;
  std::array<host::Transfer, kWorld> transfers;

  Operation(Prng& prng, bool fixed) {
    if (prng.chance(0.7)) owner = prng.below(kWorld);
    const bool of_floats = prng.chance(0.5);
    const uint32_t count = 1 + prng.below(40);
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      for (uint32_t i = 0; i < count; i++) {
        integers[rank].push_back(static_cast<int32_t>(prng.below(1000)) - 500);
        floats[rank].push_back(static_cast<float>(integers[rank].back()));
      }
      host::Transfer& transfer = transfers[rank];
      transfer.owner = owner;
      if (of_floats) {
        transfer.floats = floats[rank];
        transfer.format =
            fixed ? wire::ElementFormat::kFixedScale : wire::ElementFormat::kBlockExponent;
        transfer.scale = 1024;
      } else {
        transfer.integers = integers[rank];
      }
    }
    before_ = integers;
  }
  [[nodiscard]] bool done() const {
    return std::ranges::all_of(transfers, [](const auto& transfer) { return transfer.done; });
  }
  /// Expects the owner, or all ranks, to have the sum, and the others their own values.
  void check() const {
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      ASSERT_EQ(transfers[rank].outcome.status, Status::kOk) << transfers[rank].outcome.text;
      const bool owned = !owner || *owner == rank;
      for (size_t i = 0; i < before_[0].size(); i++) {
        int32_t expected = 0;
        for (uint32_t other = 0; other < kWorld; other++) {
          if (owned || other == rank) expected += before_[other][i];
        }
        if (transfers[rank].integers.empty()) {
          ASSERT_EQ(floats[rank][i], static_cast<float>(expected)) << "rank " << rank;
        } else {
          ASSERT_EQ(integers[rank][i], expected) << "rank " << rank;
        }
      }
    }
  }

 private:
  std::array<std::vector<int32_t>, kWorld> before_;
};

/// Ranks below one aggregator, or below two below a third.
void walk(bool tree, const auth::JobAuth& auth) {
  const uint64_t seed = seed_from_env();
  SCOPED_TRACE(replay_hint(seed));
  Prng prng(seed);
  VirtualNet net(seed, {.loss = 0.02,
                        .duplicate = 0.02,
                        .reorder = 0.02,
                        .jitter = microseconds(10),
                        .reorder_max = milliseconds(1)});
  trio_ml::JobConfig job;
  job.sources = tree ? 2 : kWorld;
  job.world = kWorld;
  job.block_cnt_max = 64;
  job.auth = auth;
  job.sources_are_aggregators = tree;
  const Endpoint top = VirtualNet::address(0, 0);
  net.add_aggregator(job, top);
  for (uint32_t i = 0; tree && i < 2; i++) {
    trio_ml::JobConfig lower = job;
    lower.sources_are_aggregators = false;
    lower.upstream = top;
    lower.upstream_source = i;
    lower.rank_base = 2 * i;
    net.add_aggregator(lower, VirtualNet::address(0, 1 + i));
  }
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    host::CommunicatorConfig config = small_config();
    config.server = tree ? VirtualNet::address(0, 1 + rank / 2) : top;
    config.job_id = job.id;
    config.rank = rank;
    config.world = kWorld;
    config.auth = auth;
    config.deadline = seconds(20);
    if (tree) config.source = rank % 2;
    net.add_worker(config, VirtualNet::address(1, rank));
  }
  net.run_for(seconds(2));
  for (uint32_t round = 0; round < 25; round++) {
    std::vector<std::unique_ptr<Operation>> operations;
    for (uint32_t i = prng.below(6) + 1; i > 0; i--) {
      operations.push_back(std::make_unique<Operation>(prng, prng.chance(0.2)));
    }
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      for (auto& operation : operations) net.submit(rank, operation->transfers[rank]);
    }
    for (const auto& operation : operations) {
      ASSERT_TRUE(net.run_until(net.now() + seconds(30), [&] { return operation->done(); }));
      ASSERT_NO_FATAL_FAILURE(operation->check()) << "round " << round;
    }
  }
  EXPECT_GT(net.count(0, trio_ml::Outcome::kReceiptSent), 0U);
}

TEST(OwnerWalk, MatchesAPlainSum) { walk(/*tree=*/false, {}); }
TEST(OwnerWalk, MatchesAPlainSumInATree) { walk(/*tree=*/true, {}); }
TEST(OwnerWalk, MatchesAPlainSumWithSeals) {
  walk(/*tree=*/true, {auth::Mode::kHeader, auth::key_of_seed(5)});
}

// --- Several live aggregators --------------------------------------------------------------------

TEST(OwnerOfShards, GetsTheSumFromEachAggregator) {
  Server first(kWorld);
  Server second(kWorld);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kWorld; rank++) {
    threads.emplace_back([&, rank] {
      host::CommunicatorConfig config;
      for (const Server* server : {&first, &second}) {
        const Endpoint at = server->local();
        config.aggregators.push_back({.name = at.to_string(), .weight = 1, .address = at});
      }
      config.rank = rank;
      config.world = kWorld;
      config.gradients = 64;
      config.deadline = seconds(20);
      auto joined = host::Communicator::join(config);
      ASSERT_TRUE(joined.has_value()) << joined.error().text;
      for (uint32_t owner = 0; owner < kWorld; owner++) {
        std::vector<int32_t> tensor(20'000, static_cast<int32_t>(rank) + 1);
        const auto ticket = (*joined)->all_reduce_async(std::span(tensor), host::ReduceOp::kSum,
                                                        /*receive_only=*/false, 0, owner);
        ASSERT_EQ((*joined)->wait(ticket).status, Status::kOk);
        EXPECT_THAT(tensor, Each(rank == owner ? 10 : static_cast<int32_t>(rank) + 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tributary::testing
