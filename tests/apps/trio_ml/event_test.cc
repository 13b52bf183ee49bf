// SPDX-License-Identifier: Apache-2.0
// Method:  the ring by itself, also between two threads; then a core in virtual time whose sources
//          join, leave, lag and fall silent. Each state change is one event, whatever is repeated.
#include "apps/trio_ml/event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/apps/trio_ml/bed.h"

namespace tributary::trio_ml {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kinds = std::vector<EventKind>;

std::vector<Event> taken(EventRing& ring) {
  std::vector<Event> events;
  for (Event event; ring.take(event);) events.push_back(event);
  return events;
}

Kinds kinds_of(const std::vector<Event>& events) {
  Kinds kinds;
  for (const Event& event : events) kinds.push_back(event.kind);
  return kinds;
}

TEST(EventRingTest, ReturnsEventsInOrderAndCountsThoseThatFindItFull) {
  const auto ring = std::make_unique<EventRing>();
  for (uint32_t round = 0; round < 3; round++) {
    for (uint32_t i = 0; i < EventRing::kEventsMax + 5; i++) ring->put({.value = i});
    EXPECT_EQ(ring->lost(), uint64_t{5} * (round + 1));
    const auto events = taken(*ring);
    ASSERT_EQ(events.size(), EventRing::kEventsMax);
    for (uint32_t i = 0; i < events.size(); i++) ASSERT_EQ(events[i].value, i);
  }
}

TEST(EventRingTest, ReaderInAnotherThreadMissesNothingButTheLost) {
  constexpr uint32_t kEvents = 50'000;
  const auto ring = std::make_unique<EventRing>();
  std::thread writer([&ring] {
    for (uint32_t i = 1; i <= kEvents; i++) ring->put({.value = i});
    ring->put({.kind = EventKind::kSessionEnded});
  });
  uint64_t seen = 0;
  uint32_t last = 0;
  bool ended = false;
  Event event;
  while (!ended && seen + ring->lost() <= kEvents) {
    if (!ring->take(event)) {
      std::this_thread::yield();
      continue;
    }
    seen++;
    ended = event.kind == EventKind::kSessionEnded;
    if (!ended) {
      EXPECT_GT(event.value, last);
      last = event.value;
    }
  }
  writer.join();
  seen += taken(*ring).size();
  EXPECT_EQ(seen + ring->lost(), kEvents + 1);
}

class EventTest : public ::testing::Test {
 protected:
  void make(const JobConfig& job) {
    bed_ = std::make_unique<Bed>(job);
    bed_->shard().log_to(ring_.get());
  }
  std::vector<Event> events() { return taken(*ring_); }

  const std::unique_ptr<EventRing> ring_ = std::make_unique<EventRing>();
  std::unique_ptr<Bed> bed_;
};

TEST_F(EventTest, JoinIsNotedOnceHoweverOftenItIsRepeated) {
  make({.id = 1, .sources = 2, .rank_base = 10, .world = 12});
  for (uint32_t i = 0; i < 3; i++) deliver_join(*bed_, join_message(0, 1000, 12), worker(0));
  const auto noted = events();
  ASSERT_EQ(kinds_of(noted), Kinds{EventKind::kRankJoined});
  EXPECT_EQ(noted[0].job_id, 1);
  EXPECT_EQ(noted[0].address, worker(0));
  EXPECT_EQ(first_of(noted[0].ranks), 10U);
  EXPECT_EQ(noted[0].at, bed_->now());
}

TEST_F(EventTest, SessionIsNotedFromItsStartToItsEnd) {
  make({.id = 1, .sources = 2});
  const auto members = join_all(*bed_);
  EXPECT_THAT(kinds_of(events()), ElementsAre(EventKind::kRankJoined, EventKind::kRankJoined,
                                              EventKind::kSessionStarted));
  for (uint32_t i = 0; i < 5; i++) {  // As often as workers send it.
    bed_->deliver(encoded(members[0].message(MessageType::kLeave, 0)), worker(0));
  }
  EXPECT_EQ(kinds_of(events()), Kinds{EventKind::kRankLeft});
  bed_->deliver(encoded(members[1].message(MessageType::kLeave, 0)), worker(1));
  const auto noted = events();
  EXPECT_THAT(kinds_of(noted), ElementsAre(EventKind::kRankLeft, EventKind::kSessionEnded));
  EXPECT_EQ(noted[1].reason, wire::Reason::kPeerLeft);
}

TEST_F(EventTest, SilenceEndsTheSession) {
  make({.id = 1, .sources = 1});
  join_all(*bed_);
  events();
  bed_->run_until(bed_->now() + seconds(10));
  const auto noted = events();
  ASSERT_THAT(kinds_of(noted), ElementsAre(EventKind::kSilenceEnded, EventKind::kSessionEnded));
  EXPECT_EQ(noted[1].reason, wire::Reason::kPeerSilent);
}

TEST_F(EventTest, WithdrawnJoinIsNoted) {
  make({.id = 1, .sources = 2});
  deliver_join(*bed_, join_message(0, 1000, 2), worker(0));
  Member joiner{.source = 0, .key = 1000};
  bed_->deliver(encoded(joiner.message(MessageType::kLeave, 0)), worker(0));
  EXPECT_THAT(kinds_of(events()), ElementsAre(EventKind::kRankJoined, EventKind::kRankWithdrawn));
}

TEST_F(EventTest, RefusedJoinIsNotedWithItsReasonAndSender) {
  make({.id = 1, .sources = 2});
  deliver_join(*bed_, join_message(0, 1000, 3), worker(0));
  auto noted = events();
  ASSERT_EQ(kinds_of(noted), Kinds{EventKind::kJoinRefused});
  EXPECT_EQ(noted[0].reason, wire::Reason::kWrongWorld);
  EXPECT_EQ(noted[0].address, worker(0));

  bed_->deliver(encoded(join_message(0, 1000, 2, /*job_id=*/9)), stranger());
  noted = events();
  ASSERT_EQ(kinds_of(noted), Kinds{EventKind::kJoinRefused});
  EXPECT_EQ(noted[0].job_id, 9);
  EXPECT_EQ(noted[0].reason, wire::Reason::kUnknownJob);
}

TEST_F(EventTest, AWorkerThatClaimsATakenRankIsNotedOnce) {
  make({.id = 1, .sources = 2});
  const auto members = join_all(*bed_);
  events();
  for (uint32_t i = 0; i < 3; i++) deliver_join(*bed_, join_message(1, 7'000, 2), worker(5));
  const auto noted = events();
  ASSERT_EQ(kinds_of(noted), Kinds{EventKind::kJoinRefused});
  EXPECT_EQ(noted[0].reason, wire::Reason::kRankTaken);
  EXPECT_EQ(noted[0].address, worker(5));
}

TEST_F(EventTest, AWorkerThatReplacesASilentOneIsNotedWithItsEnd) {
  make({.id = 1, .sources = 2, .silence = Silence::kWait});
  const auto members = join_all(*bed_);
  bed_->run_until(bed_->now() + seconds(3));
  bed_->deliver(encoded(members[0].message(MessageType::kKeepAlive, 0)), worker(0));
  bed_->run_until(bed_->now() + seconds(1));  // Rank 1 has been silent for four seconds.
  events();
  deliver_join(*bed_, join_message(1, 7'000, 2), worker(5));
  const auto noted = events();
  ASSERT_THAT(kinds_of(noted), ElementsAre(EventKind::kRankLeft, EventKind::kRankJoined));
  EXPECT_EQ(noted[0].reason, wire::Reason::kPeerSilent);
  EXPECT_EQ(noted[1].address, worker(5));
}

TEST_F(EventTest, StrangersCannotCrowdOutOtherEvents) {
  make({.id = 1, .sources = 1});
  for (uint32_t i = 0; i < 2 * EventRing::kEventsMax; i++) {
    bed_->deliver(encoded(join_message(0, 1000, 2, /*job_id=*/9)), stranger());
  }
  EXPECT_GT(ring_->lost(), 0U);
  bed_->advance(seconds(1));
  join_all(*bed_);
  EXPECT_THAT(kinds_of(events()), ::testing::Contains(EventKind::kSessionStarted));
}

TEST_F(EventTest, StragglerIsNamedOncePerPeriodThenPermanentThenBack) {
  make({.id = 1,
        .sources = 2,
        .mitigation = true,
        .timeout = milliseconds(10),
        .permanent_after = milliseconds(1000)});
  for (uint32_t block = 0; block < 3; block++) bed_->contribute(0, block, 0, {1});
  bed_->run_until(bed_->now() + milliseconds(500));
  auto noted = events();
  ASSERT_EQ(kinds_of(noted), Kinds{EventKind::kStraggler});
  EXPECT_EQ(first_of(noted[0].ranks), 1U);
  bed_->run_until(bed_->now() + milliseconds(2000));
  noted = events();
  ASSERT_EQ(kinds_of(noted), Kinds{EventKind::kPermanent});
  bed_->contribute(1, 3, 0, {1});
  EXPECT_EQ(kinds_of(events()), Kinds{EventKind::kReturned});
}

TEST_F(EventTest, NothingIsNotedWithoutARing) {
  make({.id = 1, .sources = 1});
  bed_->shard().log_to(nullptr);
  join_all(*bed_);
  EXPECT_THAT(events(), IsEmpty());
}

}  // namespace
}  // namespace tributary::trio_ml
