// SPDX-License-Identifier: Apache-2.0
// Method:  a SwitchML server and a packet program as processes: the commands, the log and the
//          metrics that aggregators of Trio-ML have, with what these servers have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "server/control/http_client.h"
#include "tests/server/control/json_schema.h"
#include "tests/server/control/tcp_client.h"
#include "tests/support/scratch_directory.h"
#include "tests/system/control_folder.h"
#include "tests/system/server.h"
#include "tests/system/workers.h"

namespace tributary::system_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Expects every answer of a server that is JSON to match the server's own description.
/// @param ids What stands for {id} in the questions; empty: they are left out.
void expect_described(const std::string& socket, const std::string& id = "") {
  const auto description = control::get(socket, "/v1/openapi.json");
  ASSERT_TRUE(description.has_value()) << description.error().text;
  const testing::SchemaCheck check(*description);
  for (const auto& [pattern, operations] : description->at("paths").items()) {
    std::string path = pattern;
    if (const size_t at = path.find("{id}"); at != std::string::npos) {
      if (id.empty()) continue;
      path.replace(at, 4, id);
    }
    if (!operations.contains("get")) continue;
    const json schema = testing::answer_schema(operations["get"]);
    const auto answer = schema.is_null() ? json() : control::get(socket, path);
    // A server may lack a recorder or a program.
    if (answer && !schema.is_null()) {
      EXPECT_EQ(check.fault(*answer, schema), "") << path;
    }
  }
}

class ControlOfPrograms : public ControlFolder {
 protected:
  /// Returns the answer of a server over TCP.
  static std::string get(uint16_t port, const std::string& path) {
    return testing::talk(Endpoint::ipv4(0x7f000001, port),
                         "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
};

TEST_F(ControlOfPrograms, SwitchmlServerHasStatusMetricsAndLog) {
  const uint16_t http = system_test::free_port(io::Transport::kTcp);
  const std::string listen = "127.0.0.1:" + std::to_string(free_port());
  Process server({"serve", "--protocol", "switchml", "--listen", listen, "--session",
                  "workers=127.0.1.0+127.0.1.1,elements=64", "--name", "box", "--http",
                  std::to_string(http), "--log", "json"});
  ASSERT_TRUE(server.wait_for_line("ready")) << server.errors();
  ASSERT_TRUE(server.wait_for_error("session_began"));
  EXPECT_THAT(server.errors(), AllOf(HasSubstr("control socket " + folder_ + "/box.sock"),
                                     HasSubstr("\"event\":\"server_started\"")));

  const json status = json::parse(run({"status", "--json"}));
  EXPECT_EQ(status["service"], "switchml");
  EXPECT_EQ(status["listen"], listen);
  EXPECT_EQ(status["sessions"][0]["workers"], (json{"127.0.1.0", "127.0.1.1"}));
  EXPECT_EQ(status["sessions"][0]["silent_s"], (json{nullptr, nullptr}));
  EXPECT_THAT(run({"status"}), HasSubstr("2/2"));
  EXPECT_THAT(run({"who"}), StartsWith("no job waits"));
  EXPECT_THAT(run({"job", "add", "1", "--sources", "2"}, 1), HasSubstr("has no jobs"));
  EXPECT_THAT(run({"log"}), HasSubstr("event=session_began"));
  EXPECT_THAT(run({"log", "--level", "debug"}), HasSubstr("debug"));
  EXPECT_THAT(get(http, "/metrics"),
              HasSubstr("tributary_session_slots_completed_total{session=\"0\"} 0\n"));
  EXPECT_THAT(get(http, "/"), HasSubstr("127.0.1.1"));
  EXPECT_THAT(get(http, "/healthz"), HasSubstr("\"status\":\"ok\""));

  expect_described(folder_ + "/box.sock");
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait_for_end(), 0) << server.errors();
  EXPECT_THAT(server.errors(), HasSubstr("\"event\":\"server_stopping\""));
}

TEST_F(ControlOfPrograms, PacketProgramHasStatusMetricsAndLog) {
  const uint16_t http = system_test::free_port(io::Transport::kTcp);
  const std::string tunnel = "vxlan:127.0.0.1:" + std::to_string(free_port()) +
                             ",peer=127.0.0.1:" + std::to_string(free_port());
  Process filter(
      {"serve", "--program", "filter", "--port", tunnel, "--http", std::to_string(http)});
  ASSERT_TRUE(filter.wait_for_line("ready")) << filter.errors();
  EXPECT_THAT(filter.errors(), HasSubstr("event=server_started program=filter"));

  const json status = json::parse(run({"status", "--json", "--name", "filter"}));
  EXPECT_EQ(status["service"], "filter");
  EXPECT_EQ(status["listen"], tunnel);
  EXPECT_EQ(status["cores"].size(), 1U);
  EXPECT_THAT(run({"status"}), HasSubstr("filter at vxlan:"));
  const auto program = control::get(folder_ + "/filter.sock", "/v1/program");
  ASSERT_TRUE(program.has_value()) << program.error().text;
  EXPECT_EQ(program->at("forwarded"), 0);
  EXPECT_THAT(get(http, "/metrics"),
              HasSubstr("tributary_events_total{event=\"packets_forwarded\"} 0\n"));
  EXPECT_THAT(run({"job", "list"}), StartsWith("no jobs"));

  expect_described(folder_ + "/filter.sock");
  filter.signal(SIGTERM);
  EXPECT_EQ(filter.wait_for_end(), 0) << filter.errors();
  EXPECT_THAT(filter.errors(), HasSubstr("event=server_stopping"));
  EXPECT_THAT(filter.output(), HasSubstr("filter: 0 packets: 0 forwarded, 0 dropped\n"));
}

// A service reads its file at the start only, so `systemctl reload` must not end it.
TEST_F(ControlOfPrograms, HangUpDoesNotEndAServerWithAFile) {
  const testing::ScratchDirectory folder;
  const std::string tunnel = "vxlan:127.0.0.1:" + std::to_string(free_port()) +
                             ",peer=127.0.0.1:" + std::to_string(free_port());
  const std::string program = "program = \"filter\"\nport = \"" + tunnel + "\"\n";
  const std::string switchml =
      "protocol = \"switchml\"\nlisten = \"127.0.0.1:" + std::to_string(free_port()) +
      "\"\n[[session]]\nworkers = \"127.0.1.0+127.0.1.1\"\n";
  for (const std::string& text : {program, switchml}) {
    SCOPED_TRACE(text);
    const std::string path = folder.file("c.toml", text);
    Process server({"serve", "--config", path, "--name", "box"});
    ASSERT_TRUE(server.wait_for_line("ready")) << server.errors();
    (void)folder.file("c.toml", "# A comment is no change.\n" + text);
    server.signal(SIGHUP);
    ASSERT_TRUE(server.wait_for_error("info event=settings_unchanged")) << server.errors();
    (void)folder.file("c.toml", "cores = 2\n" + text);
    server.signal(SIGHUP);
    ASSERT_TRUE(server.wait_for_error("warn event=settings_not_reloaded")) << server.errors();
    (void)folder.file("c.toml", "cores = = 2\n");
    server.signal(SIGHUP);
    ASSERT_TRUE(server.wait_for_error("error event=reload_failed")) << server.errors();
    EXPECT_THAT(run({"status", "--name", "box"}), HasSubstr("cores: 0: "));
    server.signal(SIGTERM);
    EXPECT_EQ(server.wait_for_end(), 0) << server.errors();
  }
}

// The terminal of a server that was closed sends SIGHUP.
TEST_F(ControlOfPrograms, HangUpEndsAServerWithoutAFile) {
  const std::string tunnel = "vxlan:127.0.0.1:" + std::to_string(free_port()) +
                             ",peer=127.0.0.1:" + std::to_string(free_port());
  Process filter({"serve", "--program", "filter", "--port", tunnel});
  ASSERT_TRUE(filter.wait_for_line("ready")) << filter.errors();
  EXPECT_THAT(filter.errors(), HasSubstr(", 1 core\n"));
  filter.signal(SIGHUP);
  EXPECT_EQ(filter.wait_for_end(), 0) << filter.errors();
}

TEST_F(ControlOfPrograms, AnswersOfAnAggregatorMatchItsDescription) {
  Server server({"id=1,sources=2"}, {"--name", "box"});
  Workers workers;
  for (uint32_t rank = 0; rank < 2; rank++) {
    workers.push_back(
        start_worker(server, rank, 2,
                     {"--elements", "60000", "--iterations", "10000000", "--deadline-s", "60"}));
  }
  const auto has_report = [this] {
    return control::get(folder_ + "/box.sock", "/v1/jobs/1")
        ->at("sources")[0]["report"]
        .is_object();
  };
  const auto deadline = Clock::now() + kPatience;
  while (!has_report() && Clock::now() < deadline) {
  }
  EXPECT_TRUE(has_report());
  expect_described(folder_ + "/box.sock", "1");
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace tributary::system_test
