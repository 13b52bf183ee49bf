// SPDX-License-Identifier: Apache-2.0
// Method: every accepted form by hand, then refusals. Only names that need no server are resolved.
#include "io/udp/resolve.h"

#include <gtest/gtest.h>

#include <string>

#include "io/udp/socket_address.h"

namespace tributary::io {
namespace {

std::string resolved(std::string_view text, uint16_t default_port) {
  const auto endpoint = resolve(text, default_port);
  return endpoint ? endpoint->to_string() : "error: " + endpoint.error().text;
}

TEST(Resolve, ParsesNumericFormsWithAndWithoutPort) {
  EXPECT_EQ(resolved("127.0.0.1:7", 12000), "127.0.0.1:7");
  EXPECT_EQ(resolved("127.0.0.1", 12000), "127.0.0.1:12000");
  EXPECT_EQ(resolved("[::1]:7", 12000), "[::1]:7");
  EXPECT_EQ(resolved("[::1]", 12000), "[::1]:12000");
  EXPECT_EQ(resolved("::1", 12000), "[::1]:12000");
  EXPECT_EQ(resolved("fd00::1:2", 12000), "[fd00::1:2]:12000");  // The whole text is the address.
}

TEST(Resolve, ResolvesTheNameOfThisMachine) {
  const auto endpoint = resolve("localhost:7", 0);
  ASSERT_TRUE(endpoint) << endpoint.error().text;
  EXPECT_EQ(endpoint->port, 7);
  EXPECT_TRUE(endpoint->to_string() == "127.0.0.1:7" || endpoint->to_string() == "[::1]:7");
}

TEST(Resolve, ResolvesTheInterfaceOfALinkLocalAddress) {
  const auto endpoint = resolve("[fe80::1%lo]:7", 0);
  if (!endpoint) GTEST_SKIP() << "no IPv6 here: " << endpoint.error().text;
  EXPECT_NE(endpoint->scope_id, 0U);
  EXPECT_EQ(endpoint->to_string(), "[fe80::1%lo]:7");
}

TEST(Resolve, ErrorsNameTheTextInOneLine) {
  const auto error = [](std::string_view text, uint16_t default_port = 0) {
    const std::string line = resolved(text, default_port);
    EXPECT_TRUE(line.starts_with("error: ")) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos);
    return line;
  };
  EXPECT_EQ(error("127.0.0.1"), "error: '127.0.0.1' names no port; write HOST:PORT");
  EXPECT_EQ(error("127.0.0.1:0"), "error: '127.0.0.1:0' has no valid port; allowed: 1 to 65535");
  EXPECT_EQ(error("127.0.0.1:7x"), "error: '127.0.0.1:7x' has no valid port; allowed: 1 to 65535");
  EXPECT_EQ(error("h:65536"), "error: 'h:65536' has no valid port; allowed: 1 to 65535");
  EXPECT_EQ(error("h:"), "error: 'h:' names no port after the colon");
  EXPECT_EQ(error(":7"), "error: ':7' names no host");
  EXPECT_EQ(error("", 7), "error: '' names no host");
  EXPECT_EQ(error("[::1:7"), "error: '[::1:7' lacks the closing bracket");
  EXPECT_EQ(error("[::1]7"), "error: '[::1]7' is not [ADDRESS]:PORT");
  EXPECT_EQ(error("[::1]:"), "error: '[::1]:' is not [ADDRESS]:PORT");
  EXPECT_EQ(error("::1:12000", 12000),
            "error: '::1:12000' is not an IPv6 address; with a port write [ADDRESS]:PORT");
  EXPECT_EQ(
      error("[fe80::1%absent0]:7"),
      "error: '[fe80::1%absent0]:7' is not an IPv6 address of an interface of this machine; 'ip "
      "link' lists them");
  // A label of 64 letters is too long for DNS, so no server is asked.
  const std::string label(64, 'a');
  EXPECT_TRUE(
      error(label + ".invalid:7").starts_with("error: cannot find the address of '" + label));
}

TEST(SocketAddress, BothFamiliesSurviveARoundTrip) {
  const Endpoint ipv4 = Endpoint::ipv4(0x0a0b0c0d, 7);
  Endpoint ipv6 = *Endpoint::parse("[fe80::1]:7");
  ipv6.scope_id = 3;
  SocketAddress address{};
  ASSERT_EQ(to_socket_address(ipv4, AF_INET, address), sizeof(sockaddr_in));
  EXPECT_EQ(address.v4.sin_addr.s_addr, htonl(0x0a0b0c0d));
  EXPECT_EQ(from_socket_address(address), ipv4);
  ASSERT_EQ(to_socket_address(ipv4, AF_INET6, address), sizeof(sockaddr_in6));  // Mapped.
  EXPECT_EQ(from_socket_address(address), ipv4);
  ASSERT_EQ(to_socket_address(ipv6, AF_INET6, address), sizeof(sockaddr_in6));
  EXPECT_EQ(from_socket_address(address), ipv6);
  EXPECT_EQ(to_socket_address(ipv6, AF_INET, address), 0U);
  address.any.sa_family = AF_UNIX;
  EXPECT_EQ(from_socket_address(address), Endpoint{});
}

TEST(SocketAddress, ConvertsTheWildcardOfBothFamilies) {
  EXPECT_TRUE(is_wildcard(Endpoint{}));
  EXPECT_TRUE(is_wildcard(Endpoint::ipv4(0, 7)));
  EXPECT_FALSE(is_wildcard(Endpoint::ipv4(1, 7)));
  EXPECT_FALSE(is_wildcard(*Endpoint::parse("[::1]:7")));
  EXPECT_TRUE(is_loopback(*Endpoint::parse("[::1]:7")));
  EXPECT_TRUE(is_loopback(Endpoint::ipv4(0x7f010203, 7)));
  EXPECT_FALSE(is_loopback(Endpoint::ipv4(0, 7)));
  EXPECT_FALSE(is_loopback(*Endpoint::parse("[::2]:7")));
}

}  // namespace
}  // namespace tributary::io
