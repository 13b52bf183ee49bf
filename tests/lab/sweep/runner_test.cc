// SPDX-License-Identifier: Apache-2.0
// Method: points whose outcome is a function of their seed, so that outcomes in any order and after
// any interruption can be compared byte for byte. Then real runs.
#include "lab/sweep/runner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "lab/sweep/point_store.h"
#include "tests/support/scratch_directory.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;

/// Returns `count` points. Each increments `runs` when it runs.
std::vector<Point> counted_points(uint32_t count, std::atomic<uint32_t>& runs) {
  std::vector<Point> points;
  for (uint32_t i = 0; i < count; i++) {
    Point point;
    point.label = fmt::format("point {}", i);
    point.scenario.seed = i;
    point.run = [&runs](const Scenario& scenario) -> Result<PointOutcome> {
      runs++;
      PointOutcome outcome;
      outcome.result.events = scenario.seed * scenario.seed;
      outcome.accuracy = {{.at = picoseconds(123'450), .accuracy = 0.1}};
      return outcome;
    };
    points.push_back(std::move(point));
  }
  return points;
}

std::string text_of(const RunnerOutcome& outcome) {
  std::string text;
  for (const auto& point : outcome.points) {
    text += (point ? outcome_json(*point).dump() : "none") + "\n";
  }
  return text;
}

TEST(Runner, ThreadsDoNotChangeTheOutcome) {
  std::atomic<uint32_t> runs = 0;
  const auto points = counted_points(40, runs);
  const auto serial = run_points(points, {.threads = 1});
  const auto parallel = run_points(points, {.threads = 4});
  ASSERT_TRUE(serial && parallel);
  EXPECT_EQ(runs, 80);
  EXPECT_TRUE(serial->complete());
  EXPECT_EQ(text_of(*serial), text_of(*parallel));
  EXPECT_EQ(serial->points[7]->result.events, 49U);
}

TEST(Runner, ReusesStoredPoints) {
  const testing::ScratchDirectory scratch;
  std::atomic<uint32_t> runs = 0;
  const auto points = counted_points(10, runs);
  const RunnerOptions options{.threads = 2, .directory = scratch.path() / "kept"};
  const auto half = run_points(std::span(points).first(5), options);
  ASSERT_TRUE(half);
  EXPECT_EQ(runs, 5);
  const auto all = run_points(points, options);
  ASSERT_TRUE(all);
  EXPECT_EQ(runs, 10);
  const auto again = run_points(points, options);
  EXPECT_EQ(runs, 10);
  EXPECT_EQ(text_of(*all), text_of(*again));
  EXPECT_EQ(text_of(*all), text_of(*run_points(points, {.threads = 1})));
}

TEST(Runner, InterruptedSweepResumes) {
  const testing::ScratchDirectory scratch;
  std::atomic<uint32_t> runs = 0;
  std::atomic<bool> stop = false;
  const auto points = counted_points(10, runs);
  RunnerOptions options{.threads = 1, .directory = scratch.path(), .stop = &stop};
  options.on_progress = [&stop](uint64_t done, uint64_t total) {
    EXPECT_EQ(total, 10);
    if (done == 4) stop = true;
  };
  const auto stopped = run_points(points, options);
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->interrupted);
  EXPECT_EQ(stopped->finished, 4);
  EXPECT_FALSE(stopped->complete());
  stop = false;
  options.on_progress = {};
  const auto rest = run_points(points, options);
  EXPECT_EQ(runs, 10);
  EXPECT_EQ(text_of(*rest), text_of(*run_points(points, {.threads = 1})));
}

// A directory that another version of the lab has filled must not give its results to this one.
TEST(Runner, RunsPointsOfAnotherModelOnceMore) {
  const testing::ScratchDirectory scratch;
  std::atomic<uint32_t> runs = 0;
  const auto points = counted_points(3, runs);
  {
    auto store = PointStore::open(scratch.path(), 0, "another model");
    ASSERT_TRUE(store);
    PointOutcome wrong;
    wrong.result.events = 77;
    ASSERT_TRUE(store->append(point_key(points[1]), points[1].label, wrong));
    ASSERT_TRUE(store->append_failure(point_key(points[2]), points[2].label, "an old bug"));
  }
  const RunnerOptions options{.threads = 1, .directory = scratch.path()};
  const auto outcome = run_points(points, options);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(outcome->outdated, 2);
  EXPECT_EQ(outcome->points[1]->result.events, 1U);
  EXPECT_EQ(run_points(points, options)->outdated, 0);
  EXPECT_EQ(runs, 3);
}

TEST(Runner, StoppedRunKeepsItsPointsWithoutADirectory) {
  const testing::ScratchDirectory scratch;
  std::atomic<uint32_t> runs = 0;
  std::atomic<bool> stop = false;
  const auto points = counted_points(10, runs);
  const std::string kept = scratch.path() / "kept";
  RunnerOptions options{.threads = 1, .directory_if_stopped = kept, .stop = &stop};
  EXPECT_EQ(run_points(points, options)->kept_in, "");  // It was not stopped.
  EXPECT_FALSE(std::filesystem::exists(kept));
  for (uint64_t most = 4; most <= 5; most++) {
    options.on_progress = [&stop, most](uint64_t done, uint64_t) { stop = done == most; };
    stop = false;
    EXPECT_EQ(run_points(points, options)->kept_in, kept);
  }
  runs = 0;
  const auto rest = run_points(points, {.threads = 1, .directory = kept});
  EXPECT_EQ(runs, 5);
  EXPECT_TRUE(rest->complete());

  options.directory_if_stopped = scratch.file("file", "x") + "/below";
  stop = false;
  EXPECT_EQ(run_points(points, options)->kept_in, "");
}

TEST(Runner, IgnoresATruncatedLine) {
  const testing::ScratchDirectory scratch;
  std::atomic<uint32_t> runs = 0;
  const auto points = counted_points(3, runs);
  const RunnerOptions options{.threads = 1, .directory = scratch.path()};
  const auto whole = run_points(points, options);
  const std::string path = scratch.path() / "points-0.jsonl";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 5);
  const auto repaired = run_points(points, options);
  EXPECT_EQ(runs, 4);
  EXPECT_EQ(text_of(*whole), text_of(*repaired));
  EXPECT_EQ(text_of(*run_points(points, options)), text_of(*whole));
  EXPECT_EQ(runs, 4);
}

TEST(Runner, RefusesKeptOutcomesThatAreNoFiles) {
  std::atomic<uint32_t> runs = 0;
  const auto points = counted_points(1, runs);
  const auto refusal_with = [&points](const std::string& name, auto make) {
    const testing::ScratchDirectory scratch;
    make(scratch.path() / name);
    const auto refused = run_points(points, {.threads = 1, .directory = scratch.path()});
    return refused ? std::string("accepted")
                   : refused.error().text.substr(scratch.path().string().size());
  };
  for (const char* name : {"points-0.jsonl", "points-7.jsonl"}) {
    const auto place = fmt::format("/{}: ", name);
    EXPECT_EQ(
        refusal_with(name,
                     [](const auto& path) { std::filesystem::create_symlink("/dev/zero", path); }),
        place + "is not a regular file; allowed: a regular file");
    EXPECT_EQ(
        refusal_with(name, [](const auto& path) { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); }),
        place + "is not a regular file; allowed: a regular file");
    EXPECT_EQ(refusal_with(name,
                           [](const auto& path) {  // Sparse: it takes no space on the disk.
                             std::ofstream(path).close();
                             std::filesystem::resize_file(path, (uint64_t{4} << 30) + 1);
                           }),
              place + "has 4294967297 bytes; allowed: up to 4294967296");
  }
  EXPECT_EQ(runs, 0);
}

TEST(Runner, RefusesFilesOfAPointWithoutAnEnd) {
  const testing::ScratchDirectory scratch;
  std::atomic<uint32_t> runs = 0;
  auto points = counted_points(2, runs);
  const std::string pipe = scratch.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  points[1].scenario.straggler.trace = "/dev/zero";
  EXPECT_EQ(run_points(points, {.threads = 1}).error().text,
            "point 1: straggler.trace: /dev/zero: is not a regular file; allowed: a regular file");
  points[1].scenario.straggler.trace = pipe;
  EXPECT_THAT(run_points(points, {.threads = 1}).error().text, HasSubstr("not a regular file"));
  points[1].scenario.straggler.trace.clear();
  points[1].scenario.topology_file = pipe;
  EXPECT_THAT(run_points(points, {.threads = 1}).error().text,
              HasSubstr("point 1: topology_file: "));
  EXPECT_EQ(runs, 0);
}

TEST(Runner, EqualPointsRunOnce) {
  std::atomic<uint32_t> runs = 0;
  auto points = counted_points(2, runs);
  points.push_back(points[1]);
  points.back().label = "the same";
  const auto outcome = run_points(points, {.threads = 2});
  ASSERT_TRUE(outcome);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(outcome->points[2]->result.events, outcome->points[1]->result.events);
  points.back().extra = "but for this";
  EXPECT_NE(point_key(points[1]), point_key(points[2]));
}

TEST(Runner, PointKeyCoversTheTraceFile) {
  const testing::ScratchDirectory scratch;
  Point point{.label = "a trace", .scenario = {}};
  const std::string without = point_key(point);
  point.scenario.straggler.trace = scratch.file("t.csv", "one");
  const std::string one = point_key(point);
  EXPECT_EQ(point_key(point), one);
  EXPECT_NE(one, without);
  EXPECT_EQ(scratch.file("t.csv", "two"), point.scenario.straggler.trace);
  EXPECT_NE(point_key(point), one);
}

TEST(Runner, ErrorNamesTheFailedPoint) {
  std::atomic<uint32_t> runs = 0;
  auto points = counted_points(5, runs);
  points[3].run = [](const Scenario&) -> Result<PointOutcome> { return failure("worker 2 hangs"); };
  EXPECT_EQ(run_points(points, {.threads = 1}).error().text, "point 3: worker 2 hangs");
  EXPECT_EQ(run_points(points, {.threads = 3}).error().text, "point 3: worker 2 hangs");
}

TEST(Runner, KeepsGoingPastFailuresAndTriesThemOnceMore) {
  const testing::ScratchDirectory scratch;
  std::atomic<uint32_t> runs = 0;
  auto points = counted_points(5, runs);
  const auto good = points[3].run;
  points[3].run = [](const Scenario&) -> Result<PointOutcome> { return failure("worker 2 hangs"); };
  for (const std::string& directory : {std::string(), std::string(scratch.path() / "kept")}) {
    const auto outcome =
        run_points(points, {.threads = 2, .directory = directory, .keep_going = true});
    ASSERT_TRUE(outcome);
    EXPECT_TRUE(outcome->complete());
    EXPECT_EQ(outcome->finished, 4);
    EXPECT_EQ(outcome->failed, 1);
    EXPECT_FALSE(outcome->points[3]);
    EXPECT_EQ(outcome->failures[3], "worker 2 hangs");
    EXPECT_EQ(outcome->failures[4], "");
    const std::vector<PointOutcome> outcomes = outcome->outcomes();
    ASSERT_EQ(outcomes.size(), 5);
    EXPECT_TRUE(outcomes[3].failed);
    EXPECT_FALSE(outcomes[4].failed);
    const auto total = [](const RunResult& result) { return as_ns(result.total); };
    EXPECT_TRUE(std::isnan(value_of(outcomes[3], total)));
    EXPECT_EQ(value_of(outcomes[4], total), as_ns(outcomes[4].result.total));
  }
  points[3].run = good;
  runs = 0;
  const auto repaired =
      run_points(points, {.threads = 1, .directory = scratch.path() / "kept", .keep_going = true});
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(repaired->finished, 5);
  EXPECT_EQ(repaired->failed, 0);
  EXPECT_EQ(repaired->failures[3], "");
}

TEST(Runner, RefusesAnImpossibleDirectory) {
  const testing::ScratchDirectory scratch;
  std::atomic<uint32_t> runs = 0;
  const auto points = counted_points(1, runs);
  const std::string file = scratch.file("file", "x");
  EXPECT_THAT(run_points(points, {.directory = file + "/below"}).error().text,
              HasSubstr("file/below: cannot be made: "));
  EXPECT_EQ(runs, 0);
}

TEST(Runner, RealRunsAreTheSameOnAnyNumberOfThreads) {
  std::vector<Point> points;
  for (uint32_t i = 0; i < 4; i++) {
    Point point;
    point.label = fmt::format("seed {}", i);
    point.scenario.seed = i;
    point.scenario.workers = 3;
    point.scenario.iterations = 2;
    point.scenario.window = 16;
    point.scenario.model = {.kind = Model::kCustom, .bucket_bytes = {200'000}};
    points.push_back(std::move(point));
  }
  const auto serial = run_points(points, {.threads = 1});
  ASSERT_TRUE(serial) << serial.error().text;
  const auto parallel = run_points(points, {.threads = 3});
  ASSERT_TRUE(parallel);
  EXPECT_EQ(text_of(*serial), text_of(*parallel));
  EXPECT_GT(serial->outcomes().at(0).result.mean_iteration, Duration());
}

}  // namespace
}  // namespace tributary::lab
