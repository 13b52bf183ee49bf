// SPDX-License-Identifier: Apache-2.0
// Method:  hand-worked lines of the kernel's lists, then sockets of this process.
#include "io/local/udp_owner.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sstream>
#include <string>

#include "io/file_descriptor.h"
#include "io/udp/socket_address.h"
#include "io/udp/udp_port.h"

namespace tributary::io {
namespace {

Endpoint at(const char* text) { return *Endpoint::parse(text); }

/// Returns the owner that a list of these lines names.
std::optional<UdpOwner> listed(const std::string& lines, const char* address) {
  std::istringstream list("  sl  local_address rem_address   st tx_queue rx_queue\n" + lines);
  return listed_udp_owner(list, at(address));
}

/// Returns the line of a socket, as on a little-endian machine.
std::string line(const std::string& address, int user) {
  return " 1054: " + address + " 00000000:0000 07 00000000:00000000 00:00000000 00000000  " +
         std::to_string(user) + "        0 11234 2 ffff8c02c8a30000 0\n";
}

const std::string kAddress = "0100000A:2EE0";   // 10.0.0.1:12000.
const std::string kWildcard = "00000000:2EE0";  // 0.0.0.0:12000.
const std::string kIpv6Wildcard = "00000000000000000000000000000000:2EE0";

TEST(UdpOwnerTest, ListNamesTheAddressBeforeTheWildcard) {
  const UdpOwner exact{.listen = at("10.0.0.1:12000"), .user = 1000};
  const UdpOwner wildcard{.listen = at("0.0.0.0:12000"), .user = 0};
  EXPECT_EQ(listed(line(kAddress, 1000), "10.0.0.1:12000"), exact);
  EXPECT_EQ(listed(line(kWildcard, 0), "10.0.0.1:12000"), wildcard);
  EXPECT_EQ(listed(line(kWildcard, 0) + line(kAddress, 1000), "10.0.0.1:12000"), exact);
  EXPECT_EQ(listed(line(kAddress, 1000), "10.0.0.1:12001"), std::nullopt);
  EXPECT_EQ(listed(line(kAddress, 1000), "10.0.0.2:12000"), std::nullopt);
  EXPECT_EQ(listed("", "10.0.0.1:12000"), std::nullopt);
}

TEST(UdpOwnerTest, ListNamesTheIpv6WildcardForIpv6Only) {
  const UdpOwner wildcard{.listen = at("[::]:12000"), .user = 7};
  EXPECT_EQ(listed(line(kIpv6Wildcard, 7), "[::1]:12000"), wildcard);
  EXPECT_EQ(listed(line(kIpv6Wildcard, 7), "10.0.0.1:12000"), std::nullopt);
}

TEST(UdpOwnerTest, AddressOfSeveralUsersHasNoOwner) {
  EXPECT_EQ(listed(line(kAddress, 1) + line(kAddress, 2), "10.0.0.1:12000"), std::nullopt);
  EXPECT_NE(listed(line(kAddress, 1) + line(kAddress, 1), "10.0.0.1:12000"), std::nullopt);
}

TEST(UdpOwnerTest, FindsSocketsOfThisProcess) {
  for (const char* text : {"127.0.0.1:1", "[::1]:1"}) {
    Endpoint listen = at(text);
    listen.port = 0;
    auto port = UdpPort::open({.local = listen});
    if (!port) continue;  // A machine without IPv6.
    listen.port = (*port)->local().port;
    EXPECT_EQ(udp_owner(listen), (UdpOwner{.listen = listen, .user = ::geteuid()})) << text;
    port->reset();
    EXPECT_EQ(udp_owner(listen), std::nullopt) << text;
  }
}

TEST(UdpOwnerTest, FindsTheWildcard) {
  const auto port = UdpPort::open({.local = Endpoint::ipv4(0, 0)});
  ASSERT_TRUE(port.has_value()) << port.error().text;
  const Endpoint wildcard = (*port)->local();
  EXPECT_EQ(udp_owner(Endpoint::ipv4(0x7f000009, wildcard.port)),
            (UdpOwner{.listen = wildcard, .user = ::geteuid()}));
}

/// Binds [::] and a port of the kernel's choice. @return not open: the machine has no IPv6.
FileDescriptor ipv6_wildcard(int only_ipv6, Endpoint& bound) {
  FileDescriptor socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress address{};
  address.v6.sin6_family = AF_INET6;
  socklen_t size = sizeof address.v6;
  if (!socket.is_open() ||
      ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_ipv6, sizeof only_ipv6) != 0 ||
      ::bind(socket.get(), &address.any, size) != 0 ||
      ::getsockname(socket.get(), &address.any, &size) != 0) {
    return {};
  }
  bound = from_socket_address(address);
  return socket;
}

TEST(UdpOwnerTest, SocketForIpv6OnlyOwnsNoIpv4Address) {
  Endpoint bound;
  const FileDescriptor socket = ipv6_wildcard(1, bound);
  if (!socket.is_open()) GTEST_SKIP() << "no IPv6";
  EXPECT_EQ(udp_owner(Endpoint::ipv4(0x7f000009, bound.port)), std::nullopt);
  Endpoint loopback = at("[::1]:1");
  loopback.port = bound.port;
  EXPECT_EQ(udp_owner(loopback), (UdpOwner{.listen = bound, .user = ::geteuid()}));
}

TEST(UdpOwnerTest, SocketForBothFamiliesOwnsIpv4IfTheKernelSaysSo) {
  Endpoint bound;
  const FileDescriptor socket = ipv6_wildcard(0, bound);
  if (!socket.is_open()) GTEST_SKIP() << "no IPv6";
  const auto owner = udp_owner(Endpoint::ipv4(0x7f000009, bound.port));
  // A kernel without NETLINK_SOCK_DIAG leaves it open, and the client uses UDP.
  if (!owner) GTEST_SKIP() << "the kernel does not tell";
  EXPECT_EQ(*owner, (UdpOwner{.listen = bound, .user = ::geteuid()}));
}

}  // namespace
}  // namespace tributary::io
