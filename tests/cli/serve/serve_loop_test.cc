// SPDX-License-Identifier: Apache-2.0
// Method: errors with the system's words, and the exit status of each. The loop itself is tested with
//         whole programs: tests/system/service_test.cc.
#include "cli/serve/serve_loop.h"

#include <gtest/gtest.h>

#include "cli/settings.h"
#include "io/udp/resolve.h"

namespace tributary::cli {
namespace {

TEST(ServeLoop, WrongFlagsAreAUsageError) {
  for (const char* text : {"--listen: 'a:0' has no valid port; allowed is 1 to 65535",
                           "--job: job 1: sources=0 is not allowed; allowed is 1 to 256",
                           "--record-dir /nowhere: No such file or directory; give a folder"}) {
    EXPECT_EQ(refuse("test", {text}), kExitUsage) << text;
  }
}

TEST(ServeLoop, FaultsThatMayPassAreNot) {
  for (const char* text :
       {"--listen: cannot listen on UDP 10.0.0.1:12000: Address already in use (another program "
        "listens there)",
        "--listen: cannot listen on UDP 10.0.0.1:12000: Cannot assign requested address",
        "--listen: cannot open a UDP socket: Too many open files",
        "--http: TCP 10.0.0.1:80: cannot listen there (Address already in use)"}) {
    EXPECT_EQ(refuse("test", {text}), 1) << text;
  }
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
