// SPDX-License-Identifier: Apache-2.0
// Method: sums of 16-bit gradients by hand: one aggregator, a tree, late ranks, disagreement. Then
// random contributions to the live machine and to both fidelities of the modelled one, which must
// send the same bytes, and these must be the sum, divided and rounded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "apps/trio_ml/emit.h"
#include "tests/apps/trio_ml/modelled_bed.h"
#include "tests/apps/trio_ml/tree_bed.h"

namespace tributary::trio_ml {
namespace {

using engine::PacketLayer;
using wire::ElementFormat;

Bytes narrow_bytes(const Member& member, uint32_t block, const Values& gradients) {
  Message message = member.contribution(block, gradients);
  message.extension.format = ElementFormat::kBlockExponent16;
  message.extension.exponent = static_cast<int8_t>(member.source);
  return encoded(message, gradients);
}

JobConfig four_ranks(bool mitigation = false) {
  return {.id = 1,
          .sources = 4,
          .block_cnt_max = 8,
          .block_grad_max = 64,
          .mitigation = mitigation,
          .timeout = kTimeout};
}

TEST(NarrowLanes, FourRanksDivideByFour) {
  Bed bed(four_ranks());
  const auto members = join_all(bed);
  const std::array<Values, 4> tensors{
      Values{1, 32767, -32767, 2, 3}, Values{1, 32767, -32767, 0, 3},
      Values{1, 32767, -32767, 0, 4}, Values{1, 32767, -32767, 0, 4}};
  for (uint32_t rank = 0; rank < 4; rank++) {
    bed.deliver(narrow_bytes(members[rank], 0, tensors[rank]), worker(rank));
  }
  const Reply result = bed.take_result(2);
  EXPECT_EQ(result.gradients, (Values{1, 32767, -32767, 0, 4}));  // 2 / 4 and 14 / 4 are ties.
  EXPECT_EQ(result.message.extension.format, ElementFormat::kBlockExponent16);
  EXPECT_EQ(result.message.extension.exponent, 3);
  EXPECT_EQ(result.bytes.size(), result.message.head_bytes + 10U);
}

TEST(NarrowLanes, RepeatedResultsHaveTheSameBytes) {
  Bed bed(four_ranks());
  const auto members = join_all(bed);
  for (uint32_t rank = 0; rank < 4; rank++) {
    bed.deliver(narrow_bytes(members[rank], 0, {100, 200, 300}), worker(rank));
  }
  const Reply first = bed.take_result(1);
  bed.deliver(narrow_bytes(members[1], 0, {100, 200, 300}), worker(1));  // Late: answered.
  EXPECT_EQ(bed.take_result(1).bytes, first.bytes);
  EXPECT_EQ(first.gradients, (Values{100, 200, 300}));
}

TEST(NarrowLanes, DegradedSumsAreDividedAlike) {
  Bed bed(four_ranks(/*mitigation=*/true));
  const auto members = join_all(bed);
  for (const uint32_t rank : {0U, 1U, 2U, 3U}) {
    bed.deliver(narrow_bytes(members[rank], 0, {4}), worker(rank));
  }
  EXPECT_EQ(bed.take_result(0).gradients, Values{4});
  for (const uint32_t rank : {0U, 3U}) {
    bed.deliver(narrow_bytes(members[rank], 1, {4000}), worker(rank));
  }
  bed.run_until(bed.now() + kTimeout * 3);
  const Reply result = bed.take_result(0);
  EXPECT_TRUE(result.message.header.degraded);
  EXPECT_EQ(result.gradients, Values{2000});
  EXPECT_EQ(result.message.header.src_cnt, 2);
}

TEST(NarrowLanes, RanksThatDisagreeAboutTheWidthAreNamed) {
  Bed bed(four_ranks());
  const auto members = join_all(bed);
  bed.deliver(narrow_bytes(members[0], 0, {1, 2}), worker(0));
  Message wide = members[1].contribution(0, {1, 2});
  wide.extension.format = ElementFormat::kBlockExponent;
  bed.deliver(encoded(wide, {1, 2}), worker(1));
  bool told = false;
  for (const Reply& reply : bed.take()) {
    told = told || (reply.message.body.reason == Reason::kMismatch &&
                    reply.message.body.given.format == ElementFormat::kBlockExponent &&
                    reply.message.extension.format == ElementFormat::kBlockExponent16);
  }
  EXPECT_TRUE(told);
  EXPECT_EQ(bed.counted(Outcome::kTensorDiffers), 1U);
}

TEST(NarrowLanes, WelcomeOffersTwiceTheGradientsUpToTheBuffer) {
  Bed bed(four_ranks());
  const auto join = [&bed](uint32_t gradients) {
    for (uint32_t round = 0; round < 2; round++) {
      for (uint32_t source = 0; source < 4; source++) {
        Message message = join_message(source, 50 + source, 4);
        message.body.gradients_max = gradients;
        (void)deliver_join(bed, message, worker(source));
      }
    }
    return bed.session().welcome_body(0).narrow_max;
  };
  EXPECT_EQ(join(20), 40U);
  Bed larger(four_ranks());
  join_all(larger);
  EXPECT_EQ(larger.session().welcome_body(0).narrow_max, 64U);  // Not 128: block_grad_max.
}

// Six ranks: the lower aggregators divide by eight, the upper one adds quotients.
TEST(NarrowLanes, TreesAddQuotients) {
  Tree tree(PacketLayer::kUdpPayload);
  const auto members = join_tree(tree);
  EXPECT_EQ(tree.upper().session().welcome_body(0).narrow_max, 16U);
  EXPECT_EQ(tree.lower(1).session().welcome_body(0).narrow_max, 16U);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    tree.send(rank, narrow_bytes(members[rank], 0, {32767, -32767, 8, 4, rank < kBelow ? 7 : 0}));
  }
  // 3 * 32767 / 8 = 12287.6; 3 * 4 / 8 = 1.5; 21 / 8 = 2.6.
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    EXPECT_EQ(tree.take_result(rank).gradients, (Values{24576, -24576, 6, 4, 3}));
  }
}

// --- Live and modelled ---------------------------------------------------------------------------

TEST(NarrowLanes, LiveAndModelledMachinesSendTheSameBytes) {
  const uint64_t seed = tributary::testing::seed_from_env();
  SCOPED_TRACE(tributary::testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t step = 0; step < 12; step++) {
    const uint32_t ranks = 1 + prng.below(9);
    const uint32_t count = 1 + prng.below(600);
    JobConfig job{.id = 1, .sources = ranks, .block_cnt_max = 8, .block_grad_max = 600};
    std::vector<Member> members;
    const auto live_session = started_session(job, members);
    const auto exact_session = started_session(job, members);
    const auto burst_session = started_session(job, members);
    Modelled exact(job, *exact_session, engine::Fidelity::kExact);
    Modelled burst(job, *burst_session, engine::Fidelity::kBurst);
    auto memory = *memory::SharedMemory::create({});
    Shard shard(0, 1, wire::kTrioMlPort, memory);
    ASSERT_TRUE(shard.add_job(job, *live_session, Instant()).has_value());
    io::InMemoryPort port({.payload_bytes_max = 20'000});
    engine::LiveCore<App> live(0, port.queue(0), App(shard), {});

    std::vector<double> sums(count);
    for (uint32_t rank = 0; rank < ranks; rank++) {
      Values gradients(count);
      for (int32_t& gradient : gradients) {
        gradient = prng.chance(0.1) ? 32767 : static_cast<int32_t>(prng.below(65535)) - 32767;
      }
      for (uint32_t i = 0; i < count; i++) sums[i] += gradients[i];
      const Bytes packet = narrow_bytes(members[rank], 0, gradients);
      ASSERT_TRUE(port.inject_payload(0, packet, worker(rank)));
      (void)live.run_once(Instant());
      std::vector<Bytes> expected;
      for (const io::SentPacket& sent : port.take_sent(0)) {
        expected.emplace_back(sent.bytes.begin(), sent.bytes.end());
      }
      ASSERT_EQ(expected.size(), rank + 1 == ranks ? ranks : 0U);
      ASSERT_EQ(exact.exchange(packet, rank), expected);
      ASSERT_EQ(burst.exchange(packet, rank), expected);
      if (expected.empty()) continue;
      Message result;
      ASSERT_EQ(decode_message(expected[0], static_cast<uint32_t>(expected[0].size()), result),
                wire::DecodeStatus::kOk);
      for (uint32_t i = 0; i < count; i++) {
        const auto lane =
            static_cast<int16_t>(load_be<uint16_t>(&expected[0][result.head_bytes + 2 * i]));
        ASSERT_EQ(lane, std::rint(sums[i] / std::exp2(wire::result_shift(ranks)))) << i;
      }
    }
  }
}

}  // namespace
}  // namespace tributary::trio_ml
