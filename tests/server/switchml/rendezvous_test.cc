// SPDX-License-Identifier: Apache-2.0
// Method:  clients' calls in virtual time, in the published client's order: Broadcast, then two
//          barriers. Then clients that are missing, call twice, disconnect or belong to another
//          job.
#include "server/switchml/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/seed.h"

namespace tributary::server {
namespace {

using ::testing::HasSubstr;
using Error = Rendezvous::Error;
using Ticket = Rendezvous::Ticket;

constexpr Duration kDeadline = seconds(60);

class RendezvousTest : public ::testing::Test {
 protected:
  static std::string peer(const std::string& host, uint32_t port = 1) {
    return "ipv4:" + host + ":" + std::to_string(port);
  }
  Ticket broadcast(const std::string& from, uint32_t rank, uint32_t workers, uint64_t value = 0) {
    return take(meeting_.broadcast(
        from, {.value = value, .rank = rank, .num_workers = workers, .root = 0}, now_));
  }
  Ticket barrier(const std::string& from, uint32_t workers) {
    return take(meeting_.barrier(from, workers, now_));
  }
  void advance(Duration by) {
    now_ = now_ + by;
    meeting_.on_time(now_);
    take(0);
  }
  [[nodiscard]] bool waits(Ticket ticket) const { return !answers_.contains(ticket); }
  const Rendezvous::Answer& answer(Ticket ticket) { return answers_.at(ticket); }

  Rendezvous meeting_{kDeadline};
  Instant now_{seconds(1)};

 private:
  Ticket take(Ticket ticket) {
    for (auto& answer : meeting_.take_answers()) {
      EXPECT_FALSE(answers_.contains(answer.ticket)) << "answered twice";
      answers_[answer.ticket] = std::move(answer);
    }
    return ticket;
  }
  std::map<Ticket, Rendezvous::Answer> answers_;
};

TEST_F(RendezvousTest, TwoWorkersMeetAsWithThePublishedClient) {
  const std::string a = peer("10.0.0.1");
  const std::string b = peer("10.0.0.2");
  const Ticket early = broadcast(b, 1, 2);
  EXPECT_TRUE(waits(early));
  const Ticket root = broadcast(a, 0, 2, 77);
  EXPECT_EQ(answer(early).value, 77U);
  EXPECT_EQ(answer(root).value, 77U);
  for (uint32_t round = 0; round < 2; round++) {
    const Ticket first = barrier(b, 2);
    EXPECT_TRUE(waits(first));
    const Ticket second = barrier(a, 2);
    EXPECT_EQ(answer(first).error, Error::kNone);
    EXPECT_EQ(answer(second).error, Error::kNone);
  }
  EXPECT_EQ(meeting_.next_deadline(), now_ + kDeadline);  // Afterwards the group is forgotten.
  advance(kDeadline);
  EXPECT_EQ(meeting_.next_deadline(), Instant::never());
}

TEST_F(RendezvousTest, ReturnsAKnownValueAtOnce) {
  broadcast(peer("10.0.0.1"), 0, 3, 5);
  EXPECT_EQ(answer(broadcast(peer("10.0.0.2"), 1, 3)).value, 5U);
  EXPECT_EQ(answer(broadcast(peer("10.0.0.3"), 2, 3)).value, 5U);
}

TEST_F(RendezvousTest, BarriersOfTwoJobsAreIndependent) {
  for (uint32_t job = 0; job < 2; job++) {
    for (uint32_t rank = 0; rank < 2; rank++) {
      broadcast(peer("10.0." + std::to_string(job) + "." + std::to_string(rank)), rank, 2, job);
    }
  }
  const Ticket one = barrier(peer("10.0.0.0"), 2);
  const Ticket other = barrier(peer("10.0.1.0"), 2);
  EXPECT_TRUE(waits(one));
  EXPECT_TRUE(waits(other));
  barrier(peer("10.0.1.1"), 2);
  EXPECT_FALSE(waits(other));
  EXPECT_TRUE(waits(one));
}

TEST_F(RendezvousTest, BarriersWithoutABroadcastMeetBySize) {
  const Ticket three = barrier(peer("10.0.0.1"), 3);
  const Ticket two = barrier(peer("10.0.0.2"), 2);
  EXPECT_TRUE(waits(two));
  barrier(peer("10.0.0.3"), 2);
  EXPECT_FALSE(waits(two));
  EXPECT_TRUE(waits(three));
}

TEST_F(RendezvousTest, TimeOutNamesTheMissingRanks) {
  const Ticket waiting = broadcast(peer("10.0.0.2"), 1, 4);
  advance(seconds(10));
  broadcast(peer("10.0.0.4"), 3, 4);
  EXPECT_EQ(meeting_.next_deadline(), Instant(seconds(61)));
  advance(seconds(49));
  EXPECT_TRUE(waits(waiting));
  advance(seconds(1));
  EXPECT_EQ(answer(waiting).error, Error::kDeadline);
  EXPECT_EQ(answer(waiting).text, "broadcast: of 4 workers, rank 0, 2 did not arrive within 60 s");
  const Ticket alone = barrier(peer("10.0.0.9"), 2);
  advance(kDeadline);
  EXPECT_EQ(answer(alone).error, Error::kDeadline);
  EXPECT_EQ(answer(alone).text, "barrier: 1 of 2 workers arrived within 60 s");
}

TEST_F(RendezvousTest, RestartedJobDoesNotMeetItsPredecessor) {
  // Rank 0 crashed after its broadcast. The published controller would give rank 1 the old number.
  broadcast(peer("10.0.0.1", 1), 0, 2, 5);
  const Ticket barrier_before = barrier(peer("10.0.0.1", 1), 2);
  broadcast(peer("10.0.0.1", 2), 0, 2, 6);
  EXPECT_EQ(answer(barrier_before).error, Error::kAborted);
  EXPECT_THAT(answer(barrier_before).text, HasSubstr("rank 0 of 2 has restarted"));
  EXPECT_EQ(answer(broadcast(peer("10.0.0.2"), 1, 2)).value, 6U);
}

// Rank 1 starts and is killed before rank 0 starts. Its next process must take its place: rank 0
// waits for it, and neither of them for the dead one.
TEST_F(RendezvousTest, RankThatDiedInTheBroadcastMayReturn) {
  const Ticket gone = broadcast(peer("10.0.0.2", 1), 1, 2);
  meeting_.cancel(gone);
  EXPECT_EQ(answer(broadcast(peer("10.0.0.1"), 0, 2, 5)).value, 5U);
  const Ticket root = barrier(peer("10.0.0.1"), 2);
  EXPECT_EQ(answer(broadcast(peer("10.0.0.2", 2), 1, 2)).value, 5U);
  EXPECT_TRUE(waits(root));
  const Ticket returned = barrier(peer("10.0.0.2", 2), 2);
  EXPECT_EQ(answer(root).error, Error::kNone);
  EXPECT_EQ(answer(returned).error, Error::kNone);
  EXPECT_TRUE(waits(gone));
}

TEST_F(RendezvousTest, RankThatMissedTheBroadcastDoesNotJoinTheDead) {
  broadcast(peer("10.0.0.2"), 1, 3);
  advance(seconds(10));
  broadcast(peer("10.0.0.3"), 2, 3);
  advance(seconds(50));
  // Both have been told at 60 s. The group lingers until 70 s.
  broadcast(peer("10.0.0.1"), 0, 3, 7);
  EXPECT_EQ(answer(broadcast(peer("10.0.0.2", 2), 1, 3)).value, 7U);
  EXPECT_EQ(answer(broadcast(peer("10.0.0.3", 2), 2, 3)).value, 7U);
}

// A rank that dies in a barrier has registered its address or is about to. The session can no
// longer become complete, and every other rank is told so, now or when it arrives.
TEST_F(RendezvousTest, RankThatDiedInABarrierEndsItsJob) {
  for (uint32_t rank = 0; rank < 3; rank++) {
    broadcast(peer("10.0.0." + std::to_string(rank)), rank, 3, 5);
  }
  const Ticket waiting = barrier(peer("10.0.0.0"), 3);
  meeting_.cancel(barrier(peer("10.0.0.1"), 3));
  const Ticket late = barrier(peer("10.0.0.2"), 3);
  for (const Ticket ticket : {waiting, late}) {
    EXPECT_EQ(answer(ticket).error, Error::kAborted);
    EXPECT_EQ(answer(ticket).text,
              "rank 1 of 3 at ipv4:10.0.0.1 has left; restart every worker of the job");
  }
  // All may return.
  EXPECT_EQ(answer(broadcast(peer("10.0.0.0", 2), 0, 3, 6)).value, 6U);
  EXPECT_EQ(answer(broadcast(peer("10.0.0.1", 2), 1, 3)).value, 6U);
}

TEST_F(RendezvousTest, RefusedRankEndsItsJobWithTheReason) {
  broadcast(peer("10.0.0.1"), 0, 2, 5);
  broadcast(peer("10.0.0.2"), 1, 2);
  broadcast(peer("10.0.1.1"), 0, 2, 6);
  const Ticket other_job = barrier(peer("10.0.1.1"), 2);
  const Ticket waiting = barrier(peer("10.0.0.2"), 2);
  meeting_.fail(peer("10.0.0.1"), "rank 0: its address is taken");
  EXPECT_EQ(answer(barrier(peer("10.0.0.2"), 2)).text, "rank 0: its address is taken");
  EXPECT_EQ(answer(waiting).error, Error::kAborted);
  EXPECT_EQ(answer(waiting).text, "rank 0: its address is taken");
  EXPECT_TRUE(waits(other_job));
  meeting_.fail(peer("10.0.9.9"), "a connection of no group");
  EXPECT_TRUE(waits(other_job));
}

TEST_F(RendezvousTest, RefusesCallsThatAreNotAllowed) {
  EXPECT_EQ(answer(broadcast(peer("a"), 0, 0)).text, "num_workers=0; allowed: 1 to 32");
  EXPECT_EQ(answer(broadcast(peer("a"), 0, 33)).text, "num_workers=33; allowed: 1 to 32");
  EXPECT_EQ(answer(broadcast(peer("a"), 2, 2)).text, "rank=2 root=0; allowed: 0 to 1");
  EXPECT_EQ(answer(barrier(peer("a"), 33)).text, "num_workers=33; allowed: 1 to 32");
  broadcast(peer("a"), 0, 2);
  EXPECT_EQ(answer(barrier(peer("a"), 3)).text, "num_workers=3; this worker's job has 2");
}

TEST_F(RendezvousTest, NumberOfGroupsIsBounded) {
  for (uint32_t i = 0; i < Rendezvous::kGroupsMax; i++) {
    EXPECT_TRUE(waits(broadcast(peer("10.1.0." + std::to_string(i)), 1, 2)));
  }
  EXPECT_EQ(answer(broadcast(peer("10.2.0.1"), 1, 2)).error, Error::kTooMany);
  advance(kDeadline);
  EXPECT_TRUE(waits(broadcast(peer("10.2.0.1"), 1, 2)));
}

TEST_F(RendezvousTest, RandomCallsAreAnsweredOnce) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  std::vector<Ticket> tickets;
  std::set<Ticket> cancelled;
  for (uint32_t step = 0; step < 5'000; step++) {
    const std::string from = peer("10.0.0." + std::to_string(prng.below(6)), prng.below(3));
    switch (prng.below(4)) {
      case 0:
        tickets.push_back(broadcast(from, prng.below(4), prng.below(5), prng.any_u64()));
        break;
      case 1:
        tickets.push_back(barrier(from, prng.below(5)));
        break;
      case 2:
        advance(milliseconds(prng.below(5'000)));
        break;
      default:
        if (!tickets.empty() && waits(tickets.back())) {
          meeting_.cancel(tickets.back());
          cancelled.insert(tickets.back());
        }
    }
  }
  for (uint32_t i = 0; i < 3; i++) advance(kDeadline);
  EXPECT_EQ(meeting_.next_deadline(), Instant::never());
  for (const Ticket ticket : tickets) EXPECT_EQ(waits(ticket), cancelled.contains(ticket));
}

}  // namespace
}  // namespace tributary::server
