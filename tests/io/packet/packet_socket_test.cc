// SPDX-License-Identifier: Apache-2.0
// Method: the loopback interface, which every machine has and which is not Ethernet, and an absent
// interface. Opening needs a capability; without it the error must name the remedy.
#include "io/packet/packet_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tributary::io {
namespace {

using ::testing::HasSubstr;

FileDescriptor any_socket() { return FileDescriptor(::socket(AF_INET, SOCK_DGRAM, 0)); }

TEST(PacketSocket, OpensOrNamesTheCapability) {
  const auto opened = open_packet_socket(1U << 16);
  if (!opened) {
    EXPECT_THAT(opened.error().text, HasSubstr("setcap cap_net_raw+ep"));
    return;
  }
  EXPECT_TRUE(opened->descriptor.is_open());
  EXPECT_GE(opened->receive_buffer_bytes, 1U << 16);
}

TEST(PacketSocket, RefusesAnAbsentInterface) {
  const auto interface = read_ethernet_interface(any_socket(), "absent0");
  ASSERT_FALSE(interface);
  EXPECT_EQ(interface.error().text, "there is no interface 'absent0'; see: ip link");
}

TEST(PacketSocket, RefusesAnInterfaceThatIsNotEthernet) {
  const auto interface = read_ethernet_interface(any_socket(), "lo");
  ASSERT_FALSE(interface);
  EXPECT_THAT(interface.error().text, ::testing::AnyOf(HasSubstr("lo is not an Ethernet interface"),
                                                       HasSubstr("lo is down")));
}

}  // namespace
}  // namespace tributary::io
