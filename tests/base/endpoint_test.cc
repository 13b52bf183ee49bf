// SPDX-License-Identifier: Apache-2.0
#include "base/endpoint.h"

#include <gtest/gtest.h>
#include <net/if.h>

namespace tributary {
namespace {

TEST(Endpoint, ParsesBothFamiliesAndPrintsThemBack) {
  for (const char* text : {"127.0.0.1:12000", "255.255.255.255:65535", "[::1]:1", "[fe80::2]:80"}) {
    const auto endpoint = Endpoint::parse(text);
    ASSERT_TRUE(endpoint.has_value()) << endpoint.error().text;
    EXPECT_EQ(endpoint->to_string(), text);
  }
  EXPECT_EQ(Endpoint::parse("127.0.0.1:12000").value(), Endpoint::ipv4(0x7f000001, 12000));
}

TEST(Endpoint, GivesTheNumberOfAnIpv4Address) {
  EXPECT_EQ(Endpoint::ipv4(0xc000'0201, 7).ipv4_address(), 0xc000'0201U);
  EXPECT_EQ(Endpoint::parse("255.0.0.1:7")->ipv4_address(), 0xff00'0001U);
}

TEST(Endpoint, HostTextHasNeitherPortNorBrackets) {
  EXPECT_EQ(Endpoint::parse("127.0.0.1:12000")->host_text(), "127.0.0.1");
  EXPECT_EQ(Endpoint::parse("[::1]:12000")->host_text(), "::1");
  EXPECT_EQ(Endpoint::parse("[2001:db8::1]:1")->host_text(), "2001:db8::1");
  EXPECT_EQ(Endpoint::ipv4(0xc000'0201, 0).host_text(), "192.0.2.1");
}

TEST(Endpoint, LinkLocalAddressNamesItsInterface) {
  Endpoint endpoint = *Endpoint::parse("[fe80::2]:80");
  endpoint.scope_id = if_nametoindex("lo");
  ASSERT_NE(endpoint.scope_id, 0U);
  EXPECT_EQ(endpoint.to_string(), "[fe80::2%lo]:80");
  EXPECT_EQ(endpoint.host_text(), "fe80::2%lo");
  endpoint.scope_id = 2'000'000'000;
  EXPECT_EQ(endpoint.to_string(), "[fe80::2%2000000000]:80");
  endpoint.address[0] = 0x20;  // Of no interface.
  EXPECT_EQ(endpoint.to_string(), "[2080::2]:80");
}

TEST(Endpoint, RefusesTextsWithoutHostAndPort) {
  for (const char* text : {"", ":1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
                           "127.0.0.1:12x", "::1:12000", "[::1:12000", "256.0.0.1:1", "host:1"}) {
    const auto endpoint = Endpoint::parse(text);
    ASSERT_FALSE(endpoint.has_value()) << text;
    EXPECT_EQ(endpoint.error().text.find('\n'), std::string::npos);
  }
}

TEST(Endpoint, RecognisesMulticast) {
  EXPECT_TRUE(Endpoint::parse("239.1.2.3:12000")->is_multicast());
  EXPECT_TRUE(Endpoint::parse("[ff02::1]:12000")->is_multicast());
  EXPECT_FALSE(Endpoint::parse("127.0.0.1:12000")->is_multicast());
}

TEST(Endpoint, PeerAtAnotherLocalAddressIsAnotherEndpointButTheSamePeer) {
  const Endpoint first = Endpoint::ipv4(0x7f000001, 12000);
  Endpoint second = first;
  second.via = 1;
  EXPECT_NE(first, second);
  EXPECT_TRUE(first.is_same_peer(second));
  EXPECT_EQ(first.to_string(), second.to_string());
  second.port = 12001;
  EXPECT_FALSE(first.is_same_peer(second));
}

TEST(Endpoint, DefaultIsUnset) { EXPECT_FALSE(Endpoint{}.is_set()); }

}  // namespace
}  // namespace tributary
