// SPDX-License-Identifier: Apache-2.0
// Method: a member that falls silent, for each effect that a job may give to silence, in virtual
// time; then its return, and a change of the effect in a running session.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/apps/trio_ml/bed.h"

namespace tributary::trio_ml {
namespace {

using wire::Reason;

constexpr uint32_t kSilent = 2;
constexpr uint32_t kSources = 3;

JobConfig job_with(Silence silence, bool mitigation = false) {
  return {.id = 1,
          .sources = kSources,
          .block_cnt_max = 8,
          .block_grad_max = 16,
          .mitigation = mitigation,
          .timeout = milliseconds(10),
          .silence = silence};
}

class SilenceOf {
 public:
  explicit SilenceOf(const JobConfig& config) : bed_(config), members_(join_all(bed_)) {
    for (uint32_t source = 0; source < kSources; source++) contribute(source, 0);
    static_cast<void>(bed_.take());
  }

  void contribute(uint32_t source, uint32_t block) {
    bed_.deliver(members_[source].contribution_bytes(block, {1}), worker(source));
  }
  /// All but kSilent contribute to a block, and send keep-alives for this long.
  void pass_without(Duration length, uint32_t block = 1) {
    for (uint32_t source = 0; source < kSilent; source++) contribute(source, block);
    keep_alive(length);
  }
  void keep_alive(Duration length) {
    const Instant until = bed_.now() + length;
    while (bed_.now() < until) {
      for (uint32_t source = 0; source < kSilent; source++) {
        bed_.deliver(encoded(members_[source].message(MessageType::kKeepAlive, 0)), worker(source));
      }
      bed_.run_until(std::min(until, bed_.now() + milliseconds(250)));
    }
  }
  /// Returns the messages of this type and, for notices, this reason that source 0 has received
  /// since the last call.
  std::vector<Reply> received(MessageType type, Reason reason = Reason::kNone) {
    std::vector<Reply> found;
    for (Reply& reply : bed_.take()) {
      const Message& message = reply.message;
      if (reply.to != worker(0) || message.extension.type != type) continue;
      if (type == MessageType::kNotice && message.body.reason != reason) continue;
      found.push_back(std::move(reply));
    }
    return found;
  }
  Bed& bed() { return bed_; }

 private:
  Bed bed_;
  std::vector<Member> members_;
};

TEST(Silence, EndsTheJobByDefault) {
  SilenceOf job(job_with(Silence::kAuto));
  job.pass_without(milliseconds(3400));
  EXPECT_EQ(job.bed().counted(Outcome::kSilenceEnded), 0U);
  job.keep_alive(milliseconds(800));
  EXPECT_EQ(job.bed().counted(Outcome::kSilenceEnded), 1U);
  const auto notices = job.received(MessageType::kNotice, Reason::kPeerSilent);
  ASSERT_FALSE(notices.empty());
  EXPECT_EQ(notices[0].message.body.mask, (SourceMask{0b100}));
  EXPECT_EQ(job.bed().counted(Outcome::kBlockDegraded), 0U);
}

TEST(Silence, EndsAJobWithMitigationIfItsKeySaysSo) {
  SilenceOf by_default(job_with(Silence::kAuto, /*mitigation=*/true));
  by_default.pass_without(seconds(5));
  EXPECT_TRUE(by_default.received(MessageType::kNotice, Reason::kPeerSilent).empty());
  EXPECT_EQ(by_default.bed().counted(Outcome::kSilenceExcluded), 1U);  // By mitigation.

  SilenceOf job(job_with(Silence::kEnd, /*mitigation=*/true));
  job.pass_without(seconds(5));
  EXPECT_FALSE(job.received(MessageType::kNotice, Reason::kPeerSilent).empty());
  EXPECT_EQ(job.bed().counted(Outcome::kSilenceEnded), 1U);
}

TEST(Silence, WaitTellsNobody) {
  SilenceOf job(job_with(Silence::kWait));
  job.pass_without(seconds(60));
  EXPECT_EQ(job.bed().counted(Outcome::kSilenceWaited), 1U);
  EXPECT_TRUE(job.received(MessageType::kNotice, Reason::kPeerSilent).empty());
  EXPECT_EQ(job.bed().counted(Outcome::kBlockDegraded), 0U);
  job.contribute(kSilent, 1);
  const auto results = job.received(MessageType::kResult);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].gradients, Values{3});
  EXPECT_FALSE(results[0].message.header.degraded);
}

TEST(Silence, OfAllMembersIsReportedBeforeTheSessionEnds) {
  SilenceOf job(job_with(Silence::kAuto));
  job.bed().run_until(job.bed().now() + seconds(5));
  EXPECT_EQ(job.bed().counted(Outcome::kSilenceEnded), 3U);
  EXPECT_EQ(job.bed().counted(Outcome::kSessionEnded), 1U);
  const auto notices = job.received(MessageType::kNotice, Reason::kPeerSilent);
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0].message.body.mask, (SourceMask{0b111}));
}

TEST(Silence, WaitKeepsASessionWhoseMembersAreAllSilent) {
  SilenceOf job(job_with(Silence::kWait));
  for (uint32_t source = 0; source < kSilent; source++) job.contribute(source, 1);
  job.bed().run_until(job.bed().now() + seconds(60));
  EXPECT_EQ(job.bed().counted(Outcome::kSilenceWaited), 3U);
  EXPECT_EQ(job.bed().counted(Outcome::kSessionEnded), 0U);
  EXPECT_FALSE(job.bed().session().is_in_use(job.bed().now()));  // A drain does not wait for it.
  job.contribute(kSilent, 1);
  EXPECT_EQ(job.received(MessageType::kResult).at(0).gradients, Values{3});
}

TEST(Silence, NewWorkersReplaceAWaitingSessionOfSilentMembers) {
  SilenceOf job(job_with(Silence::kWait));
  job.bed().run_until(job.bed().now() + seconds(60));
  for (uint32_t source = 0; source < kSilent; source++) {
    static_cast<void>(
        deliver_join(job.bed(), join_message(source, 2000 + source, kSources), worker(source)));
  }
  EXPECT_EQ(job.bed().counted(Outcome::kSessionEnded), 0U);
  static_cast<void>(
      deliver_join(job.bed(), join_message(kSilent, 2000 + kSilent, kSources), worker(kSilent)));
  EXPECT_EQ(job.bed().counted(Outcome::kSessionEnded), 1U);
  const auto members = join_all(job.bed(), /*nonce_base=*/2000);
  for (const Member& member : members) EXPECT_NE(member.key, 0U);
}

TEST(Silence, ExcludedAndSilentMembersGetNoMoreResults) {
  SilenceOf job(job_with(Silence::kExclude));
  job.pass_without(seconds(6));
  static_cast<void>(job.bed().take());
  job.contribute(0, 2);
  job.contribute(1, 2);
  const auto is_to_silent = [](const Reply& reply) {
    return reply.to == worker(kSilent) && reply.message.extension.type == MessageType::kResult;
  };
  EXPECT_TRUE(std::ranges::none_of(job.bed().take(), is_to_silent));
  // Its next message brings its address back.
  job.contribute(kSilent, 2);
  for (uint32_t source = 0; source < kSources; source++) job.contribute(source, 3);
  EXPECT_EQ(std::ranges::count_if(job.bed().take(), is_to_silent),
            2);  // The late one, and block 3.
}

TEST(Silence, ExcludeGoesOnWithoutTheMember) {
  SilenceOf job(job_with(Silence::kExclude));
  job.pass_without(seconds(3));
  EXPECT_TRUE(job.received(MessageType::kResult).empty());  // Not yet.
  job.keep_alive(milliseconds(2000));
  EXPECT_EQ(job.bed().counted(Outcome::kSilenceExcluded), 1U);
  const auto received = job.bed().take();
  const auto to_first = [&received](MessageType type) {
    return std::ranges::find_if(received, [type](const Reply& each) {
      return each.to == worker(0) && each.message.extension.type == type;
    });
  };
  const auto result = to_first(MessageType::kResult);
  ASSERT_NE(result, received.end());
  EXPECT_EQ(result->gradients, Values{2});
  EXPECT_TRUE(result->message.header.degraded);
  EXPECT_EQ(result->message.mask, (SourceMask{0b011}));
  const auto notice = to_first(MessageType::kNotice);
  ASSERT_NE(notice, received.end());
  EXPECT_EQ(notice->message.body.reason, Reason::kSourcePermanent);
  EXPECT_EQ(notice->message.body.mask, (SourceMask{0b100}));

  // New blocks do not wait for it.
  job.contribute(0, 2);
  job.contribute(1, 2);
  EXPECT_EQ(job.received(MessageType::kResult).size(), 1U);

  // Its next contribution brings it back; so late it is answered with the result.
  job.contribute(kSilent, 1);
  EXPECT_EQ(job.bed().counted(Outcome::kSourceReturned), 1U);
  static_cast<void>(job.bed().take());
  job.contribute(0, 3);
  job.contribute(1, 3);
  EXPECT_TRUE(job.received(MessageType::kResult).empty());
  job.contribute(kSilent, 3);
  EXPECT_EQ(job.received(MessageType::kResult).at(0).gradients, Values{3});
}

TEST(Silence, ABlockThatAlsoLacksALivingMemberGoesOnWaiting) {
  SilenceOf job(job_with(Silence::kExclude));
  job.contribute(0, 1);
  job.keep_alive(seconds(6));  // Member 1 sends keep-alives only.
  EXPECT_TRUE(job.received(MessageType::kResult).empty());
  job.contribute(1, 1);
  job.keep_alive(seconds(1));
  EXPECT_EQ(job.received(MessageType::kResult).at(0).gradients, Values{2});
}

TEST(Silence, AMemberThatIsHeardAgainMayFallSilentOnceMore) {
  SilenceOf job(job_with(Silence::kWait));
  job.pass_without(seconds(5));
  EXPECT_EQ(job.bed().counted(Outcome::kSilenceWaited), 1U);
  job.contribute(kSilent, 1);
  job.keep_alive(seconds(1));
  EXPECT_EQ(job.bed().counted(Outcome::kSilenceWaited), 1U);
  job.keep_alive(seconds(5));
  EXPECT_EQ(job.bed().counted(Outcome::kSilenceWaited), 2U);
}

TEST(Silence, TheEffectChangesInARunningSession) {
  SilenceOf job(job_with(Silence::kWait));
  job.pass_without(seconds(6));
  EXPECT_TRUE(job.received(MessageType::kResult).empty());
  job.bed().shard().set_silence(1, Silence::kExclude);
  job.keep_alive(seconds(1));
  EXPECT_EQ(job.received(MessageType::kResult).size(), 1U);
}

}  // namespace
}  // namespace tributary::trio_ml
