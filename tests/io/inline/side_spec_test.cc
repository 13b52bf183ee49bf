// SPDX-License-Identifier: Apache-2.0
// Method: each accepted shape by hand, then each refusal with its text.
#include "io/inline/side_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::io {
namespace {

using ::testing::HasSubstr;

TEST(InlineSideSpec, Interface) {
  const auto side = parse_inline_side("packet:eth0");
  ASSERT_TRUE(side);
  EXPECT_EQ(side->interface(), "eth0");
  EXPECT_FALSE(side->is_tunnel());
}

TEST(InlineSideSpec, Tunnel) {
  const auto side = parse_inline_side("vxlan:127.0.0.1:5000,peer=192.0.2.1:6000,vni=77");
  ASSERT_TRUE(side) << side.error().text;
  EXPECT_EQ(side->interface(), "");
  const auto& tunnel = std::get<VxlanConfig>(side->config);
  EXPECT_EQ(tunnel.local.to_string(), "127.0.0.1:5000");
  EXPECT_EQ(tunnel.peer.to_string(), "192.0.2.1:6000");
  EXPECT_EQ(tunnel.network, 77U);
}

TEST(InlineSideSpec, TunnelDefaults) {
  const auto side = parse_inline_side("vxlan:[::1],peer=[2001:db8::1]");
  ASSERT_TRUE(side) << side.error().text;
  const auto& tunnel = std::get<VxlanConfig>(side->config);
  EXPECT_EQ(tunnel.local.port, 4789);
  EXPECT_EQ(tunnel.peer.port, 4789);
  EXPECT_EQ(tunnel.network, 0U);
}

TEST(InlineSideSpec, DpdkDevice) {
  const auto side = parse_inline_side("dpdk:01:00.0,mtu=9000,poll=on");
  ASSERT_TRUE(side) << side.error().text;
  ASSERT_NE(side->dpdk(), nullptr);
  EXPECT_EQ(side->dpdk()->name, "0000:01:00.0");
  EXPECT_EQ(side->dpdk()->mtu, 9000U);
  EXPECT_TRUE(side->dpdk()->poll);
  EXPECT_FALSE(side->is_tunnel());
  EXPECT_EQ(side->interface(), "");
}

TEST(InlineSideSpec, SameSides) {
  const auto side = [](const char* text) { return *parse_inline_side(text); };
  EXPECT_TRUE(is_same_side(side("packet:a"), side("packet:a")));
  EXPECT_FALSE(is_same_side(side("packet:a"), side("packet:b")));
  EXPECT_TRUE(
      is_same_side(side("vxlan:127.0.0.1,peer=127.0.0.2"), side("vxlan:127.0.0.1,peer=127.0.0.3")));
  EXPECT_FALSE(is_same_side(side("vxlan:127.0.0.1:1,peer=127.0.0.2"),
                            side("vxlan:127.0.0.1:2,peer=127.0.0.2")));
  EXPECT_FALSE(is_same_side(side("packet:a"), side("vxlan:127.0.0.1,peer=127.0.0.2")));
  EXPECT_FALSE(is_same_side(side("packet:tap"), side("dpdk:tap")));
  EXPECT_FALSE(is_same_side(side("dpdk:tap"), side("dpdk:tap")));  // net_tap0 and net_tap1.
}

TEST(InlineSideSpec, RefusalsSayWhatIsAllowed) {
  const auto refusal = [](const char* text) {
    const auto side = parse_inline_side(text);
    return side ? std::string("accepted") : side.error().text;
  };
  EXPECT_EQ(parse_inline_side("eth0")->interface(), "eth0");
  for (const char* text :
       {"", "eth0,ip=1", "packet:", "packet:eth0,ip=10.0.0.1/24", "udp:127.0.0.1"}) {
    EXPECT_THAT(
        refusal(text),
        HasSubstr("INTERFACE, packet:INTERFACE, dpdk:DEVICE[,key=value]... or vxlan:ADDRESS"))
        << text;
  }
  EXPECT_THAT(refusal("dpdk:eth0"), HasSubstr("--port 'dpdk:eth0': 'eth0' is not a device"));
  for (const char* text : {"dpdk:tap,ip=10.0.0.1/24", "dpdk:tap,gw=10.0.0.254"}) {
    EXPECT_THAT(refusal(text), HasSubstr("leave out ip and gw")) << text;
  }
  EXPECT_THAT(refusal("vxlan:127.0.0.1"), HasSubstr("needs a peer"));
  EXPECT_THAT(refusal("vxlan:127.0.0.1,peer=127.0.0.2,vni=16777216"), HasSubstr("0 to 16777215"));
  EXPECT_THAT(refusal("vxlan:127.0.0.1,peer=127.0.0.2,vni="), HasSubstr("vni=;"));
  EXPECT_THAT(refusal("vxlan:127.0.0.1,peer=127.0.0.2,vni=-1"), HasSubstr("vni=-1;"));
  EXPECT_THAT(refusal("vxlan:127.0.0.1,peer=127.0.0.2,mtu=9"), HasSubstr("unknown key 'mtu'"));
  EXPECT_THAT(refusal("vxlan:127.0.0.1,"), HasSubstr("unknown key ''"));
  EXPECT_THAT(refusal("vxlan:127.0.0.1,peer=[::1]"), HasSubstr("both of one kind"));
  EXPECT_THAT(refusal("vxlan:127.0.0.1,peer=239.1.1.1"), HasSubstr("multicast"));
  EXPECT_THAT(refusal("vxlan:127.0.0.1:99999,peer=127.0.0.2"), HasSubstr("--port 'vxlan:"));
  EXPECT_NE(refusal("vxlan:,peer=127.0.0.2"), "accepted");
}

}  // namespace
}  // namespace tributary::io
