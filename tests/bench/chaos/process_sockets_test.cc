// SPDX-License-Identifier: Apache-2.0
// Method:  the sockets of this process, as seen through its own process number.
#include "bench/chaos/process_sockets.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "io/file_descriptor.h"
#include "io/udp/socket_address.h"

namespace tributary::chaos {
namespace {

/// A UDP socket on the loopback, which sends to itself.
class Loop {
 public:
  Loop() : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    address_.v4.sin_family = AF_INET;
    address_.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_.v4;
    EXPECT_EQ(bind(socket_.get(), &address_.any, size), 0);
    EXPECT_EQ(getsockname(socket_.get(), &address_.any, &size), 0);
    EXPECT_EQ(connect(socket_.get(), &address_.any, size), 0);
  }
  [[nodiscard]] Endpoint address() const { return io::from_socket_address(address_); }
  /// Sends packets. @return how many arrive; the loopback delivers before send() returns.
  uint32_t pass(uint32_t count) {
    uint32_t arrived = 0;
    std::array<char, 4> packet{};
    for (uint32_t i = 0; i < count; i++) {
      EXPECT_EQ(send(socket_.get(), packet.data(), packet.size(), 0), 4);
      if (recv(socket_.get(), packet.data(), packet.size(), 0) == 4) arrived++;
    }
    return arrived;
  }

 private:
  io::FileDescriptor socket_;
  io::SocketAddress address_{};
};

class ProcessSockets : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto found = udp_addresses(getpid()); !found) GTEST_SKIP() << found.error().text;
  }
};

TEST_F(ProcessSockets, AddressesOfUdpSocketsAreListed) {
  const Loop loop;
  const auto found = udp_addresses(getpid());
  ASSERT_TRUE(found) << found.error().text;
  EXPECT_NE(std::ranges::find(*found, loop.address()), found->end());
}

TEST_F(ProcessSockets, LossDropsAboutItsPartAndEnds) {
  Loop loop;
  EXPECT_EQ(loop.pass(100), 100U);
  ASSERT_TRUE(set_receive_loss(getpid(), 0.3));
  // 1,000 packets: 700 arrive, with a standard deviation of 14.5; ten of them on each side.
  const uint32_t arrived = loop.pass(1000);
  EXPECT_GT(arrived, 555U);
  EXPECT_LT(arrived, 845U);
  ASSERT_TRUE(set_receive_loss(getpid(), 0));
  EXPECT_EQ(loop.pass(100), 100U);
  EXPECT_TRUE(set_receive_loss(getpid(), 0)) << "also without a filter";
}

TEST_F(ProcessSockets, AProcessThatDoesNotExistIsAnError) {
  EXPECT_FALSE(udp_addresses(-1));
  EXPECT_FALSE(set_receive_loss(-1, 0.5));
}

}  // namespace
}  // namespace tributary::chaos
