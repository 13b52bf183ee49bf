// SPDX-License-Identifier: Apache-2.0
// Method: the commands of an operator on one core in virtual time: the messages to the sources, and
//         the treatment of their later packets. Then a job's memory after its end.
#include "apps/trio_ml/session/membership_end.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/apps/trio_ml/bed.h"

namespace tributary::trio_ml {
namespace {

constexpr JobConfig kJob{.id = 1, .sources = 3, .block_cnt_max = 4, .block_grad_max = 8};

class Farewell : public ::testing::Test {
 protected:
  void start(const JobConfig& job = kJob) {
    bed_ = std::make_unique<Bed>(job);
    members_ = join_all(*bed_);
    static_cast<void>(bed_->take());
  }
  void contribute(uint32_t source, uint32_t block_id, const Values& values) {
    bed_->deliver(members_[source].contribution_bytes(block_id, values), worker(source));
  }
  /// Evicts a source as the appliance does on a single core.
  Eviction evict(uint32_t source) {
    Eviction eviction;
    bed_->core().run_command(bed_->now(), [&](App&, engine::LiveMachine& m) {
      eviction = evict_source(m, shard(), bed_->job(), source);
      known_ = drop_evicted(bed_->job(), source, eviction);
    });
    return eviction;
  }
  /// Ends all memberships. @return the addresses that are told of the removal.
  std::set<std::string> told_of_removal() {
    bed_->core().run_command(bed_->now(), [&](App&, engine::LiveMachine& m) {
      end_memberships(m, shard(), bed_->job(), Reason::kJobRemoved);
    });
    std::set<std::string> told;
    for (const Reply& reply : bed_->take()) {
      EXPECT_EQ(reply.message.body.reason, Reason::kJobRemoved);
      told.insert(reply.to.to_string());
    }
    return told;
  }
  Shard& shard() { return bed_->shard(); }

  std::unique_ptr<Bed> bed_;
  std::vector<Member> members_;
  bool known_ = false;
};

TEST_F(Farewell, EvictedMemberIsToldAndContributesNoMore) {
  start();
  contribute(1, 0, {5});
  EXPECT_EQ(evict(1).state, Session::Withdrawal::kMember);
  const std::vector<Reply> told = bed_->take();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].to, worker(1));
  EXPECT_EQ(told[0].message.extension.type, MessageType::kNotice);
  EXPECT_EQ(told[0].message.body.reason, Reason::kEvicted);
  EXPECT_EQ(told[0].message.extension.key, members_[1].result_key);
  EXPECT_TRUE(bed_->session().has_left(1));

  const uint64_t before = bed_->counted(Outcome::kAggregated);
  contribute(1, 1, {5});
  EXPECT_EQ(bed_->counted(Outcome::kAggregated), before);
  EXPECT_EQ(bed_->counted(Outcome::kWrongKey), 1U);
  // The others go on, and learn who left if they wait for it.
  contribute(0, 1, {6});
  EXPECT_EQ(bed_->counted(Outcome::kAggregated), before + 1);
  static_cast<void>(bed_->take());
  bed_->deliver(encoded(members_[0].message(MessageType::kProbe, 1)), worker(0));
  const Reply answer = bed_->take_result(0);
  EXPECT_EQ(answer.message.body.reason, Reason::kPeerLeft);
  EXPECT_EQ(answer.message.body.source, 1);
}

TEST_F(Farewell, RemovalIsToldAgainToMembersThatHaveNotLeft) {
  start();
  contribute(0, 0, {5});
  EXPECT_EQ(told_of_removal(), (std::set<std::string>{worker(0).to_string(), worker(1).to_string(),
                                                      worker(2).to_string()}));
  bed_->deliver(encoded(members_[1].message(MessageType::kLeave, 0)), worker(1));
  EXPECT_EQ(told_of_removal(),
            (std::set<std::string>{worker(0).to_string(), worker(2).to_string()}));
  // A member that waits for the one that has left learns why.
  bed_->deliver(encoded(members_[0].message(MessageType::kProbe, 0)), worker(0));
  const Reply answer = bed_->take_result(0);
  EXPECT_EQ(answer.message.extension.type, MessageType::kNotice);
  EXPECT_EQ(answer.message.body.reason, Reason::kJobRemoved);
}

TEST_F(Farewell, EvictedMemberIsNotWelcomedAgain) {
  start();
  static_cast<void>(evict(1));
  static_cast<void>(bed_->take());
  const std::vector<Reply> replies = deliver_join(*bed_, join_message(1, 1001, 3), worker(1));
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].message.extension.type, MessageType::kPending);
  EXPECT_EQ(replies[0].message.body.reason, Reason::kSessionRunning);
}

TEST_F(Farewell, LossOfAnotherAggregatorIsToldToMembersThatDoNotWait) {
  start();
  Message leave = members_[1].message(MessageType::kLeave, 0);
  leave.extension.tensor_elements = 2;
  bed_->deliver(encoded(leave), worker(1));
  std::set<std::string> told;
  for (const Reply& reply : bed_->take()) {
    EXPECT_EQ(reply.message.extension.type, MessageType::kNotice);
    EXPECT_EQ(reply.message.body.reason, Reason::kPeerLeft);
    EXPECT_EQ(reply.message.body.source, 1);
    EXPECT_EQ(reply.message.body.value, 2U);
    EXPECT_EQ(reply.message.extension.key, members_[0].result_key);
    EXPECT_TRUE(told.insert(reply.to.to_string()).second);
  }
  EXPECT_EQ(told, (std::set<std::string>{worker(0).to_string(), worker(2).to_string()}));

  // Without a lost aggregator nobody is told before they wait.
  start();
  bed_->deliver(encoded(members_[1].message(MessageType::kLeave, 0)), worker(1));
  EXPECT_TRUE(bed_->take().empty());

  // Ranks that do not need each other go on.
  JobConfig mitigating = kJob, asynchronous = kJob;
  mitigating.mitigation = true;
  asynchronous.asynchronous = true;
  asynchronous.parameters = 8;
  for (const JobConfig& job : {mitigating, asynchronous}) {
    start(job);
    leave.extension.key = members_[1].key;
    bed_->deliver(encoded(leave), worker(1));
    EXPECT_TRUE(bed_->session().has_left(1));
    EXPECT_TRUE(bed_->take().empty());
  }
}

TEST_F(Farewell, LeavesInARowAreAnsweredWithinTheQuota) {
  start();
  Message leave = members_[1].message(MessageType::kLeave, 0);
  leave.extension.tensor_elements = 2;
  for (uint32_t i = 0; i < 1000; i++) bed_->deliver(encoded(leave), worker(1));
  EXPECT_LT(bed_->take().size(), 1000U);
}

TEST_F(Farewell, SessionEndsWithItsLastEvictedMember) {
  start();
  for (uint32_t source = 0; source < 3; source++) {
    EXPECT_EQ(evict(source).state, Session::Withdrawal::kMember);
  }
  EXPECT_EQ(bed_->session().number(), 0U);
  EXPECT_EQ(bed_->counted(Outcome::kSessionEnded), 1U);
  EXPECT_EQ(evict(0).state, Session::Withdrawal::kUnknown);
  members_ = join_all(*bed_, /*nonce_base=*/2000);
  for (uint32_t source = 0; source < 3; source++) contribute(source, 0, {1});
  EXPECT_EQ(bed_->counted(Outcome::kBlockCompleted), 1U);
}

TEST_F(Farewell, WithMitigationNewBlocksDoNotWaitForAnEvictedMember) {
  JobConfig job = kJob;
  job.mitigation = true;
  start(job);
  static_cast<void>(evict(2));
  contribute(0, 0, {1});
  contribute(1, 0, {2});
  EXPECT_EQ(bed_->counted(Outcome::kBlockDegraded), 1U);
  const Reply result = bed_->take_result(0);
  EXPECT_EQ(result.gradients, Values{3});
}

TEST_F(Farewell, EvictedNewcomerIsRefused) {
  bed_ = std::make_unique<Bed>(kJob);
  static_cast<void>(deliver_join(*bed_, join_message(0, 100, 3), worker(0)));
  EXPECT_EQ(evict(0).state, Session::Withdrawal::kPending);
  const std::vector<Reply> told = bed_->take();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].message.extension.type, MessageType::kRefusal);
  EXPECT_EQ(told[0].message.extension.key, 100U);
  EXPECT_EQ(told[0].message.body.reason, Reason::kEvicted);
  EXPECT_EQ(bed_->session().pending_nonce(0, bed_->now()), 0U);
  EXPECT_EQ(evict(0).state, Session::Withdrawal::kUnknown);
}

TEST_F(Farewell, PinnedPlainSourceMayComeFromAnotherAddressAfterItsEviction) {
  JobConfig job = kJob;
  job.sources = 1;
  job.pin = true;
  bed_ = std::make_unique<Bed>(job);
  bed_->contribute(0, 0, 0, {4});
  bed_->deliver(plain_bytes(0, 1, 0, {4}), stranger());
  EXPECT_EQ(bed_->counted(Outcome::kForeignAddress), 1U);
  static_cast<void>(evict(0));
  EXPECT_TRUE(known_);
  static_cast<void>(bed_->take());
  bed_->deliver(plain_bytes(0, 1, 0, {4}), stranger());
  EXPECT_EQ(bed_->counted(Outcome::kForeignAddress), 1U);
  const std::vector<Reply> replies = bed_->take();
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].to, stranger());
}

TEST_F(Farewell, EvictionOfAnEarlierSessionChangesNothing) {
  start();
  Eviction stale{
      .state = Session::Withdrawal::kMember, .session = bed_->session().number() - 1, .key = 1};
  EXPECT_FALSE(drop_evicted(bed_->job(), 0, stale));
  contribute(0, 0, {1});
  EXPECT_EQ(bed_->counted(Outcome::kAggregated), 1U);
}

TEST_F(Farewell, DrainedJobServesItsSessionAndRefusesNewcomers) {
  start();
  bed_->session().drain();
  for (uint32_t source = 0; source < 3; source++) contribute(source, 0, {1});
  EXPECT_EQ(bed_->counted(Outcome::kBlockCompleted), 1U);
  static_cast<void>(bed_->take());
  // A member whose welcome was lost is welcomed; another worker is refused.
  EXPECT_EQ(deliver_join(*bed_, join_message(0, 1000, 3), worker(0))[0].message.extension.type,
            MessageType::kWelcome);
  const std::vector<Reply> replies = deliver_join(*bed_, join_message(0, 77, 3), worker(0));
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].message.extension.type, MessageType::kRefusal);
  EXPECT_EQ(replies[0].message.body.reason, Reason::kJobRemoved);
}

TEST_F(Farewell, TimeoutChangesWhileBlocksWait) {
  JobConfig job = kJob;
  job.mitigation = true;
  job.timeout = seconds(50);
  bed_ = std::make_unique<Bed>(job);
  bed_->contribute(0, 0, 0, {1});
  bed_->run_until(bed_->now() + seconds(2));
  EXPECT_EQ(bed_->counted(Outcome::kBlockDegraded), 0U);
  shard().set_timeout(1, milliseconds(20), bed_->now());
  bed_->session().set_timeout(milliseconds(20));
  EXPECT_EQ(bed_->session().config().timeout, milliseconds(20));
  bed_->run_until(bed_->now() + milliseconds(41));
  EXPECT_EQ(bed_->counted(Outcome::kBlockDegraded), 1U);
}

TEST(ShardJobs, RemovedJobReturnsItsMemoryAndItsPacketsAreUnknown) {
  Bed bed(BedConfig{.jobs = {kJob}});
  const uint64_t used = bed.memory().used_bytes(memory::Range::kDram);
  EXPECT_GT(used, 0U);
  std::unique_ptr<Job> job = bed.shard().remove(1);
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(bed.shard().remove(1), nullptr);
  bed.contribute(0, 0, 0, {1});
  EXPECT_EQ(bed.counted(Outcome::kUnknownJob), 1U);
  EXPECT_EQ(bed.memory().used_bytes(memory::Range::kDram), used);
  bed.shard().insert(std::move(job));
  bed.contribute(0, 0, 0, {1});
  EXPECT_EQ(bed.counted(Outcome::kAggregated), 1U);
  bed.shard().remove(1).reset();
  EXPECT_EQ(bed.memory().used_bytes(memory::Range::kDram), 0U);
}

TEST(ShardJobs, JobThatDoesNotFitTakesNoMemory) {
  Bed bed(BedConfig{.jobs = {kJob}, .dram_bytes = 1 << 20});
  const uint64_t used = bed.memory().used_bytes(memory::Range::kDram);
  JobConfig large = kJob;
  large.block_cnt_max = 256;
  large.block_grad_max = 2048;
  Session session(large, auth::key_of_seed(1));
  EXPECT_FALSE(bed.shard().make_job(large, session, bed.now()).has_value());
  EXPECT_EQ(bed.memory().used_bytes(memory::Range::kDram), used);
}

}  // namespace
}  // namespace tributary::trio_ml
