// SPDX-License-Identifier: Apache-2.0
// Method: trains of blocks by hand, then random blocks against a list of single events.
#include "recorder/writer.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/seed.h"

namespace tributary::recorder {
namespace {

constexpr Instant kNow{microseconds(5)};

std::vector<Event> events_of(const Writer& writer) {
  std::vector<Words> words(writer.ring().put_count());
  writer.ring().copy(0, words);
  std::vector<Event> events;
  for (const Words& each : words) events.push_back(to_event(each));
  return events;
}

TEST(Event, FourWordsHoldEveryField) {
  const Event event{.at_ns = -5,
                    .kind = Kind::kRefused,
                    .detail = 200,
                    .job = 255,
                    .rank = 300,
                    .open = true,
                    .block = 0xfffffffe,
                    .count = 4096,
                    .value = uint64_t{1} << 63};
  const Event copy = to_event(to_words(event));
  EXPECT_EQ(to_words(copy), to_words(event));
  EXPECT_EQ(copy.at_ns, -5);
  EXPECT_EQ(copy.kind, Kind::kRefused);
  EXPECT_EQ(copy.detail, 200);
  EXPECT_EQ(copy.job, 255);
  EXPECT_EQ(copy.rank, 300);
  EXPECT_TRUE(copy.open);
  EXPECT_EQ(copy.block, 0xfffffffeU);
  EXPECT_EQ(copy.count, 4096U);
  EXPECT_EQ(copy.value, uint64_t{1} << 63);
}

TEST(Writer, TrainOfBlocksIsOneEvent) {
  Writer writer(64);
  for (uint32_t block = 100; block < 116; block++) writer.add(Kind::kArrived, 1, 2, block, kNow);
  EXPECT_EQ(writer.ring().put_count(), 0U);  // The run is open.
  const Event begun = writer.begun_run(Kind::kArrived);
  EXPECT_EQ(begun.at_ns, 5'000);
  EXPECT_EQ(begun.job, 1);
  EXPECT_EQ(begun.rank, 2);
  EXPECT_EQ(begun.block, 100U);
  EXPECT_EQ(begun.count, 1U);
  EXPECT_TRUE(begun.open);

  writer.flush();
  const auto events = events_of(writer);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].at_ns, 5'000);
  EXPECT_EQ(events[0].kind, Kind::kArrived);
  EXPECT_EQ(events[0].job, 1);
  EXPECT_EQ(events[0].rank, 2);
  EXPECT_EQ(events[0].block, 100U);
  EXPECT_EQ(events[0].count, 16U);
  EXPECT_FALSE(events[0].open);
  EXPECT_EQ(writer.begun_run(Kind::kArrived).kind, Kind::kNone);
}

TEST(Writer, AnotherJobRankOrBlockBeginsAnotherRun) {
  Writer writer(64);
  writer.add(Kind::kArrived, 1, 2, 7, kNow);
  writer.add(Kind::kArrived, 1, 3, 8, kNow);   // Another rank.
  writer.add(Kind::kArrived, 2, 3, 9, kNow);   // Another job.
  writer.add(Kind::kArrived, 2, 3, 11, kNow);  // A gap.
  writer.add(Kind::kArrived, 2, 3, 11, kNow);  // Again.
  writer.flush();
  const auto events = events_of(writer);
  ASSERT_EQ(events.size(), 5U);
  for (const Event& event : events) EXPECT_EQ(event.count, 1U);
  EXPECT_EQ(events[1].rank, 3);
  EXPECT_EQ(events[2].job, 2);
}

TEST(Writer, KindsHaveRunsOfTheirOwn) {
  Writer writer(64);
  // As when the last rank completes each block.
  for (uint32_t block = 0; block < 3; block++) {
    writer.add(Kind::kArrived, 1, 0, block, kNow);
    writer.add(Kind::kCompleted, 1, kNoRank, block, kNow);
  }
  writer.flush();
  const auto events = events_of(writer);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].kind, Kind::kArrived);
  EXPECT_EQ(events[0].count, 3U);
  EXPECT_EQ(events[1].kind, Kind::kCompleted);
  EXPECT_EQ(events[1].rank, kNoRank);
}

/// Records as an owner of runs does.
void add_to(BlockRun& run, Writer& writer, uint32_t rank, uint32_t block) {
  if (!run.take(block)) writer.begin(run, Kind::kArrived, 1, rank, block, kNow);
}

TEST(Writer, SourcesThatTakeTurnsHaveOneRunEach) {
  Writer writer(64);
  std::array<BlockRun, 2> runs;
  for (uint32_t block = 7; block < 10; block++) {
    for (uint32_t rank = 0; rank < 2; rank++) add_to(runs[rank], writer, rank, block);
  }
  add_to(runs[0], writer, 0, 20);  // Ends its run.
  EXPECT_EQ(writer.ring().put_count(), 1U);
  writer.flush();
  add_to(runs[1], writer, 1, 10);  // Would have continued it.
  writer.flush();
  const auto events = events_of(writer);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].rank, 0);
  EXPECT_EQ(events[0].block, 7U);
  EXPECT_EQ(events[0].count, 3U);
  EXPECT_EQ(events[1].block, 20U);
  EXPECT_EQ(events[2].rank, 1);
  EXPECT_EQ(events[2].count, 3U);
  EXPECT_EQ(events[3].block, 10U);
}

TEST(Writer, MoreRunsThanItHoldsAreEndedEarly) {
  Writer writer(512);
  std::vector<BlockRun> runs(200);
  for (uint32_t block = 0; block < 2; block++) {
    for (uint32_t rank = 0; rank < runs.size(); rank++) add_to(runs[rank], writer, rank, block);
  }
  writer.flush();
  std::set<std::pair<uint32_t, uint32_t>> recorded;
  for (const Event& event : events_of(writer)) {
    for (uint32_t i = 0; i < event.count; i++) recorded.emplace(event.rank, event.block + i);
  }
  EXPECT_EQ(recorded.size(), 400U);
}

TEST(Writer, NoRunBeginsBesideAnOldOne) {
  Writer writer(64);
  std::array<BlockRun, 2> runs;
  writer.begin(runs[0], Kind::kArrived, 1, 0, 7, kNow);
  writer.begin(runs[1], Kind::kArrived, 1, 1, 7, kNow + Writer::kRunAgeMax);
  EXPECT_EQ(writer.ring().put_count(), 0U);
  const Instant late = kNow + Writer::kRunAgeMax + nanoseconds(1);
  ASSERT_TRUE(runs[1].take(8));
  writer.begin(runs[0], Kind::kArrived, 1, 0, 20, late);
  EXPECT_EQ(writer.ring().put_count(), 2U);
  ASSERT_FALSE(runs[1].take(9));
  writer.begin(runs[1], Kind::kArrived, 1, 1, 9, late);
  writer.flush();
  const auto events = events_of(writer);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[1].count, 2U);
  EXPECT_EQ(events[2].block, 20U);
  EXPECT_EQ(events[2].at_ns, 15'001);
  EXPECT_EQ(events[3].block, 9U);
}

TEST(Writer, BlockIdsThatWrapBeginAnotherRun) {
  Writer writer(64);
  writer.add(Kind::kArrived, 1, 2, UINT32_MAX, kNow);
  writer.add(Kind::kArrived, 1, 2, 0, kNow);
  writer.add(Kind::kArrived, 1, 3, 0, kNow);
  writer.flush();
  const auto events = events_of(writer);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].block, UINT32_MAX);
  EXPECT_EQ(events[0].count, 1U);
}

TEST(Writer, LongRunIsCut) {
  Writer writer(64);
  for (uint32_t block = 0; block < kRunBlocksMax + 1; block++) {
    writer.add(Kind::kTimedOut, 1, 2, block, kNow);
  }
  writer.flush();
  const auto events = events_of(writer);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].count, kRunBlocksMax);
  EXPECT_EQ(events[1].block, kRunBlocksMax);
  EXPECT_EQ(events[1].count, 1U);
}

TEST(Writer, SingleEventComesBehindTheRunsBeforeIt) {
  Writer writer(64);
  writer.add(Kind::kArrived, 1, 2, 7, kNow);
  writer.note({.kind = Kind::kRankLeft, .job = 1, .rank = 2}, kNow + nanoseconds(1));
  const auto events = events_of(writer);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].kind, Kind::kArrived);
  EXPECT_EQ(events[1].kind, Kind::kRankLeft);
  EXPECT_EQ(events[1].at_ns, 5'001);
}

TEST(Writer, RandomBlocksMatchModel) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  Writer writer(1U << 16);
  std::array<BlockRun, 4> runs;  // Of kArrived, for each rank.
  // Kind, job, rank and block of each call. Runs must give back exactly these.
  std::vector<std::tuple<Kind, uint32_t, uint32_t, uint32_t>> model;
  uint32_t block = 0;
  for (uint32_t step = 0; step < 20'000; step++) {
    const auto kind = static_cast<Kind>(1 + prng.below(3));
    const uint32_t rank = prng.below(20) == 0 ? prng.below(4) : 1;
    block = prng.below(10) == 0 ? prng.below(1000) : block + 1;
    if (kind == Kind::kArrived) {
      add_to(runs[rank], writer, rank, block);
    } else {
      writer.add(kind, 1, rank, block, kNow);
    }
    model.emplace_back(kind, 1, rank, block);
    if (prng.below(50) == 0) writer.flush();
  }
  writer.flush();
  std::vector<std::tuple<Kind, uint32_t, uint32_t, uint32_t>> given;
  for (const Event& event : events_of(writer)) {
    for (uint32_t i = 0; i < event.count; i++) {
      given.emplace_back(event.kind, event.job, event.rank, event.block + i);
    }
  }
  std::ranges::sort(model);
  std::ranges::sort(given);
  EXPECT_EQ(given, model);
}

}  // namespace
}  // namespace tributary::recorder
