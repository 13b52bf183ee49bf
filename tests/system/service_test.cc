// SPDX-License-Identifier: Apache-2.0
// Method:  a server as systemd would start it, with a real datagram socket in place of systemd's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/notify_socket.h"
#include "tests/system/server.h"

namespace tributary::system_test {
namespace {

using ::testing::HasSubstr;
using testing::NotifySocket;
using ::testing::StartsWith;

constexpr const char* kStatus = "STATUS=1 jobs, 0 of 2 workers in sessions, 0 blocks";

TEST(Service, ReportsReadyThenAliveThenStopping) {
  NotifySocket systemd("200000");
  Server server({"id=1,sources=2"});
  EXPECT_EQ(systemd.receive(), std::string("READY=1\n") + kStatus);
  for (int report = 0; report < 3; report++) {
    EXPECT_EQ(systemd.receive(), std::string(kStatus) + "\nWATCHDOG=1");
  }
  server.terminate();
  const auto deadline = Clock::now() + kPatience;
  std::string last = systemd.receive();
  while (last.ends_with("WATCHDOG=1") && Clock::now() < deadline) last = systemd.receive();
  EXPECT_THAT(last, StartsWith("STOPPING=1\n"));
  EXPECT_EQ(server.wait_for_end(), 0);
}

TEST(Service, RefusesABadWatchdogBeforeItIsReady) {
  const NotifySocket systemd("never");
  Process server(
      {"serve", "--listen", "127.0.0.1:" + std::to_string(free_port()), "--job", "id=1,sources=2"});
  EXPECT_EQ(server.wait_for_end(), 2);
  EXPECT_EQ(server.output(), "");
  EXPECT_THAT(server.errors(), HasSubstr("WATCHDOG_USEC='never'"));
}

}  // namespace
}  // namespace tributary::system_test
