// SPDX-License-Identifier: Apache-2.0
// Method: the export of events made by hand is parsed as JSON, and its spans are paired.
#include "recorder/perfetto.h"

#include <gtest/gtest.h>

namespace tributary::recorder {
namespace {

using nlohmann::json;

Recording server(std::vector<Event> events) {
  Recording made;
  made.name = "rack\"1";
  made.host = "h";
  made.sections.push_back({.track = 0, .lost = 7, .events = std::move(events)});
  return made;
}

json exported(std::vector<Event> events) {
  const std::vector<Recording> recordings{server(std::move(events))};
  return json::parse(as_perfetto(recordings, merge(recordings)).json);
}

std::vector<json> of_phase(const json& trace, const std::string& phase) {
  std::vector<json> found;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) found.push_back(event);
  }
  return found;
}

TEST(Perfetto, BlockIsASpanFromItsFirstContributionToItsResult) {
  const json trace = exported(
      {{.at_ns = 1'000, .kind = Kind::kArrived, .job = 1, .rank = 0, .block = 5, .count = 2},
       {.at_ns = 2'000, .kind = Kind::kArrived, .job = 1, .rank = 1, .block = 5, .count = 1},
       {.at_ns = 3'500, .kind = Kind::kCompleted, .job = 1, .block = 5, .count = 1}});
  EXPECT_EQ(of_phase(trace, "i").size(), 3U);
  const auto begins = of_phase(trace, "b");
  const auto ends = of_phase(trace, "e");
  ASSERT_EQ(begins.size(), 2U);  // Blocks 5 and 6; the second rank begins nothing.
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(begins[0]["id2"], ends[0]["id2"]);
  EXPECT_EQ(begins[0]["ts"], 0.0);
  EXPECT_EQ(ends[0]["ts"], 2.5);
  EXPECT_EQ(ends[0]["name"], "block 5");
  EXPECT_EQ(trace["otherData"]["events_lost"], 7);
}

TEST(Perfetto, NamesProcessesAndThreads) {
  const json trace = exported({{.kind = Kind::kRankLeft, .job = 1, .rank = 2}});
  const auto names = of_phase(trace, "M");
  ASSERT_EQ(names.size(), 2U);
  EXPECT_EQ(names[0]["args"]["name"], "server rack\"1 on h");
  EXPECT_EQ(names[1]["args"]["name"], "core 0");
}

TEST(Perfetto, ResultWithoutABeginningEndsNothing) {
  const json trace = exported({{.kind = Kind::kCompleted, .job = 1, .block = 5, .count = 1}});
  EXPECT_EQ(of_phase(trace, "e").size(), 0U);
}

TEST(Perfetto, EarliestSpansAreLeftOut) {
  const std::vector<Recording> recordings{
      server({{.at_ns = 1'000, .kind = Kind::kArrived, .job = 1, .rank = 0, .block = 5, .count = 2},
              {.at_ns = 2'000, .kind = Kind::kCompleted, .job = 1, .block = 5, .count = 2},
              {.at_ns = 3'000, .kind = Kind::kArrived, .job = 1, .rank = 0, .block = 5, .count = 1},
              {.at_ns = 4'000, .kind = Kind::kCompleted, .job = 1, .block = 5, .count = 1}})};
  const PerfettoTrace made = as_perfetto(recordings, merge(recordings), /*spans_max=*/2);
  EXPECT_EQ(made.spans_left_out, 1U);  // Of three: block 5 twice, and block 6.
  const json trace = json::parse(made.json);
  EXPECT_EQ(trace["otherData"]["spans_left_out"], 1);
  const auto begins = of_phase(trace, "b");
  const auto ends = of_phase(trace, "e");
  ASSERT_EQ(begins.size(), 2U);
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(begins[0]["name"], "block 6");
  EXPECT_EQ(ends[0]["name"], "block 6");
  EXPECT_EQ(begins[1]["name"], "block 5");
  EXPECT_EQ(ends[1]["ts"], 3.0);
  EXPECT_EQ(of_phase(trace, "i").size(), 4U);  // Each event stays.
}

TEST(Perfetto, SpansOfOneRankEndWithTheResultsOfAllRanks) {
  const std::vector<Recording> recordings{
      server({{.at_ns = 1'000, .kind = Kind::kArrived, .job = 1, .rank = 0, .block = 5, .count = 2},
              {.at_ns = 2'000, .kind = Kind::kArrived, .job = 1, .rank = 1, .block = 5, .count = 1},
              {.at_ns = 3'500, .kind = Kind::kCompleted, .job = 1, .block = 5, .count = 2}})};
  const Filter of_rank{.rank = 1, .ends_pass_rank = true};
  const json trace = json::parse(as_perfetto(recordings, merge(recordings, of_rank)).json);
  const auto begins = of_phase(trace, "b");
  const auto ends = of_phase(trace, "e");
  ASSERT_EQ(begins.size(), 1U);  // Rank 1 has contributed to block 5 only.
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(begins[0]["id2"], ends[0]["id2"]);
  EXPECT_EQ(ends[0]["ts"], 1.5);
}

TEST(Perfetto, OpenSpansAreBoundedAndTheLatestStay) {
  // Blocks 0 to 9 begin and never end, then block 10 begins and ends.
  const std::vector<Recording> recordings{server(
      {{.at_ns = 1'000, .kind = Kind::kArrived, .job = 1, .rank = 0, .block = 0, .count = 10},
       {.at_ns = 2'000, .kind = Kind::kArrived, .job = 1, .rank = 0, .block = 10, .count = 1},
       {.at_ns = 3'000, .kind = Kind::kCompleted, .job = 1, .block = 10, .count = 1}})};
  const PerfettoTrace made = as_perfetto(recordings, merge(recordings), /*spans_max=*/2);
  EXPECT_EQ(made.spans_left_out, 9U);  // Of eleven.
  const json trace = json::parse(made.json);
  const auto begins = of_phase(trace, "b");
  ASSERT_EQ(begins.size(), 2U);
  EXPECT_EQ(begins[0]["name"], "block 9");
  EXPECT_EQ(begins[1]["name"], "block 10");
  ASSERT_EQ(of_phase(trace, "e").size(), 1U);
  EXPECT_EQ(json::parse(as_perfetto(recordings, merge(recordings), /*spans_max=*/0).json)
                .at("otherData")["spans_left_out"],
            11);
}

TEST(Perfetto, NothingIsValidJson) {
  EXPECT_EQ(json::parse(as_perfetto({}, {}).json)["traceEvents"].size(), 0U);
}

}  // namespace
}  // namespace tributary::recorder
