// SPDX-License-Identifier: Apache-2.0
// Method: the log's URL with a LogControl that remembers its level: each method once, then each
//         error.
#include "server/control/log_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/control/no_commands.h"

namespace tributary::control {
namespace {

using nlohmann::json;
using server::LogLevel;
using ::testing::HasSubstr;

class FakeLog : public server::LogControl {
 public:
  [[nodiscard]] nlohmann::ordered_json recent() const override {
    return {{"lines", 1}, {"level", to_string(level)}, {"rows", {{{"event", "caf\xe9"}}}}};
  }
  [[nodiscard]] nlohmann::ordered_json stats() const override { return {}; }
  void set_level(LogLevel wanted) override { level = wanted; }

  LogLevel level = LogLevel::kInfo;
};

class LogRoutes : public ::testing::Test {
 protected:
  Reply ask(const std::string& method, const std::string& body = "") {
    return api_.handle({.method = method, .path = "/v1/log", .query = "", .body = body});
  }
  /// Expects status 400 with this text, and the old level.
  void expect_refused(const std::string& body, const std::string& text) {
    const Reply reply = ask("PATCH", body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_THAT(json::parse(reply.body).value("error", ""), HasSubstr(text)) << body;
    EXPECT_EQ(log_.level, LogLevel::kInfo) << body;
  }

  NoCommands jobs_;
  FakeLog log_;
  Api api_{{.name = "box",
            .version = "1.2",
            .snapshot = [] { return server::Snapshot(); },
            .is_ready = [] { return true; },
            .settings = {},
            .jobs = &jobs_,
            .log = &log_}};
};

TEST_F(LogRoutes, LastLinesAreReadableWhateverTheirBytes) {
  const json answer = json::parse(ask("GET").body);
  EXPECT_EQ(answer["rows"][0]["event"], "caf\xef\xbf\xbd");
  EXPECT_EQ(answer["level"], "info");
}

TEST_F(LogRoutes, LevelChanges) {
  const Reply reply = ask("PATCH", R"({"level": "debug"})");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(json::parse(reply.body), (json{{"level", "debug"}}));
  EXPECT_EQ(log_.level, LogLevel::kDebug);
}

TEST_F(LogRoutes, OtherBodiesAreRefused) {
  expect_refused("", "the body is not JSON");
  expect_refused("{", "the body is not JSON");
  expect_refused("[1]", R"(not a JSON object, such as {"level": "debug"})");
  expect_refused("{}", "the only key is level");
  expect_refused(R"({"level": "warn", "more": 1})", "the only key is level");
  expect_refused(R"({"levels": "warn"})", "the only key is level");
  expect_refused(R"({"level": "loud"})", "level is not one of error, warn, info, debug");
  expect_refused(R"({"level": 1})", "level is not one of");
  expect_refused(R"({"level": null})", "level is not one of");
}

TEST_F(LogRoutes, ServerWithoutALogSaysSo) {
  ApiConfig config = api_.config();
  config.log = nullptr;
  const Api silent(config);
  for (const char* method : {"GET", "PATCH"}) {
    const Reply reply =
        silent.handle({.method = method, .path = "/v1/log", .query = "", .body = ""});
    EXPECT_EQ(reply.status, 404) << method;
  }
}

TEST_F(LogRoutes, ServerWithoutJobsHasALevel) {
  ApiConfig config = api_.config();
  config.jobs = nullptr;
  const Api without_jobs(config);
  const Reply reply = without_jobs.handle(
      {.method = "PATCH", .path = "/v1/log", .query = "", .body = R"({"level": "debug"})"});
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(log_.level, LogLevel::kDebug);
}

}  // namespace
}  // namespace tributary::control
