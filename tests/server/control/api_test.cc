// SPDX-License-Identifier: Apache-2.0
// Method: the API over a snapshot made by hand: each URL, and requests that it refuses.
#include "server/control/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <latch>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "apps/trio_ml/records.h"
#include "server/job_keys.h"
#include "tests/server/control/no_commands.h"

namespace tributary::control {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using trio_ml::Outcome;

/// Returns a server with job 4, whose rank 1 is missing from block 9 for half a second.
server::Snapshot example() {
  server::Snapshot snapshot;
  snapshot.at = Instant(seconds(50));
  snapshot.uptime = seconds(20);
  snapshot.listen = "127.0.0.1:12000";
  const auto count = [&snapshot](Outcome outcome, uint64_t packets) {
    snapshot.add(outcome, {packets, packets * 100});
  };
  count(Outcome::kBlockCompleted, 6);
  count(Outcome::kBlockDegraded, 2);
  count(Outcome::kWrongKey, 5);
  snapshot.cores.push_back({.counters = {.packets = 70, .handover_full = 3}, .cpu = seconds(2)});
  snapshot.ports.push_back({.rx_packets = 80, .tx_refused = 1});
  snapshot.rx_dropped = {11};
  server::JobSnapshot job;
  job.config.id = 4;
  job.config.sources = 2;
  job.session = 1;
  job.blocks_in_progress = 1;
  job.blocks_total = 8;
  job.blocks_degraded = 1;
  job.sources = {{.state = server::SourceState::kMember, .ranks = {0}},
                 {.state = server::SourceState::kMember,
                  .address = Endpoint::ipv4(0x0a000002, 4000),
                  .silent_for = milliseconds(600),
                  .ranks = {1}}};
  job.blocks = {{.block_id = 9, .referenced_at = snapshot.at - milliseconds(500)}};
  trio_ml::include(job.blocks[0].missing, 1);
  snapshot.jobs.push_back(job);
  return snapshot;
}

/// Remembers whether it is on.
class FakeRecorder : public server::RecordControl {
 public:
  std::string recording() override { return std::string("\0\xff bytes", 8); }
  void set_on(bool on) override { on_ = on; }
  json state() override {
    return {{"on", on_}, {"recorded", 9}, {"overwritten", 0}, {"left_out", 0}};
  }

 private:
  bool on_ = true;
};

class ApiTest : public ::testing::Test {
 protected:
  Reply request(const std::string& method, const std::string& path) {
    return api_.handle({.method = method, .path = path});
  }
  json get(const std::string& path) {
    const Reply reply = request("GET", path);
    EXPECT_EQ(reply.status, 200) << path << ": " << reply.body;
    return json::parse(reply.body);
  }

  ApiTest() { history_.add(example()); }

  bool ready_ = true;
  NoCommands jobs_;
  History history_;
  FakeRecorder recorder_;
  Api api_{{.name = "box",
            .version = "1.2",
            .snapshot = example,
            .is_ready = [this] { return ready_; },
            .settings = {{"cores", 1}},
            .jobs = &jobs_,
            .history = &history_,
            .recorder = &recorder_}};
};

TEST_F(ApiTest, StatusHasTotalsAndDropsByReason) {
  const json status = get("/v1/status");
  EXPECT_EQ(status["name"], "box");
  EXPECT_EQ(status["version"], "1.2");
  EXPECT_EQ(status["listen"], "127.0.0.1:12000");
  EXPECT_EQ(status["uptime_s"], 20.0);
  EXPECT_EQ(status["blocks_in_progress"], 1);
  EXPECT_EQ(status["blocks_completed"], 6);
  EXPECT_EQ(status["blocks_degraded"], 2);
  EXPECT_EQ(status["degraded_share"], 0.25);
  EXPECT_EQ(status["rx_packets"], 80);
  EXPECT_EQ(status["drops"],
            (json{{"wrong_key", 5}, {"handover_full", 3}, {"tx_refused", 1}, {"rx_dropped", 11}}));
  EXPECT_EQ(status["cores"][0]["cpu_s"], 2.0);
  EXPECT_EQ(status["waits"], 1);
}

TEST_F(ApiTest, JobHasSourcesAndBlocks) {
  const json job = get("/v1/jobs/4");
  EXPECT_EQ(job["id"], 4);
  EXPECT_EQ(job["members"], 2);
  EXPECT_EQ(job["blocks_total"], 8);
  EXPECT_EQ(job["blocks_degraded"], 1);
  EXPECT_EQ(job["degraded_share"], 0.125);
  EXPECT_EQ(job["sources"][0]["address"], nullptr);
  EXPECT_EQ(job["sources"][0]["last_heard_ms"], nullptr);
  EXPECT_EQ(job["sources"][1]["address"], "10.0.0.2:4000");
  EXPECT_EQ(job["sources"][1]["last_heard_ms"], 600);
  EXPECT_EQ(job["sources"][1]["state"], "member");
  ASSERT_EQ(job["blocks"].size(), 1U);
  EXPECT_EQ(job["blocks"][0]["id"], 9);
  EXPECT_EQ(job["blocks"][0]["since_ms"], 500);
  EXPECT_EQ(job["blocks"][0]["missing"], json({1}));
  EXPECT_EQ(get("/v1/jobs")["jobs"].size(), 1U);
}

TEST_F(ApiTest, WhoNamesRankBlockAgeAndAddress) {
  const json rows = get("/v1/who")["rows"];
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["job"], 4);
  EXPECT_EQ(rows[0]["channel_of"], 4);
  EXPECT_EQ(rows[0]["block"], 9);
  EXPECT_EQ(rows[0]["missing"], json({1}));
  EXPECT_EQ(rows[0]["since_ms"], 500);
  EXPECT_EQ(rows[0]["last_heard_ms"], 600);
  EXPECT_EQ(rows[0]["address"], "10.0.0.2:4000");
  EXPECT_FALSE(rows[0]["advice"].get<std::string>().empty());
}

TEST_F(ApiTest, RowsOfAChannelNameTheConfiguredJob) {
  const Api api({.name = "box",
                 .version = "1.2",
                 .snapshot =
                     [] {
                       server::Snapshot snapshot = example();
                       snapshot.jobs[0].channel = 1;  // Job 3 has the channels 3 and 4.
                       return snapshot;
                     },
                 .is_ready = [] { return true; },
                 .settings = json::object()});
  const auto ask = [&api](const char* path) {
    return json::parse(api.handle({.method = "GET", .path = path}).body);
  };
  EXPECT_EQ(ask("/v1/who")["rows"][0]["job"], 4);
  EXPECT_EQ(ask("/v1/who")["rows"][0]["channel_of"], 3);
  EXPECT_EQ(ask("/v1/jobs")["jobs"][0]["channel_of"], 3);
  EXPECT_EQ(ask("/v1/jobs/4")["channel_of"], 3);
  EXPECT_EQ(ask("/v1/status")["jobs"][0]["channel_of"], 3);
}

TEST_F(ApiTest, OtherPagesHaveTheirPart) {
  EXPECT_EQ(get("/v1/counters")["packets"]["wrong_key"], 5);
  EXPECT_EQ(get("/v1/counters")["bytes"]["wrong_key"], 500);
  EXPECT_EQ(get("/v1/cores")["cores"][0]["packets"], 70);
  EXPECT_EQ(get("/v1/ports")["ports"][0]["rx_packets"], 80);
  EXPECT_EQ(get("/v1/ports")["ports"][0]["rx_dropped"], 11);
  EXPECT_EQ(get("/v1/config")["cores"], 1);
  EXPECT_EQ(get("/v1/config")["jobs"][0]["sources"], 2);
  EXPECT_EQ(get("/healthz")["cores"], 1);
  EXPECT_EQ(get("/v1/status")["service"], "trio-ml");
  EXPECT_EQ(request("GET", "/v1/program").status, 404);
}

TEST_F(ApiTest, HistoryIsOfTheServerOrOfAJob) {
  EXPECT_EQ(get("/v1/history")["samples"][0]["rx_bytes"], 0);
  EXPECT_EQ(get("/v1/history")["lateness"][1]["lateness_ms"], json({500}));
  EXPECT_EQ(get("/v1/history/4")["stalls"][0]["ranks"], json({1}));
  for (const char* path : {"/v1/history/5", "/v1/history/4x", "/v1/history/-1", "/v1/history/04"}) {
    EXPECT_EQ(request("GET", path).status, 404) << path;
  }
  const Api none{
      {.name = "box", .version = "1", .snapshot = example, .is_ready = {}, .settings = {}}};
  EXPECT_EQ(none.handle({.method = "GET", .path = "/v1/history"}).status, 404);
}

TEST_F(ApiTest, MetricsAreText) {
  const Reply reply = request("GET", "/metrics");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.type, "text/plain; version=0.0.4");
  EXPECT_THAT(reply.body, HasSubstr("tributary_build_info{version=\"1.2\"} 1\n"));
}

TEST_F(ApiTest, ReadinessEndsWithTheServer) {
  EXPECT_EQ(request("GET", "/readyz").status, 200);
  ready_ = false;
  EXPECT_EQ(request("GET", "/readyz").status, 503);
  EXPECT_EQ(request("GET", "/healthz").status, 200);
}

TEST_F(ApiTest, DescriptionHasExactlyTheUrlsAndMethodsThatAnswer) {
  const json paths = get("/v1/openapi.json")["paths"];
  EXPECT_GE(paths.size(), 14U);
  for (const auto& [path, methods] : paths.items()) {
    std::string url = path;
    if (const size_t at = url.find("{id}"); at != std::string::npos) url.replace(at, 4, "4");
    if (const size_t at = url.find("{source}"); at != std::string::npos) url.replace(at, 8, "1");
    for (const auto& [name, method] : std::map<std::string, std::string>{{"get", "GET"},
                                                                         {"post", "POST"},
                                                                         {"put", "PUT"},
                                                                         {"patch", "PATCH"},
                                                                         {"delete", "DELETE"}}) {
      const int status = request(method, url).status;
      EXPECT_EQ(status == 405, !methods.contains(name)) << method << " " << url << ": " << status;
      EXPECT_NE(status, 500) << method << " " << url;
    }
    // Each part of the path in braces is described.
    const auto braces = std::count(path.begin(), path.end(), '{');
    for (const auto& [name, operation] : methods.items()) {
      const json parameters = operation.value("parameters", json::array());
      EXPECT_EQ(std::count_if(parameters.begin(), parameters.end(),
                              [](const json& each) { return each["in"] == "path"; }),
                braces)
          << name << " " << path;
    }
  }
  for (const char* path :
       {"/v1/status", "/v1/jobs", "/v1/jobs/{id}", "/v1/jobs/{id}/drain",
        "/v1/jobs/{id}/sources/{source}", "/v1/who", "/v1/counters", "/v1/cores", "/v1/ports",
        "/v1/config", "/v1/openapi.json", "/metrics", "/healthz", "/readyz"}) {
    EXPECT_TRUE(paths.contains(path)) << path;
  }
}

TEST_F(ApiTest, DescriptionHasTheKeysOfAJob) {
  const json paths = get("/v1/openapi.json")["paths"];
  const json& body =
      paths["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"];
  EXPECT_EQ(body["required"], (json{"id", "sources"}));
  EXPECT_EQ(body["properties"]["sources"]["maximum"], 256);
  EXPECT_EQ(body["properties"]["mitigation"]["type"], "boolean");
  EXPECT_EQ(body["properties"].size(), server::job_keys().keys().size());
  const json& change =
      paths["/v1/jobs/{id}"]["patch"]["requestBody"]["content"]["application/json"]["schema"];
  EXPECT_EQ(change["required"], json::array());
  EXPECT_EQ(change["properties"].size(), 2U);
}

TEST_F(ApiTest, RecorderIsReadAndSwitched) {
  const Reply recording = request("GET", "/v1/recording");
  EXPECT_EQ(recording.status, 200);
  EXPECT_EQ(recording.type, "application/octet-stream");
  EXPECT_EQ(recording.body, std::string("\0\xff bytes", 8));
  EXPECT_EQ(get("/v1/recorder")["on"], true);
  EXPECT_EQ(request("POST", "/v1/recorder/stop").status, 200);
  EXPECT_EQ(get("/v1/recorder")["on"], false);
  EXPECT_EQ(request("POST", "/v1/recorder/start").status, 200);
  EXPECT_EQ(get("/v1/recorder")["on"], true);
}

TEST(Api, WithoutARecorderItsUrlsSayHowToGetOne) {
  NoCommands jobs;
  const Api api({.name = "box",
                 .version = "1.2",
                 .snapshot = example,
                 .is_ready = [] { return true; },
                 .settings = json::object(),
                 .jobs = &jobs});
  for (const char* path : {"/v1/recording", "/v1/recorder"}) {
    const Reply reply = api.handle({.method = "GET", .path = path});
    EXPECT_EQ(reply.status, 404);
    EXPECT_THAT(reply.body, HasSubstr("started with --record off"));
  }
  EXPECT_EQ(api.handle({.method = "POST", .path = "/v1/recorder/stop"}).status, 404);
}

TEST(Api, ServerWithoutJobsTakesNoCommandsForThem) {
  const Api api({.name = "filter",
                 .version = "1.2",
                 .snapshot = [] { return server::Snapshot(); },
                 .is_ready = [] { return true; },
                 .settings = json::object(),
                 .program =
                     [] {
                       return json{{"forwarded", 3}};
                     }});
  const auto ask = [&api](const char* method, const char* path) {
    return api.handle({.method = method, .path = path});
  };
  for (const char* path : {"/v1/status", "/v1/jobs", "/v1/who", "/v1/counters", "/v1/cores",
                           "/v1/ports", "/v1/config", "/metrics", "/healthz", "/readyz"}) {
    EXPECT_EQ(ask("GET", path).status, 200) << path;
  }
  EXPECT_EQ(json::parse(ask("GET", "/v1/program").body)["forwarded"], 3);
  EXPECT_EQ(ask("POST", "/v1/jobs").status, 403);
  EXPECT_THAT(ask("DELETE", "/v1/jobs/1").body, HasSubstr("this server has no jobs"));
  EXPECT_THAT(ask("PATCH", "/v1/log").body, HasSubstr("no log"));
  EXPECT_EQ(ask("POST", "/v1/recorder/stop").status, 404);
}

TEST_F(ApiTest, AnswersWhatAsksNoCoreWhileOneHangs) {
  std::latch waiting(kThreads - 1);
  std::latch hang(1);
  const auto hanging_snapshot = [&] {
    waiting.count_down();
    hang.wait();
    return example();
  };
  NoCommands jobs;
  const Api api({.name = "a",
                 .version = "1",
                 .snapshot = hanging_snapshot,
                 .is_ready = [] { return true; },
                 .settings = json::object(),
                 .jobs = &jobs,
                 .history = &history_,
                 .recorder = &recorder_});
  const auto status_of = [&api](const char* path) {
    return api.handle({.method = "GET", .path = path}).status;
  };
  {
    std::vector<std::jthread> callers;
    for (uint32_t i = 0; i + 1 < kThreads; i++) {
      callers.emplace_back([&] { EXPECT_EQ(status_of("/v1/status"), 200); });
    }
    waiting.wait();
    EXPECT_EQ(status_of("/healthz"), 503);
    // One wait of kCoresWithin is enough: further requests delay no answer behind them.
    const auto asked_at = std::chrono::steady_clock::now();
    for (uint32_t i = 0; i < 10; i++) EXPECT_EQ(status_of("/v1/status"), 503);
    EXPECT_LT(std::chrono::steady_clock::now() - asked_at, kCoresWithin);
    EXPECT_EQ(status_of("/v1/history"), 200);
    EXPECT_EQ(status_of("/v1/history/4"), 200);
    EXPECT_EQ(status_of("/v1/recorder"), 200);
    EXPECT_EQ(status_of("/readyz"), 200);
    EXPECT_EQ(status_of("/v1/recording"), 200);
    hang.count_down();
  }
  // A free thread ends the refusals.
  EXPECT_EQ(status_of("/healthz"), 200);
}

TEST_F(ApiTest, AnswersAfterQuestionsThatFailed) {
  uint32_t failures_left = 2 * kThreads;
  NoCommands jobs;
  const Api api({.name = "\xff",
                 .version = "1",
                 .snapshot =
                     [&] {
                       if (failures_left-- > 0) throw std::runtime_error("no snapshot");
                       return example();
                     },
                 .is_ready = [] { return true; },
                 .settings = json::object(),
                 .jobs = &jobs});
  const Request request{.method = "GET", .path = "/v1/status"};
  while (failures_left > 0)
    EXPECT_THROW(static_cast<void>(api.handle(request)), std::runtime_error);
  const Reply reply = api.handle(request);
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, HasSubstr("\"name\":\"\xEF\xBF\xBD\""));  // No UTF-8 before.
}

TEST_F(ApiTest, RefusesUnknownJobsUrlsAndMethods) {
  const auto expect = [this](const std::string& method, const std::string& path, int status,
                             const std::string& text) {
    const Reply reply = request(method, path);
    EXPECT_EQ(reply.status, status) << path;
    const json body = json::parse(reply.body, nullptr, false);
    ASSERT_TRUE(body.is_object()) << path << ": " << reply.body;
    EXPECT_THAT(body.value("error", ""), HasSubstr(text)) << path;
  };
  expect("GET", "/v1/jobs/5", 404, "job '5' does not exist; jobs: 4");
  expect("GET", "/v1/jobs/four", 404, "does not exist");
  expect("GET", "/v1/jobs/", 404, "no such URL");
  expect("GET", "/v1/jobs/4/x", 404, "no such URL");
  expect("GET", "/", 404, "GET /v1/openapi.json lists them");
  expect("GET", "/\xff\xfe", 404, "no such URL");
  expect("PUT", "/v1/jobs/4", 405, "allowed: GET");
  expect("POST", "/v1/status", 405, "allowed: GET");
}

}  // namespace
}  // namespace tributary::control
