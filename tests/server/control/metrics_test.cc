// SPDX-License-Identifier: Apache-2.0
// Method: the text of a snapshot made by hand, and the naming rules of Prometheus for every family.
#include "server/control/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "apps/trio_ml/records.h"
#include "tests/support/scratch_directory.h"

namespace tributary::control {
namespace {

using prometheus::MetricType;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Returns a server with two cores and job 4, whose rank 1 is silent for 1.5 s.
server::Snapshot example() {
  server::Snapshot snapshot;
  snapshot.at = Instant(seconds(50));
  snapshot.uptime = seconds(20);
  snapshot.add_all(trio_ml::Counters{}, trio_ml::Outcome::kNotIp);
  snapshot.add(trio_ml::Outcome::kAggregated, {12, 1200});
  snapshot.add(trio_ml::Outcome::kWrongKey, {5, 500});
  snapshot.cores = {{.counters = {.packets = 70}, .cpu = milliseconds(2500)},
                    {.counters = {.packets = 71, .handover_full = 3}, .cpu = {}}};
  snapshot.ports = {{.rx_packets = 80, .tx_refused = 1}, {.rx_bytes = 90}};
  snapshot.rx_dropped = {std::nullopt, 6};
  server::JobSnapshot job;
  job.config.id = 4;
  job.config.sources = 2;
  job.session = 1;
  job.blocks_total = 1'000'000'000;
  job.blocks_degraded = 7;
  job.sources = {
      {.state = server::SourceState::kMember, .silent_for = Duration(), .ranks = {0}},
      {.state = server::SourceState::kSilent, .silent_for = milliseconds(1500), .ranks = {1}}};
  job.sources[0].report = trio_ml::MemberReport{.totals = {.blocks = 21,
                                                           .degraded = 2,
                                                           .retransmitted = 3,
                                                           .probes = 4,
                                                           .bytes = 5000,
                                                           .waited_ms = 1250},
                                                .at = snapshot.at};
  job.blocks = {{.block_id = 9, .referenced_at = snapshot.at - milliseconds(500)}};
  trio_ml::include(job.blocks[0].missing, 1);
  snapshot.jobs = {job};
  snapshot.directory = {
      {.job_id = 4,
       .changes = 3,
       .predicted_s = 0.25,
       .aggregators = {{.name = "10.0.0.1:12000", .answers = true, .weight = 2, .fault = {}},
                       {.name = "10.0.0.2:12000",
                        .answers = false,
                        .weight = 0,
                        .fault = "no answer for 1.0 s"}}}};
  return snapshot;
}

TEST(Metrics, TextHasEveryPartOfTheServer) {
  const std::string text = metrics_text(Metrics(example, "1.2"));
  for (const char* line :
       {"tributary_build_info{version=\"1.2\"} 1\n",
        "tributary_uptime_seconds 20\n",
        "# TYPE tributary_events_total counter\n",
        "# TYPE tributary_job_members gauge\n",
        "tributary_events_total{event=\"aggregated\"} 12\n",
        "tributary_refused_packets_total{reason=\"wrong_key\"} 5\n",
        "tributary_core_cpu_seconds_total{core=\"0\"} 2.5\n",
        "tributary_core_packets_total{core=\"1\"} 71\n",
        "tributary_port_receive_packets_total{core=\"0\"} 80\n",
        "tributary_port_receive_bytes_total{core=\"1\"} 90\n",
        "tributary_dropped_packets_total{core=\"0\",reason=\"tx_refused\"} 1\n",
        "tributary_dropped_packets_total{core=\"1\",reason=\"handover_full\"} 3\n",
        "tributary_dropped_packets_total{core=\"1\",reason=\"rx_dropped\"} 6\n",
        "tributary_job_blocks_total{job=\"4\"} 1000000000\n",
        "tributary_job_degraded_blocks_total{job=\"4\"} 7\n",
        "tributary_worker_blocks_total{job=\"4\",rank=\"0\"} 21\n",
        "tributary_worker_degraded_blocks_total{job=\"4\",rank=\"0\"} 2\n",
        "tributary_worker_retransmissions_total{job=\"4\",rank=\"0\"} 3\n",
        "tributary_worker_probes_total{job=\"4\",rank=\"0\"} 4\n",
        "tributary_worker_bytes_total{job=\"4\",rank=\"0\"} 5000\n",
        "tributary_worker_wait_seconds{job=\"4\",rank=\"0\"} 1.25\n",
        "tributary_job_block_wait_seconds{job=\"4\"} 0.5\n",
        "tributary_job_sources{job=\"4\"} 2\n",
        "tributary_job_members{job=\"4\"} 1\n",
        "tributary_job_waits{job=\"4\"} 1\n",
        "tributary_directory_plans_total{job=\"4\"} 3\n",
        "Time of an all-reduce of 100 MB by the current plan.\n",
        "tributary_directory_predicted_seconds{job=\"4\"} 0.25\n",
        "tributary_directory_aggregator_answers{job=\"4\",aggregator=\"10.0.0.1:12000\"} 1\n",
        "tributary_directory_aggregator_answers{job=\"4\",aggregator=\"10.0.0.2:12000\"} 0\n",
        "tributary_directory_aggregator_weight{job=\"4\",aggregator=\"10.0.0.1:12000\"} 2\n",
        "tributary_rank_silent_seconds{job=\"4\",rank=\"1\"} 1.5\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(Metrics, RankThatHasLeftIsNotSilent) {
  const auto snapshot = [] {
    server::Snapshot made = example();
    made.jobs[0].sources[1].state = server::SourceState::kLeft;
    return made;
  };
  const std::string text = metrics_text(Metrics(snapshot, "1.2"));
  EXPECT_THAT(text, HasSubstr("tributary_rank_silent_seconds{job=\"4\",rank=\"0\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("tributary_rank_silent_seconds{job=\"4\",rank=\"1\"}")));
}

// A worker that was killed while it waited reports nothing more. Its counts stay.
TEST(Metrics, WaitOfAWorkerEndsWithItsReports) {
  const auto text_of = [](server::SourceState state, Duration report_age) {
    return metrics_text(Metrics(
        [=] {
          server::Snapshot made = example();
          made.jobs[0].sources[0].state = state;
          made.jobs[0].sources[0].report->at = made.at - report_age;
          return made;
        },
        "1.2"));
  };
  const auto waits = HasSubstr("tributary_worker_wait_seconds{job=\"4\",rank=\"0\"} 1.25\n");
  const auto waits_no_more =
      AllOf(HasSubstr("tributary_worker_wait_seconds{job=\"4\",rank=\"0\"} 0\n"),
            HasSubstr("tributary_worker_blocks_total{job=\"4\",rank=\"0\"} 21\n"));
  EXPECT_THAT(text_of(server::SourceState::kMember, milliseconds(3500)), waits);
  EXPECT_THAT(text_of(server::SourceState::kMember, milliseconds(3501)), waits_no_more);
  EXPECT_THAT(text_of(server::SourceState::kSilent, Duration()), waits_no_more);
  EXPECT_THAT(text_of(server::SourceState::kLeft, Duration()), waits_no_more);
}

TEST(Metrics, SwitchmlServerHasSessionsAndNoJobs) {
  const auto snapshot = [] {
    server::Snapshot made;
    made.records = {{"flows", 12}};
    made.sessions.push_back({.place = 3,
                             .id = 0x1234,
                             .workers = {"10.0.0.1", "10.0.0.2"},
                             .silent_for = {milliseconds(2500), std::nullopt},
                             .packets = 30,
                             .slots_completed = 15});
    return made;
  };
  const std::string text = metrics_text(Metrics(snapshot, "1.2"));
  EXPECT_THAT(text, HasSubstr("tributary_program_records{record=\"flows\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("tributary_session_packets_total{session=\"3\"} 30\n"));
  EXPECT_THAT(text, HasSubstr("tributary_session_slots_completed_total{session=\"3\"} 15\n"));
  EXPECT_THAT(text, HasSubstr("tributary_session_silent_seconds{session=\"3\",rank=\"0\"} 2.5\n"));
  EXPECT_THAT(text, Not(HasSubstr("rank=\"1\"")));
  EXPECT_THAT(text, Not(HasSubstr("tributary_job_")));
}

TEST(Metrics, NamesFollowTheRules) {
  std::set<std::string> names;
  for (const auto& family : Metrics(example, "1.2").Collect()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_THAT(family.name, StartsWith("tributary_"));
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_FALSE(family.metric.empty()) << family.name;
    if (family.type == MetricType::Counter) {
      EXPECT_THAT(family.name, EndsWith("_total"));
    } else {
      EXPECT_EQ(family.type, MetricType::Gauge);
      EXPECT_THAT(family.name, Not(EndsWith("_total")));
    }
  }
  EXPECT_LE(names.size(), 30U);
}

TEST(Metrics, LatenessIsAHistogramForEachRank) {
  History history;
  history.add(example());
  const GateCounters counters{1, 2, 3, 4, 5, 6};
  const ConnectionCounters connections{10, 11, 12, 13};
  const std::string text = metrics_text(Metrics(example, "1.2",
                                                {.history = &history,
                                                 .http_counters = [&counters] { return counters; },
                                                 .connections = &connections}));
  for (const char* line :
       {"# TYPE tributary_rank_lateness_seconds histogram\n",
        "tributary_rank_lateness_seconds_count{job=\"4\",rank=\"1\"} 1\n",
        "tributary_rank_lateness_seconds_sum{job=\"4\",rank=\"1\"} 0.5\n",
        "tributary_rank_lateness_seconds_bucket{job=\"4\",rank=\"1\",le=\"0.3\"} 0\n",
        "tributary_rank_lateness_seconds_bucket{job=\"4\",rank=\"1\",le=\"1\"} 1\n",
        "tributary_rank_lateness_seconds_bucket{job=\"4\",rank=\"1\",le=\"+Inf\"} 1\n",
        "tributary_rank_lateness_seconds_bucket{job=\"4\",rank=\"0\",le=\"0.01\"} 1\n",
        "tributary_http_connections_total{end=\"displaced\"} 12\n",
        "tributary_http_requests_total{result=\"wrong_token\"} 4\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

class CountingRecorder : public server::RecordControl {
 public:
  std::string recording() override { return {}; }
  void set_on(bool) override {}
  nlohmann::json state() override {
    return {{"recorded", 90}, {"overwritten", 8}, {"left_out", 7}};
  }
};

class CountingLog : public server::LogControl {
 public:
  [[nodiscard]] nlohmann::ordered_json recent() const override { return {}; }
  [[nodiscard]] nlohmann::ordered_json stats() const override {
    return {{"lines", 60}, {"lines_suppressed", 5}, {"lines_lost", 4}, {"events_lost", 3}};
  }
  void set_level(server::LogLevel) override {}
};

TEST(Metrics, LossesOfRecorderAndLogAreCounted) {
  CountingRecorder recorder;
  const CountingLog log;
  const std::string text =
      metrics_text(Metrics(example, "1.2", {.recorder = &recorder, .log = &log}));
  for (const char* line : {"tributary_recorder_events_total 90\n",
                           "tributary_recorder_events_lost_total{reason=\"overwritten\"} 8\n",
                           "tributary_recorder_events_lost_total{reason=\"left_out\"} 7\n",
                           "tributary_log_lines_total 60\n",
                           "tributary_log_lines_lost_total{reason=\"suppressed\"} 5\n",
                           "tributary_log_lines_lost_total{reason=\"file\"} 4\n",
                           "tributary_log_lines_lost_total{reason=\"event\"} 3\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(Metrics, PromtoolAcceptsTheText) {
  if (std::system("command -v promtool >/dev/null") != 0) {
    GTEST_SKIP() << "promtool is missing; tools/install-deps.sh --with-ops installs it";
  }
  const testing::ScratchDirectory scratch;
  History history;
  history.add(example());
  CountingRecorder recorder;
  const CountingLog log;
  const Metrics metrics(example, "1.2",
                        {.history = &history,
                         .http_counters = [] { return GateCounters{}; },
                         .recorder = &recorder,
                         .log = &log});
  const std::string path = scratch.file("metrics", metrics_text(metrics));
  EXPECT_EQ(std::system(("promtool check metrics < " + path).c_str()), 0);
}

// Traffic must not add time series: a server that has seen everything has as many as a fresh one.
TEST(Metrics, SeriesDependOnTheConfigurationOnly) {
  const auto series_of = [](const server::Snapshot& snapshot) {
    size_t count = 0;
    for (const auto& family : Metrics([&] { return snapshot; }, "1.2").Collect()) {
      count += family.metric.size();
    }
    return count;
  };
  server::Snapshot busy = example();
  for (auto& outcome : busy.outcomes) outcome.packets = 7;
  busy.jobs[0].blocks.resize(server::kOldestBlocks);
  EXPECT_EQ(series_of(busy), series_of(example()));
}

}  // namespace
}  // namespace tributary::control
