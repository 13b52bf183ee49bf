// SPDX-License-Identifier: Apache-2.0
// Method: one text with every key, then one mistake at a time.
#include "io/packet/packet_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::io {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  const auto spec = parse_packet_port(text);
  return spec ? "allowed" : spec.error().text;
}

TEST(PacketSpec, ParsesEveryKey) {
  const auto spec = parse_packet_port("packet:eth0,ip=10.0.0.1/24,gw=10.0.0.254,mtu=1400");
  ASSERT_TRUE(spec.has_value()) << spec.error().text;
  EXPECT_EQ(spec->interface, "eth0");
  EXPECT_EQ(*spec->address, Endpoint::ipv4(0x0a000001, 0));
  EXPECT_EQ(spec->prefix_bits, 24U);
  EXPECT_EQ(*spec->gateway, Endpoint::ipv4(0x0a0000fe, 0));
  EXPECT_EQ(spec->mtu, 1400U);
}

TEST(PacketSpec, RefusesMistakesWithTheAllowedValues) {
  EXPECT_THAT(refusal("eth0"), HasSubstr("allowed: packet:INTERFACE,ip=ADDRESS/BITS"));
  EXPECT_THAT(refusal("packet:,ip=10.0.0.1/24"), HasSubstr("'' is not an interface"));
  EXPECT_THAT(refusal("packet:an-interface-with-a-long-name,ip=10.0.0.1/24"),
              HasSubstr("is not an interface"));
  EXPECT_THAT(refusal("packet:eth0"), HasSubstr("lacks ip"));
  EXPECT_THAT(refusal("packet:eth0,ip=10.0.0.1"), HasSubstr("lacks the prefix length"));
  EXPECT_THAT(refusal("packet:eth0,ip=224.0.0.1/24"), HasSubstr("the address of one host"));
  EXPECT_THAT(refusal("packet:eth0,ip=10.0.0.1/24,mtu=100"),
              HasSubstr("mtu=100 is not allowed; allowed: a whole number from 576 to 65535"));
  EXPECT_THAT(refusal("packet:eth0,ip=10.0.0.1/24,queues=2"),
              HasSubstr("unknown key 'queues'; allowed: ip, gw, mtu"));
  EXPECT_THAT(refusal("packet:eth0,ip=10.0.0.1/24,"), HasSubstr("'' is not key=value"));
  EXPECT_THAT(refusal("packet:eth0,ip=10.0.0.1/24,gw=fd00::1"), HasSubstr("address family"));
}

}  // namespace
}  // namespace tributary::io
