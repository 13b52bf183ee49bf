// SPDX-License-Identifier: Apache-2.0
// Method: plain packets in a tree. Sums and source sets by hand, each link losing each packet once,
// then a network that loses and doubles at random. hierarchy_session_test.cc has the sessions.
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/trio_ml/upstream.h"
#include "tests/apps/trio_ml/tree_bed.h"

namespace tributary::trio_ml {
namespace {

using engine::PacketLayer;

class Hierarchy : public ::testing::TestWithParam<PacketLayer> {};

INSTANTIATE_TEST_SUITE_P(Layers, Hierarchy,
                         ::testing::Values(PacketLayer::kUdpPayload, PacketLayer::kFrame),
                         [](const auto& layer) {
                           return layer.param == PacketLayer::kFrame ? "Frame" : "UdpPayload";
                         });

TEST_P(Hierarchy, EveryRankGetsTheSumOfAll) {
  Tree tree(GetParam());
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    EXPECT_EQ(tree.take(0).size(), 0U);
    tree.contribute(rank, 5, {int32_t{1} << rank, -1});
  }
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    const Reply result = tree.take_result(rank);
    EXPECT_EQ(result.gradients, (Values{63, -6}));
    EXPECT_EQ(result.message.header.src_cnt, kRanks);
    EXPECT_FALSE(result.message.header.degraded);
  }
  EXPECT_EQ(tree.lower(0).counts(), (Counts{{"aggregated", 3},
                                            {"block_completed", 1},
                                            {"result_sent", 3},
                                            {"sent_upstream", 1},
                                            {"upstream_result", 1}}));
  EXPECT_EQ(tree.upper().counts(),
            (Counts{{"aggregated", 2}, {"block_completed", 1}, {"result_sent", 2}}));
}

TEST_P(Hierarchy, ProbeRetransmitsALostPartialSum) {
  Tree tree(GetParam());
  for (uint32_t rank = 0; rank < kRanks - 1; rank++) tree.contribute(rank, 0, {1});
  tree.lose_after(0, 1);  // The second lower aggregator's sum.
  tree.contribute(kRanks - 1, 0, {1});
  EXPECT_TRUE(tree.take(0).empty());
  tree.contribute(kRanks - 1, 0, {1});  // Retransmission.
  EXPECT_EQ(tree.take_result(0).gradients, Values{6});
  EXPECT_EQ(tree.take_result(kRanks - 1).gradients, Values{6});
  EXPECT_EQ(tree.lower(1).counted(Outcome::kSentUpstream), 2U);
}

TEST_P(Hierarchy, ProbeRetransmitsALostResult) {
  Tree tree(GetParam());
  for (uint32_t rank = 1; rank < kRanks; rank++) tree.contribute(rank, 0, {1});
  // Rank 0's contribution sends one packet up and two results down. The first result is lost.
  tree.lose_after(1, 1);
  tree.contribute(0, 0, {1});
  EXPECT_TRUE(tree.take(0).empty());
  EXPECT_EQ(tree.take_result(5).gradients, Values{6});
  tree.contribute(0, 0, {1});
  EXPECT_EQ(tree.take_result(0).gradients, Values{6});
  EXPECT_EQ(tree.upper().counted(Outcome::kLate), 1U);
}

TEST_P(Hierarchy, DuplicateUpperResultChangesNothing) {
  Tree tree(GetParam());
  for (uint32_t rank = 0; rank < kRanks; rank++) tree.contribute(rank, 0, {1});
  for (uint32_t rank = 0; rank < kRanks; rank++) static_cast<void>(tree.take(rank));
  const Bytes result = [] {
    Message message = plain(0, 0, 0, {1000});
    message.header.src_cnt = kRanks;
    return encoded(message, {1000});
  }();
  const Counts before = tree.lower(0).counts();
  tree.lower(0).deliver(result, upper_address());
  EXPECT_EQ(tree.lower(0).counted_since(before), (Counts{{"duplicate", 1}}));
  tree.contribute(0, 0, {1});
  EXPECT_EQ(tree.take_result(0).gradients, Values{6});
}

TEST_P(Hierarchy, RefusesUpperResultsForBlocksNotSentUp) {
  Tree tree(GetParam());
  tree.contribute(0, 0, {1});
  Message message = plain(0, 0, 0, {1000});
  expect_refused(tree.lower(0), encoded(message, {1000}), upper_address(), Outcome::kDuplicate);
  for (uint32_t rank = 1; rank < kRanks; rank++) tree.contribute(rank, 0, {1});
  EXPECT_EQ(tree.take_result(0).gradients, Values{6});
}

// The partial sum is on its way up again from the buffer that the result is about to overwrite.
TEST_P(Hierarchy, RetransmittedPartialSumSurvivesAResultInTheSameBurst) {
  Bed lower({.jobs = {lower_job(0, false)}, .layer = GetParam(), .local = lower_address(0)});
  for (uint32_t source = 0; source < kBelow; source++) lower.contribute(source, 0, 0, {5});
  ASSERT_EQ(lower.take().size(), 1U);
  Message result = plain(0, 0, 0, {1000});
  result.header.src_cnt = kRanks;
  lower.inject(plain_bytes(0, 0, 0, {5}), worker(0));
  lower.inject(encoded(result, {1000}), upper_address());
  lower.run();
  const auto sent = lower.take();
  ASSERT_EQ(sent.size(), 1U + kBelow);
  EXPECT_EQ(sent[0].to, upper_address());
  EXPECT_EQ(sent[0].gradients, Values{15});
  for (uint32_t i = 0; i < kBelow; i++) EXPECT_EQ(sent[1 + i].gradients, Values{1000});
}

TEST_P(Hierarchy, StragglerBelowOneAggregatorDegradesTheResult) {
  Tree tree(GetParam(), /*mitigation=*/true);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    if (rank != 4) tree.contribute(rank, 0, {int32_t{1} << rank});
  }
  tree.pass(kTimeout * 8);
  const Reply result = tree.take_result(0);
  EXPECT_EQ(result.gradients, Values{63 - 16});
  EXPECT_EQ(result.message.header.src_cnt, kRanks - 1);
  EXPECT_TRUE(result.message.header.degraded);
  EXPECT_EQ(tree.take_result(5).gradients, Values{63 - 16});
}

TEST_P(Hierarchy, LateContributionToASentBlockReactivatesItsSource) {
  Tree tree(GetParam(), /*mitigation=*/true);
  for (const uint32_t rank : {0U, 1U, 3U, 4U, 5U}) tree.contribute(rank, 0, {1});
  tree.pass(seconds(3));
  EXPECT_EQ(tree.lower(0).counted(Outcome::kSourcePermanent), 1U);
  // Block 1 goes up without rank 2 at once, and waits there for the other aggregator.
  for (const uint32_t rank : {0U, 1U}) tree.contribute(rank, 1, {1});
  tree.contribute(2, 1, {1});
  EXPECT_EQ(tree.lower(0).counted(Outcome::kSourceReturned), 1U);
  EXPECT_EQ(tree.lower(0).counted(Outcome::kLate), 1U);
}

TEST_P(Hierarchy, SilentAggregatorDegradesTheResult) {
  Tree tree(GetParam(), /*mitigation=*/true);
  for (uint32_t rank = 0; rank < kBelow; rank++) tree.contribute(rank, 0, {1});
  tree.pass(kTimeout * 8);
  const Reply result = tree.take_result(0);
  EXPECT_EQ(result.gradients, Values{3});
  EXPECT_EQ(result.message.header.src_cnt, kBelow);
  EXPECT_TRUE(result.message.header.degraded);
  // Its workers are late and get the same result as the others.
  for (uint32_t rank = kBelow; rank < kRanks; rank++) tree.contribute(rank, 0, {1});
  EXPECT_EQ(tree.take_result(5).gradients, Values{3});
}

// Workers send until they have every result; the aggregators' links lose and duplicate packets.
TEST_P(Hierarchy, BadLinksNeverCauseAWrongSum) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  Tree tree(GetParam());
  tree.set_faults(prng, 0.2, 0.2);
  constexpr uint32_t kBlocks = 200;
  constexpr uint32_t kWindow = 8;
  std::vector<uint32_t> base(kRanks);
  std::vector<std::vector<bool>> done(kRanks, std::vector<bool>(kBlocks + kWindow));
  const auto value = [](uint32_t rank, uint32_t block) {
    return static_cast<int32_t>(block * 100 + rank);
  };
  const auto all_done = [&] {
    return std::all_of(base.begin(), base.end(), [](uint32_t b) { return b >= kBlocks; });
  };
  for (uint64_t step = 0; !all_done(); step++) {
    ASSERT_LT(step, 500'000U) << "no progress";
    if (step % 100 == 0) tree.pass(milliseconds(1));  // A source has a budget of replies.
    const uint32_t rank = prng.below(kRanks);
    const uint32_t block = base[rank] + prng.below(kWindow);
    if (block < kBlocks && !done[rank][block]) tree.contribute(rank, block, {value(rank, block)});
    for (uint32_t other = 0; other < kRanks; other++) {
      for (const Reply& result : tree.take(other)) {
        const uint32_t its_block = result.message.header.block_id;
        ASSERT_EQ(result.gradients, Values{static_cast<int32_t>(its_block * 100 * kRanks + 15)});
        ASSERT_EQ(result.message.header.src_cnt, kRanks);
        done[other][its_block] = true;
        while (base[other] < kBlocks && done[other][base[other]]) base[other]++;
      }
    }
  }
  EXPECT_EQ(tree.upper().counted(Outcome::kAggregated), kBlocks * kLowerCount);
}

}  // namespace
}  // namespace tributary::trio_ml
