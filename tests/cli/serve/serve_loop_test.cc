// SPDX-License-Identifier: Apache-2.0
// Method: errors of each kind, and the exit status of each. The loop itself is tested with whole
//         programs: tests/system/service_test.cc.
#include "cli/serve/serve_loop.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include "cli/settings.h"
#include "io/udp/resolve.h"
#include "io/udp/udp_port.h"

namespace tributary::cli {
namespace {

TEST(ServeLoop, AFaultThatLastsIsAUsageError) {
  EXPECT_EQ(refuse("test", {"--job: job 1: sources=0 is not allowed; allowed: 1 to 256"}),
            kExitUsage);
  EXPECT_EQ(refuse("test", {"it lasts", ErrorKind::kLasting}), kExitUsage);
}

TEST(ServeLoop, AFaultThatMayPassIsNot) {
  EXPECT_EQ(refuse("test", {"it passes", ErrorKind::kPassing}), 1);
}

TEST(ServeLoop, APortInUseMayBeFreeLater) {
  const auto first = io::UdpPort::open({.local = Endpoint::ipv4(INADDR_LOOPBACK, 0)});
  ASSERT_TRUE(first.has_value()) << first.error().text;
  const auto second = io::UdpPort::open({.local = (*first)->local()});
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(refuse("test", second.error()), 1);
}

TEST(ServeLoop, ANameThatIsNotFoundMayBeFoundLater) {
  const auto address = io::resolve("no-such-host.invalid", 12000);
  ASSERT_FALSE(address.has_value());
  EXPECT_EQ(refuse("test", address.error()), 1);
  const auto malformed = io::resolve("[::1", 12000);
  ASSERT_FALSE(malformed.has_value());
  EXPECT_EQ(refuse("test", malformed.error()), kExitUsage);
}

}  // namespace
}  // namespace tributary::cli
