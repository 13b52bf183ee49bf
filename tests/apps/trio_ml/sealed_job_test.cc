// SPDX-License-Identifier: Apache-2.0
// Method: one sealed session by hand. Each kind of message is forged, replayed and sent without a
// seal; no copy may change a sum, move a source or get a reply.
#include <gtest/gtest.h>

#include "auth/session_seal.h"
#include "tests/apps/trio_ml/bed.h"

namespace tributary::trio_ml {
namespace {

using auth::Mode;

auth::JobAuth header_auth() { return {Mode::kHeader, auth::key_of_seed(5)}; }

JobConfig sealed_job() {
  JobConfig job{.id = 1, .sources = 2, .block_cnt_max = 8, .block_grad_max = 8};
  job.auth = header_auth();
  return job;
}

/// A worker that seals by hand.
class SealedMember {
 public:
  explicit SealedMember(uint32_t source) : SealedMember(source, 100 + source) {}
  SealedMember(uint32_t source, uint64_t nonce)
      : source_(source), nonce_(nonce), end_(header_auth(), 1, 0) {}

  /// Joins once. @return the replies.
  std::vector<Reply> join(Bed& bed, uint32_t world = 2) {
    Message join = join_message(source_, nonce_, world);
    join.body.value = static_cast<uint32_t>(Mode::kHeader);
    join.body.key = cookie_;
    join.extension.flags = wire::kFlagHeaderSeal;
    Bytes bytes = encoded(join);
    end_.seal_join(bytes);
    last_join = bytes;
    bed.deliver(bytes, worker(source_));
    std::vector<Reply> replies = bed.take();
    for (const Reply& reply : replies) {
      const MessageType type = reply.message.extension.type;
      if (type == MessageType::kCookie) cookie_ = reply.message.body.key;
    }
    return replies;
  }
  void start(const Message& welcome) {
    member_ = {.source = source_, .key = welcome.body.key, .result_key = welcome.body.result_key};
    end_.start({welcome.body.salt_high, welcome.body.salt_low});
  }
  Bytes sealed(Message message, const Values& values = {}) {
    message.extension.flags |= wire::kFlagHeaderSeal;
    Bytes bytes = encoded(message, values);
    const size_t head_bytes = bytes.size() - values.size() * 4;
    end_.seal(static_cast<uint8_t>(source_), std::span(bytes).first(head_bytes), {});
    return bytes;
  }
  Bytes contribution(uint32_t block, const Values& values) {
    return sealed(member_.contribution(block, values), values);
  }
  Bytes control(MessageType type) { return sealed(member_.message(type, 0)); }
  [[nodiscard]] const Member& member() const { return member_; }

  Bytes last_join;

 private:
  const uint32_t source_;
  const uint64_t nonce_;
  uint64_t cookie_ = 0;
  auth::MemberEnd end_;
  Member member_;
};

class SealedJob : public ::testing::Test {
 protected:
  void SetUp() override { start(members_); }
  /// Lets both workers join until their session has started.
  void start(std::array<SealedMember, 2>& members) {
    uint32_t welcomed = 0;
    for (uint32_t round = 0; round < 6; round++) {
      for (const Reply& reply : members[round % 2].join(bed_)) {
        if (reply.message.extension.type != MessageType::kWelcome) continue;
        members[reply.message.body.source].start(reply.message);
        welcomed++;
      }
    }
    ASSERT_GE(welcomed, 2U);
    static_cast<void>(bed_.take());
  }

  Bed bed_{sealed_job()};
  std::array<SealedMember, 2> members_{SealedMember(0), SealedMember(1)};
};

TEST_F(SealedJob, SumsSealedContributions) {
  bed_.deliver(members_[0].contribution(0, {5}), worker(0));
  bed_.deliver(members_[1].contribution(0, {6}), worker(1));
  const Reply result = bed_.take_result(0);
  EXPECT_EQ(result.gradients, Values{11});
  EXPECT_EQ(result.message.extension.flags, wire::kFlagHeaderSeal);
}

TEST_F(SealedJob, ReplayedContributionChangesNothing) {
  const Bytes bytes = members_[0].contribution(0, {5});
  bed_.deliver(bytes, worker(0));
  expect_refused(bed_, bytes, stranger(), Outcome::kReplayed);
  EXPECT_EQ(bed_.job().sources[0].address, worker(0));
  // Also after its block, from the source's own address.
  bed_.deliver(members_[1].contribution(0, {6}), worker(1));
  EXPECT_EQ(bed_.take_result(0).gradients, Values{11});
  expect_refused(bed_, bytes, worker(0), Outcome::kReplayed);
}

TEST_F(SealedJob, ForgedAndUnsealedContributionsChangeNothing) {
  Bytes forged = members_[0].contribution(0, {5});
  forged[4] ^= std::byte{1};  // Another block.
  expect_refused(bed_, forged, worker(0), Outcome::kBadSeal);
  // A party that reads the traffic knows the key, but cannot seal.
  expect_refused(bed_, members_[0].member().contribution_bytes(0, {5}), worker(0),
                 Outcome::kWrongAuthentication);
  // Plain packets are refused, whatever they say.
  expect_refused(bed_, plain_bytes(0, 0, 0, {5}), worker(0), Outcome::kSessionRequired);
}

TEST_F(SealedJob, ReplayedLeaveDoesNotEndTheSession) {
  const Bytes probe = members_[0].control(MessageType::kKeepAlive);
  bed_.deliver(probe, worker(0));
  expect_refused(bed_, probe, worker(0), Outcome::kReplayed);
  Bytes leave = members_[0].control(MessageType::kLeave);
  leave[leave.size() - 1] ^= std::byte{1};
  expect_refused(bed_, leave, worker(0), Outcome::kBadSeal);
  EXPECT_FALSE(bed_.session().has_left(0));
}

// A worker sends its leave several times. Copies must not look like forgeries, whether they arrive
// after the session's end or in the next session.
TEST_F(SealedJob, CopiesOfALeaveAreOfAnEarlierSession) {
  std::vector<Bytes> copies;
  for (SealedMember& member : members_) {
    bed_.deliver(member.control(MessageType::kLeave), worker(member.member().source));
    copies.push_back(member.control(MessageType::kLeave));
  }
  ASSERT_EQ(bed_.session().number(), 0U);
  for (uint32_t source = 0; source < copies.size(); source++) {
    expect_refused(bed_, copies[source], worker(source), Outcome::kWrongSession);
  }
  std::array<SealedMember, 2> next{SealedMember(0, /*nonce=*/500), SealedMember(1, /*nonce=*/501)};
  start(next);
  for (uint32_t source = 0; source < copies.size(); source++) {
    expect_refused(bed_, copies[source], worker(source), Outcome::kWrongSession);
    EXPECT_FALSE(bed_.session().has_left(source));
  }
}

// An attacker replays a packet to another aggregator that has the same secret. If that aggregator
// sent a reset, the attacker could pass it on as this aggregator's and end the session.
TEST_F(SealedJob, AnotherAggregatorSendsNoResetAboutItsKeys) {
  const Bytes bytes = members_[0].contribution(0, {5});
  const auto is_reset = [](Bed& bed) {
    const std::vector<Reply> replies = bed.take();
    return !replies.empty() && replies[0].message.extension.type == MessageType::kReset;
  };
  JobConfig elsewhere = sealed_job();
  elsewhere.aggregator_id = 1;
  Bed other(elsewhere);
  other.deliver(bytes, stranger());
  EXPECT_FALSE(is_reset(other));
  Bed restarted(sealed_job());
  restarted.deliver(bytes, worker(0));
  EXPECT_TRUE(is_reset(restarted));
}

TEST_F(SealedJob, ReplayedJoinIsRefused) {
  const Counts before = bed_.counts();
  bed_.deliver(members_[1].last_join, worker(1));
  EXPECT_EQ(bed_.counted_since(before), (Counts{{"replayed", 1}}));
  EXPECT_TRUE(bed_.take().empty());
}

// The retransmission of a kept result has a sequence number of its own, or its receiver would take
// it for a replay.
TEST_F(SealedJob, ResultIsSealedAgainForEachRequest) {
  bed_.deliver(members_[0].contribution(0, {5}), worker(0));
  bed_.deliver(members_[1].contribution(0, {6}), worker(1));
  const Bytes first = bed_.take_result(0).bytes;
  bed_.deliver(members_[0].control(MessageType::kProbe), worker(0));
  const Bytes second = bed_.take_result(0).bytes;
  EXPECT_NE(first, second);
  EXPECT_EQ(Bytes(first.end() - 4, first.end()), Bytes(second.end() - 4, second.end()));
}

TEST_F(SealedJob, StrangerWithoutTheSecretGetsNoState) {
  Message join = join_message(0, 7, 2);
  bed_.deliver(encoded(join), stranger());
  const std::vector<Reply> replies = bed_.take();
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].message.extension.type, MessageType::kRefusal);
  EXPECT_EQ(replies[0].message.body.reason, Reason::kAuthentication);
  EXPECT_LE(replies[0].bytes.size(), encoded(join).size());
  EXPECT_EQ(bed_.counted(Outcome::kWrongAuthentication), 1U);
}

// Anybody can send such a join, so it must not hide the refusal of the rank's own process.
TEST_F(SealedJob, StrangersJoinReplacesNoRefusal) {
  Message join = join_message(1, 7, 2);
  const RefusedJoin& kept = bed_.job().refused_joins[1];
  bed_.deliver(encoded(join), stranger());
  EXPECT_EQ(kept.reason, Reason::kAuthentication);
  SealedMember mistaken(1, /*nonce=*/600);
  static_cast<void>(mistaken.join(bed_, /*world=*/5));
  static_cast<void>(mistaken.join(bed_, /*world=*/5));
  EXPECT_EQ(kept.reason, Reason::kWrongWorld);
  bed_.deliver(encoded(join), stranger());
  EXPECT_EQ(kept.reason, Reason::kWrongWorld);
  EXPECT_EQ(kept.from, worker(1));
}

// A rank's first process ends, and a second one takes its place. The joins of the first one must
// not take it back, although their cookie is still valid.
TEST_F(SealedJob, JoinsOfAnEarlierProcessAreReplays) {
  const Bytes old_join = members_[0].last_join;
  for (SealedMember& member : members_) {
    bed_.deliver(member.control(MessageType::kLeave), worker(member.member().source));
  }
  static_cast<void>(bed_.take());
  SealedMember second(0, /*nonce=*/500);
  static_cast<void>(second.join(bed_));
  ASSERT_EQ(second.join(bed_).at(0).message.body.reason, Reason::kWaitingForPeers);
  bed_.advance(kJoinFreshFor + milliseconds(1));  // The second one has ended, too.
  expect_refused(bed_, old_join, worker(0), Outcome::kReplayed);
  expect_refused(bed_, second.last_join, worker(0), Outcome::kReplayed);
}

// Three processes of a rank follow each other so quickly that the second one never holds the place.
TEST_F(SealedJob, JoinsOfAProcessThatNeverHeldThePlaceAreReplays) {
  for (SealedMember& member : members_) {
    bed_.deliver(member.control(MessageType::kLeave), worker(member.member().source));
  }
  static_cast<void>(bed_.take());
  std::vector<SealedMember> processes;
  for (const uint64_t nonce : {500, 501, 502}) processes.emplace_back(0, nonce);
  for (SealedMember& process : processes) {
    static_cast<void>(process.join(bed_));
    static_cast<void>(process.join(bed_));
  }
  bed_.advance(kJoinFreshFor + milliseconds(1));
  expect_refused(bed_, processes[1].last_join, worker(0), Outcome::kReplayed);
}

// Rank 1's process hangs. Two others ask for its place; the later one is stopped. The other one
// still asks, and gets the place.
TEST_F(SealedJob, ProcessThatStillAsksGetsThePlace) {
  SealedMember second(1, /*nonce=*/600);
  SealedMember third(1, /*nonce=*/700);
  for (SealedMember* process : {&second, &third}) {
    static_cast<void>(process->join(bed_));
    EXPECT_EQ(process->join(bed_).at(0).message.body.reason, Reason::kRankTaken);
  }
  const Bytes old_join = second.last_join;
  const std::vector<Reply> replies = second.join(bed_);
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].message.body.reason, Reason::kRankTaken);
  expect_refused(bed_, old_join, worker(1), Outcome::kReplayed);
  expect_refused(bed_, third.last_join, worker(1), Outcome::kReplayed);
  bed_.advance(kSilentAfter + milliseconds(1));
  static_cast<void>(second.join(bed_));
  EXPECT_EQ(bed_.session().pending_nonce(1, bed_.now()), 600U);
}

// More processes than the aggregator remembers follow each other while the cookie of the first one
// is valid, as in a crash loop. Its join then gets a new cookie at most, which its sender cannot
// seal.
TEST_F(SealedJob, JoinsOfAForgottenProcessDoNotCount) {
  for (SealedMember& member : members_) {
    bed_.deliver(member.control(MessageType::kLeave), worker(member.member().source));
  }
  static_cast<void>(bed_.take());
  std::vector<SealedMember> processes;
  for (uint64_t i = 0; i < 20; i++) processes.emplace_back(0, 500 + i);
  for (SealedMember& process : processes) {
    Reason reason = Reason::kNone;
    // Its first accepted join may make the session forget a process, so that it needs another
    // cookie.
    for (int repeat = 0; repeat < 4; repeat++) {
      reason = process.join(bed_).at(0).message.body.reason;
    }
    EXPECT_EQ(reason, Reason::kWaitingForPeers);
    bed_.advance(kJoinFreshFor + milliseconds(1));
  }
  for (const SealedMember& process : processes) {
    bed_.deliver(process.last_join, worker(0));
    for (const Reply& reply : bed_.take()) {
      EXPECT_EQ(reply.message.extension.type, MessageType::kCookie);
    }
  }
  EXPECT_FALSE(bed_.session().pending_nonce(0, bed_.now()));
}

// --- A lower aggregator --------------------------------------------------------------------------

// All lower aggregators open the upper one's seals. A party that reads the traffic passes the
// notice that evicts another one on to this one.
TEST(SealedLowerAggregator, EvictionOfAnotherOneIsNotPassedDown) {
  const Endpoint upper = Endpoint::ipv4(0x0a0000c8, wire::kTrioMlPort);
  JobConfig job = sealed_job();
  job.upstream = upper;
  job.upstream_source = 1;
  Bed bed(job);
  std::array<SealedMember, 2> members{SealedMember(0), SealedMember(1)};
  for (uint32_t round = 0; round < 6; round++) static_cast<void>(members[round % 2].join(bed));

  auth::AggregatorEnd end(header_auth(), 1, 0, 2, auth::kLanesMax);
  Message welcome;
  welcome.header = {.job_id = 1, .extended = true, .src_id = 1};
  welcome.extension = {.type = MessageType::kWelcome,
                       .flags = wire::kFlagHeaderSeal,
                       .key = bed.session().upstream_nonce()};
  welcome.body.window = 8;
  welcome.body.gradients_max = 8;
  welcome.body.channels = 1;
  welcome.body.key = 77;
  welcome.body.result_key = 88;
  Bytes bytes = encoded(welcome);
  end.seal_join_reply(bytes);
  bed.deliver(bytes, upper);
  uint32_t welcomed = 0;
  for (const Reply& reply : bed.take()) {
    if (reply.message.extension.type != MessageType::kWelcome) continue;
    members[reply.message.body.source].start(reply.message);
    welcomed++;
  }
  ASSERT_EQ(welcomed, 2U);
  bed.deliver(members[0].control(MessageType::kKeepAlive), worker(0));
  static_cast<void>(bed.take());

  end.start({});
  const auto eviction_of = [&](uint8_t source) {
    Message notice;
    notice.header = {.job_id = 1, .extended = true, .src_id = source};
    notice.extension = {.type = MessageType::kNotice, .flags = wire::kFlagHeaderSeal, .key = 88};
    notice.body.reason = Reason::kEvicted;
    notice.body.source = source;
    Bytes sealed = encoded(notice);
    end.seal(sealed, {});
    return sealed;
  };
  expect_refused(bed, eviction_of(0), upper, Outcome::kNotExpectedHere);
  bed.deliver(eviction_of(1), upper);
  const std::vector<Reply> told = bed.take();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].to, worker(0));
  EXPECT_EQ(told[0].message.body.reason, Reason::kEvicted);
  EXPECT_EQ(told[0].message.body.group, upper);
}

}  // namespace
}  // namespace tributary::trio_ml
