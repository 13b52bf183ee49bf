// SPDX-License-Identifier: Apache-2.0
// Method: an appliance in this process and one worker. The log's memory has its life in order, also
//         what the cores noted just before the end.
#include "server/log/server_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/communicator.h"
#include "io/file_descriptor.h"
#include "server/appliance.h"

namespace tributary::server {
namespace {

std::vector<std::string> events_of(const nlohmann::ordered_json& rows) {
  std::vector<std::string> events;
  for (const auto& row : rows) events.push_back(row.at("event").get<std::string>());
  return events;
}

TEST(ServerLogTest, TellsTheLifeOfASession) {
  const io::FileDescriptor nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
  const auto appliance = Appliance::start({.listen = Endpoint::ipv4(0x7f000001, 0),
                                           .memory_mb = 64,
                                           .jobs = {{.id = 1, .sources = 1}}});
  ASSERT_TRUE(appliance.has_value()) << appliance.error().text;
  ServerLog log({.file = nowhere.get()}, **appliance);
  {
    host::CommunicatorConfig config;
    config.server = (*appliance)->local();
    const auto worker = host::Communicator::join(config);
    ASSERT_TRUE(worker.has_value()) << worker.error().text;
  }
  (*appliance)->stop();
  log.stop();
  log.stop();
  const auto answer = log.recent();
  EXPECT_EQ(answer["events_lost"], 0);
  const auto events = events_of(answer["rows"]);
  ASSERT_GE(events.size(), 3U);
  EXPECT_EQ(events[0], "rank_joined");
  EXPECT_EQ(events[1], "session_started");
  EXPECT_EQ(events.back(), "session_ended");  // The worker has left, or the server has stopped.
  EXPECT_EQ(answer["rows"][0]["rank"], 0);
  EXPECT_EQ(answer["lines"], events.size());
}

TEST(ServerLogTest, ChangeOfTheLevelAppearsIfOneLevelTakesInfo) {
  const io::FileDescriptor nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
  const auto appliance = Appliance::start({.listen = Endpoint::ipv4(0x7f000001, 0),
                                           .memory_mb = 64,
                                           .jobs = {{.id = 1, .sources = 1}}});
  ASSERT_TRUE(appliance.has_value()) << appliance.error().text;
  ServerLog log({.file = nowhere.get()}, **appliance);
  for (const LogLevel level : {LogLevel::kError, LogLevel::kWarn, LogLevel::kWarn, LogLevel::kDebug,
                               LogLevel::kInfo, LogLevel::kInfo}) {
    log.set_level(level);
    EXPECT_EQ(log.recent()["level"], to_string(level));
  }
  const auto rows = log.recent()["rows"];
  ASSERT_EQ(rows.size(), 3U) << rows;
  const auto change = [](const char* from, const char* to) {
    return std::pair<std::string, std::string>(from, to);
  };
  const auto nth = [&rows](size_t i) {
    return std::pair<std::string, std::string>(rows[i].at("from"), rows[i].at("to"));
  };
  EXPECT_EQ(nth(0), change("info", "error"));
  EXPECT_EQ(nth(1), change("warn", "debug"));
  EXPECT_EQ(nth(2), change("debug", "info"));
  log.log().write(LogLevel::kDebug, "rank_joined");
  EXPECT_EQ(log.recent()["rows"].size(), 3U);
}

}  // namespace
}  // namespace tributary::server
