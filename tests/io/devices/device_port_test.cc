// SPDX-License-Identifier: Apache-2.0
// Method: texts of both kinds of device, alone and together. tests/system/ opens the ports.
#include "io/devices/device_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::io {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::vector<std::string>& texts) {
  DevicePortSpec spec;
  for (const std::string& text : texts) {
    if (const auto added = add_device(text, spec); !added) return added.error().text;
  }
  return "allowed";
}

const std::string kPacket = "packet:eth0,ip=10.0.0.1/24";
const std::string kDpdk = "dpdk:vhost,iface=/tmp/a,ip=10.0.0.1/24";

TEST(DevicePort, TakesDpdkDevicesOrOnePacketSocket) {
  EXPECT_EQ(refusal({kPacket}), "allowed");
  EXPECT_EQ(refusal({kDpdk, "dpdk:vhost,iface=/tmp/b"}), "allowed");
  EXPECT_THAT(refusal({kPacket, kPacket}), HasSubstr("a packet socket is a port's only device"));
  EXPECT_THAT(refusal({kPacket, kDpdk}), HasSubstr("a packet socket is a port's only device"));
  EXPECT_THAT(refusal({kDpdk, kPacket}), HasSubstr("a packet socket is a port's only device"));
}

TEST(DevicePort, RefusesOtherTexts) {
  EXPECT_THAT(refusal({"eth0"}),
              HasSubstr("--port 'eth0': is not a port; allowed: dpdk:DEVICE[,key=value]... or "
                        "packet:INTERFACE,ip=ADDRESS/BITS[,key=value]..."));
  EXPECT_THAT(refusal({"dpdk:vhots"}), HasSubstr("--port 'dpdk:vhots': 'vhots' is not a device"));
  EXPECT_THAT(refusal({"packet:eth0"}), HasSubstr("--port 'packet:eth0': lacks ip"));
}

TEST(DevicePort, NamesAnInterfaceThatDoesNotExist) {
  DevicePortSpec spec;
  ASSERT_TRUE(add_device("packet:no_such_card,ip=10.0.0.1/24", spec).has_value());
  const auto opened = open_device_port({.spec = spec, .local = Endpoint::ipv4(0, 12000)});
  ASSERT_FALSE(opened.has_value());
  // Without privileges, the socket fails first.
  EXPECT_THAT(opened.error().text,
              ::testing::AnyOf(HasSubstr("there is no interface 'no_such_card'; see: ip link"),
                               HasSubstr("to fix: run as root")));
  const auto elsewhere =
      open_device_port({.spec = spec, .local = Endpoint::ipv4(0x0a000009, 12000)});
  ASSERT_FALSE(elsewhere.has_value());
  EXPECT_THAT(elsewhere.error().text,
              HasSubstr("--listen 10.0.0.9:12000: is not the address of --port"));
}

}  // namespace
}  // namespace tributary::io
