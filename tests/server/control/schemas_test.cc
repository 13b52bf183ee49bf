// SPDX-License-Identifier: Apache-2.0
// Method: the check by hand first; then the answer to each question and command of a server that
//         has everything, against the description. tests/system/control_test.cc asks real servers.
#include "server/control/schemas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "apps/trio_ml/records.h"
#include "server/control/api.h"
#include "tests/server/control/json_schema.h"

namespace tributary::control {
namespace {

using nlohmann::json;
using testing::SchemaCheck;

TEST(SchemaCheckTest, NamesTheFirstFault) {
  const json schema{{"type", "object"},
                    {"additionalProperties", false},
                    {"required", {"a"}},
                    {"properties",
                     {{"a", {{"$ref", "#/x"}}},
                      {"b", {{"type", "array"}, {"items", {{"type", "string"}}}}},
                      {"c", {{"type", "string"}, {"nullable", true}, {"enum", {"d"}}}}}}};
  const SchemaCheck check(json{{"x", {{"type", "integer"}, {"minimum", 0}}}});
  EXPECT_EQ(check.fault({{"a", 1}, {"b", {"c"}}, {"c", nullptr}}, schema), "");
  EXPECT_EQ(check.fault({{"a", 1.5}}, schema), "/a: is no integer: 1.5");
  EXPECT_EQ(check.fault({{"a", -1}}, schema), "/a: is out of bounds: -1");
  EXPECT_EQ(check.fault(json::object(), schema), ": lacks \"a\"");
  EXPECT_EQ(check.fault({{"a", 1}, {"b", {"c", 2}}}, schema), "/b/1: is no string: 2");
  EXPECT_EQ(check.fault({{"a", 1}, {"c", "e"}}, schema), "/c: is none of [\"d\"]: \"e\"");
  EXPECT_EQ(check.fault({{"a", 1}, {"e", 1}}, schema), "/e: is not described");
}

/// Returns a server with a job that has reports, an upper aggregator and a rank that is late, and
/// with a session of SwitchML.
server::Snapshot example() {
  server::Snapshot snapshot;
  snapshot.at = Instant(seconds(50));
  snapshot.uptime = seconds(20);
  snapshot.listen = "127.0.0.1:12000";
  snapshot.add_all(trio_ml::Counters{}, trio_ml::Outcome::kNotIp);
  snapshot.add(trio_ml::Outcome::kWrongKey, {5, 500});
  snapshot.add(trio_ml::Outcome::kAggregated, {7, 700});
  snapshot.cores.push_back({.counters = {.packets = 70}, .cpu = seconds(2)});
  snapshot.ports.push_back({.rx_packets = 80});
  snapshot.rx_dropped = {std::nullopt};
  server::JobSnapshot job;
  job.config.id = 4;
  job.config.sources = 2;
  job.config.upstream = Endpoint::ipv4(0x0a000001, 12000);
  job.upstream = server::UpstreamSnapshot{};
  job.sources = {{.state = server::SourceState::kMember, .ranks = {0}},
                 {.state = server::SourceState::kSilent,
                  .address = Endpoint::ipv4(0x0a000002, 4000),
                  .silent_for = milliseconds(600),
                  .ranks = {1}}};
  job.sources[0].report =
      trio_ml::MemberReport{.totals = {.blocks = 21, .waited_ms = 1250}, .at = snapshot.at};
  job.blocks = {{.block_id = 9, .referenced_at = snapshot.at - milliseconds(500)}};
  trio_ml::include(job.blocks[0].missing, 1);
  snapshot.jobs.push_back(job);
  snapshot.sessions.push_back(
      {.id = 7, .workers = {"10.0.0.1", ""}, .silent_for = {seconds(1), std::nullopt}});
  return snapshot;
}

class AllCommands : public server::JobControl {
 public:
  [[nodiscard]] std::optional<server::RunningJob> find_job(uint32_t) const override { return {}; }
  server::JobResult add_job(const trio_ml::JobConfig&) override { return {}; }
  server::JobResult remove_job(uint32_t, bool) override { return {}; }
  server::JobResult drain_job(uint32_t) override { return {}; }
  server::JobResult change_job(uint32_t, const server::JobChange&) override { return {}; }
  server::JobResult evict_source(uint32_t, uint32_t) override { return {}; }
};

class FullRecorder : public server::RecordControl {
 public:
  std::string recording() override { return {}; }
  void set_on(bool) override {}
  json files() override {
    return {{{"name", "a.trec"}, {"written", "2026-11-25T10:00:00Z"}, {"size_bytes", 5}}};
  }
  json state() override {
    return {{"on", true},    {"events_per_core", 8}, {"recorded", 9},   {"overwritten", 1},
            {"left_out", 0}, {"last_file", ""},      {"last_error", ""}};
  }
};

class FullLog : public server::LogControl {
 public:
  [[nodiscard]] nlohmann::ordered_json recent() const override {
    nlohmann::ordered_json answer = stats();
    answer["level"] = "info";
    answer["rows"] = {{{"time", "now"}, {"level", "warn"}, {"event", "x"}, {"job", 1}}};
    return answer;
  }
  [[nodiscard]] nlohmann::ordered_json stats() const override {
    return {{"lines", 60}, {"lines_suppressed", 5}, {"lines_lost", 4}, {"events_lost", 3}};
  }
  void set_level(server::LogLevel) override {}
};

class Schemas : public ::testing::Test {
 protected:
  Schemas() { history_.add(example()); }

  Reply ask(const std::string& method, std::string path) const {
    // Bodies of the commands that need one.
    static const std::map<std::string, std::string> kBodies{
        {"POST /v1/jobs", R"({"id": 5, "sources": 2})"},
        {"PATCH /v1/jobs/4", R"({"timeout_ms": 20, "silence": "wait"})"},
        {"PATCH /v1/log", R"({"level": "debug"})"}};
    const auto body = kBodies.find(method + " " + path);
    return api_.handle({.method = method,
                        .path = std::move(path),
                        .body = body == kBodies.end() ? std::string() : body->second});
  }

  AllCommands jobs_;
  FullRecorder recorder_;
  FullLog log_;
  History history_;
  const Api api_{{.name = "box",
                  .version = "1.2",
                  .snapshot = example,
                  .is_ready = [] { return true; },
                  .settings = {{"cores", 1}},
                  .jobs = &jobs_,
                  .history = &history_,
                  .program =
                      [] {
                        return json{{"forwarded", 3}};
                      },
                  .log = &log_,
                  .recorder = &recorder_}};
  const json description_ = json::parse(ask("GET", "/v1/openapi.json").body);
  const SchemaCheck check_{description_};
};

TEST_F(Schemas, EveryAnswerMatchesItsOwn) {
  uint32_t checked = 0;
  for (const auto& [pattern, operations] : description_["paths"].items()) {
    std::string path = pattern;
    if (const size_t at = path.find("{id}"); at != std::string::npos) path.replace(at, 4, "4");
    if (const size_t at = path.find("{source}"); at != std::string::npos) path.replace(at, 8, "1");
    for (const auto& [name, operation] : operations.items()) {
      std::string method = name;
      for (char& letter : method) letter = static_cast<char>(letter - 'a' + 'A');
      const json schema = testing::answer_schema(operation);
      if (schema.is_null()) continue;
      const Reply reply = ask(method, path);
      ASSERT_EQ(reply.status, 200) << method << " " << path << ": " << reply.body;
      EXPECT_EQ(check_.fault(json::parse(reply.body), schema), "") << method << " " << path;
      checked++;
    }
  }
  EXPECT_EQ(checked, 25U);
}

TEST_F(Schemas, RefusalsMatchTheErrorSchema) {
  for (const char* path : {"/v1/jobs/5", "/none"}) {
    EXPECT_EQ(check_.fault(json::parse(ask("GET", path).body), schema_ref("Error")), "") << path;
  }
}

TEST_F(Schemas, EachReferenceAndEachSchemeExists) {
  const json& components = description_["components"];
  for (const auto& [path, operations] : description_["paths"].items()) {
    for (const auto& [method, operation] : operations.items()) {
      const json schema = testing::answer_schema(operation);
      if (!schema.is_null()) {
        const auto name = schema["$ref"].get<std::string>();
        EXPECT_TRUE(description_.contains(json::json_pointer(name.substr(1)))) << name;
      }
      // A command takes no cookie, and every operation is free on the Unix socket.
      for (const json& way : operation["security"]) {
        for (const auto& [scheme, scopes] : way.items()) {
          EXPECT_TRUE(components["securitySchemes"].contains(scheme)) << scheme;
          EXPECT_TRUE(method == "get" || scheme == "token") << method << " " << path;
        }
      }
      EXPECT_EQ(operation["security"].back(), json::object());
    }
  }
}

}  // namespace
}  // namespace tributary::control
