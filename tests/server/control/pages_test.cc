// SPDX-License-Identifier: Apache-2.0
// Method: the pages of a snapshot made by hand, with names that would be markup if they were not
//         escaped.
#include "server/control/pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/trio_ml/records.h"

namespace tributary::control {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using trio_ml::Outcome;

constexpr const char* kHostileName = "<script>alert('x')</script>";
constexpr const char* kHostileNameEscaped = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;";

/// Returns a server with job 4, whose rank 1 is missing from block 9 for half a second.
server::Snapshot example() {
  server::Snapshot snapshot;
  snapshot.at = Instant(seconds(50));
  snapshot.uptime = seconds(2000);
  snapshot.listen = "127.0.0.1:12000";
  snapshot.add(Outcome::kBlockCompleted, {1234, 0});
  snapshot.add(Outcome::kBlockDegraded, {2, 0});
  snapshot.add(Outcome::kWrongKey, {5, 500});
  snapshot.cores.push_back({.counters = {.packets = 70}, .cpu = milliseconds(2500)});
  snapshot.ports.push_back({.rx_packets = 80, .rx_bytes = 1500});
  server::JobSnapshot job;
  job.config.id = 4;
  job.config.sources = 2;
  job.session = 1;
  job.blocks_in_progress = 1;
  job.blocks_total = 8;
  job.blocks_degraded = 1;
  job.sources = {{.state = server::SourceState::kMember, .ranks = {0}},
                 {.state = server::SourceState::kMember,
                  .waited_for = false,
                  .address = Endpoint::ipv4(0x0a000002, 4000),
                  .silent_for = milliseconds(600),
                  .ranks = {1}}};
  job.blocks = {{.block_id = 9, .referenced_at = snapshot.at - milliseconds(500)}};
  trio_ml::include(job.blocks[0].missing, 1);
  snapshot.jobs.push_back(job);
  return snapshot;
}

std::string policy_of(const Reply& reply) {
  for (const auto& [name, value] : reply.headers) {
    if (name == "Content-Security-Policy") return value;
  }
  return {};
}

class OneRecording : public server::RecordControl {
 public:
  std::string recording() override { return {}; }
  void set_on(bool) override {}
  nlohmann::json state() override { return {}; }
  nlohmann::json files() override {
    return {{{"name", "a.trec"}, {"written", "2026-11-25T10:00:00Z"}, {"size_bytes", 1500}}};
  }
};

/// A log without lines.
class EmptyLog : public server::LogControl {
 public:
  [[nodiscard]] nlohmann::ordered_json recent() const override {
    return {{"rows", nlohmann::ordered_json::array()}};
  }
  [[nodiscard]] nlohmann::ordered_json stats() const override { return {}; }
  void set_level(server::LogLevel) override {}
};

class PagesTest : public ::testing::Test {
 protected:
  PagesTest() { history_.add(example()); }
  std::string get(const std::string& path, int status = 200) {
    const Reply reply = pages_.handle({.method = "GET", .path = path});
    EXPECT_EQ(reply.status, status) << path;
    EXPECT_EQ(reply.type, "text/html; charset=utf-8") << path;
    EXPECT_THAT(reply.body, StartsWith("<!DOCTYPE html>\n<html lang=\"en\">"));
    EXPECT_THAT(reply.body, Not(HasSubstr("{{")));
    EXPECT_THAT(reply.body, Not(HasSubstr(kHostileName)));
    EXPECT_THAT(reply.body, HasSubstr(kHostileNameEscaped));
    return reply.body;
  }

  History history_;
  EmptyLog log_;
  OneRecording recorder_;
  Api api_{{.name = kHostileName,
            .version = "1.2",
            .snapshot = example,
            .is_ready = [] { return true; },
            .settings = {},
            .history = &history_,
            .log = &log_,
            .recorder = &recorder_}};
  Pages pages_{api_};
};

TEST_F(PagesTest, DashboardHasEveryTable) {
  const std::string page = get("/");
  for (const char* part :
       {"<td class=\"bad\">1</td><td>500 ms</td><td class=\"text\">rank 1 ",
        "<td>9</td><td>600 ms</td><td>10.0.0.2:4000</td>",
        "<td><a href=\"/jobs/4\">4</a></td><td>2 of 2</td><td>1</td><td>1</td>",
        "<td>4</td><td>1</td><td class=\"bad\">500 ms</td><td>500 ms</td><td><svg class=\"strip\"",
        "<rect class=\"l4\" x=\"119\" y=\"0\" width=\"1\" height=\"1\"/>",
        "<td>Received</td><td>0 bit/s</td><td>0 bit/s</td><td>1.50 kB</td>",
        "<td>Completed</td><td>1,234</td>", "<td>Degraded</td><td class=\"bad\">2</td>",
        "<td>wrong_key</td><td>5</td>",
        "<td>0</td><td>unknown</td><td>unknown</td><td>2.5 s</td><td>70</td>",
        "<p id=\"live\" role=\"status\">Up for 2,000 s</p>", "127.0.0.1:12000"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

// Two seconds after the sample of the constructor, core 0 has had a CPU for half a second.
TEST_F(PagesTest, SharesAndRatesComeFromTheSamples) {
  server::Snapshot later = example();
  later.uptime += seconds(2);
  later.cores[0].cpu += milliseconds(500);
  later.jobs[0].blocks_total += 3000;
  history_.add(later);
  EXPECT_THAT(get("/"), HasSubstr("<td>0</td><td>25 %</td><td>25 %</td><td>2.5 s</td>"));
  EXPECT_THAT(get("/jobs/4"),
              HasSubstr("<td>Results</td><td>1,500 /s</td><td>1,500 /s</td><td>3,008</td>"));
}

TEST_F(PagesTest, JobHasRanksStallsAndBlocks) {
  const std::string page = get("/jobs/4");
  for (const char* part :
       {"<h2 id=\"facts-title\">Job 4</h2>", "<td>member</td><td class=\"bad\">no</td>",
        "<td>10.0.0.2:4000</td><td>600 ms</td><td>unknown</td>",
        "<td>unknown</td><td class=\"bad\">500 ms</td>",
        "<td>1</td><td>9</td><td>0 s ago</td><td>500 ms</td><td class=\"bad\">goes on</td>",
        "<td>9</td><td>500 ms</td><td>1</td>", "data-page=\"job\""}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

TEST_F(PagesTest, JobHasItsLatenessByAllReduce) {
  EXPECT_THAT(get("/jobs/4"), HasSubstr("No worker has reported an all-reduce of this session."));
  server::Snapshot later = example();
  for (uint32_t rank = 0; rank < 2; rank++) {
    auto& report = later.jobs[0].sources[rank].report.emplace();
    report.take({.begun = 1001}, later.at + milliseconds(400 * rank));
    if (rank == 0) report.take({.begun = 1002}, later.at + milliseconds(500));
  }
  later.at = later.at + seconds(1);
  history_.add(later);
  const std::string page = get("/jobs/4");
  EXPECT_THAT(page, HasSubstr("<tr><td>0</td><td>0 ms</td><td>0 ms</td><td><svg class=\"strip\""));
  EXPECT_THAT(page, HasSubstr("<tr><td>1</td><td class=\"bad\">500 ms</td><td>500 ms</td>"));
  EXPECT_THAT(page, HasSubstr("<rect class=\"l4\" x=\"118\" y=\"0\" width=\"2\" height=\"1\"/>"));
  EXPECT_THAT(page, HasSubstr("All-reduces 1,001 to 1,002, 2 of them."));
}

TEST_F(PagesTest, JobHasItsShareOfDegradedResults) {
  // 1 of 8.
  EXPECT_THAT(get("/jobs/4"), HasSubstr("<td class=\"bad\">12.50 %</td><td>off</td>"));
}

TEST_F(PagesTest, RecordingsAreLinks) {
  EXPECT_THAT(get("/events"), HasSubstr("<td><a href=\"/v1/recordings/a.trec\">a.trec</a></td>"
                                        "<td>2026-11-25T10:00:00Z</td><td>1.50 kB</td>"));
}

TEST_F(PagesTest, UnknownJobsAre404AndEscaped) {
  EXPECT_THAT(get("/jobs/5", 404), HasSubstr("Job 5 does not exist."));
  EXPECT_THAT(get("/jobs/<b>", 404), HasSubstr("Job &lt;b&gt; does not exist."));
  EXPECT_THAT(get("/jobs/", 404), HasSubstr("does not exist."));
}

TEST_F(PagesTest, PagesLoadNothingAndAllowTheirOwnScriptOnly) {
  const Reply reply = pages_.handle({.method = "GET", .path = "/"});
  const std::string policy = policy_of(reply);
  EXPECT_THAT(policy, StartsWith("default-src 'none'; style-src 'nonce-"));
  const size_t begin = policy.find("'nonce-") + 7;
  const std::string nonce = policy.substr(begin, policy.find('\'', begin) - begin);
  EXPECT_EQ(nonce.size(), 32U);
  EXPECT_THAT(reply.body, HasSubstr("<script nonce=\"" + nonce + "\">"));
  EXPECT_THAT(reply.body, HasSubstr("<style nonce=\"" + nonce + "\">"));
  for (const char* asset : {" src=", "@import", "url(", "https://", "style=\"", "onclick"}) {
    EXPECT_THAT(reply.body, Not(HasSubstr(asset)));
  }
  EXPECT_NE(policy_of(pages_.handle({.method = "GET", .path = "/"})), policy);
}

TEST_F(PagesTest, ReadersWithoutScriptsGetARefresh) {
  EXPECT_THAT(get("/"),
              HasSubstr("<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>"));
}

TEST_F(PagesTest, EverythingElseIsTheApi) {
  EXPECT_EQ(pages_.handle({.method = "GET", .path = "/v1/status"}).type, "application/json");
  EXPECT_EQ(pages_.handle({.method = "GET", .path = "/nothing"}).status, 404);
  EXPECT_EQ(pages_.handle({.method = "DELETE", .path = "/"}).status, 404);
}

/// Returns the dashboard of a server.
std::string dashboard_of(const server::Snapshot& snapshot) {
  const Api api{{.name = "box",
                 .version = "1",
                 .snapshot = [&snapshot] { return snapshot; },
                 .is_ready = [] { return true; },
                 .settings = {}}};
  return Pages(api).handle({.method = "GET", .path = "/"}).body;
}

// Job 4 has the channels 4 and 5. Only channel 5 lacks rank 1.
TEST(PagesOfChannels, PageOfAJobHasTheWaitsOfAllItsChannels) {
  server::Snapshot snapshot = example();
  snapshot.jobs.push_back(snapshot.jobs[0]);
  snapshot.jobs[0].blocks.clear();
  snapshot.jobs[0].sources[1].waited_for = true;
  snapshot.jobs[1].config.id = 5;
  snapshot.jobs[1].channel = 1;
  snapshot.jobs.push_back(snapshot.jobs[1]);  // A job of its own.
  snapshot.jobs[2].config.id = 6;
  snapshot.jobs[2].channel = 0;
  const Api api{{.name = "box",
                 .version = "1",
                 .snapshot = [&snapshot] { return snapshot; },
                 .is_ready = [] { return true; },
                 .settings = {}}};
  const auto page_of = [&api](const char* path) {
    return Pages(api).handle({.method = "GET", .path = path}).body;
  };
  const char* const kWait = "<td>5</td><td class=\"bad\">1</td><td>500 ms</td>";
  for (const char* path : {"/jobs/4", "/jobs/5"}) {
    const std::string page = page_of(path);
    for (const char* part : {kWait, "<a href=\"/jobs/4\">", "<a href=\"/jobs/5\">",
                             "Job 4 has 2 channels, each a row above."}) {
      EXPECT_THAT(page, HasSubstr(part)) << path;
    }
    EXPECT_THAT(page, Not(HasSubstr("/jobs/6")));
  }
  EXPECT_THAT(page_of("/jobs/4"), HasSubstr("about channel 0, which has the id 4."));
  EXPECT_THAT(page_of("/jobs/5"), HasSubstr("about channel 1, which has the id 5."));
  EXPECT_THAT(page_of("/jobs/6"), Not(HasSubstr("channels")));
  EXPECT_THAT(page_of("/jobs/6"), Not(HasSubstr(kWait)));
}

TEST(PagesOfOthers, SwitchmlHasSessionsInsteadOfJobs) {
  server::Snapshot snapshot;
  snapshot.service = "switchml";
  snapshot.add("aggregated", /*refused=*/false, {9, 900});
  snapshot.sessions.push_back({.id = 7,
                               .workers = {"10.0.0.1", ""},
                               .silent_for = {milliseconds(600), std::nullopt},
                               .packets = 30,
                               .slots_completed = 15});
  const std::string page = dashboard_of(snapshot);
  for (const char* part :
       {"<td>0x7</td><td>0</td><td>10.0.0.1</td><td>600 ms</td><td>30</td><td>15</td>",
        "<td class=\"bad\">not registered</td><td>never</td>", "<td>aggregated</td><td>9</td>"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, Not(HasSubstr("id=\"jobs\"")));
  EXPECT_THAT(page, Not(HasSubstr("id=\"blocks\"")));
}

TEST(PagesOfOthers, PacketProgramHasItsEvents) {
  server::Snapshot snapshot;
  snapshot.service = "filter";
  snapshot.add("packets_forwarded", /*refused=*/false, {9, 0});
  snapshot.records = {{"culprits", 1'234}};
  snapshot.notices = {"<flood>"};
  const std::string page = dashboard_of(snapshot);
  EXPECT_THAT(page, HasSubstr("<td class=\"text bad\">&lt;flood&gt;</td>"));
  EXPECT_THAT(page, HasSubstr("<td>culprits</td><td>1,234</td>"));
  EXPECT_THAT(page, HasSubstr("<td>packets_forwarded</td><td>9</td>"));
  EXPECT_THAT(page, Not(HasSubstr("id=\"sessions\"")));
}

TEST(Events, NewestLineIsFirstAndTextIsEscaped) {
  const nlohmann::json lines = nlohmann::json::parse(
      R"([{"time":"10:00","level":"info","event":"join","rank":2},
          {"time":"10:01","level":"warn","event":"<b>","text":"<i>"},"plain"])");
  const std::string rows =
      "<tr><td></td><td></td><td></td><td class=\"text\">plain</td></tr>\n"
      "<tr><td>10:01</td><td class=\"bad\">warn</td><td>&lt;b&gt;</td>"
      "<td class=\"text\">text=&lt;i&gt;</td></tr>\n"
      "<tr><td>10:00</td><td>info</td><td>join</td><td class=\"text\">rank=2</td></tr>\n";
  EXPECT_EQ(event_rows(lines), rows);
  EXPECT_EQ(event_rows({{"lines", lines}, {"lost", 0}}), rows);
  for (const char* none : {"[]", "{}", "7", "null"}) {
    EXPECT_THAT(event_rows(nlohmann::json::parse(none)), HasSubstr("Nothing has happened."));
  }
}

TEST(PagesWithoutHistory, AreComplete) {
  const Api api{{.name = "box",
                 .version = "1",
                 .snapshot = example,
                 .is_ready = [] { return true; },
                 .settings = {}}};
  EXPECT_THAT(Pages(api).handle({.method = "GET", .path = "/"}).body,
              HasSubstr("There is no sample yet."));
  EXPECT_EQ(Pages(api).handle({.method = "GET", .path = "/jobs/4"}).status, 200);
}

}  // namespace
}  // namespace tributary::control
