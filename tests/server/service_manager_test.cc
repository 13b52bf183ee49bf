// SPDX-License-Identifier: Apache-2.0
// Method:  a real datagram socket stands for systemd's.
#include "server/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/notify_socket.h"

namespace tributary::server {
namespace {

using ::testing::HasSubstr;
using testing::NotifySocket;

/// Returns the error for a value of NOTIFY_SOCKET.
std::string refusal_of(const std::string& path) {
  setenv("NOTIFY_SOCKET", path.c_str(), /*overwrite=*/1);
  const auto manager = ServiceManager::from_environment();
  unsetenv("NOTIFY_SOCKET");
  return manager ? std::string() : manager.error().text;
}

TEST(ServiceManager, IsAbsentWithoutItsVariable) {
  unsetenv("NOTIFY_SOCKET");
  auto manager = ServiceManager::from_environment();
  ASSERT_TRUE(manager);
  EXPECT_FALSE(manager->is_present());
  EXPECT_TRUE(manager->report_ready("here"));
  EXPECT_TRUE(manager->report_stopping(seconds(1)));
}

TEST(ServiceManager, SendsReadyStatusAndStopping) {
  NotifySocket systemd;
  auto manager = ServiceManager::from_environment();
  ASSERT_TRUE(manager) << manager.error().text;
  EXPECT_TRUE(manager->is_present());
  EXPECT_EQ(manager->report_every(), kStatusEvery);

  EXPECT_TRUE(manager->report_ready("2 jobs"));
  EXPECT_EQ(systemd.receive(), "READY=1\nSTATUS=2 jobs");
  EXPECT_TRUE(manager->report_alive("3 jobs"));
  EXPECT_EQ(systemd.receive(), "STATUS=3 jobs");
  EXPECT_TRUE(manager->report_stopping(seconds(2)));
  EXPECT_EQ(systemd.receive(),
            "STOPPING=1\nSTATUS=waiting for workers to leave\nEXTEND_TIMEOUT_USEC=2000000");
}

TEST(ServiceManager, KeepsTheWatchdogQuiet) {
  NotifySocket systemd("3000000");
  auto manager = ServiceManager::from_environment();
  ASSERT_TRUE(manager) << manager.error().text;
  EXPECT_EQ(manager->report_every(), milliseconds(1500));
  EXPECT_TRUE(manager->report_alive("2 jobs"));
  EXPECT_EQ(systemd.receive(), "STATUS=2 jobs\nWATCHDOG=1");
}

TEST(ServiceManager, IgnoresTheWatchdogOfAnotherProcess) {
  NotifySocket systemd("3000000");
  setenv("WATCHDOG_PID", "1", /*overwrite=*/1);
  EXPECT_EQ(ServiceManager::from_environment()->report_every(), kStatusEvery);
  setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), /*overwrite=*/1);
  EXPECT_EQ(ServiceManager::from_environment()->report_every(), milliseconds(1500));
}

TEST(ServiceManager, RefusesBadVariables) {
  EXPECT_THAT(refusal_of("relative/socket"), HasSubstr("must start with / or @"));
  EXPECT_THAT(refusal_of("/" + std::string(200, 'x')), HasSubstr("is too long"));
  for (const char* bad : {"soon", "0", "-5", "5s"}) {
    const NotifySocket systemd(bad);
    const auto manager = ServiceManager::from_environment();
    ASSERT_FALSE(manager) << bad;
    EXPECT_THAT(manager.error().text, HasSubstr("WATCHDOG_USEC='" + std::string(bad) + "'"));
  }
}

TEST(ServiceManager, ReportsAManagerThatDoesNotListen) {
  setenv("NOTIFY_SOCKET", "@tributary-test-nobody-listens", /*overwrite=*/1);
  auto manager = ServiceManager::from_environment();
  unsetenv("NOTIFY_SOCKET");
  ASSERT_TRUE(manager) << manager.error().text;
  const auto sent = manager->report_ready("here");
  ASSERT_FALSE(sent);
  EXPECT_THAT(sent.error().text, HasSubstr("took no message"));
}

}  // namespace
}  // namespace tributary::server
