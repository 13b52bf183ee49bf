// SPDX-License-Identifier: Apache-2.0
// Method: each request of a worker in each state of a block, and the answer. Then sessions through
// messages, and the fields in results of extended contributions.
#include "apps/trio_ml/session/control.h"

#include <gtest/gtest.h>

#include "tests/apps/trio_ml/bed.h"

namespace tributary::trio_ml {
namespace {

using engine::PacketLayer;

constexpr JobConfig kJob{.id = 1, .sources = 2, .block_cnt_max = 4, .block_grad_max = 8};

SourceMask sources(std::initializer_list<uint32_t> members) {
  SourceMask mask{};
  for (const uint32_t source : members) include(mask, source);
  return mask;
}

class Control : public ::testing::TestWithParam<PacketLayer> {
 protected:
  void start(const JobConfig& job = kJob) {
    bed_ = std::make_unique<Bed>(job, GetParam());
    members_ = join_all(*bed_);
    before_ = bed_->counts();
  }
  void contribute(uint32_t source, uint32_t block_id, const Values& values) {
    bed_->deliver(members_[source].contribution_bytes(block_id, values), worker(source));
  }
  /// The one answer to a message of `source`.
  Reply ask(uint32_t source, const Message& message, const Values& values = {}) {
    static_cast<void>(bed_->take());
    bed_->deliver(encoded(message, values), worker(source));
    return bed_->take_result(source);
  }
  Reply probe(uint32_t source, uint32_t block_id) {
    return ask(source, members_[source].message(MessageType::kProbe, block_id));
  }
  Counts counted() {
    const Counts since = bed_->counted_since(before_);
    before_ = bed_->counts();
    return since;
  }
  std::unique_ptr<Bed> bed_;
  std::vector<Member> members_;
  Counts before_;
};

INSTANTIATE_TEST_SUITE_P(Layers, Control,
                         ::testing::Values(PacketLayer::kUdpPayload, PacketLayer::kFrame),
                         [](const auto& layer) {
                           return layer.param == PacketLayer::kFrame ? "Frame" : "UdpPayload";
                         });

TEST_P(Control, CountsJoinsAndWelcomesEveryMember) {
  start();
  // Each join is sent without a cookie, with it, and once to confirm it.
  EXPECT_EQ(bed_->counts(),
            (Counts{{"cookie_sent", 3}, {"join", 3}, {"welcome", 2}, {"session_started", 1}}));
  EXPECT_EQ(members_[0].result_key, members_[1].result_key);
  EXPECT_NE(members_[0].key, members_[1].key);
}

TEST_P(Control, LostWelcomeIsRepeated) {
  start();
  const std::vector<Reply> again = deliver_join(*bed_, join_message(1, 1001, 2), worker(1));
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].message.extension.type, MessageType::kWelcome);
  EXPECT_EQ(again[0].message.body.result_key, members_[1].result_key);
  EXPECT_EQ(again[0].message.body.key, members_[1].key);
  EXPECT_EQ(counted(), (Counts{{"cookie_sent", 1}, {"join", 1}, {"welcome", 1}}));
}

TEST_P(Control, RefusesJoinsOfUnknownJobsAtOnce) {
  start();
  const Reply reply = ask(0, join_message(0, 77, 2, /*job_id=*/9));
  EXPECT_EQ(reply.message.extension.type, MessageType::kRefusal);
  EXPECT_EQ(reply.message.body.reason, Reason::kUnknownJob);
  EXPECT_EQ(reply.message.extension.key, 77U);
  EXPECT_EQ(reply.message.header.job_id, 9);
  EXPECT_EQ(counted(), (Counts{{"unknown_job", 1}, {"notice_sent", 1}}));
}

TEST_P(Control, JoinOfAnotherVersionLearnsThisVersion) {
  start();
  Bytes join = encoded(join_message(0, 77, 2));
  const auto type = static_cast<uint8_t>(MessageType::kJoin);
  join[wire::TrioMlHeader::kBytes] = static_cast<std::byte>(3 << 4 | type);
  bed_->deliver(join, worker(0));
  const std::vector<Reply> replies = bed_->take();
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].message.body.reason, Reason::kOtherVersion);
  EXPECT_EQ(counted(), (Counts{{"bad_extension", 1}, {"notice_sent", 1}}));
}

TEST_P(Control, ResultOfASessionCarriesTheExtension) {
  start();
  Message first = members_[0].contribution(0, {1, 2});
  first.extension.exponent = -3;
  first.extension.flags = wire::kFlagOverflow | wire::kFlagRetransmission;
  Message second = members_[1].contribution(0, {10, 20});
  second.extension.exponent = 4;
  second.extension.flags = wire::kFlagNotFinite;
  second.header.final = true;
  bed_->deliver(encoded(first, {1, 2}), worker(0));
  const Reply result = ask(1, second, {10, 20});
  EXPECT_EQ(result.gradients, (Values{11, 22}));
  const wire::ExtensionFields& extension = result.message.extension;
  EXPECT_EQ(extension.type, MessageType::kResult);
  EXPECT_EQ(extension.key, members_[0].result_key);  // Never a member's.
  EXPECT_EQ(extension.exponent, 4);                  // The larger.
  EXPECT_EQ(extension.flags, wire::kFlagOverflow | wire::kFlagNotFinite);
  EXPECT_EQ(extension.tensor_elements, 2U);
  EXPECT_TRUE(result.message.header.final);
  EXPECT_EQ(result.message.header.src_cnt, 2);
}

TEST_P(Control, ProbeOfAnActiveBlockNamesItsContributors) {
  start();
  contribute(1, 2, {5});
  const Reply have = probe(0, 2);
  EXPECT_EQ(have.message.extension.type, MessageType::kHave);
  EXPECT_EQ(have.message.header.block_id, 2U);
  EXPECT_EQ(have.message.body.mask, sources({1}));
  EXPECT_FALSE(have.message.body.upstream);
  EXPECT_EQ(counted(), (Counts{{"aggregated", 1}, {"have_sent", 1}, {"probe", 1}}));
}

TEST_P(Control, ProbeOfAnUnknownBlockRequestsTheContribution) {
  start();
  const Reply have = probe(0, 3);
  EXPECT_EQ(have.message.extension.type, MessageType::kHave);
  EXPECT_EQ(have.message.body.mask, sources({}));
  EXPECT_EQ(bed_->job().record.block_curr_cnt, 0U);
}

TEST_P(Control, ProbeOfACompleteBlockGetsItsResult) {
  start();
  contribute(0, 0, {5});
  contribute(1, 0, {6});
  const Reply result = probe(0, 0);
  EXPECT_EQ(result.message.extension.type, MessageType::kResult);
  EXPECT_EQ(result.gradients, Values{11});
}

TEST_P(Control, ProbePastTheCacheGetsANotice) {
  start();
  for (const uint32_t block : {0U, 4U}) {
    contribute(0, block, {5});
    contribute(1, block, {6});
  }
  const Reply notice = probe(1, 0);
  EXPECT_EQ(notice.message.extension.type, MessageType::kNotice);
  EXPECT_EQ(notice.message.body.reason, Reason::kPastCache);
  EXPECT_EQ(notice.message.header.block_id, 0U);
}

TEST_P(Control, ProbeChangesNoBlock) {
  start();
  contribute(0, 0, {5});
  for (uint32_t i = 0; i < 5; i++) static_cast<void>(probe(1, 0));
  contribute(1, 0, {6});
  EXPECT_EQ(bed_->take_result(0).gradients, Values{11});
}

TEST_P(Control, RetransmissionOfAKnownContributionGetsHave) {
  start();
  contribute(0, 0, {5});
  Message again = members_[0].contribution(0, {5});
  bed_->deliver(encoded(again, {5}), worker(0));
  EXPECT_TRUE(bed_->take().empty());  // The network made this duplicate, so it needs no answer.
  again.extension.flags = wire::kFlagRetransmission;
  const Reply have = ask(0, again, {5});
  EXPECT_EQ(have.message.extension.type, MessageType::kHave);
  EXPECT_EQ(have.message.body.mask, sources({0}));
  EXPECT_EQ(counted(), (Counts{{"aggregated", 1}, {"duplicate", 2}, {"have_sent", 1}}));
}

TEST_P(Control, ProbeGetsANoticeIfAPeerHasLeft) {
  start();
  contribute(0, 0, {5});
  bed_->deliver(encoded(members_[1].message(MessageType::kLeave, 0)), worker(1));
  EXPECT_EQ(bed_->counted(Outcome::kLeave), 1U);
  const Reply notice = probe(0, 0);
  EXPECT_EQ(notice.message.extension.type, MessageType::kNotice);
  EXPECT_EQ(notice.message.body.reason, Reason::kPeerLeft);
  EXPECT_EQ(notice.message.body.source, 1);
}

// The notice to all comes too early for a source that begins the block later.
TEST_P(Control, ProbeOfAMismatchedBlockGetsItsNoticeAlsoAfterThePeersHaveLeft) {
  start();
  contribute(1, 0, {5});
  bed_->deliver(members_[0].contribution_bytes(0, {5, 6}), worker(0));
  contribute(1, 1, {5});  // A block without a mismatch.
  bed_->deliver(encoded(members_[0].message(MessageType::kLeave, 0)), worker(0));
  const Reply notice = probe(1, 0);
  EXPECT_EQ(notice.message.extension.type, MessageType::kNotice);
  EXPECT_EQ(notice.message.body.reason, Reason::kMismatch);
  EXPECT_EQ(notice.message.body.mask, sources({0}));
  EXPECT_EQ(notice.message.body.given.tensor_elements, 2U);
  EXPECT_EQ(notice.message.mask, sources({1}));
  EXPECT_EQ(notice.message.extension.tensor_elements, 1U);
  EXPECT_EQ(probe(1, 1).message.body.reason, Reason::kPeerLeft);
}

TEST_P(Control, AMismatchIsThatOfItsSession) {
  start();
  for (const uint32_t odd : {0U, 1U}) {
    contribute(1 - odd, 0, {5});
    contribute(odd, 0, {5, 6});
    EXPECT_EQ(probe(1 - odd, 0).message.body.mask, sources({odd}));
    for (uint32_t source = 0; source < 2; source++) {
      bed_->deliver(encoded(members_[source].message(MessageType::kLeave, 0)), worker(source));
    }
    members_ = join_all(*bed_, /*nonce_base=*/2000);
  }
}

TEST_P(Control, WithdrawnJoinIsNotCounted) {
  bed_ = std::make_unique<Bed>(kJob, GetParam());
  static_cast<void>(deliver_join(*bed_, join_message(0, 100, 2), worker(0)));
  Message leave_message;
  leave_message.header = {.job_id = 1, .extended = true, .src_id = 0};
  leave_message.extension = {.type = MessageType::kLeave, .key = 100};
  bed_->deliver(encoded(leave_message), worker(0));
  bed_->deliver(encoded(leave_message), worker(0));  // Sent twice.
  static_cast<void>(deliver_join(*bed_, join_message(1, 101, 2), worker(1)));
  EXPECT_EQ(bed_->counts(),
            (Counts{{"cookie_sent", 2}, {"join", 2}, {"leave", 1}, {"wrong_session", 1}}));
}

TEST_P(Control, LeaveWithTheNonceEndsTheMembership) {
  start();
  Message leave_message = members_[1].message(MessageType::kLeave, 0);
  leave_message.extension.key = 1001;  // Its nonce.
  bed_->deliver(encoded(leave_message), worker(1));
  contribute(0, 0, {5});
  EXPECT_EQ(probe(0, 0).message.body.reason, Reason::kPeerLeft);
}

TEST_P(Control, LeftPeerIsAStragglerWithMitigation) {
  JobConfig job = kJob;
  job.mitigation = true;
  start(job);
  contribute(0, 0, {5});
  bed_->deliver(encoded(members_[1].message(MessageType::kLeave, 0)), worker(1));
  EXPECT_EQ(probe(0, 0).message.extension.type, MessageType::kHave);
}

TEST_P(Control, SessionEndsWhenTheLastMemberLeaves) {
  start();
  bed_->deliver(encoded(members_[0].message(MessageType::kLeave, 0)), worker(0));
  bed_->deliver(encoded(members_[1].message(MessageType::kLeave, 0)), worker(1));
  EXPECT_EQ(counted(), (Counts{{"leave", 2}, {"session_ended", 1}}));
  // The job takes plain packets again.
  bed_->contribute(0, 0, 0, {1});
  bed_->contribute(1, 0, 0, {2});
  EXPECT_EQ(bed_->take_result(0).gradients, Values{3});
}

TEST_P(Control, NewSessionIgnoresMessagesOfTheEndedOne) {
  start();
  contribute(0, 0, {1000});
  for (const Member& member : members_) {
    bed_->deliver(encoded(member.message(MessageType::kLeave, 0)), worker(member.source));
  }
  const std::vector<Member> old = members_;
  members_ = join_all(*bed_, /*nonce_base=*/5000);
  static_cast<void>(bed_->take());
  bed_->deliver(old[1].contribution_bytes(0, {1000}), worker(1));  // A packet that was late.
  const Reply reset = bed_->take_result(1);
  EXPECT_EQ(reset.message.extension.type, MessageType::kReset);
  EXPECT_EQ(reset.message.extension.key, old[1].key);
  contribute(0, 0, {1});
  contribute(1, 0, {2});
  EXPECT_EQ(bed_->take_result(0).gradients, Values{3});
}

TEST_P(Control, KeepAliveIsCountedAndExtendsTheSession) {
  start();
  for (uint32_t second = 0; second < 10; second++) {
    bed_->run_until(bed_->now() + seconds(1));
    for (const Member& member : members_) {
      bed_->deliver(encoded(member.message(MessageType::kKeepAlive, 0)), worker(member.source));
    }
  }
  EXPECT_EQ(counted(), (Counts{{"keep_alive", 20}}));
  EXPECT_TRUE(bed_->take().empty());
  bed_->run_until(bed_->now() + seconds(10));
  EXPECT_EQ(bed_->counted(Outcome::kSessionEnded), 1U);
}

// Rank 1 is killed. The others learn its name soon after the server notices its silence.
TEST_P(Control, SurvivorsAreToldOfASilentMember) {
  start();
  Instant told_at = Instant::never();
  const Instant begun_at = bed_->now();
  for (uint32_t tick = 0; tick < 60 && told_at == Instant::never(); tick++) {
    bed_->run_until(bed_->now() + milliseconds(100));
    contribute(0, tick % 4, {1});  // Rank 0 lives.
    for (const Reply& reply : bed_->take()) {
      if (reply.message.body.reason != Reason::kPeerSilent) continue;
      EXPECT_EQ(reply.to, worker(0));
      EXPECT_EQ(reply.message.body.source, 1);
      EXPECT_EQ(reply.message.body.mask, sources({1}));
      told_at = bed_->now();
    }
  }
  EXPECT_GT(told_at, begun_at + kSilentAfter);
  EXPECT_LT(told_at, begun_at + kSilentAfter + seconds(1));
}

TEST_P(Control, ServerThatEndsTellsMembersAndNewcomers) {
  start();
  contribute(0, 0, {5});
  bed_->core().stop(bed_->now());
  std::vector<Reply> replies = bed_->take();
  ASSERT_EQ(replies.size(), 2U);  // It knows the address of both from their joins.
  for (const Reply& reply : replies) {
    EXPECT_EQ(reply.message.extension.type, MessageType::kNotice);
    EXPECT_EQ(reply.message.body.reason, Reason::kServerStopped);
    EXPECT_EQ(reply.message.extension.key, members_[0].result_key);
  }
  bed_ = std::make_unique<Bed>(kJob, GetParam());
  static_cast<void>(deliver_join(*bed_, join_message(0, 100, 2), worker(0)));
  bed_->core().stop(bed_->now());
  replies = bed_->take();
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].message.extension.type, MessageType::kRefusal);
  EXPECT_EQ(replies[0].message.extension.key, 100U);
}

TEST_P(Control, StrangerGetsACookieAndNoState) {
  bed_ = std::make_unique<Bed>(kJob, GetParam());
  for (uint32_t i = 0; i < 50; i++) {
    bed_->deliver(encoded(join_message(i % 2, 100 + i, 2)), stranger());
  }
  EXPECT_EQ(bed_->counts(), (Counts{{"cookie_sent", 50}}));
  for (const Reply& reply : bed_->take()) {
    EXPECT_LE(reply.bytes.size(), encoded(join_message(0, 1, 2)).size());
  }
  EXPECT_EQ(bed_->session().pending_nonce(0, bed_->now()), 0U);
  // A cookie is good for one address, source and nonce only.
  Message join = join_message(0, 100, 2);
  bed_->deliver(encoded(join), stranger());
  join.body.key = bed_->take().back().message.body.key;
  bed_->deliver(encoded(join), worker(0));
  EXPECT_EQ(bed_->take().back().message.extension.type, MessageType::kCookie);
  join.header.src_id = 1;
  bed_->deliver(encoded(join), stranger());
  EXPECT_EQ(bed_->take().back().message.extension.type, MessageType::kCookie);
  EXPECT_EQ(bed_->counted(Outcome::kJoin), 0U);
}

// Whatever a stranger sends, it never gets more bytes than it sent, and few replies.
TEST_P(Control, RepliesToStrangersAreSmallAndFew) {
  start();
  for (uint32_t i = 0; i < 2000; i++) {
    Message message = members_[0].message(MessageType::kProbe, 0);
    message.extension.key = 7 + i;
    const Bytes bytes = encoded(message);
    bed_->deliver(bytes, stranger());
    for (const Reply& reply : bed_->take()) EXPECT_LE(reply.bytes.size(), bytes.size());
  }
  EXPECT_EQ(bed_->counted(Outcome::kWrongKey), 2000U);
  EXPECT_GE(bed_->counted(Outcome::kReplyWithheld), 1700U);
}

// A worker that sends contributions sends no keep-alives.
TEST_P(Control, ContributionsExtendTheSession) {
  start();
  for (uint32_t block = 0; block < 20; block++) {
    bed_->run_until(bed_->now() + milliseconds(500));
    contribute(0, block, {1});
    contribute(1, block, {2});
    ASSERT_EQ(bed_->take_result(1).gradients, Values{3}) << "block " << block;
  }
  EXPECT_EQ(bed_->counted(Outcome::kSessionEnded), 0U);
}

TEST_P(Control, RefusesForeignAddressesIfPinned) {
  JobConfig job = kJob;
  job.pin = true;
  start(job);
  contribute(0, 0, {1});
  for (const MessageType type : {MessageType::kProbe, MessageType::kLeave}) {
    expect_refused(*bed_, encoded(members_[0].message(type, 0)), stranger(),
                   Outcome::kForeignAddress);
  }
  expect_refused(*bed_, members_[0].contribution_bytes(1, {1}), stranger(),
                 Outcome::kForeignAddress);
}

// Only shard 0 may call Session::join() and leave(), whatever packets arrive.
TEST(ControlShards, OnlyTheFirstShardServesJoins) {
  Bed bed({.jobs = {kJob}, .shard_index = 1, .shard_count = 2});
  Message join = join_message(0, 5, 2);
  join.header.block_id = 64;
  expect_refused(bed, encoded(join), worker(0), Outcome::kNotExpectedHere);
  EXPECT_EQ(bed.session().number(), 0U);
}

}  // namespace
}  // namespace tributary::trio_ml
