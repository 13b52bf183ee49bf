// SPDX-License-Identifier: Apache-2.0
// Method: a port of each transport is bound again; without a free descriptor the cause is named.
#include "io/udp/free_port.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "io/file_descriptor.h"
#include "tests/support/sanitized.h"

namespace tributary::io {
namespace {

using ::testing::HasSubstr;

TEST(FreePort, CanBeBound) {
  const auto port = free_port(Transport::kTcp);
  ASSERT_TRUE(port.has_value()) << port.error().text;
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(*port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_GT(free_port(Transport::kUdp).value_or(0), 0);
}

TEST(FreePort, LackOfDescriptorsIsNamedWithItsRemedy) {
  if (testing::kIsSanitized) GTEST_SKIP() << "UBSan opens descriptors of its own";
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto port = free_port(Transport::kUdp);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(port.has_value());
  EXPECT_THAT(port.error().text,
              HasSubstr("no free UDP port on 127.0.0.1: Too many open files; to fix: raise"));
  EXPECT_THAT(port.error().text, HasSubstr("ulimit -n"));
}

}  // namespace
}  // namespace tributary::io
