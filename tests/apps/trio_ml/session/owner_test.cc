// SPDX-License-Identifier: Apache-2.0
// Method: results that one rank owns. Bytes and repairs by hand: one aggregator, a tree, late
// ranks, disagreement, sources that take no receipts, seals. Then random blocks with and without
// owners to the live machine and to both fidelities of the modelled one, which must send the same
// bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "apps/trio_ml/emit.h"
#include "tests/apps/trio_ml/modelled_bed.h"
#include "tests/apps/trio_ml/tree_bed.h"

namespace tributary::trio_ml {
namespace {

using engine::PacketLayer;
using wire::ElementFormat;

/// Returns a contribution to a block whose result goes to `owner` alone, if it is set.
Bytes owned_bytes(const Member& member, uint32_t block, const Values& gradients,
                  std::optional<uint32_t> owner) {
  Message message = member.contribution(block, gradients);
  message.extension.scale_bits = wire::owner_bits(message.extension.format, owner);
  return encoded(message, gradients);
}

JobConfig job_of(uint32_t ranks, bool mitigation = false) {
  return {.id = 1,
          .sources = ranks,
          .block_cnt_max = 8,
          .block_grad_max = 64,
          .mitigation = mitigation,
          .timeout = kTimeout};
}

/// Returns the replies to each worker, by its port.
std::map<uint16_t, std::vector<Reply>> by_worker(Bed& bed) {
  std::map<uint16_t, std::vector<Reply>> mail;
  for (Reply& reply : bed.take()) mail[reply.to.port].push_back(std::move(reply));
  return mail;
}

void expect_receipt(const Reply& reply) {
  EXPECT_EQ(reply.message.extension.type, MessageType::kReceipt);
  EXPECT_EQ(reply.gradients, Values{});
  EXPECT_EQ(reply.bytes.size(), reply.message.head_bytes);
}
void expect_sum(const Reply& reply, const Values& sum) {
  EXPECT_EQ(reply.message.extension.type, MessageType::kResult);
  EXPECT_EQ(reply.gradients, sum);
}

// --- One aggregator ------------------------------------------------------------------------------

TEST(Owner, GetsTheSumAndTheOthersReceipts) {
  Bed bed(job_of(3));
  const auto members = join_all(bed);
  const Counts before = bed.counts();
  for (uint32_t rank = 0; rank < 3; rank++) {
    bed.deliver(owned_bytes(members[rank], 7, {1000, -1}, 2), worker(rank));
  }
  EXPECT_EQ(
      bed.counted_since(before),
      (Counts{{"aggregated", 3}, {"block_completed", 1}, {"receipt_sent", 2}, {"result_sent", 1}}));
  auto mail = by_worker(bed);
  ASSERT_EQ(mail.size(), 3U);
  const Reply& sum = mail[worker(2).port].at(0);
  expect_sum(sum, {3000, -3});
  for (const uint32_t rank : {0U, 1U}) {
    ASSERT_EQ(mail[worker(rank).port].size(), 1U);
    const Reply& receipt = mail[worker(rank).port][0];
    expect_receipt(receipt);
    // The head of the result, but for its type.
    Bytes head(sum.bytes.begin(), sum.bytes.begin() + 32);
    head[12] = std::byte{0x2e};
    EXPECT_EQ(receipt.bytes, head);
  }
}

TEST(Owner, RepairsFollowTheSameRule) {
  Bed bed(job_of(3));
  const auto members = join_all(bed);
  for (uint32_t rank = 0; rank < 3; rank++) {
    bed.deliver(owned_bytes(members[rank], 0, {rank == 0 ? 5 : 1}, 0), worker(rank));
  }
  (void)bed.take();
  const auto repair = [&](uint32_t rank, bool by_probe) {
    Message probe = members[rank].message(MessageType::kProbe, 0);
    probe.header.grad_cnt = 1;
    bed.deliver(by_probe ? encoded(probe) : owned_bytes(members[rank], 0, {1}, 0), worker(rank));
    auto replies = bed.take();
    EXPECT_EQ(replies.size(), 1U);
    return replies.at(0);
  };
  for (const bool by_probe : {false, true}) {
    expect_sum(repair(0, by_probe), {7});
    expect_receipt(repair(1, by_probe));
  }
}

TEST(Owner, ThatIsLateGetsTheDegradedSum) {
  Bed bed(job_of(3, /*mitigation=*/true));
  const auto members = join_all(bed);
  for (uint32_t rank = 0; rank < 3; rank++) {
    bed.deliver(owned_bytes(members[rank], 0, {1}, 1), worker(rank));
  }
  (void)bed.take();
  for (const uint32_t rank : {0U, 2U}) {
    bed.deliver(owned_bytes(members[rank], 1, {10}, 1), worker(rank));
  }
  bed.run_until(bed.now() + kTimeout * 3);
  auto mail = by_worker(bed);
  expect_sum(mail[worker(1).port].at(0), {20});  // Its address is known from block 0.
  const Reply& receipt = mail[worker(0).port].at(0);
  expect_receipt(receipt);
  EXPECT_TRUE(receipt.message.header.degraded);
  EXPECT_EQ(receipt.message.header.src_cnt, 2);
  EXPECT_EQ(receipt.message.mask, (SourceMask{0b101, 0, 0, 0}));
  bed.deliver(owned_bytes(members[1], 1, {10}, 1), worker(1));
  expect_sum(bed.take_result(1), {20});
}

TEST(Owner, RanksThatDisagreeAreNamed) {
  Bed bed(job_of(3));
  const auto members = join_all(bed);
  bed.deliver(owned_bytes(members[0], 0, {1}, 1), worker(0));
  bed.deliver(owned_bytes(members[2], 0, {1}, 2), worker(2));
  EXPECT_EQ(bed.counted(Outcome::kTensorDiffers), 1U);
  const auto replies = bed.take();
  ASSERT_FALSE(replies.empty());
  for (const Reply& reply : replies) {
    EXPECT_EQ(reply.message.body.reason, Reason::kMismatch);
    EXPECT_EQ(reply.message.body.mask, (SourceMask{0b100, 0, 0, 0}));
    EXPECT_EQ(reply.message.body.given.scale_bits, 0x300U);
    EXPECT_EQ(reply.message.extension.scale_bits, 0x200U);
  }
}

TEST(Owner, OfNoRankGetsNothing) {
  Bed bed(job_of(2));
  const auto members = join_all(bed);
  for (const uint32_t owner : {2U, 255U, 256U, 510U}) {
    for (uint32_t rank = 0; rank < 2; rank++) {
      bed.deliver(owned_bytes(members[rank], owner, {1}, owner), worker(rank));
    }
    for (const Reply& reply : bed.take()) expect_receipt(reply);
  }
  EXPECT_EQ(bed.counted(Outcome::kReceiptSent), 8U);
}

TEST(Owner, SourcesThatTakeNoReceiptsGetTheSum) {
  Bed bed(job_of(3));
  std::vector<Member> members(3);
  for (uint32_t round = 0; round < 2; round++) {
    for (uint32_t source = 0; source < 3; source++) {
      Message join = join_message(source, 50 + source, 3);
      join.body.receipts = source != 1;
      for (const Reply& reply : deliver_join(bed, join, worker(source))) {
        if (reply.message.extension.type != MessageType::kWelcome) continue;
        members[reply.message.body.source] = {.source = reply.message.body.source,
                                              .key = reply.message.body.key,
                                              .result_key = reply.message.body.result_key};
      }
    }
  }
  for (uint32_t rank = 0; rank < 3; rank++) {
    bed.deliver(owned_bytes(members[rank], 0, {1}, 2), worker(rank));
  }
  auto mail = by_worker(bed);
  expect_receipt(mail[worker(0).port].at(0));
  expect_sum(mail[worker(1).port].at(0), {3});
  expect_sum(mail[worker(2).port].at(0), {3});
}

// A scale of 2^-64 has the bits of the owner 127.
TEST(Owner, IsNotReadFromAFixedScale) {
  Bed bed(job_of(2));
  const auto members = join_all(bed);
  for (uint32_t rank = 0; rank < 2; rank++) {
    Message message = members[rank].contribution(0, {1});
    message.extension.format = ElementFormat::kFixedScale;
    message.extension.scale_bits = 0x1f8000;
    bed.deliver(encoded(message, {1}), worker(rank));
  }
  for (const Reply& reply : bed.take()) expect_sum(reply, {2});
}

TEST(Owner, GetsTheSumInsteadOfTheMulticastGroup) {
  JobConfig job = job_of(2);
  job.group = Endpoint::ipv4(0xe0000001, 12001);
  Bed bed(job);
  const auto members = join_all(bed);
  for (uint32_t rank = 0; rank < 2; rank++) {
    bed.deliver(owned_bytes(members[rank], 0, {1}, 0), worker(rank));
  }
  auto mail = by_worker(bed);
  EXPECT_EQ(mail.size(), 2U);
  expect_sum(mail[worker(0).port].at(0), {2});
  expect_receipt(mail[worker(1).port].at(0));
}

TEST(Owner, HasNoPlaceInAnAsynchronousJob) {
  JobConfig job = job_of(2);
  job.asynchronous = true;
  job.parameters = 1;
  Bed bed(job);
  const auto members = join_all(bed);
  bed.deliver(owned_bytes(members[0], 0, {1}, 1), worker(0));
  EXPECT_EQ(bed.counted(Outcome::kNotParameters), 1U);
}

// Only aggregators send receipts.
TEST(Owner, ReceiptsOfASourceAreRefused) {
  Bed bed(job_of(2));
  const auto members = join_all(bed);
  bed.deliver(encoded(members[0].message(MessageType::kReceipt, 0)), worker(0));
  EXPECT_EQ(bed.counted(Outcome::kNotExpectedHere), 1U);
}

// --- A tree --------------------------------------------------------------------------------------

class OwnerInTree : public ::testing::TestWithParam<PacketLayer> {};
INSTANTIATE_TEST_SUITE_P(Layers, OwnerInTree,
                         ::testing::Values(PacketLayer::kUdpPayload, PacketLayer::kFrame),
                         [](const auto& layer) {
                           return layer.param == PacketLayer::kFrame ? "Frame" : "UdpPayload";
                         });

TEST_P(OwnerInTree, LowerAggregatorsPassReceiptsDown) {
  Tree tree(GetParam());
  const auto members = join_tree(tree);
  for (uint32_t owner = 0; owner < kRanks; owner++) {
    for (uint32_t rank = 0; rank < kRanks; rank++) {
      tree.send(rank, owned_bytes(members[rank], owner, {int32_t{1} << rank}, owner));
    }
    for (uint32_t rank = 0; rank < kRanks; rank++) {
      const Reply reply = tree.take_result(rank);
      if (rank == owner) {
        expect_sum(reply, {63});
      } else {
        expect_receipt(reply);
      }
      EXPECT_EQ(reply.message.header.src_cnt, kRanks);
      EXPECT_EQ(reply.message.extension.key, members[rank].result_key);
    }
    // Repairs of a rank next to the owner, and of one below the other aggregator.
    for (const uint32_t rank : {owner, (owner + kBelow) % kRanks}) {
      tree.send(rank, owned_bytes(members[rank], owner, {0}, owner));
      const Reply reply = tree.take_result(rank);
      EXPECT_EQ(reply.gradients, rank == owner ? Values{63} : Values{});
    }
  }
  EXPECT_EQ(tree.upper().counted(Outcome::kReceiptSent), kRanks);
  EXPECT_EQ(tree.upper().counted(Outcome::kResultSent), kRanks);
}

// A receipt is sealed for all lower aggregators. A party that reads the traffic passes the one for
// the other rack on to the owner's.
TEST_P(OwnerInTree, ReceiptOfAnotherRackIsRefused) {
  Tree tree(GetParam());
  const auto members = join_tree(tree);
  for (uint32_t rank = 0; rank < kBelow; rank++) {
    tree.send(rank, owned_bytes(members[rank], 0, {int32_t{1} << rank}, 0));
  }
  Bed& lower = tree.lower(0);
  Message receipt = members[0].message(MessageType::kReceipt, 0);
  receipt.header.src_id = 0;
  receipt.header.src_cnt = kRanks;
  receipt.header.grad_cnt = 1;
  receipt.extension.tensor_elements = 1;
  receipt.extension.scale_bits = wire::owner_bits(ElementFormat::kInt32, 0);
  receipt.extension.key = lower.session().upstream_result_key();
  lower.deliver(encoded(receipt), upper_address());
  EXPECT_EQ(lower.counted(Outcome::kNotExpectedHere), 1U);
  for (uint32_t rank = kBelow; rank < kRanks; rank++) {
    tree.send(rank, owned_bytes(members[rank], 0, {int32_t{1} << rank}, 0));
  }
  expect_sum(tree.take_result(0), {63});
}

// The second lower aggregator hears of a block only by the receipt of the upper one.
TEST_P(OwnerInTree, ReceiptsReachALateRack) {
  Tree tree(GetParam(), /*mitigation=*/true);
  const auto members = join_tree(tree);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    tree.send(rank, encoded(members[rank].message(MessageType::kKeepAlive, 0)));
  }
  tree.pass(milliseconds(600));  // The upper aggregator hears that all ranks are present.
  for (uint32_t rank = 0; rank < kBelow; rank++) {
    tree.send(rank, owned_bytes(members[rank], 0, {int32_t{1} << rank}, 1));
  }
  tree.pass(kTimeout * 8);
  expect_sum(tree.take_result(1), {7});
  for (const uint32_t rank : {0U, 2U, 3U, 5U}) {
    const Reply receipt = tree.take_result(rank);
    expect_receipt(receipt);
    EXPECT_EQ(receipt.message.mask, (SourceMask{0b000111, 0, 0, 0}));
  }
}

// A lower aggregator whose worker takes no receipts takes none itself.
TEST_P(OwnerInTree, AnOldRankGetsTheSumThroughItsAggregator) {
  Tree tree(GetParam());
  std::vector<Message> joins;
  std::vector<Member> members(kRanks);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    joins.push_back(join_message(rank % kBelow, 100 + rank, kRanks));
    joins[rank].body.receipts = rank != 4;
  }
  for (uint32_t round = 0; round < 5; round++) {
    for (uint32_t rank = 0; rank < kRanks; rank++) {
      ask_to_join(tree, rank, joins[rank], members[rank]);
    }
    tree.pass(milliseconds(50));
  }
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    tree.send(rank, owned_bytes(members[rank], 0, {1}, 0));
  }
  expect_sum(tree.take_result(0), {6});
  expect_sum(tree.take_result(4), {6});
  for (const uint32_t rank : {1U, 2U, 3U, 5U}) expect_receipt(tree.take_result(rank));
}

TEST_P(OwnerInTree, RandomBlocksUnderLossMatchASum) {
  const uint64_t seed = tributary::testing::seed_from_env();
  SCOPED_TRACE(tributary::testing::replay_hint(seed));
  Prng prng(seed);
  Tree tree(GetParam());
  const auto members = join_tree(tree);
  tree.set_faults(prng, /*loss=*/0.2, /*duplicate=*/0.2);
  for (uint32_t block = 0; block < 100; block++) {
    const auto owner =
        prng.chance(0.3) ? std::nullopt : std::optional<uint32_t>(prng.below(kRanks));
    Values values(kRanks);
    int32_t sum = 0;
    for (int32_t& value : values) sum += value = static_cast<int32_t>(prng.below(1000));
    std::vector<bool> done(kRanks);
    for (uint32_t round = 0; std::ranges::count(done, true) < kRanks; round++) {
      ASSERT_LT(round, 200U) << "block " << block;
      for (uint32_t rank = 0; rank < kRanks; rank++) {
        if (done[rank]) continue;
        tree.send(rank, owned_bytes(members[rank], block, {values[rank]}, owner));
      }
      for (uint32_t rank = 0; rank < kRanks; rank++) {
        for (const Reply& reply : tree.take(rank)) {
          const MessageType type = reply.message.extension.type;
          if (type != MessageType::kResult && type != MessageType::kReceipt) continue;
          ASSERT_EQ(reply.message.header.block_id, block);
          ASSERT_EQ(type == MessageType::kResult, !owner || *owner == rank) << "rank " << rank;
          ASSERT_EQ(reply.gradients, type == MessageType::kResult ? Values{sum} : Values{});
          done[rank] = true;
        }
      }
      tree.pass(milliseconds(1));
    }
  }
}

// --- Live and modelled ---------------------------------------------------------------------------

TEST(Owner, LiveAndModelledMachinesSendTheSameBytes) {
  const uint64_t seed = tributary::testing::seed_from_env();
  SCOPED_TRACE(tributary::testing::replay_hint(seed));
  Prng prng(seed);
  constexpr uint32_t kBlocks = 20;
  const JobConfig job = job_of(4);
  std::vector<Member> members;
  const auto live_session = started_session(job, members);
  const auto exact_session = started_session(job, members);
  const auto burst_session = started_session(job, members);
  Modelled exact(job, *exact_session, engine::Fidelity::kExact);
  Modelled burst(job, *burst_session, engine::Fidelity::kBurst);
  auto memory = *memory::SharedMemory::create({});
  Shard shard(0, 1, wire::kTrioMlPort, memory);
  ASSERT_TRUE(shard.add_job(job, *live_session, Instant()).has_value());
  io::InMemoryPort port({});
  engine::LiveCore<App> live(0, port.queue(0), App(shard), {});
  for (uint32_t block = 0; block < kBlocks; block++) {
    const auto owner = prng.chance(0.3) ? std::nullopt : std::optional<uint32_t>(prng.below(4));
    const Values gradients(1 + prng.below(64), prng.any_i32());
    for (uint32_t rank = 0; rank < 4; rank++) {
      const Bytes packet = owned_bytes(members[rank], block, gradients, owner);
      ASSERT_TRUE(port.inject_payload(0, packet, worker(rank)));
      (void)live.run_once(Instant());
      std::vector<Bytes> expected;
      size_t lane_bytes = 0;
      for (const io::SentPacket& sent : port.take_sent(0)) {
        expected.emplace_back(sent.bytes.begin(), sent.bytes.end());
        lane_bytes += sent.bytes.size() - 32;
      }
      ASSERT_EQ(lane_bytes, rank == 3 ? gradients.size() * 4 * (owner ? 1 : 4) : 0U);
      std::ranges::sort(expected);
      ASSERT_EQ(exact.exchange(packet, rank), expected);
      ASSERT_EQ(burst.exchange(packet, rank), expected);
    }
  }
}

}  // namespace
}  // namespace tributary::trio_ml
