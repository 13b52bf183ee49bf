// SPDX-License-Identifier: Apache-2.0
// Method: sessions through a tree of aggregators: joins, leaves, notices, and the loss of the upper
// session, by hand.
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/trio_ml/upstream.h"
#include "tests/apps/trio_ml/tree_bed.h"

namespace tributary::trio_ml {
namespace {

using engine::PacketLayer;

class HierarchySession : public ::testing::TestWithParam<PacketLayer> {};

INSTANTIATE_TEST_SUITE_P(Layers, HierarchySession,
                         ::testing::Values(PacketLayer::kUdpPayload, PacketLayer::kFrame),
                         [](const auto& layer) {
                           return layer.param == PacketLayer::kFrame ? "Frame" : "UdpPayload";
                         });

TEST_P(HierarchySession, SessionResultNamesItsRanks) {
  Tree tree(GetParam(), /*mitigation=*/true);
  const auto members = join_tree(tree);
  EXPECT_EQ(tree.upper().counted(Outcome::kSessionStarted), 1U);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    tree.send(rank, members[rank].contribution_bytes(0, {int32_t{1} << rank}));
  }
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    EXPECT_EQ(tree.take_result(rank).gradients, Values{63});
  }
  for (const uint32_t rank : {1U, 3U, 5U}) {
    tree.send(rank, members[rank].contribution_bytes(1, {int32_t{1} << rank}));
  }
  tree.pass(kTimeout * 8);
  const Reply result = tree.take_result(1);
  EXPECT_EQ(result.gradients, Values{2 + 8 + 32});
  EXPECT_EQ(result.message.header.src_cnt, 3);
  EXPECT_TRUE(result.message.header.degraded);
  EXPECT_EQ(result.message.mask, (SourceMask{0b101010, 0, 0, 0}));
}

// All ranks below an aggregator die, and their successors join before its timer finds that out.
TEST_P(HierarchySession, NewcomersThatEndTheSessionMakeItsAggregatorLeave) {
  Tree tree(GetParam());
  (void)join_tree(tree);
  const auto advance = [&tree](Duration by) {
    tree.upper().advance(by);
    for (uint32_t i = 0; i < kLowerCount; i++) tree.lower(i).advance(by);
  };
  std::vector<Message> joins;
  std::vector<Member> members(kBelow);
  advance(milliseconds(3200));
  for (uint32_t rank = 0; rank < kBelow; rank++) {  // For the cookies.
    joins.push_back(join_message(rank, 500 + rank, kRanks));
    ask_to_join(tree, rank, joins[rank], members[rank]);
    EXPECT_NE(joins[rank].body.key, 0U);
  }
  EXPECT_EQ(tree.lower(0).counted(Outcome::kSessionEnded), 0U);
  advance(milliseconds(400));  // Silent for at least 3.6 s.
  ask_to_join(tree, 0, joins[0], members[0]);
  EXPECT_EQ(tree.lower(0).session().number(), 0U);
  EXPECT_EQ(tree.lower(0).counted(Outcome::kSessionEnded), 1U);
  EXPECT_EQ(tree.upper().counted(Outcome::kLeave), 1U);
}

/// Returns a question for the result of a block that the rank does not contribute to.
Bytes question(const Member& member, uint32_t block_id, uint16_t gradients = 1) {
  Message probe = member.message(MessageType::kProbe, block_id);
  probe.header.grad_cnt = gradients;
  return encoded(probe);
}

/// Returns the results among the packets that a rank has received since the last call.
std::vector<Reply> results_of(Tree& tree, uint32_t rank) {
  std::vector<Reply> results = tree.take(rank);
  std::erase_if(results, [](const Reply& reply) {
    return reply.message.extension.type != MessageType::kResult;
  });
  return results;
}

// No rank below the second aggregator contributes, so that aggregator sends no partial sum.
TEST_P(HierarchySession, RanksThatOnlyReceiveGetTheResultOfTheOthers) {
  Tree tree(GetParam(), /*mitigation=*/true);
  const auto members = join_tree(tree);
  for (uint32_t rank = kBelow; rank < kRanks; rank++) tree.send(rank, question(members[rank], 0));
  for (uint32_t rank = 0; rank < kBelow; rank++) {
    tree.send(rank, members[rank].contribution_bytes(0, {int32_t{1} << rank}));
  }
  tree.pass(kTimeout * 8);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    const auto results = results_of(tree, rank);
    ASSERT_EQ(results.size(), 1U) << "rank " << rank;
    EXPECT_EQ(results[0].gradients, Values{7});
    EXPECT_TRUE(results[0].message.header.degraded);
    EXPECT_EQ(results[0].message.mask, (SourceMask{0b000111, 0, 0, 0}));
    EXPECT_EQ(results[0].message.extension.key, members[rank].result_key);
  }
  // The result is kept: a lost copy is repaired here, and a contribution is late.
  tree.send(4, question(members[4], 0));
  ASSERT_EQ(results_of(tree, 4).size(), 1U);
  tree.send(5, members[5].contribution_bytes(0, {100}));
  EXPECT_EQ(tree.lower(1).counted(Outcome::kLate), 1U);
  EXPECT_EQ(results_of(tree, 5).at(0).gradients, Values{7});
  EXPECT_EQ(tree.lower(1).counted(Outcome::kSentUpstream), 0U);
}

// The upper aggregator goes on without the second one.
TEST_P(HierarchySession, RanksOfALateRackGetEveryResult) {
  Tree tree(GetParam(), /*mitigation=*/true);
  const auto members = join_tree(tree);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    tree.send(rank, encoded(members[rank].message(MessageType::kKeepAlive, 0)));
  }
  tree.pass(milliseconds(600));  // The upper aggregator hears that all ranks are present.
  const auto contribute = [&](uint32_t block) {
    for (uint32_t rank = 0; rank < kBelow; rank++) {
      tree.send(rank, members[rank].contribution_bytes(block, {int32_t{1} << rank}));
    }
  };
  contribute(0);
  tree.pass(kTimeout * 8);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    const auto results = results_of(tree, rank);
    ASSERT_EQ(results.size(), 1U) << "rank " << rank;
    EXPECT_EQ(results[0].gradients, Values{7});
  }
  // The result of block 1 is lost on its way to the second aggregator. A question repairs it.
  contribute(1);
  tree.pass_without(1, kTimeout * 8);
  EXPECT_EQ(results_of(tree, 0).size(), 1U);
  tree.send(4, question(members[4], 1));
  for (uint32_t rank = kBelow; rank < kRanks; rank++) {
    const auto results = results_of(tree, rank);
    ASSERT_EQ(results.size(), 1U) << "rank " << rank;
    EXPECT_EQ(results[0].gradients, Values{7});
  }
}

// The block of the result would not fit the buffers of this aggregator.
TEST_P(HierarchySession, RefusesUpperResultsWithTooManyGradients) {
  Tree tree(GetParam(), /*mitigation=*/true);
  join_tree(tree);
  Message result = join_message(0, 0, kRanks);
  result.header.grad_cnt = 17;
  result.extension = {.type = MessageType::kResult,
                      .key = tree.lower(1).session().upstream_result_key()};
  expect_refused(tree.lower(1), encoded(result, Values(17, 1)), upper_address(),
                 Outcome::kDuplicate);
}

TEST_P(HierarchySession, SessionEndsAtTheUpperAggregatorToo) {
  Tree tree(GetParam());
  const auto members = join_tree(tree);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    tree.send(rank, encoded(members[rank].message(MessageType::kLeave, 0)));
  }
  EXPECT_EQ(tree.lower(0).session().number(), 0U);
  EXPECT_EQ(tree.upper().counted(Outcome::kLeave), kLowerCount);
  EXPECT_EQ(tree.upper().session().number(), 0U);
  // So the next one can start at once.
  const auto again = join_tree(tree, /*nonce_base=*/500);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    tree.send(rank, again[rank].contribution_bytes(0, {1}));
  }
  EXPECT_EQ(tree.take_result(5).gradients, Values{6});
}

// Lower aggregators with different windows: all workers get the smaller one. A worker with the
// larger window would send blocks whose sums the other aggregator cannot hold.
TEST_P(HierarchySession, LowerAggregatorsAgreeOnTheSmallestWindow) {
  Tree tree(GetParam(), /*mitigation=*/false, {64, 256});
  const auto members = join_tree(tree, /*nonce_base=*/100, /*window=*/256);
  for (uint32_t i = 0; i < kLowerCount; i++) {
    EXPECT_EQ(tree.lower(i).session().welcome_body(0).window, 64U);
  }
  constexpr uint32_t kBlocks = 512;
  std::vector<uint32_t> results(kRanks);
  for (uint32_t first = 0; first < kBlocks; first += 64) {  // Each rank is a window ahead.
    for (uint32_t rank = 0; rank < kRanks; rank++) {
      for (uint32_t block = first; block < first + 64; block++) {
        tree.send(rank, members[rank].contribution_bytes(block, {int32_t{1} << rank}));
      }
    }
    for (uint32_t rank = 0; rank < kRanks; rank++) {
      for (const Reply& result : tree.take(rank)) {
        EXPECT_EQ(result.gradients, Values{63});
        results[rank]++;
      }
    }
  }
  for (uint32_t rank = 0; rank < kRanks; rank++) EXPECT_EQ(results[rank], kBlocks);
  EXPECT_EQ(tree.lower(0).counted(Outcome::kWindowExceeded), 0U);
  EXPECT_EQ(tree.upper().counted(Outcome::kWindowExceeded), 0U);
}

/// Returns the only notice for this reason that a rank has received.
Message notice_to(Tree& tree, uint32_t rank, Reason reason) {
  std::vector<Message> notices;
  for (const Reply& reply : tree.take(rank)) {
    if (reply.message.extension.type == MessageType::kNotice) notices.push_back(reply.message);
  }
  EXPECT_EQ(notices.size(), 1U) << "rank " << rank;
  if (notices.empty()) return {};
  EXPECT_EQ(notices[0].body.reason, reason) << "rank " << rank;
  return notices[0];
}

TEST_P(HierarchySession, AMismatchBetweenAggregatorsNamesTheRanks) {
  Tree tree(GetParam());
  const auto members = join_tree(tree);
  const auto contribute = [&](uint32_t rank, uint32_t scale_bits) {
    Message message = members[rank].contribution(0, {1});
    message.extension.scale_bits = scale_bits;
    tree.send(rank, encoded(message, {1}));
  };
  for (uint32_t rank = 0; rank < kBelow; rank++) contribute(rank, 0);
  for (uint32_t rank = kBelow; rank < kRanks; rank++) contribute(rank, wire::kScaleBitMean);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    const Message notice = notice_to(tree, rank, Reason::kMismatch);
    EXPECT_EQ(notice.body.mask, (SourceMask{0b111000, 0, 0, 0}));
    EXPECT_EQ(notice.body.given.scale_bits, wire::kScaleBitMean);
    EXPECT_EQ(notice.mask, (SourceMask{0b000111, 0, 0, 0}));
    EXPECT_EQ(notice.extension.scale_bits, 0U);
    EXPECT_EQ(notice.extension.key, members[rank].result_key);
  }
}

TEST_P(HierarchySession, AMismatchBelowOneAggregatorNamesTheRank) {
  Tree tree(GetParam());
  const auto members = join_tree(tree);
  tree.send(3, members[3].contribution_bytes(0, {1}));
  tree.send(5, members[5].contribution_bytes(0, {1, 2}));
  const Message notice = notice_to(tree, 3, Reason::kMismatch);
  EXPECT_EQ(notice.body.mask, (SourceMask{0b100000, 0, 0, 0}));
  EXPECT_EQ(notice.mask, (SourceMask{0b001000, 0, 0, 0}));
}

// Ranks 0 to 2 leave in order. Those behind the other aggregator have contributed, and probe.
TEST_P(HierarchySession, NoticeNamesALeaverBehindTheOtherAggregator) {
  Tree tree(GetParam());
  const auto members = join_tree(tree);
  for (uint32_t rank = kBelow; rank < kRanks; rank++) {
    tree.send(rank, members[rank].contribution_bytes(0, {1}));
  }
  for (uint32_t rank = 0; rank < kBelow; rank++) {
    tree.send(rank, encoded(members[rank].message(MessageType::kLeave, 0)));
  }
  for (uint32_t rank = kBelow; rank < kRanks; rank++) static_cast<void>(tree.take(rank));
  tree.send(4, encoded(members[4].message(MessageType::kProbe, 0)));
  const Message notice = notice_to(tree, 4, Reason::kPeerLeft);
  EXPECT_EQ(notice.body.mask, (SourceMask{0b000111, 0, 0, 0}));
  EXPECT_EQ(notice.extension.key, members[4].result_key);
}

// The ranks below the second aggregator have lost an aggregator of another share of the tensors.
TEST_P(HierarchySession, ALostAggregatorIsToldToTheWholeTree) {
  Tree tree(GetParam());
  const auto members = join_tree(tree);
  for (uint32_t rank = 0; rank < kBelow; rank++) {
    tree.send(rank, encoded(members[rank].message(MessageType::kKeepAlive, 0)));
    static_cast<void>(tree.take(rank));
  }
  for (uint32_t rank = kBelow; rank < kRanks; rank++) {
    Message leave = members[rank].message(MessageType::kLeave, 0);
    leave.extension.tensor_elements = 2;
    tree.send(rank, encoded(leave));
  }
  for (uint32_t rank = 0; rank < kBelow; rank++) {
    const Message notice = notice_to(tree, rank, Reason::kPeerLeft);
    EXPECT_EQ(notice.body.value, 2U);
    EXPECT_EQ(notice.body.mask, (SourceMask{0b111000, 0, 0, 0}));
  }
}

TEST_P(HierarchySession, KeepAlivesExtendAnIdleSession) {
  Tree tree(GetParam());
  const auto members = join_tree(tree);
  for (uint32_t second = 0; second < 8; second++) {
    tree.pass(seconds(1));
    for (uint32_t rank = 0; rank < kRanks; rank++) {
      tree.send(rank, encoded(members[rank].message(MessageType::kKeepAlive, 0)));
    }
  }
  EXPECT_NE(tree.upper().session().number(), 0U);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    tree.send(rank, members[rank].contribution_bytes(0, {1}));
  }
  EXPECT_EQ(tree.take_result(2).gradients, Values{6});
}

TEST_P(HierarchySession, LossOfTheUpperSessionEndsTheLowerOne) {
  Tree tree(GetParam());
  const auto members = join_tree(tree);
  tree.upper().session().end();  // The same as a restart.
  for (uint32_t rank = 0; rank < kBelow; rank++) {
    tree.send(rank, members[rank].contribution_bytes(0, {1}));
  }
  const auto notices = tree.take(0);
  ASSERT_FALSE(notices.empty());
  EXPECT_EQ(notices.back().message.extension.type, MessageType::kNotice);
  EXPECT_EQ(notices.back().message.body.reason, Reason::kSessionLost);
  EXPECT_EQ(tree.lower(0).session().number(), 0U);
}

// A packet whose source was damaged on its way up has no member's key, but that of its sender.
TEST_P(HierarchySession, ResetForAnotherSourceIsIgnored) {
  Tree tree(GetParam());
  static_cast<void>(join_tree(tree));
  Message reset;
  reset.header = {.job_id = 1, .extended = true, .src_id = 1};
  reset.extension = {.type = MessageType::kReset, .key = tree.lower(0).session().upstream_key()};
  expect_refused(tree.lower(0), encoded(reset), upper_address(), Outcome::kWrongKey);
  EXPECT_NE(tree.lower(0).session().number(), 0U);
  reset.header.src_id = 0;
  tree.lower(0).deliver(encoded(reset), upper_address());
  EXPECT_EQ(tree.lower(0).session().number(), 0U);
}

TEST_P(HierarchySession, UpperRefusalReachesTheWorkers) {
  JobConfig small = upper_job(false);
  small.world = kRanks + 1;
  Bed upper({.jobs = {small}, .layer = GetParam(), .local = upper_address()});
  Bed lower({.jobs = {lower_job(0, false)}, .layer = GetParam(), .local = lower_address(0)});
  std::vector<Reply> sent;
  for (uint32_t join = 0; join < 2 * kBelow; join++) {  // Each source joins, and confirms.
    const uint32_t source = join % kBelow;
    for (Reply& packet :
         deliver_join(lower, join_message(source, 100 + source, kRanks), worker(source))) {
      sent.push_back(std::move(packet));
    }
  }
  for (uint32_t trip = 0; trip < 2; trip++) {  // For the cookie, and for the refusal.
    for (const Reply& packet : std::exchange(sent, {})) {
      if (packet.to == upper_address()) upper.deliver(packet.bytes, lower_address(0));
    }
    for (const Reply& packet : upper.take()) lower.deliver(packet.bytes, upper_address());
    sent = lower.take();
  }
  const auto refusals = deliver_join(lower, join_message(1, 101, kRanks), worker(1));
  ASSERT_EQ(refusals.size(), 1U);
  const Message& refusal = refusals[0].message;
  EXPECT_EQ(refusal.extension.type, MessageType::kRefusal);
  EXPECT_EQ(refusal.body.reason, Reason::kWrongWorld);
  EXPECT_EQ(refusal.body.value, kRanks + 1);
}

/// Returns the joins that a lower aggregator has sent.
size_t joins_in(const std::vector<Reply>& sent) {
  return static_cast<size_t>(std::ranges::count_if(sent, [](const Reply& packet) {
    return packet.to == upper_address() && packet.message.extension.type == MessageType::kJoin;
  }));
}

// The upper aggregator asks to confirm until all its sources have confirmed. A lower one must not
// answer as fast as it is asked, nor for workers that have left.
TEST_P(HierarchySession, AnswersFewQuestionsAndOnlyForWaitingWorkers) {
  Bed lower({.jobs = {lower_job(0, false)}, .layer = GetParam(), .local = lower_address(0)});
  Message question;
  for (uint32_t join = 0; join < 2 * kBelow; join++) {  // Each source joins, and confirms.
    const uint32_t source = join % kBelow;
    const Message request = join_message(source, 100 + source, kRanks);
    for (const Reply& packet : deliver_join(lower, request, worker(source))) {
      if (packet.to == upper_address()) question = packet.message;
    }
  }
  ASSERT_EQ(question.extension.type, MessageType::kJoin);
  question.extension.type = MessageType::kPending;
  question.body = wire::ControlBody();
  question.body.reason = Reason::kConfirm;
  size_t answers = 0;
  for (uint32_t i = 0; i < 100; i++) {
    lower.deliver(encoded(question), upper_address());
    answers += joins_in(lower.take());
  }
  EXPECT_GE(answers, 1U);
  EXPECT_LE(answers, 4U);

  lower.advance(milliseconds(100));
  lower.deliver(encoded(question), upper_address());
  EXPECT_EQ(joins_in(lower.take()), 1U);
  Message leave = join_message(1, 101, kRanks);
  leave.extension.type = MessageType::kLeave;
  lower.deliver(encoded(leave), worker(1));
  lower.deliver(encoded(question), upper_address());
  EXPECT_EQ(joins_in(lower.take()), 0U);
}

}  // namespace
}  // namespace tributary::trio_ml
