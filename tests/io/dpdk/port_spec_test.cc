// SPDX-License-Identifier: Apache-2.0
// Method: texts as people write them, with their meaning; then one mistake at a time.
#include "io/dpdk/port_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::io {
namespace {

using ::testing::HasSubstr;

DpdkDeviceSpec parsed(const std::string& text) {
  const auto spec = parse_dpdk_device(text);
  if (!spec) {
    ADD_FAILURE() << spec.error().text;
    return {};
  }
  return *spec;
}

std::string refusal(const std::string& text) {
  const auto spec = parse_dpdk_device(text);
  return spec ? "" : spec.error().text;
}

TEST(DpdkPortSpec, ParsesAVirtualDevice) {
  const DpdkDeviceSpec spec =
      parsed("dpdk:vhost,iface=/tmp/a.sock,ip=10.0.0.1/24,gw=10.0.0.254,mtu=4200,queues=2");
  EXPECT_EQ(spec.driver, "net_vhost");
  EXPECT_EQ(spec.name, "net_vhost");
  EXPECT_EQ(spec.arguments, "iface=/tmp/a.sock,queues=2");
  EXPECT_EQ(spec.argument("iface"), "/tmp/a.sock");
  EXPECT_EQ(spec.argument("none"), "");
  EXPECT_EQ(spec.mtu, 4200U);
  EXPECT_EQ(spec.prefix_bits, 24U);
  EXPECT_EQ(*spec.address, Endpoint::ipv4(0x0a000001, 0));
  EXPECT_EQ(*spec.gateway, Endpoint::ipv4(0x0a0000fe, 0));
  EXPECT_FALSE(spec.is_pci());
}

TEST(DpdkPortSpec, ParsesNamesWithAndWithoutPrefixAndNumber) {
  EXPECT_EQ(parsed("dpdk:net_virtio_user3,path=/tmp/a").driver, "net_virtio_user");
  EXPECT_EQ(parsed("dpdk:net_virtio_user3,path=/tmp/a").name, "net_virtio_user3");
  EXPECT_EQ(parsed("dpdk:af_packet,iface=eth1").driver, "net_af_packet");
}

TEST(DpdkPortSpec, ParsesAPciCard) {
  const DpdkDeviceSpec spec = parsed("dpdk:01:00.0,ip=fd00::1/64,mbufs=5000,poll=on");
  EXPECT_TRUE(spec.is_pci());
  EXPECT_EQ(spec.name, "0000:01:00.0");
  EXPECT_EQ(*spec.address, [] {
    Endpoint endpoint = *Endpoint::parse("[fd00::1]:1");
    endpoint.port = 0;
    return endpoint;
  }());
  EXPECT_EQ(spec.prefix_bits, 64U);
  EXPECT_EQ(spec.mbufs, 5000U);
  EXPECT_TRUE(spec.poll);
  EXPECT_EQ(parsed("dpdk:0000:af:00.1").name, "0000:af:00.1");
}

TEST(DpdkPortSpec, RefusalsNameTheMistake) {
  EXPECT_THAT(refusal("udp:eth0"), HasSubstr("allowed: dpdk:DEVICE"));
  EXPECT_THAT(refusal("dpdk:"), HasSubstr("'' is not a device"));
  EXPECT_THAT(refusal("dpdk:vhots,iface=a"), HasSubstr("'vhots' is not a device"));
  EXPECT_THAT(refusal("dpdk:01:00.x"), HasSubstr("is not a device"));
  EXPECT_THAT(refusal("dpdk:vhost,mtu=9001"),
              HasSubstr("allowed: a whole number from 1280 to 9000"));
  EXPECT_THAT(refusal("dpdk:vhost,mtu="), HasSubstr("mtu= is not allowed"));
  EXPECT_THAT(refusal("dpdk:vhost,ip=10.0.0.1"), HasSubstr("as in 10.0.0.1/24"));
  EXPECT_THAT(refusal("dpdk:vhost,ip=10.0.0.1/33"), HasSubstr("from 1 to 32"));
  EXPECT_THAT(refusal("dpdk:vhost,ip=239.1.1.1/24"), HasSubstr("the address of one host"));
  EXPECT_THAT(refusal("dpdk:vhost,ip=0.0.0.0/24"), HasSubstr("the address of one host"));
  EXPECT_THAT(refusal("dpdk:vhost,gw=router"), HasSubstr("an IPv4 or IPv6 address"));
  EXPECT_THAT(refusal("dpdk:vhost,poll=yes"), HasSubstr("allowed: on, off"));
  EXPECT_THAT(refusal("dpdk:vhost,,ip=10.0.0.1/24"), HasSubstr("'' is not key=value"));
  EXPECT_THAT(refusal("dpdk:01:00.0,mtv=9000"), HasSubstr("unknown key 'mtv'"));
}

TEST(DpdkPortSpec, JoinsTheDevicesOfOnePort) {
  const auto port = join_dpdk_devices({parsed("dpdk:vhost,iface=/tmp/a,ip=10.0.0.1/24"),
                                       parsed("dpdk:vhost,iface=/tmp/b,poll=on"),
                                       parsed("dpdk:af_packet,iface=eth1,ip=10.0.0.1/24")});
  ASSERT_TRUE(port) << port.error().text;
  EXPECT_EQ(port->devices[0].name, "net_vhost0");
  EXPECT_EQ(port->devices[1].name, "net_vhost1");
  EXPECT_EQ(port->devices[2].name, "net_af_packet0");
  EXPECT_EQ(port->address, Endpoint::ipv4(0x0a000001, 0));
  EXPECT_TRUE(port->poll);
}

TEST(DpdkPortSpec, RefusesDevicesWithConflictingSettings) {
  const auto refused = [](const std::string& a, const std::string& b) {
    const auto port = join_dpdk_devices({parsed(a), parsed(b)});
    return port ? std::string() : port.error().text;
  };
  const std::string one = "dpdk:vhost,iface=/tmp/a,ip=10.0.0.1/24";
  EXPECT_THAT(refused("dpdk:vhost,iface=/tmp/a", "dpdk:vhost,iface=/tmp/b"),
              HasSubstr("the port needs an address of its own"));
  EXPECT_THAT(refused(one, "dpdk:vhost,iface=/tmp/b,ip=10.0.0.2/24"), HasSubstr("a second ip"));
  EXPECT_THAT(refused(one, "dpdk:net_vhost0,iface=/tmp/b"), HasSubstr("is named twice"));
  EXPECT_THAT(refused(one, "dpdk:vhost,iface=/tmp/a"), HasSubstr(": /tmp/a is named twice"));
  EXPECT_THAT(refused("dpdk:af_packet,iface=eth1,ip=10.0.0.1/24", "dpdk:af_xdp,iface=eth1"),
              HasSubstr(": eth1 is named twice"));
  EXPECT_THAT(refused(one, "dpdk:vhost,iface=/tmp/b,gw=fd00::9"), HasSubstr("same address family"));
}

}  // namespace
}  // namespace tributary::io
