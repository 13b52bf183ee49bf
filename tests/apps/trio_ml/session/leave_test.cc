// SPDX-License-Identifier: Apache-2.0
// Method: members that leave a session with straggler mitigation, on two cores in virtual time, for
//         the effects of silence.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/apps/trio_ml/bed.h"

namespace tributary::trio_ml {
namespace {

using wire::Reason;

constexpr uint32_t kSources = 3;
constexpr uint32_t kLeaver = 2;
constexpr Duration kTimeout = milliseconds(10);
// Blocks 0 to 127 belong to core 0, and 128 to 255 to core 1.
constexpr uint32_t kOnCore1 = 128;

JobConfig job_with(Silence silence) {
  return {.id = 1,
          .sources = kSources,
          .block_cnt_max = 256,
          .block_grad_max = 16,
          .mitigation = true,
          .timeout = kTimeout,
          .silence = silence};
}

class LeaveWithMitigation {
 public:
  explicit LeaveWithMitigation(Silence silence)
      : core0_({.jobs = {job_with(silence)}, .shard_index = 0, .shard_count = 2}),
        core1_({.jobs = {job_with(silence)},
                .shard_index = 1,
                .shard_count = 2,
                .session = &core0_.session()}),
        members_(join_all(core0_)) {
    for (uint32_t source = 0; source < kSources; source++) {
      contribute(source, 0);
      contribute(source, kOnCore1);
    }
    pass(kTimeout * 2);  // Every member has been present for a timeout.
    static_cast<void>(take());
  }

  void contribute(uint32_t source, uint32_t block) {
    core_of(block).deliver(members_[source].contribution_bytes(block, {1}), worker(source));
  }
  void probe(uint32_t source, uint32_t block) {
    core_of(block).deliver(encoded(members_[source].message(MessageType::kProbe, block)),
                           worker(source));
  }
  void leave(uint32_t source) {
    core0_.deliver(encoded(members_[source].message(MessageType::kLeave, 0)), worker(source));
  }
  void pass(Duration time) {
    const Instant until = core0_.now() + time;
    while (core0_.now() < until) {
      const Instant next = std::min(until, core0_.now() + milliseconds(1));
      core0_.run_until(next);
      core1_.run_until(next);
    }
  }
  /// Returns the packets of both cores since the last call.
  std::vector<Reply> take() {
    std::vector<Reply> sent = core0_.take();
    for (Reply& reply : core1_.take()) sent.push_back(std::move(reply));
    return sent;
  }
  /// Tells whether the packets have a notice for a member that source 2 has left.
  static bool names_leaver(const std::vector<Reply>& sent, uint32_t to) {
    return std::ranges::any_of(sent, [to](const Reply& reply) {
      const Message& message = reply.message;
      return reply.to == worker(to) && message.extension.type == MessageType::kNotice &&
             message.body.reason == Reason::kPeerLeft && message.body.mask == SourceMask{0b100};
    });
  }
  static bool names_any_leaver(const std::vector<Reply>& sent) {
    return std::ranges::any_of(sent, [](const Reply& reply) {
      return reply.message.extension.type == MessageType::kNotice &&
             reply.message.body.reason == Reason::kPeerLeft;
    });
  }

 private:
  Bed& core_of(uint32_t block) { return block < kOnCore1 ? core0_ : core1_; }

  Bed core0_, core1_;
  std::vector<Member> members_;
};

/// Starts a block that lacks the leaver, and expects the notice at both others when it ages out.
void expect_notice_when_aged_out(LeaveWithMitigation& job, uint32_t block) {
  job.contribute(0, block);
  job.contribute(1, block);
  job.pass(kTimeout * 2);
  const auto sent = job.take();
  EXPECT_TRUE(LeaveWithMitigation::names_leaver(sent, 0)) << block;
  EXPECT_TRUE(LeaveWithMitigation::names_leaver(sent, 1)) << block;
}

TEST(LeaveWithMitigation, AnswersAMemberThatWaitsForTheOneThatLeft) {
  for (const uint32_t block : {1U, kOnCore1 + 1}) {
    LeaveWithMitigation job(Silence::kEnd);
    job.contribute(0, block);
    job.leave(kLeaver);
    EXPECT_TRUE(job.take().empty());  // Nobody has asked.
    job.probe(0, block);
    EXPECT_TRUE(LeaveWithMitigation::names_leaver(job.take(), 0)) << block;
  }
}

TEST(LeaveWithMitigation, TellsAllWhenTheBlockAgesOut) {
  for (const uint32_t block : {1U, kOnCore1 + 1}) {
    LeaveWithMitigation job(Silence::kEnd);
    job.leave(kLeaver);
    expect_notice_when_aged_out(job, block);
  }
}

TEST(LeaveWithMitigation, TellsThatAPermanentStragglerHasLeft) {
  for (const uint32_t first : {1U, kOnCore1 + 1}) {
    LeaveWithMitigation job(Silence::kEnd);
    uint32_t block = first;
    for (; block < first + 50; block++) {
      job.contribute(0, block);
      job.contribute(1, block);
      job.pass(milliseconds(50));
    }
    job.leave(kLeaver);
    static_cast<void>(job.take());
    job.pass(seconds(2));  // The infrequent timer, which judges sources, has run.
    expect_notice_when_aged_out(job, block);
  }
}

// The others have ended in order. The late member gets the results of their blocks, and goes on.
TEST(LeaveWithMitigation, ALateMemberFetchesResultsInPeace) {
  LeaveWithMitigation job(Silence::kEnd);
  for (const uint32_t block : {1U, kOnCore1 + 1}) {
    job.contribute(0, block);
    job.contribute(kLeaver, block);
  }
  job.pass(kTimeout * 2);  // Both end without source 1.
  job.leave(0);
  job.leave(kLeaver);
  static_cast<void>(job.take());
  job.pass(milliseconds(2500));
  for (const uint32_t block : {1U, kOnCore1 + 1}) {
    job.contribute(1, block);
    job.probe(1, block);
  }
  const auto sent = job.take();
  EXPECT_FALSE(LeaveWithMitigation::names_any_leaver(sent));
  for (const uint32_t block : {1U, kOnCore1 + 1}) {
    const auto result = std::ranges::find_if(sent, [block](const Reply& reply) {
      return reply.message.extension.type == MessageType::kResult &&
             reply.message.header.block_id == block;
    });
    ASSERT_NE(result, sent.end()) << block;
    EXPECT_EQ(result->to, worker(1));
    EXPECT_EQ(result->gradients, Values{2});
  }
}

TEST(LeaveWithMitigation, WithExcludeTheOthersGoOn) {
  LeaveWithMitigation job(Silence::kAuto);
  job.leave(kLeaver);
  job.contribute(0, 1);
  job.contribute(1, 1);
  job.probe(0, 1);
  job.pass(kTimeout * 2);
  const auto sent = job.take();
  EXPECT_FALSE(LeaveWithMitigation::names_any_leaver(sent));
  EXPECT_TRUE(std::ranges::any_of(sent, [](const Reply& reply) {
    return reply.message.extension.type == MessageType::kResult && reply.message.header.degraded;
  }));
}

}  // namespace
}  // namespace tributary::trio_ml
