// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/notify_socket.h"

namespace tributary::cli {
namespace {

using testing::NotifySocket;

void no_warning(const std::string& text) { ADD_FAILURE() << text; }

server::ServiceManager manager() { return *server::ServiceManager::from_environment(); }

TEST(ServeService, StatusLineOfOtherServersCountsPackets) {
  EXPECT_EQ(status_line(nlohmann::json{{"cores", {{{"packets", 3}}, {{"packets", 4}}}}}),
            "7 packets");
  EXPECT_EQ(status_line(nlohmann::json::object()), "0 packets");
}

TEST(ServeService, AsksTheCoresBeforeEachReport) {
  NotifySocket systemd("2000000");
  int asked = 0;
  ServiceReports reports(manager(), no_warning, [&asked] { return std::to_string(++asked); });
  EXPECT_EQ(systemd.receive(), "READY=1\nSTATUS=1");
  reports.report();
  EXPECT_EQ(systemd.receive(), "STATUS=2\nWATCHDOG=1");
  ASSERT_NE(reports.pause(), nullptr);
  EXPECT_EQ(reports.pause()->tv_sec, 1);
  EXPECT_EQ(reports.pause()->tv_nsec, 0);
  reports.report_end(seconds(70));
  EXPECT_THAT(systemd.receive(), ::testing::EndsWith("EXTEND_TIMEOUT_USEC=100000000"));
}

TEST(ServeService, AsksNothingWithoutAManager) {
  unsetenv("NOTIFY_SOCKET");
  int asked = 0;
  ServiceReports reports(manager(), no_warning, [&asked] { return std::to_string(++asked); });
  reports.report();
  reports.report_end(seconds(1));
  EXPECT_EQ(reports.pause(), nullptr);
  EXPECT_EQ(asked, 0);
}

}  // namespace
}  // namespace tributary::cli
