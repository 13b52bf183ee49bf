// SPDX-License-Identifier: Apache-2.0
// Method: one hand-made result with a different number in every field that the test checks, as JSON
// and as text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lab/sweep/outcome.h"
#include "lab/sweep/run_json.h"
#include "lab/sweep/run_text.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunResult by_hand() {
  RunResult result;
  result.mean_iteration = microseconds(2'500);
  result.total = milliseconds(5);
  result.iterations = {milliseconds(2), milliseconds(3)};
  result.bottleneck = "the cable";
  result.blocks = 8;
  result.degraded_blocks = 2;
  result.block_latency.count = 8;
  result.block_latency.mean = nanoseconds(1'500);
  result.block_latency.p99 = microseconds(4);
  result.warnings = {"a>b lost 1 packet"};
  result.packets = 77;
  result.digest = 0xabc;
  WorkerResult worker;
  worker.computed = milliseconds(4);
  worker.waited = microseconds(250);
  worker.iterations = 2;
  worker.contributions = 40;
  worker.contributions_lost = 3;
  worker.contributions_unclear = 5;
  worker.dropped_out = true;
  result.workers = {worker};
  LinkResult link;
  link.name = "a>b";
  link.packets = 9;
  link.bytes = 900;
  link.lost = 1;
  link.utilisation = 0.25;
  result.links = {link};
  AggregatorResult aggregator;
  aggregator.name = "top";
  aggregator.packets = 40;
  aggregator.add("threads in use", 0.5, "share");
  aggregator.add(PartKind::kSlots, 64, "of the window");
  result.aggregators = {aggregator};
  return result;
}

TEST(RunJson, TimesAreInNanosecondsAndSharesAreShares) {
  const Json json = run_json(by_hand());
  EXPECT_EQ(json["mean_iteration_ns"], 2.5e6);
  EXPECT_EQ(json["iterations_ns"], Json({2e6, 3e6}));
  EXPECT_EQ(json["degraded_fraction"], 0.25);
  EXPECT_EQ(json["block_latency"]["mean_ns"], 1500.0);
  EXPECT_EQ(json["aggregators"][0]["latency"]["mean_ns"], nullptr);  // Of nothing.
  EXPECT_EQ(json["workers"][0]["contributions_lost"], 3);
  EXPECT_EQ(json["workers"][0]["contributions_unclear"], 5);
  EXPECT_EQ(json["workers"][0]["dropped_out"], true);
  EXPECT_EQ(json["links"][0]["utilisation"], 0.25);
  EXPECT_EQ(json["aggregators"][0]["parts"][0]["value"], 0.5);
  EXPECT_EQ(json["warnings"], Json({"a>b lost 1 packet"}));
  EXPECT_EQ(json["digest"], "0000000000000abc");
}

TEST(RunJson, KeepsTicksBelowANanosecond) {
  EXPECT_EQ(as_ns(picoseconds(10)), 0.01);
  EXPECT_EQ(as_ns(Duration()), 0.0);
}

TEST(RunJson, EqualResultsGiveEqualBytes) {
  EXPECT_EQ(run_json(by_hand()).dump(), run_json(by_hand()).dump());
  RunResult other = by_hand();
  other.workers[0].waited += picoseconds(10);
  EXPECT_NE(run_json(other).dump(), run_json(by_hand()).dump());
}

TEST(RunJson, ReadsBackAsTheSameResult) {
  const auto read = read_run_json(Json::parse(run_json(by_hand()).dump()));
  ASSERT_TRUE(read);
  EXPECT_EQ(run_json(*read).dump(), run_json(by_hand()).dump());
  EXPECT_EQ(read->aggregators[0].parts[0].kind, PartKind::kOther);
  EXPECT_EQ(read->aggregators[0].parts[1].kind, PartKind::kSlots);
  PointOutcome outcome{.result = by_hand(), .accuracy = {{milliseconds(3), 0.25}}};
  const auto trained = read_outcome(outcome_json(outcome));
  ASSERT_TRUE(trained);
  EXPECT_EQ(outcome_json(*trained).dump(), outcome_json(outcome).dump());
}

TEST(RunJson, RefusesWhatIsNoResult) {
  EXPECT_FALSE(read_run_json(Json::object()));
  Json json = run_json(by_hand());
  json["digest"] = "not hexadecimal";
  EXPECT_FALSE(read_run_json(json));
  json = run_json(by_hand());
  json["workers"] = 3;
  EXPECT_FALSE(read_run_json(json));
  json = run_json(by_hand());
  json["accuracy"] = {1, 2};
  EXPECT_FALSE(read_outcome(json));
}

TEST(RunJson, RefusesNumbersOutsideTheirRange) {
  const auto accepts = [](const char* pointer, const Json& value) {
    Json json = run_json(by_hand());
    json[Json::json_pointer(pointer)] = value;
    return read_run_json(json).has_value();
  };
  EXPECT_TRUE(accepts("/blocks", UINT64_MAX));
  for (const Json& value : {Json(5e41), Json(0.5), Json(-1)}) {
    EXPECT_FALSE(accepts("/blocks", value)) << value;
    EXPECT_FALSE(accepts("/timeline/0", value)) << value;
    EXPECT_FALSE(accepts("/workers/0/iterations", value)) << value;
  }
  EXPECT_FALSE(accepts("/workers/0/iterations", uint64_t{UINT32_MAX} + 1));
  EXPECT_TRUE(accepts("/total_ns", 9.0e13));
  EXPECT_FALSE(accepts("/total_ns", 9.1e13));
  EXPECT_FALSE(accepts("/iterations_ns/0", 1e300));
}

TEST(RunText, NamesUnitsAndDroppedWorkers) {
  const std::string text = run_text(by_hand());
  EXPECT_THAT(text, ::testing::ContainsRegex("mean iteration +2.5 +ms"));
  EXPECT_THAT(text, ::testing::ContainsRegex("of these degraded +25 +%"));
  EXPECT_THAT(text, ::testing::ContainsRegex("contribution to result, P99 +4 +us"));
  EXPECT_THAT(text, HasSubstr("0 (out)"));
  EXPECT_THAT(text,
              ::testing::ContainsRegex("dropped out +1 of [0-9]+ +workers; times and shares"));
  EXPECT_THAT(text, ::testing::ContainsRegex("a>b +9 +900 +1 +0 +0 +0 +0 +25"));
  EXPECT_THAT(text, HasSubstr("top: no bottleneck known"));
  EXPECT_THAT(text, HasSubstr("bottleneck: the cable"));
}

TEST(RunText, OmitsUncheckedSumsAndDropoutsThatAreNone) {
  RunResult result = by_hand();
  result.workers[0].dropped_out = false;
  EXPECT_THAT(run_text(result), Not(HasSubstr("dropped out")));
  EXPECT_THAT(run_text(result), Not(HasSubstr("wrong sums")));
  result.checked_sums = 5;
  result.wrong_sums = 1;
  EXPECT_THAT(run_text(result), ::testing::ContainsRegex("wrong sums +1 +elements"));
}

TEST(RunText, LostContributionsAreARangeIfResultsNameNoWorkers) {
  RunResult result = by_hand();
  EXPECT_THAT(run_text(result), ::testing::ContainsRegex(" 40 +3 to 8 +0 "));
  result.workers[0].contributions_unclear = 0;
  EXPECT_THAT(run_text(result), ::testing::ContainsRegex(" 40 +3 +0 "));
}

/// A run of 1,024 hosts printed 3,600 lines.
TEST(RunText, LongTablesShowWhatMattersMost) {
  RunResult result = by_hand();
  result.workers.assign(1024, {});
  result.workers[700].slept = milliseconds(3);
  result.workers[9].dropped_out = true;
  result.links.assign(2048, {.name = "calm"});
  result.links[2000].name = "busy";
  result.links[2000].utilisation = 0.9;
  result.links[1999].name = "lossy";
  result.links[1999].lost = 1;
  result.aggregators.assign(16, {});
  result.aggregators[15].name = "overflowing";
  result.aggregators[15].dropped = 1;
  const std::string text = run_text(result);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 150);
  EXPECT_THAT(text, ::testing::ContainsRegex("\n  9 \\(out\\) .*\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\n +700 .* 3 .*\n"));
  EXPECT_THAT(text, HasSubstr("… and 992 more workers, which slept and lost no more; --json FILE"));
  EXPECT_LT(text.find("\n  lossy "), text.find("\n  busy "));  // In their own order.
  EXPECT_THAT(text, HasSubstr("… and 2016 more links"));
  EXPECT_THAT(text, HasSubstr("\noverflowing: "));
  EXPECT_THAT(text, HasSubstr("… and 8 more aggregators"));
  result.workers.resize(32);
  EXPECT_THAT(run_text(result), Not(HasSubstr("more workers")));
}

}  // namespace
}  // namespace tributary::lab
