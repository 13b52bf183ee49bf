// SPDX-License-Identifier: Apache-2.0
// Method: events and snapshots made by hand; the lines are read back from the log's memory.
#include "server/log/event_reporter.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/file_descriptor.h"

namespace tributary::server {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using trio_ml::Event;
using trio_ml::EventKind;
using trio_ml::Outcome;

class EventReporterTest : public ::testing::Test {
 protected:
  /// Returns the lines since the last call, without their times.
  std::vector<std::string> lines() {
    std::vector<std::string> found;
    const auto recent = log_.recent();
    for (; seen_ < recent.size(); seen_++) {
      ordered_json line = recent[seen_];
      line.erase("time");
      found.push_back(line.dump());
    }
    return found;
  }
  /// Returns a snapshot of job 1 with members 0 and 1.
  Snapshot snapshot() {
    Snapshot made;
    made.at = now_;
    made.ports.resize(1);
    made.cores.resize(1);
    JobSnapshot job;
    job.config.id = 1;
    job.config.sources = 2;
    job.session = 1;
    job.sources = {
        {.state = SourceState::kMember, .ranks = {0}},
        {.state = SourceState::kMember, .address = Endpoint::ipv4(0x0a000002, 4000), .ranks = {1}}};
    made.jobs.push_back(job);
    return made;
  }

  Instant now_{seconds(1000)};
  io::FileDescriptor nowhere_{open("/dev/null", O_WRONLY | O_CLOEXEC)};
  Log log_{{.level = LogLevel::kDebug, .file = nowhere_.get(), .clock = [this] { return now_; }}};
  EventReporter reporter_{log_};
  size_t seen_ = 0;
};

TEST_F(EventReporterTest, PlanNamesTheFirstEightOfManyLeftOut) {
  Snapshot made = snapshot();
  DirectoryJob job{.job_id = 1, .changes = 1, .predicted_s = 0, .aggregators = {}};
  for (uint32_t i = 0; i < 64; i++) {
    job.aggregators.push_back(
        {.name = "a" + std::to_string(i), .answers = false, .weight = 0, .fault = "f"});
  }
  made.directory = {job};
  reporter_.compare(made);
  EXPECT_THAT(
      lines(),
      ElementsAre(
          R"x({"level":"warn","event":"plan_changed","job":1,"plan":1,"aggregators":0,"left_out":"a0 (f), a1 (f), a2 (f), a3 (f), a4 (f), a5 (f), a6 (f), a7 (f), and 56 more"})x"));
}

TEST_F(EventReporterTest, PlanOfADirectoryIsNamedOnceWithThoseLeftOut) {
  Snapshot made = snapshot();
  DirectoryJob job{.job_id = 1, .changes = 0, .predicted_s = 0, .aggregators = {}};
  job.aggregators = {
      {.name = "10.0.0.5:12000", .answers = false, .weight = 0, .fault = "no answer yet"},
      {.name = "10.0.0.6:12000", .answers = true, .weight = 0, .fault = ""}};
  made.directory = {job};
  reporter_.compare(made);  // There is no plan yet.
  EXPECT_THAT(lines(), IsEmpty());
  job.changes = 1;
  made.directory = {job};
  reporter_.compare(made);
  reporter_.compare(made);
  EXPECT_THAT(
      lines(),
      ElementsAre(
          R"x({"level":"warn","event":"plan_changed","job":1,"plan":1,"aggregators":0,"left_out":"10.0.0.5:12000 (no answer yet)"})x"));
  job = {.job_id = 1, .changes = 2, .predicted_s = 0.25, .aggregators = job.aggregators};
  for (DirectoryAggregator& each : job.aggregators) each = {each.name, true, 3, ""};
  made.directory = {job};
  reporter_.compare(made);
  EXPECT_THAT(
      lines(),
      ElementsAre(
          R"({"level":"info","event":"plan_changed","job":1,"plan":2,"aggregators":2,"predicted_s":0.25})"));
}

TEST_F(EventReporterTest, EventNamesJobRankReasonAndAddress) {
  Event event{.kind = EventKind::kRankJoined, .job_id = 1, .at = now_};
  trio_ml::include(event.ranks, 3);
  event.address = Endpoint::ipv4(0x0a000003, 40112);
  reporter_.report(event);
  event.kind = EventKind::kJoinRefused;
  event.reason = wire::Reason::kWrongWorld;
  reporter_.report(event);
  EXPECT_THAT(
      lines(),
      ElementsAre(
          R"({"level":"info","event":"rank_joined","job":1,"rank":3,"address":"10.0.0.3:40112"})",
          R"({"level":"warn","event":"join_refused","job":1,"rank":3,"reason":"wrong_world","address":"10.0.0.3:40112"})"));
}

// Every rank of a directory's job gets the list this way.
TEST_F(EventReporterTest, AnswerOfADirectoryIsNoWarning) {
  Event event{
      .kind = EventKind::kJoinRefused, .job_id = 1, .reason = wire::Reason::kOtherList, .at = now_};
  trio_ml::include(event.ranks, 3);
  reporter_.report(event);
  EXPECT_THAT(lines(), ElementsAre(R"({"level":"info","event":"list_given","job":1,"rank":3})"));
}

TEST_F(EventReporterTest, EventOfAJobHasNoRank) {
  reporter_.report({.kind = EventKind::kSessionStarted, .job_id = 2, .value = 4, .at = now_});
  reporter_.report({.kind = EventKind::kSessionEnded,
                    .job_id = 2,
                    .reason = wire::Reason::kPeerSilent,
                    .at = now_});
  EXPECT_THAT(
      lines(),
      ElementsAre(R"({"level":"info","event":"session_started","job":2,"sources":4})",
                  R"({"level":"info","event":"session_ended","job":2,"reason":"all_silent"})"));
}

TEST_F(EventReporterTest, EveryKindHasAName) {
  for (uint32_t kind = 0; kind <= static_cast<uint32_t>(EventKind::kUpstreamHeard); kind++) {
    reporter_.report({.kind = static_cast<EventKind>(kind), .at = now_});
  }
  for (const std::string& line : lines()) {
    EXPECT_EQ(line.find("unknown"), std::string::npos) << line;
  }
}

TEST_F(EventReporterTest, RanksBelowALowerAggregatorAreRanges) {
  EXPECT_EQ(rank_fields({0, 1, 2, 3, 7, 9, 10}).dump(), R"({"ranks":"0-3,7,9-10"})");
  EXPECT_EQ(rank_fields({5}).dump(), R"({"rank":5})");
  EXPECT_EQ(rank_fields({}).dump(), "{}");
}

TEST_F(EventReporterTest, SessionsOfSwitchmlBeginGetTheirWorkersAndEnd) {
  Snapshot made;
  made.sessions.push_back({.place = 2, .id = 7, .workers = {"10.0.0.1", ""}});
  reporter_.compare(made);
  EXPECT_THAT(lines(), ElementsAre(R"({"level":"info","event":"session_began","workers":2,)"
                                   R"("session":"0x7","place":2})"));
  reporter_.compare(made);
  EXPECT_THAT(lines(), IsEmpty());
  made.sessions[0].workers[1] = "10.0.0.2";
  reporter_.compare(made);
  EXPECT_THAT(
      lines(),
      ElementsAre(R"({"level":"info","event":"session_complete","session":"0x7","place":2})"));
  made.sessions.clear();
  reporter_.compare(made);
  EXPECT_THAT(lines(),
              ElementsAre(R"({"level":"info","event":"session_ended","session":"0x7","place":2})"));
}

TEST_F(EventReporterTest, RefusalsAndDropsAreCountedByReason) {
  Snapshot made = snapshot();
  made.add(Outcome::kWrongKey, {10, 0});
  reporter_.compare(made);
  EXPECT_THAT(lines(), IsEmpty());
  made.add(Outcome::kWrongKey, {3, 0});
  made.add(Outcome::kWrongSession, {4, 0});
  made.add(Outcome::kReplayed, {6, 0});
  made.ports[0].tx_refused = 2;
  made.add(Outcome::kResetSent, {5, 0});
  reporter_.compare(made);
  EXPECT_THAT(
      lines(),
      ElementsAre(
          R"({"level":"debug","event":"packets_refused","reason":"replayed","packets":6})",
          R"({"level":"warn","event":"packets_refused","reason":"wrong_key","packets":3})",
          R"({"level":"debug","event":"packets_refused","reason":"wrong_session","packets":4})",
          R"({"level":"warn","event":"packets_dropped","reason":"tx_refused","packets":2})",
          R"({"level":"info","event":"session_unknown","packets":5})"));
  reporter_.compare(made);
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(EventReporterTest, SilenceNamesItsOutcome) {
  Event event{.job_id = 1, .value = 3500, .at = now_};
  trio_ml::include(event.ranks, 1);
  event.address = Endpoint::ipv4(0x0a000002, 4000);
  for (const EventKind kind : {EventKind::kSilenceWaited, EventKind::kSilenceExcluded,
                               EventKind::kSilenceEnded, EventKind::kResumed}) {
    event.kind = kind;
    reporter_.report(event);
  }
  EXPECT_THAT(
      lines(),
      ElementsAre(
          R"({"level":"warn","event":"rank_silent","job":1,"rank":1,"silent_ms":3500,"outcome":"wait","address":"10.0.0.2:4000"})",
          R"({"level":"warn","event":"rank_silent","job":1,"rank":1,"silent_ms":3500,"outcome":"exclude","address":"10.0.0.2:4000"})",
          R"({"level":"warn","event":"rank_silent","job":1,"rank":1,"silent_ms":3500,"outcome":"end","address":"10.0.0.2:4000"})",
          R"({"level":"info","event":"rank_heard","job":1,"rank":1,"address":"10.0.0.2:4000"})"));
}

TEST_F(EventReporterTest, SenderOfPlainPacketsForWhichJoinsWaitIsNamed) {
  Snapshot made = snapshot();
  made.jobs[0].session = 0;
  made.jobs[0].sources[0].state = SourceState::kAbsent;
  made.jobs[0].sources[1].state = SourceState::kPlain;
  const auto compare_at = [&](Instant now) {
    made.at = now;
    made.jobs[0].sources[0].refused_join = {.reason = wire::Reason::kPlainClients, .at = now};
    reporter_.compare(made);
  };
  compare_at(now_);
  EXPECT_THAT(lines(), IsEmpty());
  compare_at(now_ + kWaitLogged);
  const auto found = lines();
  ASSERT_EQ(found.size(), 1U);
  const auto line = ordered_json::parse(found[0]);
  EXPECT_EQ(line["event"], "rank_waited_for");
  EXPECT_EQ(line["rank"], 1);
  EXPECT_EQ(line["address"], "10.0.0.2:4000");
  EXPECT_THAT(line["advice"].get<std::string>(), ::testing::HasSubstr("sends plain packets"));
}

TEST_F(EventReporterTest, LongWaitNamesTheRankOnceAndItsEnd) {
  Snapshot made = snapshot();
  made.jobs[0].blocks = {{.block_id = 9, .referenced_at = now_ - milliseconds(1'699)}};
  trio_ml::include(made.jobs[0].blocks[0].missing, 1);
  reporter_.compare(made);
  EXPECT_THAT(lines(), IsEmpty());
  made.at = made.at + milliseconds(1);
  reporter_.compare(made);
  reporter_.compare(made);
  const auto found = lines();
  ASSERT_EQ(found.size(), 1U);
  const auto line = ordered_json::parse(found[0]);
  EXPECT_EQ(line["event"], "rank_waited_for");
  EXPECT_EQ(line["rank"], 1);
  EXPECT_EQ(line["block"], 9);
  EXPECT_EQ(line["waited_ms"], 1700);
  EXPECT_EQ(line["address"], "10.0.0.2:4000");
  made.jobs[0].blocks.clear();
  reporter_.compare(made);
  EXPECT_THAT(lines(),
              ElementsAre(R"({"level":"info","event":"rank_wait_over","job":1,"rank":1})"));
}

/// A server whose snapshot a test makes.
struct MadeServer : ObservedServer {
  Snapshot snapshot() override {
    snapshots++;
    return made;
  }
  Snapshot made;
  uint32_t snapshots = 0;
};

// Level error: 5 packets are refused, dropped and answered with resets. Level info: 3 more.
TEST_F(EventReporterTest, CountsOfATimeWithoutTheirLinesAreLeftOut) {
  MadeServer server;
  server.made = snapshot();
  const auto grow = [&server](uint64_t packets) {
    server.made.add(Outcome::kWrongKey, {packets, 0});
    server.made.add(Outcome::kResetSent, {packets, 0});
    server.made.ports[0].rx_truncated += packets;
  };
  reporter_.compare_if_logged(server);
  EXPECT_EQ(server.snapshots, 1U);
  log_.set_level(LogLevel::kError);
  grow(5);
  reporter_.compare_if_logged(server);
  EXPECT_EQ(server.snapshots, 1U);  // Nobody asks the cores for lines that nobody writes.
  log_.set_level(LogLevel::kInfo);
  reporter_.compare_if_logged(server);
  EXPECT_THAT(lines(), IsEmpty());
  grow(3);
  reporter_.compare_if_logged(server);
  EXPECT_THAT(
      lines(),
      ElementsAre(
          R"({"level":"warn","event":"packets_refused","reason":"wrong_key","packets":3})",
          R"({"level":"warn","event":"packets_dropped","reason":"rx_truncated","packets":3})",
          R"({"level":"info","event":"session_unknown","packets":3})"));
}

TEST_F(EventReporterTest, LostEventsAreCounted) {
  reporter_.report_lost(0);
  EXPECT_THAT(lines(), IsEmpty());
  reporter_.report_lost(7);
  reporter_.report_lost(7);
  EXPECT_THAT(lines(), ElementsAre(R"({"level":"warn","event":"events_lost","events":7})"));
}

}  // namespace
}  // namespace tributary::server
