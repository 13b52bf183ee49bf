// SPDX-License-Identifier: Apache-2.0
// Method: recordings made by hand, with clocks that differ; their order, filters and texts.
#include "recorder/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tributary::recorder {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// 2026-11-23 20:15:00 UTC.
constexpr int64_t kStartNs = 1'795'464'900'000'000'000;

Recording recording(bool is_worker, const char* boot, int64_t to_realtime_ns,
                    std::vector<Event> events) {
  Recording made;
  made.header.is_worker = is_worker ? 1 : 0;
  made.header.rank = is_worker ? 3 : kNoRank;
  made.header.to_realtime_ns = to_realtime_ns;
  put_text(made.header.boot, boot);
  made.host = "h";
  made.name = is_worker ? "" : "rack1";
  made.sections.push_back({.track = 0, .events = std::move(events)});
  return made;
}

std::vector<uint32_t> blocks_of(const std::vector<TimedEvent>& events) {
  std::vector<uint32_t> blocks;
  for (const TimedEvent& timed : events) blocks.push_back(timed.event.block);
  return blocks;
}

std::string as_text(const std::vector<Recording>& recordings) {
  std::string text;
  write_text(recordings, merge(recordings), [&text](std::string_view part) { text += part; });
  return text;
}

nlohmann::json as_json(const std::vector<Recording>& recordings) {
  std::string text;
  write_json(recordings, merge(recordings), [&text](std::string_view part) { text += part; });
  return nlohmann::json::parse(text);
}

constexpr Event arrival(int64_t at_ns, uint32_t rank, uint32_t block, uint32_t count = 1) {
  return {.at_ns = at_ns,
          .kind = Kind::kArrived,
          .job = 1,
          .rank = static_cast<uint16_t>(rank),
          .block = block,
          .count = count};
}

TEST(Timeline, TimesOfTwoMachinesMeetInUtc) {
  // The worker's process started 1 us before the server's.
  const std::vector<Recording> both{
      recording(false, "a", kStartNs + 1000, {arrival(100, 0, 1), arrival(300, 0, 3)}),
      recording(true, "b", kStartNs, {arrival(1200, 0, 2)})};
  const auto events = merge(both);
  EXPECT_THAT(blocks_of(events), ElementsAre(1, 2, 3));
  EXPECT_EQ(events[1].at_ns, kStartNs + 1200);
  EXPECT_FALSE(share_clock(both));
}

TEST(Timeline, OneMachineIsOrderedByItsClock) {
  std::vector<Recording> both{recording(false, "a", kStartNs, {arrival(200, 0, 2)}),
                              recording(true, "a", 0, {arrival(50, 0, 1), arrival(150, 0, 3)})};
  // The wall clock was set between the two files. By the machine's clock the worker's process
  // started 100 ns after the server's.
  both[0].header.to_monotonic_ns = 1000;
  both[1].header.to_monotonic_ns = 1100;
  EXPECT_TRUE(share_clock(both));
  const auto events = merge(both);
  EXPECT_THAT(blocks_of(events), ElementsAre(1, 2, 3));
  EXPECT_EQ(events[0].at_ns, kStartNs + 150);
}

TEST(Timeline, TimeNamespacesOfOneMachineMeetInUtc) {
  std::vector<Recording> both{recording(false, "a", kStartNs, {arrival(200, 0, 2)}),
                              recording(true, "a", kStartNs, {arrival(100, 0, 1)})};
  both[1].header.to_monotonic_ns = 1'000'000'000'000'000;  // The namespace's offset.
  both[1].header.boot[kTimeNamespaceAt] = 1;
  EXPECT_FALSE(share_clock(both));
  EXPECT_THAT(blocks_of(merge(both)), ElementsAre(1, 2));
  EXPECT_THAT(as_text(both), HasSubstr("clocks: several machines or time namespaces"));
  both[0].header.boot[kTimeNamespaceAt] = 1;
  EXPECT_TRUE(share_clock(both));
}

TEST(Timeline, EventsOfOneTimeKeepTheirOrder) {
  const std::vector<Recording> one{
      recording(false, "a", 0, {arrival(5, 0, 3), arrival(5, 0, 1), arrival(5, 0, 2)})};
  EXPECT_THAT(blocks_of(merge(one)), ElementsAre(3, 1, 2));
}

TEST(Timeline, FiltersByJobBlockAndRank) {
  std::vector<Event> events{arrival(1, 0, 10, 5), arrival(2, 1, 14), arrival(3, 1, 15)};
  events.push_back({.at_ns = 4, .kind = Kind::kRankLeft, .job = 1, .rank = 1});
  events.push_back({.at_ns = 5, .kind = Kind::kCompleted, .job = 2, .block = 14, .count = 1});
  const std::vector<Recording> one{recording(false, "a", 0, events)};
  EXPECT_EQ(merge(one, {.job = 1}).size(), 4U);
  EXPECT_THAT(blocks_of(merge(one, {.block = 14})), ElementsAre(10, 14, 14));
  EXPECT_EQ(merge(one, {.block = 9}).size(), 0U);
  EXPECT_EQ(merge(one, {.rank = 1}).size(), 3U);
  EXPECT_THAT(blocks_of(merge(one, {.job = 1, .block = 14, .rank = 1})), ElementsAre(14));
}

TEST(Timeline, RunOverTheLargestBlockIdHoldsBlockZero) {
  const std::vector<Recording> one{recording(false, "a", 0, {arrival(1, 0, UINT32_MAX, 3)})};
  EXPECT_EQ(merge(one, {.block = 1}).size(), 1U);
  EXPECT_EQ(merge(one, {.block = 2}).size(), 0U);
}

TEST(Timeline, TextNamesTimeTrackRankAndBlocks) {
  std::vector<Recording> both{recording(false, "a", kStartNs, {arrival(123'456'789, 2, 0, 16)}),
                              recording(true, "b", kStartNs, {})};
  both[0].path = "rack1.trec";
  both[0].sections[0].lost = 4;
  both[1].problem = "the file ends early";
  const std::string text = as_text(both);
  EXPECT_THAT(text, HasSubstr("rack1.trec: server rack1, host h, pid 0, written "
                              "2026-11-23 20:15:00.000000000 UTC (command): 1 events, 4 lost\n"));
  EXPECT_THAT(text, HasSubstr("  incomplete: the file ends early\n"));
  EXPECT_THAT(text, HasSubstr("clocks: several machines"));
  EXPECT_THAT(text, HasSubstr("2026-11-23 20:15:00.123456789  server rack1 core 0    arrived"));
  EXPECT_THAT(text, HasSubstr("job 1 rank 2 blocks 0-15\n"));
  EXPECT_THAT(text, Not(HasSubstr("no events")));
}

TEST(Timeline, JsonHasTheSameEvents) {
  std::vector<Event> events{arrival(1, 2, 5)};
  events.push_back({.at_ns = 2,
                    .kind = Kind::kStalled,
                    .job = 1,
                    .rank = 3,
                    .block = 5,
                    .count = 1,
                    .value = 900});
  const std::vector<Recording> one{recording(false, "a", kStartNs, events)};
  const auto json = as_json(one);
  EXPECT_EQ(json["files"][0]["title"], "server rack1");
  ASSERT_EQ(json["rows"].size(), 2U);
  EXPECT_EQ(json["rows"][0]["event"], "arrived");
  EXPECT_EQ(json["rows"][0]["rank"], 2);
  EXPECT_EQ(json["rows"][1]["event"], "stalled");
  EXPECT_EQ(json["rows"][1]["value"], 900);
}

TEST(Timeline, JsonWithoutEventsHasNoRows) {
  std::vector<Recording> both{recording(false, "a", kStartNs, {}),
                              recording(true, "a", kStartNs, {})};
  both[0].path = "not UTF-8: \xff";
  const auto json = as_json(both);
  EXPECT_EQ(json["files"].size(), 2U);
  EXPECT_EQ(json["files"][0]["path"], "not UTF-8: \xef\xbf\xbd");
  EXPECT_EQ(json["one_clock"], true);
  EXPECT_TRUE(json["rows"].is_array());
  EXPECT_TRUE(json["rows"].empty());
}

TEST(Timeline, AnyNumbersAreShown) {
  for (const int64_t at_ns : {INT64_MIN, int64_t{-1}, INT64_MAX}) {
    std::vector<Recording> both{recording(false, "a", at_ns, {arrival(at_ns, 0, 1)}),
                                recording(true, "a", at_ns, {arrival(at_ns, 0, 1)})};
    both[0].header.to_monotonic_ns = at_ns;
    both[1].header.to_monotonic_ns = INT64_MIN;
    EXPECT_EQ(merge(both).size(), 2U);
    EXPECT_FALSE(as_text(both).empty());
  }
}

}  // namespace
}  // namespace tributary::recorder
