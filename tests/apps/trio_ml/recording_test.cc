// SPDX-License-Identifier: Apache-2.0
// Method: a core in virtual time records a few blocks, a straggler, refused packets and a session.
#include "apps/trio_ml/recording.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/apps/trio_ml/bed.h"
#include "tests/apps/trio_ml/tree_bed.h"

namespace tributary::trio_ml {
namespace {

using recorder::Kind;

constexpr JobConfig kJob{.id = 1,
                         .sources = 2,
                         .block_cnt_max = 64,
                         .block_grad_max = 16,
                         .mitigation = true,
                         .timeout = milliseconds(10)};

/// Returns the events that the writer has put so far.
std::vector<recorder::Event> events_of(const recorder::Writer& writer) {
  std::vector<recorder::Words> words(writer.ring().put_count());
  writer.ring().copy(0, words);
  std::vector<recorder::Event> events;
  for (const auto& each : words) events.push_back(recorder::to_event(each));
  return events;
}

std::vector<recorder::Event> events_of(const recorder::Writer& writer, Kind kind) {
  std::vector<recorder::Event> events = events_of(writer);
  std::erase_if(events, [kind](const recorder::Event& event) { return event.kind != kind; });
  return events;
}

class Recording : public ::testing::Test {
 protected:
  explicit Recording(const JobConfig& job = kJob) : bed_(job) { bed_.shard().record_to(&writer_); }
  ~Recording() override { bed_.shard().record_to(nullptr); }

  recorder::Writer writer_{4096};
  Bed bed_;
};

TEST_F(Recording, TrainOfContributionsIsOneArrivalOfItsRank) {
  for (uint32_t source = 0; source < 2; source++) {
    for (uint32_t block = 0; block < 8; block++) {
      bed_.inject(plain_bytes(source, block, 0, {1, 2}), worker(source));
    }
  }
  bed_.run();
  const auto events = events_of(writer_);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].kind, Kind::kArrived);
  EXPECT_EQ(events[0].rank, 0);
  EXPECT_EQ(events[0].count, 8U);
  EXPECT_EQ(events[0].at_ns, in_nanoseconds(bed_.now().since_start()));
  EXPECT_EQ(events[1].rank, 1);
  EXPECT_EQ(events[2].kind, Kind::kCompleted);
  EXPECT_EQ(events[2].block, 0U);
  EXPECT_EQ(events[2].count, 8U);
}

// The second lower aggregator has the ranks 3 to 5.
TEST(RecordingOfATree, ALowerAggregatorIsItsFirstRankInEveryEvent) {
  recorder::Writer writer(4096);
  Tree tree(engine::PacketLayer::kUdpPayload);
  tree.upper().shard().record_to(&writer);
  const auto members = join_tree(tree);
  for (uint32_t rank = 0; rank < kRanks; rank++) {
    tree.send(rank, members[rank].contribution_bytes(0, {1}));
  }
  tree.upper().shard().record_to(nullptr);
  const auto arrived = events_of(writer, Kind::kArrived);
  ASSERT_EQ(arrived.size(), 2U);
  EXPECT_EQ(arrived[0].rank, 0);
  EXPECT_EQ(arrived[1].rank, 3);
  EXPECT_EQ(recorded_rank(tree.upper().job(), 1), 3U);
}

TEST_F(Recording, BlockThatAgesOutNamesTheMissingRank) {
  bed_.contribute(0, 3, 0, {1});
  bed_.run_until(bed_.now() + seconds(1));
  const auto timed_out = events_of(writer_, Kind::kTimedOut);
  ASSERT_EQ(timed_out.size(), 1U);
  EXPECT_EQ(timed_out[0].rank, 1);
  EXPECT_EQ(timed_out[0].block, 3U);
  ASSERT_EQ(events_of(writer_, Kind::kDegraded).size(), 1U);
  const auto straggler = events_of(writer_, Kind::kStraggler);
  ASSERT_EQ(straggler.size(), 1U);
  EXPECT_EQ(straggler[0].rank, 1);
  EXPECT_EQ(straggler[0].block, 3U);
}

TEST_F(Recording, RefusedPacketHasItsReason) {
  bed_.contribute(0, 3, 0, {1});
  bed_.contribute(0, 3, 0, {1});  // A duplicate.
  const auto refused = events_of(writer_, Kind::kRefused);
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].detail, static_cast<uint8_t>(Outcome::kDuplicate));
  EXPECT_EQ(refused[0].job, 1);
  EXPECT_EQ(refused[0].rank, 0);
  EXPECT_EQ(refused[0].block, 3U);
}

TEST_F(Recording, FloodOfRefusedPacketsLeavesRoomForOthers) {
  bed_.contribute(0, 3, 0, {1});
  for (uint32_t i = 0; i < 5'000; i++) {
    bed_.deliver(plain_bytes(200, 3, 0, {1}), stranger());
  }
  EXPECT_EQ(events_of(writer_, Kind::kRefused).size(), 1024U);
  EXPECT_EQ(writer_.left_out(), 5'000U - 1024U);
}

TEST_F(Recording, NothingIsRecordedWhenItIsOff) {
  bed_.shard().record_to(nullptr);
  bed_.contribute(0, 3, 0, {1});
  bed_.run();
  EXPECT_EQ(writer_.ring().put_count(), 0U);
}

TEST_F(Recording, ARecorderThatComesInTheMiddleOfARunRecordsTheRest) {
  bed_.shard().record_to(nullptr);
  bed_.contribute(0, 3, 0, {1});
  bed_.contribute(1, 3, 0, {1});
  bed_.shard().record_to(&writer_);
  bed_.contribute(0, 4, 0, {1});  // Continues both runs.
  bed_.contribute(1, 4, 0, {1});
  bed_.run();
  const auto events = events_of(writer_);
  ASSERT_EQ(events.size(), 3U);  // Two arrivals and a result.
  for (const recorder::Event& event : events) {
    EXPECT_EQ(event.block, 4U);
    EXPECT_EQ(event.count, 1U);
  }
}

TEST_F(Recording, RunsOfAJobThatIsRemovedAreRecorded) {
  bed_.contribute(0, 3, 0, {1});
  const std::unique_ptr<Job> removed = bed_.shard().remove(kJob.id);
  ASSERT_NE(removed, nullptr);
  EXPECT_EQ(events_of(writer_, Kind::kArrived).size(), 1U);
}

TEST_F(Recording, RunsOfABusyCoreGoOnUntilItHasCaughtUpOrStops) {
  for (uint32_t round = 0; round < 2; round++) {
    for (uint32_t source = 0; source < 2; source++) {
      for (uint32_t i = 0; i < 64; i++) {
        const uint32_t block = 64 * round + i;
        bed_.inject(plain_bytes(source, block, 0, {1}), worker(source));
      }
    }
    static_assert(engine::kBurstPackets == 2 * 64, "A round fills a burst.");
    bed_.run();
    EXPECT_EQ(events_of(writer_).size(), 0U);
  }
  bed_.core().stop(bed_.now());
  const auto events = events_of(writer_);
  ASSERT_EQ(events.size(), 3U);  // Two arrivals and a result.
  for (const recorder::Event& event : events) EXPECT_EQ(event.count, 128U);
}

class SessionRecording : public Recording {
 protected:
  SessionRecording()
      : Recording({.id = 1, .sources = 2, .block_cnt_max = 64, .block_grad_max = 16}) {}
};

TEST_F(SessionRecording, ChangesOfTheSessionAreEvents) {
  const auto members = join_all(bed_);
  bed_.deliver(encoded(members[1].message(MessageType::kLeave, 0)), worker(1));
  std::vector<Kind> kinds;
  for (const recorder::Event& event : events_of(writer_)) kinds.push_back(event.kind);
  EXPECT_EQ(kinds, (std::vector<Kind>{Kind::kRankJoined, Kind::kRankJoined, Kind::kSessionStarted,
                                      Kind::kRankLeft}));
  const auto left = events_of(writer_, Kind::kRankLeft);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].rank, 1);
  EXPECT_EQ(events_of(writer_, Kind::kSessionStarted)[0].value, 2U);
  EXPECT_EQ(events_of(writer_, Kind::kSessionStarted)[0].rank, recorder::kNoRank);
}

TEST(RecordLabels, NameOutcomesAndReasons) {
  const auto labels = record_labels();
  EXPECT_LE(labels.size(), recorder::kLabelsMax);
  bool has_duplicate = false;
  for (const recorder::Label& label : labels) {
    has_duplicate = has_duplicate || (label.domain == recorder::Domain::kOutcome &&
                                      label.code == static_cast<uint8_t>(Outcome::kDuplicate) &&
                                      std::string(label.text.data()) == "duplicate");
  }
  EXPECT_TRUE(has_duplicate);
}

}  // namespace
}  // namespace tributary::trio_ml
