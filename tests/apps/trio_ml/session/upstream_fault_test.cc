// SPDX-License-Identifier: Apache-2.0
// Method: an upper aggregator that is absent, killed, stopped or restarted, in virtual time. The
// messages to the workers name it by its address.
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/trio_ml/session/membership_end.h"
#include "tests/apps/trio_ml/tree_bed.h"

namespace tributary::trio_ml {
namespace {

using wire::Reason;

constexpr uint32_t kAll = 1'000'000'000;

/// Loses all packets between aggregators from now on: the upper one is dead or unreachable.
void cut(Tree& tree) { tree.lose_after(0, kAll); }
void mend(Tree& tree) { tree.lose_after(0, 0); }

/// Returns the last message of this type that a rank has received since the last call.
Message last_of(Tree& tree, uint32_t rank, MessageType type) {
  Message last;
  for (const Reply& reply : tree.take(rank)) {
    if (reply.message.extension.type == type) last = reply.message;
  }
  return last;
}

/// The three ranks of lower aggregator 0 ask to join for a while, as their workers do.
void ask_for(Tree& tree, Duration length) {
  std::vector<Message> joins;
  std::vector<Member> members(kBelow);
  for (uint32_t rank = 0; rank < kBelow; rank++)
    joins.push_back(join_message(rank, 7 + rank, kRanks));
  const Instant until = tree.upper().now() + length;
  while (tree.upper().now() < until) {
    for (uint32_t rank = 0; rank < kBelow; rank++) {
      tree.send(rank, encoded(joins[rank]));
      for (const Reply& reply : tree.take(rank)) {
        if (reply.message.extension.type == MessageType::kCookie) {
          joins[rank].body.key = reply.message.body.key;
        }
      }
    }
    tree.pass(milliseconds(50));
  }
  for (uint32_t rank = 0; rank < kBelow; rank++) tree.send(rank, encoded(joins[rank]));
}

/// Lets every rank send a keep-alive each half second.
void pass_alive(Tree& tree, const std::vector<Member>& members, Duration length) {
  const Instant until = tree.upper().now() + length;
  while (tree.upper().now() < until) {
    for (uint32_t rank = 0; rank < kRanks; rank++) {
      tree.send(rank, encoded(members[rank].message(MessageType::kKeepAlive, 0)));
    }
    tree.pass(milliseconds(500));
  }
}

void contribute_all(Tree& tree, const std::vector<Member>& members, uint32_t block) {
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    tree.send(rank, members[rank].contribution_bytes(block, {1}));
  }
}

/// A worker asks about a block, as its loss repair does.
void probe(Tree& tree, const std::vector<Member>& members, uint32_t rank, uint32_t block) {
  Message message = members[rank].message(MessageType::kProbe, block);
  message.header.grad_cnt = 1;
  message.extension.flags = wire::kFlagRetransmission;
  tree.send(rank, encoded(message));
}

TEST(UpstreamFault, AJoinNamesAnAbsentUpperAggregator) {
  Tree tree(engine::PacketLayer::kUdpPayload);
  cut(tree);
  ask_for(tree, milliseconds(500));
  Message pending = last_of(tree, 0, MessageType::kPending);
  EXPECT_EQ(pending.body.reason, Reason::kWaitingForUpstream);
  EXPECT_EQ(pending.body.group, upper_address());
  ask_for(tree, milliseconds(2500));
  pending = last_of(tree, 0, MessageType::kPending);
  EXPECT_EQ(pending.body.reason, Reason::kUpstreamSilent);
  EXPECT_EQ(pending.body.group, upper_address());
  EXPECT_GE(pending.body.timeout_us, 2'500'000U);
  EXPECT_LE(pending.body.timeout_us, 3'100'000U);
}

TEST(UpstreamFault, AnUpperAggregatorThatWaitsIsNotSilent) {
  Tree tree(engine::PacketLayer::kUdpPayload);
  ask_for(tree, milliseconds(3000));  // The ranks of lower aggregator 1 never come.
  const Message pending = last_of(tree, 0, MessageType::kPending);
  EXPECT_EQ(pending.body.reason, Reason::kWaitingForUpstream);
  EXPECT_EQ(pending.body.group, upper_address());
}

TEST(UpstreamFault, SilenceIsForgottenWhenNobodyAsks) {
  Tree tree(engine::PacketLayer::kUdpPayload);
  cut(tree);
  ask_for(tree, milliseconds(3000));
  EXPECT_TRUE(tree.lower(0).session().upstream_watch().is_silent(tree.lower(0).now()));
  tree.pass(seconds(2));
  EXPECT_FALSE(tree.lower(0).session().upstream_watch().is_silent(tree.lower(0).now()));
}

TEST(UpstreamFault, AKilledUpperAggregatorIsNamedWhileABlockWaits) {
  Tree tree(engine::PacketLayer::kUdpPayload);
  const auto members = join_tree(tree);
  contribute_all(tree, members, 0);
  cut(tree);
  contribute_all(tree, members, 1);
  for (uint32_t rank = 0; rank < kRanks; rank++) static_cast<void>(tree.take(rank));
  // One question of one worker is enough: the lower aggregator repeats it.
  probe(tree, members, 1, 1);
  pass_alive(tree, members, milliseconds(3000));
  const Message notice = last_of(tree, 0, MessageType::kNotice);
  EXPECT_EQ(notice.body.reason, Reason::kUpstreamSilent);
  EXPECT_EQ(notice.body.group, upper_address());
  EXPECT_GE(notice.body.timeout_us, 1'500'000U);
  EXPECT_EQ(notice.extension.key, members[0].result_key);
  // Nobody below the other one has asked, so it does not know.
  EXPECT_NE(last_of(tree, 4, MessageType::kNotice).body.reason, Reason::kUpstreamSilent);

  mend(tree);
  pass_alive(tree, members, milliseconds(500));
  for (uint32_t rank = 0; rank < kRanks; rank++) static_cast<void>(tree.take(rank));
  pass_alive(tree, members, milliseconds(1500));
  EXPECT_NE(last_of(tree, 0, MessageType::kNotice).body.reason, Reason::kUpstreamSilent);
  EXPECT_FALSE(tree.lower(0).session().upstream_watch().is_silent(tree.lower(0).now()));
}

TEST(UpstreamFault, ALostSessionNamesTheUpperAggregator) {
  Tree tree(engine::PacketLayer::kUdpPayload);
  const auto members = join_tree(tree);
  static_cast<void>(tree.take(0));
  // A restarted upper aggregator answers the next message with a reset.
  tree.upper().session().end();
  pass_alive(tree, members, milliseconds(1000));
  const Message notice = last_of(tree, 0, MessageType::kNotice);
  EXPECT_EQ(notice.body.reason, Reason::kSessionLost);
  EXPECT_EQ(notice.body.group, upper_address());
}

TEST(UpstreamFault, AStoppedUpperAggregatorIsNamed) {
  Tree tree(engine::PacketLayer::kUdpPayload);
  const auto members = join_tree(tree);
  static_cast<void>(tree.take(0));
  tree.upper().core().run_command(tree.upper().now(), [&](App&, engine::LiveMachine& m) {
    end_memberships(m, tree.upper().shard(), tree.upper().job(), Reason::kServerStopped);
  });
  pass_alive(tree, members, milliseconds(100));
  const Message notice = last_of(tree, 0, MessageType::kNotice);
  EXPECT_EQ(notice.body.reason, Reason::kServerStopped);
  EXPECT_EQ(notice.body.group, upper_address());
}

TEST(UpstreamFault, ARefusalNamesTheUpperAggregator) {
  Tree tree(engine::PacketLayer::kUdpPayload);
  ask_for(tree, milliseconds(200));
  tree.lower(0).session().upstream_refused({.reason = Reason::kWrongWorld, .value = 8},
                                           tree.lower(0).now());
  ask_for(tree, milliseconds(100));
  const Message refusal = last_of(tree, 0, MessageType::kRefusal);
  EXPECT_EQ(refusal.body.reason, Reason::kWrongWorld);
  EXPECT_EQ(refusal.body.group, upper_address());
}

// Anybody who reads the traffic can send such a reply again.
TEST(UpstreamFault, AReplyToAJoinIsNoSignOfLifeInASession) {
  Tree tree(engine::PacketLayer::kUdpPayload);
  static_cast<void>(join_tree(tree));
  Bed& lower = tree.lower(0);
  lower.session().upstream_watch().asked({}, lower.now());
  lower.advance(kUpstreamSilentAfter);
  Message pending;
  pending.header = {.job_id = 1, .extended = true};
  pending.extension = {.type = MessageType::kPending, .key = lower.session().upstream_nonce()};
  lower.deliver(encoded(pending), upper_address());
  EXPECT_TRUE(lower.session().upstream_watch().is_silent(lower.now()));
}

TEST(UpstreamFault, ASilentLowerAggregatorIsNamed) {
  Tree tree(engine::PacketLayer::kUdpPayload);
  const auto members = join_tree(tree);
  static_cast<void>(tree.take(0));
  // The ranks of lower aggregator 1 send nothing, and it is cut off: the upper one hears nothing.
  Bed& lower = tree.lower(0);
  const Instant until = tree.upper().now() + seconds(6);
  while (tree.upper().now() < until) {
    for (uint32_t rank = 0; rank < kBelow; rank++) {
      lower.deliver(encoded(members[rank].message(MessageType::kKeepAlive, 0)), worker(rank));
    }
    tree.pass_without(1, milliseconds(500));
  }
  const Message notice = last_of(tree, 0, MessageType::kNotice);
  EXPECT_EQ(notice.body.reason, Reason::kPeerSilent);
  EXPECT_EQ(notice.body.group, lower_address(1));
  EXPECT_EQ(notice.body.mask, (SourceMask{0b111000, 0, 0, 0}));
}

}  // namespace
}  // namespace tributary::trio_ml
