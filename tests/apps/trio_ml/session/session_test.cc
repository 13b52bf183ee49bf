// SPDX-License-Identifier: Apache-2.0
// Method: a session by hand: joins, answers, and its end.
#include "apps/trio_ml/session/session.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "apps/trio_ml/records.h"
#include "tests/apps/trio_ml/bed.h"

namespace tributary::trio_ml {
namespace {

constexpr JobConfig kJob{.id = 1, .sources = 3, .block_cnt_max = 64, .block_grad_max = 500};

class SessionTest : public ::testing::Test {
 protected:
  Session::JoinAnswer join(uint32_t source, uint64_t nonce) {
    return session_.join(join_message(source, nonce, 3), worker(source), now_);
  }
  /// All sources join, and then confirm.
  void start(uint64_t nonce_base = 100) { join_and_confirm(session_, 3, nonce_base, now_); }
  static void join_and_confirm(Session& session, uint32_t world, uint64_t nonce_base, Instant now) {
    for (uint32_t round = 0; round < 2 && session.number() == 0; round++) {
      for (uint32_t source = 0; source < 3 && session.number() == 0; source++) {
        const Message message = join_message(source, nonce_base + source, world);
        static_cast<void>(session.join(message, worker(source), now));
      }
    }
    ASSERT_NE(session.number(), 0U);
  }
  void pass(Duration time) { now_ = now_ + time; }
  [[nodiscard]] uint64_t key_of(uint32_t source) const {
    return session_.key_of(source, session_.number());
  }

  Session session_{kJob, auth::key_of_seed(42)};
  Instant now_{seconds(100)};
};

TEST_F(SessionTest, StartsWhenEverySourceHasJoinedAndConfirmed) {
  for (uint32_t source = 0; source < 2; source++) {
    const auto answer = join(source, 100 + source);
    EXPECT_EQ(answer.reply, MessageType::kPending);
    EXPECT_EQ(answer.body.reason, Reason::kWaitingForPeers);
    EXPECT_EQ(answer.body.mask, first_sources(source + 1));  // Sources that have joined.
    EXPECT_FALSE(answer.started);
    EXPECT_EQ(session_.number(), 0U);
  }
  auto answer = join(2, 102);
  EXPECT_EQ(answer.body.reason, Reason::kConfirm);
  EXPECT_TRUE(answer.to_all_pending);             // The others must repeat their joins.
  EXPECT_EQ(join(2, 102).to_all_pending, false);  // They are asked once.
  EXPECT_EQ(join(0, 100).body.reason, Reason::kConfirm);
  answer = join(1, 101);
  EXPECT_TRUE(answer.started);
  EXPECT_EQ(answer.reply, MessageType::kWelcome);
  EXPECT_NE(session_.number(), 0U);
  EXPECT_EQ(session_.address_of(1), worker(1));
}

TEST_F(SessionTest, RestartedAggregatorKnowsItsKeysAndNoOther) {
  JobConfig sealed = kJob;
  sealed.auth = {.mode = auth::Mode::kHeader, .key = auth::key_of_seed(7)};
  sealed.aggregator_id = 1;
  const Session before(sealed, auth::key_of_seed(42));
  const Session restarted(sealed, auth::key_of_seed(43));
  JobConfig elsewhere = sealed;
  elsewhere.aggregator_id = 2;
  const Session other(elsewhere, auth::key_of_seed(42));
  JobConfig of_another_job = sealed;
  of_another_job.id = 2;
  const Session other_job(of_another_job, auth::key_of_seed(42));
  std::set<uint64_t> keys;
  for (uint32_t number = 1; number <= 20; number++) {
    const uint64_t key = before.key_of(1, number);
    EXPECT_TRUE(keys.insert(key).second);
    EXPECT_TRUE(before.may_have_issued(key));
    EXPECT_TRUE(restarted.may_have_issued(key));
    EXPECT_FALSE(other.may_have_issued(key));
    EXPECT_FALSE(other_job.may_have_issued(key));
    EXPECT_FALSE(before.may_have_issued(key ^ (uint64_t{1} << number)));
  }
  EXPECT_TRUE(session_.may_have_issued(1234));  // Without authentication nobody can tell.
}

// Rank 0 is killed while it joins. No session starts with it, and its successor need not wait long.
TEST_F(SessionTest, WorkerKilledWhileJoiningDoesNotDelayTheNextStart) {
  static_cast<void>(join(0, 100));
  pass(milliseconds(20));
  static_cast<void>(join(1, 101));
  EXPECT_EQ(join(2, 102).body.reason, Reason::kConfirm);
  EXPECT_EQ(join(1, 101).body.reason, Reason::kConfirm);
  EXPECT_EQ(session_.number(), 0U);
  EXPECT_EQ(join(0, 200).body.reason, Reason::kRankTaken);  // As far as the server knows.
  pass(kJoinFreshFor);
  static_cast<void>(join(1, 101));
  static_cast<void>(join(2, 102));
  EXPECT_EQ(join(0, 200).body.reason, Reason::kConfirm);
  EXPECT_FALSE(join(1, 101).started);
  EXPECT_TRUE(join(2, 102).started);
}

TEST_F(SessionTest, NewcomerMustConfirmToo) {
  static_cast<void>(join(0, 100));
  static_cast<void>(join(1, 101));
  static_cast<void>(join(2, 102));
  EXPECT_EQ(session_.withdraw(1, 101), Session::Withdrawal::kPending);
  EXPECT_EQ(join(0, 100).body.reason, Reason::kWaitingForPeers);
  const auto answer = join(1, 201);
  EXPECT_TRUE(answer.to_all_pending);
  EXPECT_FALSE(join(0, 100).started);
  EXPECT_TRUE(join(2, 102).started);
}

TEST_F(SessionTest, JobBelongsToItsPlainClientsWhileTheyUseIt) {
  session_.heard_plain(now_);
  EXPECT_EQ(join(0, 100).body.reason, Reason::kPlainClients);
  pass(kSilentAfter + nanoseconds(1));
  start();
}

TEST(SessionClients, JobForPlainClientsRefusesJoins) {
  JobConfig job = kJob;
  job.clients = Clients::kPlain;
  Session session(job, auth::key_of_seed(1));
  const auto answer = session.join(join_message(0, 1, 3), worker(0), Instant(seconds(1)));
  EXPECT_EQ(answer.reply, MessageType::kRefusal);
  EXPECT_EQ(answer.body.reason, Reason::kPlainClients);
}

TEST_F(SessionTest, WelcomeStatesTheAgreedTerms) {
  start();
  const wire::ControlBody body = session_.welcome_body(1);
  EXPECT_EQ(body.source, 1);
  EXPECT_EQ(body.sources, 3);
  EXPECT_EQ(session_.nonce_of(1), 101U);
  EXPECT_EQ(body.window, 64U);
  EXPECT_EQ(body.gradients_max, 500U);
  EXPECT_EQ(body.timeout_us, 0U);  // No mitigation.
  EXPECT_EQ(body.key, key_of(1));
  EXPECT_EQ(body.result_key, session_.result_key(session_.number()));
}

TEST_F(SessionTest, WindowsOfAllSourcesFitTheReceiveBuffer) {
  JobConfig job = kJob;
  job.room_bytes = 100'000;
  Session session(job, auth::key_of_seed(42));
  SessionTest::join_and_confirm(session, 3, 100, Instant(seconds(100)));
  // 100,000 / (64 + 4 x 500) bytes are 48 packets, of three sources.
  EXPECT_EQ(session.welcome_body(0).window, 16U);
}

TEST_F(SessionTest, SmallestRequestHoldsForAllMembers) {
  const auto wishing = [this](uint32_t source, uint32_t window, uint32_t gradients_max) {
    Message message = join_message(source, 100 + source, 3);
    message.body.window = window;
    message.body.gradients_max = gradients_max;
    static_cast<void>(session_.join(message, worker(source), now_));
  };
  for (uint32_t round = 0; round < 2 && session_.number() == 0; round++) {
    wishing(0, 16, 200);
    wishing(1, 0, 0);  // No wish: any allowed value.
    wishing(2, 32, 100);
  }
  for (uint32_t source = 0; source < 3; source++) {
    EXPECT_EQ(session_.welcome_body(source).window, 16U);
    EXPECT_EQ(session_.welcome_body(source).gradients_max, 100U);
  }
  // A newcomer that waits for the next session does not change the terms of this one.
  pass(seconds(4));
  wishing(2, 1, 1);
  EXPECT_EQ(session_.welcome_body(0).window, 16U);
}

TEST(SessionPorts, WelcomeStatesTheNumberOfPorts) {
  JobConfig job = kJob;
  for (const uint32_t bits : {0U, 3U, 7U}) {
    job.ports = 1U << bits;
    EXPECT_EQ(Session(job, auth::key_of_seed(42)).welcome_body(1).port_bits, bits);
  }
}

TEST(SessionChannels, SmallestRequestWithinTheJobHolds) {
  struct Wishes {
    std::array<uint8_t, 3> wanted;
    uint32_t agreed;
  };
  JobConfig job = kJob;
  job.channels = 4;
  for (const Wishes& wishes : {Wishes{{3, 2, 9}, 2}, Wishes{{9, 5, 6}, 4},
                               Wishes{{3, 0, 2}, 0}}) {  // 0 is one, as of older workers.
    Session session(job, auth::key_of_seed(42));
    for (uint32_t join = 0; join < 6 && session.number() == 0; join++) {
      const uint32_t source = join % 3;
      Message message = join_message(source, 100 + source, 3);
      message.body.channels = wishes.wanted[source];
      static_cast<void>(session.join(message, worker(source), Instant(seconds(100))));
    }
    for (uint32_t source = 0; source < 3; source++) {
      EXPECT_EQ(session.welcome_body(source).channels, wishes.agreed);
    }
  }
}

TEST_F(SessionTest, WithdrawnJoinIsNotCounted) {
  static_cast<void>(join(0, 100));
  EXPECT_EQ(session_.withdraw(0, 0), Session::Withdrawal::kUnknown);
  EXPECT_EQ(session_.withdraw(0, 99), Session::Withdrawal::kUnknown);
  EXPECT_EQ(session_.withdraw(1, 100), Session::Withdrawal::kUnknown);
  EXPECT_EQ(session_.withdraw(0, 100), Session::Withdrawal::kPending);
  static_cast<void>(join(1, 101));
  EXPECT_FALSE(join(2, 102).started);
  // Its rank is free at once. The session starts when another worker takes it.
  EXPECT_TRUE(join(0, 200).to_all_pending);
  static_cast<void>(join(1, 101));
  EXPECT_TRUE(join(2, 102).started);
  EXPECT_EQ(session_.withdraw(0, 200), Session::Withdrawal::kMember);
}

TEST_F(SessionTest, KeysDifferBetweenSourcesSessionsAndDirections) {
  std::set<uint64_t> keys;
  for (uint32_t round = 0; round < 3; round++) {
    start(/*nonce_base=*/10 * (round + 1));
    for (uint32_t source = 0; source < 3; source++) keys.insert(key_of(source));
    keys.insert(session_.result_key(session_.number()));
    for (uint32_t source = 0; source < 3; source++) static_cast<void>(session_.leave(source));
  }
  EXPECT_EQ(keys.size(), 12U);
  EXPECT_FALSE(keys.contains(0));
}

// Session numbers and keys of one server tell nothing about those of another one, or of the same
// server after a restart.
TEST_F(SessionTest, KeysDependOnTheRoot) {
  Session other(kJob, auth::key_of_seed(43));
  EXPECT_NE(other.key_of(0, 7), session_.key_of(0, 7));
  EXPECT_NE(other.result_key(7), session_.result_key(7));
  EXPECT_NE(other.upstream_nonce(), session_.upstream_nonce());
}

// A stranger learns nothing about the running session from the answer to its join.
TEST_F(SessionTest, PendingAnswerDoesNotIdentifyTheSession) {
  start();
  const auto answer = join(0, 200);
  EXPECT_EQ(answer.reply, MessageType::kPending);
  EXPECT_EQ(answer.body.key, 0U);
  EXPECT_EQ(answer.body.result_key, 0U);
}

TEST_F(SessionTest, RefusesRequestsOutsideTheJob) {
  auto answer = session_.join(join_message(3, 1, 3), worker(3), now_);
  EXPECT_EQ(answer.reply, MessageType::kRefusal);
  EXPECT_EQ(answer.body.reason, Reason::kSourceOutsideJob);
  EXPECT_EQ(answer.body.value, 3U);

  answer = session_.join(join_message(0, 1, 4), worker(0), now_);
  EXPECT_EQ(answer.reply, MessageType::kRefusal);
  EXPECT_EQ(answer.body.reason, Reason::kWrongWorld);
  EXPECT_EQ(answer.body.value, 3U);

  Message greedy = join_message(0, 1, 3);
  greedy.body.gradients_max = 501;
  answer = session_.join(greedy, worker(0), now_);
  EXPECT_EQ(answer.reply, MessageType::kRefusal);
  EXPECT_EQ(answer.body.reason, Reason::kTooManyGradients);
  EXPECT_EQ(answer.body.value, 500U);
}

TEST_F(SessionTest, RepeatedJoinIsAnsweredAgain) {
  EXPECT_EQ(join(0, 100).body.reason, Reason::kWaitingForPeers);
  EXPECT_EQ(join(0, 100).body.reason, Reason::kWaitingForPeers);
  start();
  const uint32_t number = session_.number();
  const auto answer = session_.join(join_message(0, 100, 3), stranger(), now_);
  EXPECT_EQ(answer.reply, MessageType::kWelcome);
  EXPECT_FALSE(answer.started);
  EXPECT_EQ(answer.body.key, key_of(0));
  EXPECT_EQ(session_.number(), number);
  EXPECT_EQ(session_.address_of(0), stranger());  // The worker has a new address.
}

TEST_F(SessionTest, RefusesTheRankOfALiveWorker) {
  EXPECT_EQ(join(0, 100).body.reason, Reason::kWaitingForPeers);
  EXPECT_EQ(join(0, 200).body.reason, Reason::kRankTaken);  // While joining …
  start();
  EXPECT_EQ(join(0, 200).body.reason, Reason::kRankTaken);  // … and while the session runs.
  EXPECT_FALSE(session_.has_left(0));
}

TEST_F(SessionTest, JoinExpiresUnlessRepeated) {
  static_cast<void>(join(0, 100));
  pass(kJoinFreshFor + nanoseconds(1));
  static_cast<void>(join(1, 101));
  EXPECT_EQ(join(2, 102).body.reason, Reason::kWaitingForPeers);
  EXPECT_EQ(join(0, 200).body.reason, Reason::kConfirm);  // Another worker may have the rank.
}

TEST_F(SessionTest, RestartedWorkerReplacesItsSilentPredecessor) {
  start();
  pass(kSilentAfter + nanoseconds(1));
  session_.heard(1, now_);
  session_.heard(2, now_);
  EXPECT_EQ(join(0, 200).body.reason, Reason::kSessionRunning);
  EXPECT_TRUE(session_.has_left(0));
  EXPECT_FALSE(session_.has_left(1));
  // The others fall silent, or leave: the next session can start.
  EXPECT_FALSE(session_.leave(1));
  EXPECT_TRUE(session_.leave(2));
  EXPECT_EQ(session_.number(), 0U);
  static_cast<void>(join(0, 200));
  static_cast<void>(join(1, 201));
  EXPECT_TRUE(join(2, 202).to_all_pending);
  static_cast<void>(join(0, 200));
  EXPECT_TRUE(join(1, 201).started);
}

TEST_F(SessionTest, HeardAtIsTheTimeOfTheLastMessage) {
  start();
  const Instant started_at = now_;
  EXPECT_EQ(session_.heard_at(1), started_at);
  pass(kHeardPeriod);
  session_.heard(1, now_);
  EXPECT_EQ(session_.heard_at(1), started_at);  // At most kHeardPeriod too early.
  pass(nanoseconds(1));
  session_.heard(1, now_);
  EXPECT_EQ(session_.heard_at(1), now_);
  EXPECT_EQ(session_.heard_at(0), started_at);
}

TEST_F(SessionTest, SessionEndsWhenEveryMemberHasLeft) {
  start();
  EXPECT_FALSE(session_.leave(0));
  EXPECT_TRUE(session_.has_left(0));
  EXPECT_TRUE(session_.is_gone(0, now_));
  EXPECT_FALSE(session_.leave(0));
  EXPECT_FALSE(session_.leave(2));
  EXPECT_TRUE(session_.leave(1));
  EXPECT_EQ(session_.number(), 0U);
}

TEST_F(SessionTest, SilentSessionExpires) {
  EXPECT_FALSE(session_.expire(now_));  // There is no session.
  start();
  pass(kSilentAfter);
  EXPECT_FALSE(session_.expire(now_));
  session_.heard(2, now_);
  pass(nanoseconds(1));
  EXPECT_TRUE(session_.is_gone(0, now_));
  EXPECT_FALSE(session_.expire(now_));  // Source 2 lives.
  pass(kSilentAfter);
  EXPECT_TRUE(session_.expire(now_));
  EXPECT_EQ(session_.number(), 0U);
}

TEST_F(SessionTest, NewSessionHasANewNumber) {
  std::set<uint32_t> numbers;
  for (uint32_t round = 0; round < 50; round++) {
    start();
    numbers.insert(session_.number());
    session_.end();
  }
  EXPECT_EQ(numbers.size(), 50U);
}

/// A session of a lower aggregator starts when the upper one's has.
class LowerSession : public SessionTest {
 protected:
  static JobConfig config() {
    JobConfig job = kJob;
    job.upstream = Endpoint::ipv4(0x0a0000c8, 12000);
    job.world = 6;
    return job;
  }
  /// All sources join, and all but the last confirm.
  void join_all_in_tree() {
    for (uint32_t join = 0; join < 5; join++) static_cast<void>(join_tree(join % 3));
  }
  Session::JoinAnswer join_tree(uint32_t source) {
    return lower_.join(join_message(source, 100 + source, 6), worker(source), now_);
  }
  Message welcome() const {
    Message message;
    message.extension.key = lower_.upstream_nonce();
    message.body.window = 16;
    message.body.gradients_max = 300;
    message.body.key = 99;
    message.body.result_key = 4711;
    return message;
  }
  Session lower_{config(), auth::key_of_seed(43)};
};

TEST_F(LowerSession, WaitsForTheUpperAggregator) {
  static_cast<void>(join_tree(0));
  EXPECT_FALSE(lower_.upstream_welcome(welcome(), now_));  // Too early: ranks are missing.
  EXPECT_FALSE(join_tree(1).join_upstream);
  EXPECT_FALSE(join_tree(2).join_upstream);
  EXPECT_FALSE(join_tree(0).join_upstream);
  const auto answer = join_tree(1);
  EXPECT_EQ(answer.body.reason, Reason::kWaitingForUpstream);
  EXPECT_TRUE(answer.join_upstream);
  EXPECT_FALSE(join_tree(2).join_upstream);  // Not again at once …
  pass(kUpstreamJoinEvery);
  EXPECT_TRUE(join_tree(0).join_upstream);  // … but when the sources keep asking.

  Message foreign = welcome();
  foreign.extension.key++;
  EXPECT_FALSE(lower_.upstream_welcome(foreign, now_));
  EXPECT_TRUE(lower_.upstream_welcome(welcome(), now_));
  EXPECT_NE(lower_.number(), 0U);
  EXPECT_EQ(lower_.upstream_result_key(), 4711U);
  EXPECT_EQ(lower_.upstream_key(), 99U);
  EXPECT_EQ(lower_.welcome_body(0).window, 16U);  // The smaller of both.
  EXPECT_EQ(lower_.welcome_body(0).gradients_max, 300U);
  EXPECT_FALSE(lower_.upstream_welcome(welcome(), now_));  // A repeated one starts nothing.
}

TEST_F(LowerSession, AgreesOnChannelsInTheWholeTree) {
  JobConfig job = config();
  job.channels = 4;
  Session lower(job, auth::key_of_seed(43));
  for (uint32_t join = 0; join < 5; join++) {
    const uint32_t source = join % 3;
    Message message = join_message(source, 100 + source, 6);
    message.body.channels = static_cast<uint8_t>(3 + source);
    static_cast<void>(lower.join(message, worker(source), now_));
  }
  EXPECT_EQ(lower.upstream_request().channels, 3);
  Message upper = welcome();
  upper.extension.key = lower.upstream_nonce();
  upper.body.channels = 2;
  EXPECT_TRUE(lower.upstream_welcome(upper, now_));
  EXPECT_EQ(lower.welcome_body(0).channels, 2);
}

// Its ranks are on its own machine, where packets are larger than on the cable.
TEST_F(LowerSession, TakesNoMoreGradientsThanThePathToTheUpperAggregatorCarries) {
  JobConfig job = config();
  job.upstream_grad_max = 120;
  Session lower(job, auth::key_of_seed(43));
  for (uint32_t join = 0; join < 5; join++) {
    static_cast<void>(
        lower.join(join_message(join % 3, 100 + join % 3, 6), worker(join % 3), now_));
  }
  EXPECT_EQ(lower.upstream_request().gradients_max, 120U);
  Message upper = welcome();
  upper.extension.key = lower.upstream_nonce();
  EXPECT_TRUE(lower.upstream_welcome(upper, now_));
  EXPECT_EQ(lower.welcome_body(0).gradients_max, 120U);
}

// Lower aggregators with different windows must agree, so each asks for the minimum of its limits.
TEST_F(LowerSession, AsksForTheMinimumOfAllItsLimits) {
  JobConfig job = config();
  job.block_cnt_max = 64;
  Session lower(job, auth::key_of_seed(43));
  for (uint32_t source = 0; source < 3; source++) {
    Message message = join_message(source, 100 + source, 6);
    message.body.window = 256;
    static_cast<void>(lower.join(message, worker(source), now_));
  }
  EXPECT_EQ(lower.upstream_request().window, 64U);
  EXPECT_EQ(lower.upstream_request().gradients_max, 500U);

  job.block_cnt_max = 4096;
  job.room_bytes = 100'000;  // 48 packets of 500 gradients, of three sources.
  Session small(job, auth::key_of_seed(44));
  static_cast<void>(small.join(join_message(0, 100, 6), worker(0), now_));
  EXPECT_EQ(small.upstream_request().window, 16U);
}

TEST_F(LowerSession, ForwardsTheUpperRefusal) {
  join_all_in_tree();
  wire::ControlBody refusal;
  refusal.reason = Reason::kWrongWorld;
  refusal.value = 8;
  const uint64_t nonce = lower_.upstream_nonce();
  lower_.upstream_cookie(5);
  lower_.upstream_refused(refusal, now_);
  // Anybody can send a copy of the refusal, which must not answer a later join.
  EXPECT_NE(lower_.upstream_nonce(), nonce);
  EXPECT_EQ(lower_.upstream_request().key, 0U);
  const auto answer = join_tree(0);
  EXPECT_EQ(answer.reply, MessageType::kRefusal);
  EXPECT_EQ(answer.body.reason, Reason::kWrongWorld);
  EXPECT_EQ(answer.body.value, 8U);
  // The upper aggregator may have been corrected: it gets a join again later.
  pass(kSilentAfter + nanoseconds(1));
  bool asked = false;
  for (uint32_t join = 0; join < 6; join++) asked |= join_tree(join % 3).join_upstream;
  EXPECT_TRUE(asked);
}

}  // namespace
}  // namespace tributary::trio_ml
