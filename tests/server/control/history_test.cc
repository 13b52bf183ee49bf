// SPDX-License-Identifier: Apache-2.0
// Method: snapshots made by hand, one for each second, and the samples, histograms and stalls that
//         they give.
#include "server/control/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>

#include "apps/trio_ml/records.h"
#include "server/control/history_json.h"

namespace tributary::control {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Returns the state at second `at`: a job of two sources, whose source 1 is missing for `late`.
server::Snapshot state_at(int64_t at, Duration late, uint8_t job_id = 4) {
  server::Snapshot snapshot;
  snapshot.at = Instant(seconds(1000 + at));
  snapshot.uptime = seconds(at);
  snapshot.cores = {{.counters = {}, .cpu = milliseconds(at * 250)}};
  snapshot.ports = {{.rx_bytes = static_cast<uint64_t>(at) * 100}, {.tx_bytes = 7}};
  snapshot.add(trio_ml::Outcome::kBlockDegraded, {3, 0});
  server::JobSnapshot job;
  job.config.id = job_id;
  job.config.sources = 2;
  job.blocks_total = static_cast<uint64_t>(at) * 10;
  job.sources = {{.ranks = {0}}, {.ranks = {1}}};
  if (late > Duration()) {
    job.blocks = {{.block_id = 9, .referenced_at = snapshot.at - late},
                  {.block_id = 10, .referenced_at = snapshot.at}};
    for (auto& block : job.blocks) trio_ml::include(block.missing, 1);
  }
  snapshot.jobs = {job};
  return snapshot;
}

TEST(Lateness, BucketsIncludeTheirUpperBound) {
  EXPECT_EQ(lateness_bucket(Duration()), 0U);
  EXPECT_EQ(lateness_bucket(milliseconds(10)), 0U);
  EXPECT_EQ(lateness_bucket(milliseconds(11)), 1U);
  EXPECT_EQ(lateness_bucket(seconds(30)), 7U);
  EXPECT_EQ(lateness_bucket(seconds(31)), 8U);
}

TEST(HistoryTest, KeepsTrafficAndTheLatenessOfTheOldestBlock) {
  History history;
  history.add(state_at(1, Duration()));
  history.add(state_at(2, milliseconds(259)));
  ASSERT_THAT(history.samples(), SizeIs(2));
  EXPECT_EQ(history.samples()[1].rx_bytes, 200U);
  EXPECT_EQ(history.samples()[1].tx_bytes, 7U);
  EXPECT_EQ(history.samples()[1].blocks_degraded, 3U);
  EXPECT_THAT(history.samples()[1].cpu, ElementsAre(milliseconds(500)));
  const std::vector<JobHistory> jobs = history.jobs();
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_THAT(jobs[0].blocks_total, ElementsAre(10, 20));
  EXPECT_THAT(jobs[0].uptime, ElementsAre(seconds(1), seconds(2)));
  ASSERT_THAT(jobs[0].sources, SizeIs(2));
  EXPECT_THAT(jobs[0].sources[0].lateness, ElementsAre(Duration(), Duration()));
  EXPECT_THAT(jobs[0].sources[1].lateness, ElementsAre(Duration(), milliseconds(250)));
  EXPECT_THAT(jobs[0].sources[1].histogram.counts, ElementsAre(1, 0, 0, 1, 0, 0, 0, 0, 0));
  EXPECT_NEAR(jobs[0].sources[1].histogram.sum_s, 0.259, 1e-9);
  EXPECT_THAT(jobs[0].stalls, IsEmpty());
}

TEST(HistoryTest, IsBounded) {
  History history;
  // Late in every other second: each time is a stall of its own.
  for (int64_t at = 0; at < 1000; at++) {
    history.add(state_at(at, at % 2 == 0 ? seconds(3) : Duration()));
  }
  history.add(state_at(1000, seconds(100'000)));
  EXPECT_THAT(history.samples(), SizeIs(kSamplesMax));
  EXPECT_EQ(history.samples().back().uptime, seconds(1000));
  const JobHistory job = history.jobs()[0];
  EXPECT_THAT(job.blocks_total, SizeIs(kSamplesMax));
  EXPECT_THAT(job.uptime, SizeIs(kSamplesMax));
  EXPECT_THAT(job.sources[1].lateness, SizeIs(kSamplesMax));
  EXPECT_EQ(job.sources[1].lateness.back(), kLatenessMax);
  EXPECT_THAT(job.stalls, SizeIs(kStallsMax));
}

TEST(HistoryTest, StallsHaveABeginningALengthAndAnEnd) {
  History history;
  history.add(state_at(10, milliseconds(299)));
  EXPECT_THAT(history.jobs()[0].stalls, IsEmpty());
  history.add(state_at(11, seconds(1)));
  history.add(state_at(12, seconds(2)));
  JobHistory job = history.jobs()[0];
  ASSERT_THAT(job.stalls, SizeIs(1));
  EXPECT_EQ(job.stalls[0].source, 1U);
  EXPECT_EQ(job.stalls[0].block_id, 9U);
  EXPECT_EQ(job.stalls[0].began, seconds(10));
  EXPECT_EQ(job.stalls[0].lasted, seconds(2));
  EXPECT_FALSE(job.stalls[0].ended);
  history.add(state_at(13, Duration()));
  history.add(state_at(14, seconds(5)));
  job = history.jobs()[0];
  ASSERT_THAT(job.stalls, SizeIs(2));
  EXPECT_FALSE(job.stalls[0].ended);
  EXPECT_TRUE(job.stalls[1].ended);
  EXPECT_EQ(job.stalls[1].lasted, seconds(2));
}

TEST(HistoryTest, JobsThatAreGoneAreForgotten) {
  History history;
  history.add(state_at(1, seconds(1), 4));
  history.add(state_at(2, seconds(1), 5));
  const std::vector<JobHistory> jobs = history.jobs();
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_EQ(jobs[0].job, 5U);
  EXPECT_THAT(jobs[0].blocks_total, SizeIs(1));
  server::Snapshot larger = state_at(3, Duration(), 5);
  larger.jobs[0].sources.resize(3);
  history.add(larger);
  EXPECT_THAT(history.jobs()[0].sources, SizeIs(3));
  EXPECT_THAT(history.jobs()[0].sources[0].lateness, SizeIs(1));
}

TEST(HistoryJson, HasTheSourcesThatWereLateMost) {
  History history;
  server::Snapshot snapshot = state_at(1, seconds(1));
  server::JobSnapshot& job = snapshot.jobs[0];
  job.sources.resize(kLateRowsMax + 5);
  for (uint32_t i = 0; i < job.sources.size(); i++) job.sources[i].ranks = {i};
  trio_ml::include(job.blocks[0].missing, kLateRowsMax + 4);
  history.add(snapshot);
  const json found = history_json(history);
  EXPECT_EQ(found["every_ms"], 1000);
  EXPECT_EQ(found["samples"][0]["rx_bytes"], 100);
  ASSERT_THAT(found["lateness"], SizeIs(kLateRowsMax));
  EXPECT_EQ(found["lateness_left_out"], 5);
  EXPECT_EQ(found["lateness"][1],
            (json{{"job", 4}, {"source", 1}, {"ranks", {1}}, {"lateness_ms", {1000}}}));
  EXPECT_EQ(found["lateness"].back()["source"], kLateRowsMax + 4);

  const json of_job = job_history_json(history, 4);
  EXPECT_THAT(of_job["all_reduces"]["numbers"], IsEmpty());
  EXPECT_THAT(of_job["lateness"], SizeIs(kLateRowsMax + 5));
  EXPECT_EQ(of_job["stalls"][0], (json{{"source", kLateRowsMax + 4},
                                       {"ranks", {kLateRowsMax + 4}},
                                       {"block", 9},
                                       {"began_s", 0.0},
                                       {"lasted_ms", 1000},
                                       {"ended", false}}));
  EXPECT_TRUE(job_history_json(history, 5).is_null());
}

TEST(ObserverTest, AddsASampleAtOnceAndEndsWithoutWaiting) {
  History history;
  std::mutex mutex;
  std::condition_variable called;
  uint32_t calls = 0;
  const auto snapshot = [&] {
    const std::lock_guard lock(mutex);
    calls++;
    called.notify_all();
    return state_at(1, Duration());
  };
  {
    const Observer observer(snapshot, history);
    std::unique_lock lock(mutex);
    EXPECT_TRUE(called.wait_for(lock, std::chrono::minutes(1), [&calls] { return calls >= 2; }));
  }
  EXPECT_GE(history.samples().size(), 2U);
}

}  // namespace
}  // namespace tributary::control
