// SPDX-License-Identifier: Apache-2.0
// Method:  names and addresses by hand; the opening message over a socket pair, whole and damaged.
#include "io/local/local_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

namespace tributary::io {
namespace {

using ::testing::HasSubstr;

Endpoint at(const char* text) { return *Endpoint::parse(text); }

struct SocketPair {
  SocketPair() {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair.data()), 0);
    server = FileDescriptor(pair[0]);
    client = FileDescriptor(pair[1]);
  }
  FileDescriptor server;
  FileDescriptor client;
};

const LocalWelcome kWelcome{
    .shape = {.core_count = 2, .ring_bytes = 1U << 20, .packet_bytes_max = 9000},
    .steering = {.payload_offset_bytes = 1, .shift_bits = 7},
    .wake_ports = {40'000, 40'001}};

TEST(LocalSocketTest, NamesFollowTheUdpAddress) {
  EXPECT_EQ(local_name(at("10.0.0.1:12000")), "tributary-10.0.0.1:12000");
  EXPECT_EQ(local_name(at("[::1]:1")), "tributary-[::1]:1");
}

TEST(LocalSocketTest, OwnAddresses) {
  EXPECT_TRUE(is_own_address(at("127.0.0.1:1")));
  EXPECT_TRUE(is_own_address(at("127.8.9.10:1")));
  EXPECT_FALSE(is_own_address(at("192.0.2.1:1")));  // TEST-NET-1, RFC 5737.
  EXPECT_FALSE(is_own_address(at("[2001:db8::1]:1")));
  EXPECT_FALSE(is_own_address(Endpoint::ipv4(0, 1)));
}

TEST(LocalSocketTest, WelcomeBringsTheMemory) {
  const SocketPair pair;
  FileDescriptor made;
  const auto memory = RingMemory::create(kWelcome.shape, made);
  ASSERT_TRUE(send_welcome(pair.server.get(), kWelcome, made.get()));
  FileDescriptor taken;
  const auto welcome = receive_welcome(pair.client.get(), taken);
  ASSERT_TRUE(welcome.has_value()) << welcome.error().text;
  EXPECT_EQ(welcome->shape, kWelcome.shape);
  EXPECT_EQ(welcome->steering.shift_bits, 7U);
  EXPECT_EQ(welcome->wake_ports, kWelcome.wake_ports);
  EXPECT_TRUE(RingMemory::map(welcome->shape, taken.get()).has_value());
}

std::string error_after(const std::vector<char>& bytes) {
  const SocketPair pair;
  EXPECT_EQ(::send(pair.server.get(), bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(bytes.size()));
  FileDescriptor taken;
  const auto welcome = receive_welcome(pair.client.get(), taken);
  return welcome ? "welcome" : welcome.error().text;
}

TEST(LocalSocketTest, RefusesOtherMessages) {
  EXPECT_THAT(error_after({'x'}), HasSubstr("closed the connection"));
  std::vector<char> bytes(160);
  EXPECT_THAT(error_after(bytes), HasSubstr("another version"));
  std::memcpy(bytes.data(), "tribloc1", 8);
  EXPECT_THAT(error_after(bytes), HasSubstr("as many local connections as it allows"));
  bytes[8] = 1;
  EXPECT_THAT(error_after(bytes), HasSubstr("0 cores are not allowed"));
  const std::array<uint32_t, 6> good{1, 1, 1U << 20, 9000, 1, 7};
  std::memcpy(bytes.data() + 8, good.data(), sizeof good);
  EXPECT_THAT(error_after(bytes), HasSubstr("without its memory"));
  bytes[28] = 32;  // Shift.
  EXPECT_THAT(error_after(bytes), HasSubstr("steering field"));

  SocketPair pair;
  pair.server = {};
  FileDescriptor taken;
  const auto welcome = receive_welcome(pair.client.get(), taken);
  ASSERT_FALSE(welcome.has_value());
  EXPECT_THAT(welcome.error().text, HasSubstr("closed the connection"));
}

TEST(LocalSocketTest, MessagesBeforeTheEndOfReceivingAreNoticed) {
  const SocketPair quiet;
  EXPECT_FALSE(end_receiving(quiet.server.get()));
  EXPECT_EQ(::send(quiet.client.get(), "x", 1, MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, EPIPE);
  // The other direction stays open.
  send_wake(quiet.server.get());
  char byte = 1;
  EXPECT_EQ(::recv(quiet.client.get(), &byte, 1, MSG_DONTWAIT), 1);

  const SocketPair loud;
  ASSERT_EQ(::send(loud.client.get(), "x", 1, 0), 1);
  EXPECT_TRUE(end_receiving(loud.server.get()));
  const SocketPair empty;  // A message without bytes may hold descriptors, too.
  ASSERT_EQ(::send(empty.client.get(), "", 0, 0), 0);
  EXPECT_TRUE(end_receiving(empty.server.get()));
  SocketPair gone;
  gone.client = {};
  EXPECT_FALSE(end_receiving(gone.server.get()));
}

TEST(LocalSocketTest, WakeUpsReachTheirCore) {
  uint16_t port = 0;
  const auto core = core_wake_socket(port);
  ASSERT_TRUE(core.has_value()) << core.error().text;
  const auto waker = waker_socket();
  char byte = 1;
  EXPECT_LT(::recv(core->get(), &byte, 1, MSG_DONTWAIT), 0);
  send_wake_to(waker->get(), port);
  EXPECT_EQ(::recv(core->get(), &byte, 1, MSG_DONTWAIT), 1);
}

TEST(LocalSocketTest, RefusalSaysThatAllPlacesAreTaken) {
  const SocketPair pair;
  send_refusal(pair.server.get());
  FileDescriptor taken;
  const auto welcome = receive_welcome(pair.client.get(), taken);
  ASSERT_FALSE(welcome.has_value());
  EXPECT_THAT(welcome.error().text, HasSubstr("as many local connections as it allows"));
}

}  // namespace
}  // namespace tributary::io
