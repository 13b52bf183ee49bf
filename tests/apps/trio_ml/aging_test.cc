// SPDX-License-Identifier: Apache-2.0
// Method: one straggler by hand, then the bounds of a block's life at random times, then permanent
// stragglers. Virtual time: the core runs whenever it would wake by itself.
#include "apps/trio_ml/aging.h"

#include <gtest/gtest.h>

#include "tests/apps/trio_ml/bed.h"
#include "tests/support/seed.h"

namespace tributary::trio_ml {
namespace {

using engine::PacketLayer;

constexpr Duration kTimeout = milliseconds(10);
constexpr JobConfig kJob{.id = 1,
                         .sources = 4,
                         .block_cnt_max = 64,
                         .block_grad_max = 16,
                         .mitigation = true,
                         .timeout = kTimeout};

/// Runs the core until it sends a packet, but not after `until`. The core's time is then the time
/// of sending.
/// @return the packets.
std::vector<Reply> wait_for_packets(Bed& bed, Instant until) {
  std::vector<Reply> sent = bed.take();
  while (sent.empty() && bed.now() < until) {
    bed.step(until);
    sent = bed.take();
  }
  return sent;
}

class Aging : public ::testing::TestWithParam<PacketLayer> {};

INSTANTIATE_TEST_SUITE_P(Layers, Aging,
                         ::testing::Values(PacketLayer::kUdpPayload, PacketLayer::kFrame),
                         [](const auto& layer) {
                           return layer.param == PacketLayer::kFrame ? "Frame" : "UdpPayload";
                         });

TEST_P(Aging, BlockWithoutItsStragglerEndsDegraded) {
  Bed bed(kJob, GetParam());
  for (uint32_t source = 0; source < 3; source++) bed.contribute(source, 0, 0, {1, 10});
  const Instant last = bed.now();
  const auto sent = wait_for_packets(bed, last + seconds(1));
  EXPECT_GT(bed.now(), last + kTimeout);
  EXPECT_LE(bed.now(), last + kTimeout * 2);
  ASSERT_EQ(sent.size(), 3U);  // The straggler's address is not known.
  for (const Reply& result : sent) EXPECT_EQ(result.gradients, (Values{3, 30}));
  EXPECT_EQ(bed.counts(), (Counts{{"aggregated", 3},
                                  {"block_degraded", 1},
                                  {"result_sent", 3},
                                  {"source_temporary_straggler", 1}}));
  // Byte 5: age_op 1 in the high four bits, degraded in bit 2; byte 7: src_cnt.
  EXPECT_EQ(sent[0].bytes[5], std::byte{0x14});
  EXPECT_EQ(sent[0].bytes[7], std::byte{3});
}

TEST_P(Aging, LateContributionGetsTheDegradedResult) {
  Bed bed(kJob, GetParam());
  for (uint32_t source = 0; source < 3; source++) bed.contribute(source, 0, 0, {1});
  bed.run_until(bed.now() + kTimeout * 2);
  static_cast<void>(bed.take());
  bed.contribute(3, 0, 0, {1000});
  const Reply result = bed.take_result(3);
  EXPECT_EQ(result.gradients, Values{3});
  EXPECT_EQ(result.message.header.src_cnt, 3);
  EXPECT_TRUE(result.message.header.degraded);
  EXPECT_EQ(bed.counted(Outcome::kLate), 1U);
  EXPECT_EQ(bed.counted(Outcome::kAggregated), 3U);
}

TEST_P(Aging, BlockNeverExpiresWithoutMitigation) {
  JobConfig job = kJob;
  job.mitigation = false;
  Bed bed(job, GetParam());
  for (uint32_t source = 0; source < 3; source++) bed.contribute(source, 0, 0, {1});
  bed.run_until(bed.now() + seconds(100));
  EXPECT_TRUE(bed.take().empty());
  bed.contribute(3, 0, 0, {1});
  const Reply result = bed.take_result(3);
  EXPECT_EQ(result.gradients, Values{4});
  EXPECT_FALSE(result.message.header.degraded);
}

TEST_P(Aging, CompleteBlocksAreNotAged) {
  Bed bed(kJob, GetParam());
  for (uint32_t source = 0; source < 4; source++) bed.contribute(source, 0, 0, {1});
  EXPECT_EQ(bed.take().size(), 4U);
  bed.run_until(bed.now() + seconds(1));
  EXPECT_TRUE(bed.take().empty());
  EXPECT_EQ(bed.counted(Outcome::kBlockDegraded), 0U);
}

TEST_P(Aging, IdleServerSleepsUntilTheInfrequentTimer) {
  Bed bed(kJob, GetParam());
  EXPECT_GE(bed.core().idle_time(bed.now(), seconds(100)), milliseconds(500));
  bed.contribute(0, 0, 0, {1});
  EXPECT_LE(bed.core().idle_time(bed.now(), seconds(100)), kTimeout);
}

TEST_P(Aging, OnlyNewContributionsExtendABlock) {
  Bed bed(kJob, GetParam());
  const Instant start = bed.now();
  bed.contribute(0, 0, 0, {1});
  std::vector<Reply> sent;
  while (sent.empty() && bed.now() < start + seconds(1)) {
    bed.run_until(bed.now() + milliseconds(1));
    sent = bed.take();
    bed.contribute(0, 0, 0, {1});  // An impatient source repeats itself.
  }
  EXPECT_GT(bed.now(), start + kTimeout);
  EXPECT_LE(bed.now(), start + kTimeout * 2);

  // New contributions restart the timeout.
  Instant last = bed.now();
  for (uint32_t source = 0; source < 3; source++) {
    bed.run_until(bed.now() + kTimeout - milliseconds(1));
    static_cast<void>(bed.take());
    bed.contribute(source, 1, 0, {1});
    last = bed.now();
  }
  sent = wait_for_packets(bed, last + seconds(1));
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent[0].gradients, Values{3});
  EXPECT_GT(bed.now(), last + kTimeout);
}

TEST_P(Aging, EveryBlockOfAFullWindowEnds) {
  Bed bed(kJob, GetParam());
  for (uint32_t block = 0; block < 64; block++) {
    bed.contribute(0, block, 0, {static_cast<int32_t>(block)});
  }
  bed.run_until(bed.now() + kTimeout * 2);
  const auto sent = bed.take();
  ASSERT_EQ(sent.size(), 64U);
  EXPECT_EQ(bed.counted(Outcome::kSourceTemporary), 64U * 3);
  EXPECT_EQ(bed.job().record.block_curr_cnt, 0U);
  // The next window starts at once.
  for (uint32_t source = 0; source < 4; source++) bed.contribute(source, 64, 0, {5});
  EXPECT_EQ(bed.take_result(0).gradients, Values{20});
}

// Contributions at random times, with duplicates between them, any timeout and number of timer
// threads.
TEST_P(Aging, BlockExpiresOneToTwoTimeoutsAfterItsLastContribution) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t round = 0; round < 300; round++) {
    JobConfig job = kJob;
    job.timeout = milliseconds(1 + prng.below(50));
    job.timer_threads = 1 + prng.below(100);
    Bed bed(job, GetParam());
    const uint32_t block = prng.below(1000);
    const uint32_t contributors = 1 + prng.below(3);
    const auto some_time = [&] {
      return Duration::from_ticks(1 + prng.any_u64() % (job.timeout.ticks() - 1));
    };
    // Any phase of the timers. An idle core has slept past many of their deadlines; they run late,
    // when the first packet wakes it.
    bed.advance(some_time() * 5);
    Instant last;
    for (uint32_t source = 0; source < contributors; source++) {
      if (source > 0) bed.run_until(bed.now() + some_time());
      ASSERT_TRUE(bed.take().empty()) << "less than a timeout after a contribution";
      bed.contribute(source, block, 0, {1});
      last = bed.now();
      bed.contribute(prng.below(source + 1), block, 0, {1});
    }
    const auto sent = wait_for_packets(bed, last + job.timeout * 3);
    ASSERT_EQ(sent.size(), contributors) << "round " << round;
    ASSERT_GT(bed.now(), last + job.timeout) << "round " << round;
    ASSERT_LE(bed.now(), last + job.timeout * 2) << "round " << round;
    ASSERT_EQ(sent[0].gradients, Values{static_cast<int32_t>(contributors)});
    ASSERT_EQ(sent[0].message.header.src_cnt, contributors);
  }
}

// --- Permanent stragglers ------------------------------------------------------------------------

/// Sources 0 to 2 contribute to one block after the other; source 3 contributes on request.
class PermanentStraggler : public ::testing::Test {
 protected:
  explicit PermanentStraggler(const JobConfig& job = kJob) : bed_(job) {}

  /// @return the duration of the block.
  Duration block_without_3(int32_t sum = 3) {
    const Instant start = bed_.now();
    for (uint32_t source = 0; source < 3; source++) bed_.contribute(source, next_, 0, {1});
    next_++;
    const auto sent = wait_for_packets(bed_, start + seconds(1));
    EXPECT_FALSE(sent.empty());
    if (!sent.empty()) {
      EXPECT_EQ(sent[0].gradients, Values{sum});
      EXPECT_EQ(sent[0].message.header.src_cnt, 3);
      EXPECT_TRUE(sent[0].message.header.degraded);
    }
    return bed_.now() - start;
  }
  void make_permanent() {
    const Instant start = bed_.now();
    while (bed_.counted(Outcome::kSourcePermanent) == 0 && bed_.now() < start + seconds(10)) {
      block_without_3();
    }
    ASSERT_EQ(bed_.counted(Outcome::kSourcePermanent), 1U);
    EXPECT_LE(bed_.now() - start, kJob.permanent_after * 2);
  }
  Bed bed_;
  uint32_t next_ = 0;
};

TEST_F(PermanentStraggler, BlocksCompleteWithoutThePermanentStraggler) {
  EXPECT_GT(block_without_3(), kTimeout);
  make_permanent();
  EXPECT_EQ(block_without_3(), Duration());  // At once, and the result is still marked degraded.
  EXPECT_FALSE(contains(bed_.job().record.active_mask, 3));
  EXPECT_TRUE(contains(bed_.job().record.src_mask, 3));
}

TEST_F(PermanentStraggler, NextContributionReactivatesTheSource) {
  make_permanent();
  // Its contribution arrives first, so the sum includes it. The next block waits for the source.
  bed_.contribute(3, next_, 0, {100});
  EXPECT_EQ(bed_.counted(Outcome::kSourceReturned), 1U);
  for (uint32_t source = 0; source < 3; source++) bed_.contribute(source, next_, 0, {1});
  next_++;
  const Reply result = bed_.take_result(0);
  EXPECT_EQ(result.gradients, Values{103});
  EXPECT_FALSE(result.message.header.degraded);
  EXPECT_GT(block_without_3(), kTimeout);
}

TEST_F(PermanentStraggler, OccasionalContributorStaysTemporary) {
  const Instant start = bed_.now();
  while (bed_.now() < start + seconds(5)) {
    for (uint32_t i = 0; i < 10; i++) block_without_3();
    bed_.advance(milliseconds(1));
    for (uint32_t source = 0; source < 4; source++) bed_.contribute(source, next_, 0, {1});
    next_++;
    static_cast<void>(bed_.take());
  }
  EXPECT_EQ(bed_.counted(Outcome::kSourcePermanent), 0U);
  EXPECT_GT(bed_.counted(Outcome::kSourceTemporary), 100U);
}

TEST_F(PermanentStraggler, AlwaysLateSourceStaysTemporary) {
  const Instant start = bed_.now();
  while (bed_.now() < start + seconds(5)) {
    block_without_3();
    bed_.advance(milliseconds(1));
    bed_.contribute(3, next_ - 1, 0, {1});
    EXPECT_EQ(bed_.take_result(3).gradients, Values{3});
  }
  EXPECT_EQ(bed_.counted(Outcome::kSourcePermanent), 0U);
}

TEST_F(PermanentStraggler, IdleJobHasNoPermanentStraggler) {
  bed_.contribute(0, 0, 0, {1});
  bed_.contribute(1, 0, 0, {1});
  bed_.contribute(2, 0, 0, {1});
  bed_.contribute(3, 0, 0, {1});
  bed_.run_until(bed_.now() + seconds(30));
  EXPECT_EQ(bed_.counted(Outcome::kSourcePermanent), 0U);
}

// Holds even if one source is always first, so that the others are late.
TEST_F(PermanentStraggler, AllSourcesMayLeaveAndReturn) {
  make_permanent();
  bed_.contribute(0, next_, 0, {1});  // Sources 1 and 2 go as well; 0 stays.
  bed_.run_until(bed_.now() + seconds(3));
  static_cast<void>(bed_.take());
  next_++;
  for (uint32_t source = 0; source < 4; source++) bed_.contribute(source, next_, 0, {1});
  next_++;
  for (uint32_t source = 0; source < 4; source++) bed_.contribute(source, next_, 0, {1});
  const auto sent = bed_.take();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.back().gradients, Values{4});
  EXPECT_FALSE(sent.back().message.header.degraded);
}

TEST(PermanentStragglerInSession, AMemberThatHasLeftGetsNoMoreResults) {
  JobConfig job = kJob;
  job.sources = 3;
  Bed bed(job);
  const auto members = join_all(bed);
  uint32_t block = 0;
  const auto results_of_a_block = [&](uint32_t contributors) {
    for (uint32_t source = 0; source < contributors; source++) {
      bed.deliver(members[source].contribution_bytes(block, {1}), worker(source));
    }
    block++;
    return bed.take().size();
  };
  EXPECT_EQ(results_of_a_block(3), 3U);
  bed.deliver(encoded(members[2].message(MessageType::kLeave, 0)), worker(2));
  // Blocks end without it, which makes it a permanent straggler.
  for (uint32_t period = 0; period < 4; period++) {
    static_cast<void>(results_of_a_block(2));
    bed.run_until(bed.now() + job.permanent_after);
    static_cast<void>(bed.take());
  }
  EXPECT_EQ(results_of_a_block(2), 2U);
}

TEST(PermanentStragglerInSession, MembersGetNoticesOfLossAndReturn) {
  JobConfig job = kJob;
  job.sources = 2;
  Bed bed(job);
  const auto members = join_all(bed);
  uint32_t block = 0;
  std::vector<Reply> notices;
  const auto collect = [&] {
    for (Reply& reply : bed.take()) {
      if (reply.message.extension.type == MessageType::kNotice) notices.push_back(reply);
    }
  };
  bed.deliver(members[1].contribution_bytes(0, {1}), worker(1));  // So that its address is known.
  const Instant start = bed.now();
  while (notices.empty() && bed.now() < start + seconds(5)) {
    bed.deliver(members[0].contribution_bytes(block++, {1}), worker(0));
    bed.run_until(bed.now() + kTimeout * 2);
    collect();
  }
  ASSERT_EQ(notices.size(), 2U);  // One for each member.
  EXPECT_EQ(notices[0].message.body.reason, Reason::kSourcePermanent);
  EXPECT_EQ(notices[0].message.body.source, 1);
  EXPECT_EQ(notices[0].message.body.mask, (SourceMask{0b10, 0, 0, 0}));
  EXPECT_EQ(notices[0].message.extension.key, members[0].result_key);
  notices.clear();
  bed.deliver(members[1].contribution_bytes(block, {1}), worker(1));
  collect();
  ASSERT_EQ(notices.size(), 2U);
  EXPECT_EQ(notices[0].message.body.reason, Reason::kSourceReturned);
  EXPECT_EQ(notices[0].message.body.source, 1);
  EXPECT_EQ(notices[0].message.body.mask, (SourceMask{0b10, 0, 0, 0}));
}

/// Two cores of one aggregator. Core 0 owns blocks from 0 on, core 1 those from 128 on.
class TwoCores : public ::testing::Test {
 protected:
  static JobConfig job_of(uint32_t sources) {
    JobConfig job = kJob;
    job.sources = sources;
    return job;
  }
  explicit TwoCores(uint32_t sources = 4)
      : core0_({.jobs = {job_of(sources)}, .shard_index = 0, .shard_count = 2}),
        core1_({.jobs = {job_of(sources)},
                .shard_index = 1,
                .shard_count = 2,
                .session = &core0_.session()}) {}

  void pass(Duration time) {
    for (Bed* core : {&core0_, &core1_}) core->run_until(core->now() + time);
  }
  [[nodiscard]] uint64_t counted(Outcome outcome) const {
    return core0_.counted(outcome) + core1_.counted(outcome);
  }
  Bed core0_;
  Bed core1_;
};

// The blocks that a slow source misses may all lie on a core that it contributes nothing else to.
TEST_F(TwoCores, ContributionsToOneCoreCountForTheOther) {
  for (uint32_t block = 0; block < 50; block++) {
    for (uint32_t source = 0; source < 4; source++) core0_.contribute(source, block, 0, {1});
    for (uint32_t source = 0; source < 3; source++) core1_.contribute(source, 128 + block, 0, {1});
    pass(milliseconds(100));
  }
  EXPECT_EQ(core1_.counted(Outcome::kSourceTemporary), 50U);  // In each of five periods.
  EXPECT_EQ(counted(Outcome::kSourcePermanent), 0U);
  // It stops: its last contribution was 0.1 s ago.
  for (uint32_t block = 50; block < 75; block++) {
    for (uint32_t source = 0; source < 3; source++) core1_.contribute(source, 128 + block, 0, {1});
    pass(milliseconds(100));
  }
  EXPECT_EQ(core1_.counted(Outcome::kSourcePermanent), 1U);
}

class TwoCoresInSession : public TwoCores {
 protected:
  TwoCoresInSession() : TwoCores(2) {}

  /// Delivers a member's contribution to a block of each core.
  void contribute(const Member& member, uint32_t block) {
    core0_.deliver(member.contribution_bytes(block, {1}), worker(member.source));
    core1_.deliver(member.contribution_bytes(128 + block, {1}), worker(member.source));
  }
  /// Returns the destinations of the notices for this reason since the last call.
  std::vector<Endpoint> notified(Reason reason) {
    std::vector<Endpoint> to;
    for (Bed* core : {&core0_, &core1_}) {
      for (const Reply& reply : core->take()) {
        if (reply.message.body.reason == reason) to.push_back(reply.to);
      }
    }
    return to;
  }
};

TEST_F(TwoCoresInSession, OneCoreAnnouncesAPermanentStragglerAndItsReturn) {
  const std::vector<Endpoint> each{worker(0), worker(1)};
  const auto members = join_all(core0_);
  for (const Member& member : members) contribute(member, 0);
  for (uint32_t block = 1; block < 52; block++) {
    contribute(members[0], block);
    pass(milliseconds(50));
  }
  EXPECT_FALSE(contains(core0_.job().record.active_mask, 1));
  EXPECT_FALSE(contains(core1_.job().record.active_mask, 1));
  EXPECT_EQ(notified(Reason::kSourcePermanent), each);
  EXPECT_EQ(counted(Outcome::kSourcePermanent), 1U);
  contribute(members[1], 52);
  EXPECT_TRUE(contains(core0_.job().record.active_mask, 1));
  EXPECT_TRUE(contains(core1_.job().record.active_mask, 1));
  EXPECT_EQ(notified(Reason::kSourceReturned), each);
  EXPECT_EQ(counted(Outcome::kSourceReturned), 1U);
}

TEST(DegradedInSession, DegradedResultNamesItsSources) {
  Bed bed(kJob);
  const auto members = join_all(bed);
  for (const Member& member : members) {
    bed.deliver(encoded(member.message(MessageType::kKeepAlive, 0)), worker(member.source));
  }
  bed.deliver(members[2].contribution_bytes(0, {5}), worker(2));
  bed.deliver(members[0].contribution_bytes(0, {6}), worker(0));
  bed.run_until(bed.now() + kTimeout * 2);
  const Reply result = bed.take_result(2);
  EXPECT_EQ(result.gradients, Values{11});
  EXPECT_TRUE(result.message.header.degraded);
  EXPECT_NE(result.message.extension.flags & wire::kFlagSourceMask, 0);
  EXPECT_EQ(result.message.mask, (SourceMask{0b101, 0, 0, 0}));
}

// A member that has sent nothing since the session began may still wait for its welcome.
TEST(DegradedInSession, UnheardMembersAreNotStragglersAtFirst) {
  Bed bed(kJob);
  const auto members = join_all(bed);
  const Instant start = bed.now();
  for (uint32_t source = 0; source < 3; source++) {
    bed.deliver(members[source].contribution_bytes(0, {1}), worker(source));
  }
  bed.run_until(start + seconds(3));
  EXPECT_TRUE(bed.take().empty());
  bed.deliver(encoded(members[3].message(MessageType::kKeepAlive, 0)), worker(3));
  bed.run_until(bed.now() + kTimeout * 2);
  EXPECT_EQ(bed.take_result(0).gradients, Values{3});
}

TEST(DegradedInSession, MemberThatNeverSendsExpires) {
  Bed bed(kJob);
  const auto members = join_all(bed);
  const Instant start = bed.now();
  bed.deliver(members[0].contribution_bytes(0, {1}), worker(0));
  const auto sent = wait_for_packets(bed, start + seconds(10));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].gradients, Values{1});
  EXPECT_LE(bed.now() - start, kSilentAfter + kTimeout * 2);
}

}  // namespace
}  // namespace tributary::trio_ml
