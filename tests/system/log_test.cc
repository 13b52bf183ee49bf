// SPDX-License-Identifier: Apache-2.0
// Method:  a server and its workers as processes; the log on the server's standard error tells of
//          each state change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/system/control_folder.h"
#include "tests/system/workers.h"

namespace tributary::system_test {
namespace {

using ::testing::HasSubstr;

TEST(ServerLog, TellsOfASessionFromTheJoinsToTheEnd) {
  Server server({"id=1,sources=2"});
  EXPECT_TRUE(server.wait_for_error("info event=server_started listen=" + server.address()));
  const std::vector<std::string> work{"--elements", "1000", "--iterations", "3", "--local", "off"};
  auto first = start_worker(server, 0, 2, work);
  EXPECT_TRUE(server.wait_for_error("info event=rank_joined job=1 rank=0 address=127.0.0.1:"));
  auto second = start_worker(server, 1, 2, work);
  EXPECT_EQ(first->wait_for_end(), 0) << first->errors();
  EXPECT_EQ(second->wait_for_end(), 0) << second->errors();
  for (const char* line :
       {"info event=rank_joined job=1 rank=1 address=127.0.0.1:",
        "info event=session_started job=1 sources=2", "info event=rank_left job=1 rank=0 ",
        "info event=rank_left job=1 rank=1 ", "info event=session_ended job=1 reason=all_left"}) {
    EXPECT_TRUE(server.wait_for_error(line)) << line;
  }
  EXPECT_EQ(server.stop(), 0);
  EXPECT_TRUE(server.wait_for_error("info event=server_stopping"));
  EXPECT_EQ(server.written_stats()["log"]["events_lost"], 0);
}

TEST(ServerLog, NamesAMissingRankAndTheReasonOfARefusal) {
  Server server({"id=1,sources=2"}, {"--log", "json", "--log-level", "warn"});
  auto alone = start_worker(server, 0, 2, {"--iterations", "1", "--deadline-s", "120"});
  EXPECT_TRUE(server.wait_for_error(R"("event":"rank_waited_for","job":1,"rank":1)"));
  auto wrong = start_worker(server, 1, 3, {"--iterations", "1"});
  EXPECT_TRUE(server.wait_for_error(
      R"("level":"warn","event":"join_refused","job":1,"rank":1,"reason":"wrong_world")"));
  EXPECT_NE(wrong->wait_for_end(), 0);
  EXPECT_EQ(server.stop(), 0);
}

TEST(ServerLog, JsonIsOnEveryLine) {
  const std::string json_path = scratch("json_lines.json");
  Process server({"serve", "--listen", "127.0.0.1:" + std::to_string(free_port()), "--log", "json",
                  "--buffer-mb", "1000", "--record", "off", "--json", json_path, "--job",
                  "id=1,sources=1"});
  ASSERT_TRUE(server.wait_for_line("ready")) << server.errors();
  server.signal(SIGUSR2);
  EXPECT_TRUE(server.wait_for_error("this server has no flight recorder"));
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait_for_end(), 0);
  std::vector<std::string> events;
  for (const std::string& line : lines_of(server.errors())) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(json.is_object()) << line;
    events.push_back(json.at("event").get<std::string>());
  }
  EXPECT_THAT(events, ::testing::IsSupersetOf({"serving", "server_started", "warning"}));
}

using LogCommand = ControlFolder;

TEST_F(LogCommand, ShowsTheLastLinesAndSetsTheLevel) {
  Server server({"id=1,sources=1"}, {"--name", "box"});
  EXPECT_TRUE(server.wait_for_error("info event=server_started"));
  EXPECT_THAT(run({"log"}), HasSubstr(" info event=server_started listen=127.0.0.1:"));
  EXPECT_EQ(run({"log", "--level", "error"}), "box logs errors only\n");
  EXPECT_EQ(run({"log", "--level", "debug"}), "box logs lines of level debug and above\n");
  EXPECT_TRUE(server.wait_for_error("info event=log_level_changed to=debug from=error"));
  EXPECT_THAT(run({"log", "--lines", "1"}), HasSubstr("to=debug from=error\n"));
  const auto answer = nlohmann::json::parse(run({"log", "--lines", "2", "--json"}));
  EXPECT_EQ(answer["rows"].size(), 2U);
  EXPECT_EQ(answer["level"], "debug");
  EXPECT_THAT(run({"log", "--name", "none"}, 1), HasSubstr("tributary log: "));
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace tributary::system_test
