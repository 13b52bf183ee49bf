// SPDX-License-Identifier: Apache-2.0
// Method:  hand-worked lines of the kernel's lists, then a socket of this process.
#include "io/local/udp_owner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "io/udp/udp_port.h"

namespace tributary::io {
namespace {

// 10.0.0.1:12000 of user 1000, and [::]:12000 of user 0, on a little-endian machine.
constexpr const char* kIpv4Line =
    " 1054: 0100000A:2EE0 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 "
    "11234 2 ffff8c02c8a30000 0";
constexpr const char* kIpv6Line =
    " 1054: 00000000000000000000000000000000:2EE0 00000000000000000000000000000000:0000 07 "
    "00000000:00000000 00:00000000 00000000     0        0 11235 2 ffff8c02c8a31000 0";

TEST(UdpOwnerTest, ReadsAddressAndUser) {
  const Endpoint address = *Endpoint::parse("10.0.0.1:12000");
  EXPECT_TRUE(is_line_of(kIpv4Line, 1000, address));
  EXPECT_FALSE(is_line_of(kIpv4Line, 1001, address));
  EXPECT_FALSE(is_line_of(kIpv4Line, 1000, *Endpoint::parse("10.0.0.1:12001")));
  EXPECT_FALSE(is_line_of(kIpv4Line, 1000, Endpoint::ipv4(0, 12000)));
  Endpoint any;
  any.port = 12000;
  EXPECT_TRUE(is_line_of(kIpv6Line, 0, any));
  EXPECT_FALSE(is_line_of(kIpv6Line, 0, *Endpoint::parse("[::1]:12000")));
  EXPECT_FALSE(is_line_of("", 0, any));
  EXPECT_FALSE(is_line_of("  sl  local_address rem_address   st tx_queue rx_queue", 0, any));
}

TEST(UdpOwnerTest, FindsSocketsOfThisProcess) {
  for (const char* text : {"127.0.0.1:1", "[::1]:1"}) {
    Endpoint listen = *Endpoint::parse(text);
    listen.port = 0;
    const auto port = UdpPort::open({.local = listen});
    if (!port) continue;  // A machine without IPv6.
    EXPECT_TRUE(holds_udp_address(::geteuid(), (*port)->local())) << text;
    EXPECT_FALSE(holds_udp_address(::geteuid() + 1, (*port)->local())) << text;
    EXPECT_FALSE(holds_udp_address(65'534, (*port)->local())) << text;  // A user without a number.
    EXPECT_FALSE(holds_udp_address(::geteuid(), Endpoint::ipv4(0, (*port)->local().port))) << text;
  }
}

}  // namespace
}  // namespace tributary::io
