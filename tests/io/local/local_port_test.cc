// SPDX-License-Identifier: Apache-2.0
// Method:  a local server and its clients in this process: packets both ways, steering, wake-ups,
//          the ends of connections, and refusals. Waits only in the port and for other threads.
#include "io/local/local_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>
#include <vector>

#include "base/byte_order.h"
#include "tests/io/local/local_bed.h"

namespace tributary::io {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(LocalPortTest, PacketsTravelBothWays) {
  const LocalBed bed;
  const Client client(bed.address());
  ASSERT_NE(client.port, nullptr) << client.error;
  client.send(bytes_of("question"));
  const engine::Packet packet = bed.receive();
  EXPECT_EQ(copy(packet), bytes_of("question"));
  EXPECT_EQ(packet.layer, engine::PacketLayer::kUdpPayload);
  EXPECT_TRUE(is_local_client(packet.source));
  bed.send(bytes_of("answer"), packet.source);
  EXPECT_EQ(client.receive(), bytes_of("answer"));

  const engine::PortCounters counters = client.queue().counters();
  EXPECT_EQ(counters.tx_packets, 1U);
  EXPECT_EQ(counters.tx_bytes, 8U);
  EXPECT_EQ(counters.rx_packets, 1U);
  EXPECT_EQ(counters.rx_bytes, 6U);
  EXPECT_EQ(bed.server->stats().packets.rx_packets, 1U);
  EXPECT_EQ(bed.server->stats().packets.tx_bytes, 6U);
}

TEST(LocalPortTest, ClientsHaveAddressesOfTheirOwn) {
  const LocalBed bed;
  const Client first(bed.address());
  const Client second(bed.address());
  first.send(bytes_of("1"));
  const Endpoint first_address = bed.receive().source;
  second.send(bytes_of("2"));
  const Endpoint second_address = bed.receive().source;
  EXPECT_FALSE(first_address.is_same_peer(second_address));
  bed.send(bytes_of("to 2"), second_address);
  bed.send(bytes_of("to 1"), first_address);
  EXPECT_EQ(first.receive(), bytes_of("to 1"));
  EXPECT_EQ(second.receive(), bytes_of("to 2"));
}

TEST(LocalPortTest, SteersPacketsToTheCoreOfTheirBlock) {
  const LocalBed bed({.core_count = 4});
  const Client client(bed.address());
  // The default field is the block in bytes 1 to 4; a core has stretches of 128 blocks.
  for (const uint32_t block : {0U, 127U, 128U, 300U, 400U, 512U}) {
    Bytes bytes(12);
    store_be(bytes.data() + 1, block);
    client.send(bytes);
    EXPECT_EQ(copy(bed.receive(block / 128 % 4)), bytes) << block;
  }
  client.send(Bytes(4));  // Too short for the field.
  EXPECT_EQ(bed.receive(0).size, 4U);
  // Results come from all cores.
  bed.update();
  client.send(Bytes(4));
  const Endpoint source = bed.receive(0).source;
  bed.send(bytes_of("from 3"), source, 3);
  EXPECT_EQ(client.receive(), bytes_of("from 3"));
}

TEST(LocalPortTest, TakesThePayloadsThatUdpTakes) {
  const LocalBed bed;
  const Client client(bed.address());
  EXPECT_EQ(client.port->payload_bytes_max(), kUdpPayloadBytesMax);
  EXPECT_EQ(client.port->path_mtu(bed.address()), engine::kIpBytesMax);
  const Bytes large(kUdpPayloadBytesMax, std::byte{7});
  for (uint32_t i = 0; i < 50; i++) {  // More than the ring holds.
    client.send(large);
    ASSERT_EQ(copy(bed.receive()), large);
  }
  client.send(Bytes(kUdpPayloadBytesMax + 1));
  EXPECT_EQ(client.queue().counters().tx_refused, 1U);
}

TEST(LocalPortTest, CountsWhatFindsNoRoom) {
  const LocalBed bed({.ring_bytes = 1U << 18});
  const Client client(bed.address());
  // Records of 65,536 bytes: four fill the ring.
  for (uint32_t i = 0; i < 6; i++) client.send(Bytes(65'500));
  EXPECT_EQ(client.queue().counters().tx_packets, 4U);
  EXPECT_EQ(client.queue().counters().tx_refused, 2U);
  // The room that the port promises is there: three quarters of a ring.
  const Endpoint source = bed.receive().source;
  const uint32_t room = client.port->receive_room_bytes();
  for (uint32_t sent = 0; sent + 256 <= room; sent += 256) bed.send(Bytes(256), source);
  EXPECT_EQ(bed.server->stats().packets.tx_refused, 0U);
}

TEST(LocalPortTest, RefusesOtherDestinations) {
  const LocalBed bed;
  Client client(bed.address());
  client.server.port++;
  client.send(bytes_of("elsewhere"));
  EXPECT_EQ(client.queue().counters().tx_refused, 1U);
  EXPECT_EQ(client.queue().counters().tx_packets, 0U);
}

TEST(LocalPortTest, SleepingSidesAreWoken) {
  const LocalBed bed;
  const Client client(bed.address());
  client.send(bytes_of("hello"));
  const Endpoint source = bed.receive().source;
  // The client sleeps until a packet comes; its own limit is far away.
  Bytes received;
  std::thread sleeper([&] {
    std::array<engine::Packet, 1> burst;
    while (client.queue().receive(burst) == 0) client.queue().wait(seconds(3600));
    received = copy(burst[0]);
  });
  bed.send(bytes_of("wake up"), source);
  sleeper.join();
  EXPECT_EQ(received, bytes_of("wake up"));
  // Any thread ends the sleep.
  client.queue().wake();
  client.queue().wait(seconds(3600));
}

TEST(LocalPortTest, BusySidesMakeNoSystemCalls) {
  const LocalBed bed;
  const Client client(bed.address());
  client.send(bytes_of("first"));  // Wakes the core, which does not know the ring.
  const Endpoint source = bed.receive().source;
  EXPECT_EQ(client.queue().counters().system_calls, 1U);
  std::array<engine::Packet, 1> burst;
  for (uint32_t i = 0; i < 1000; i++) {
    client.send(bytes_of("question"));
    bed.receive();
    bed.send(bytes_of("answer"), source);
    ASSERT_EQ(client.queue().receive(burst), 1U);
  }
  EXPECT_EQ(client.queue().counters().system_calls, 1U);
  EXPECT_EQ(bed.server->stats().packets.system_calls, 0U);
}

// --- The ends of connections ---

TEST(LocalPortTest, ClientLearnsOfTheServersEndAfterTheLastPacket) {
  LocalBed bed;
  const Client client(bed.address());
  client.send(bytes_of("hello"));
  bed.send(bytes_of("good-bye"), bed.receive().source);
  bed.server.reset();
  client.queue().wait(seconds(3600));
  EXPECT_EQ(client.receive(), bytes_of("good-bye"));
  std::array<engine::Packet, 1> burst;
  await([&] {
    client.queue().wait(milliseconds(1));
    EXPECT_EQ(client.queue().receive(burst), 0U);
    return client.queue().counters().peer_closed == 1;
  });
  client.send(bytes_of("anybody?"));
  EXPECT_EQ(client.queue().counters().tx_refused, 1U);
  EXPECT_EQ(client.queue().counters().peer_closed, 1U);
}

// A thread that drives several ports receives from a port only after a wait that found it ready.
TEST(LocalPortTest, EndThatComesWithAPacketIsFoundWithoutAnotherWakeUp) {
  LocalBed bed;
  const Client client(bed.address());
  client.send(bytes_of("hello"));
  const Endpoint source = bed.receive().source;
  engine::WaitSource& waits = *client.queue().wait_source();
  std::vector<pollfd> polled;
  ASSERT_TRUE(waits.begin_wait(polled));
  bed.send(bytes_of("good-bye"), source);
  bed.server.reset();
  await([&] {
    ::poll(polled.data(), polled.size(), 100);
    return (polled[1].revents & POLLHUP) != 0;
  });
  waits.end_wait(polled);
  EXPECT_EQ(client.receive(), bytes_of("good-bye"));
  polled.clear();
  EXPECT_FALSE(waits.begin_wait(polled));
  std::array<engine::Packet, 1> burst;
  EXPECT_EQ(client.queue().receive(burst), 0U);
  EXPECT_EQ(client.queue().counters().peer_closed, 1U);
  EXPECT_TRUE(waits.begin_wait(polled));  // There is nothing more to receive.
  waits.end_wait(polled);
}

TEST(LocalPortTest, RestartedServerTakesNewClients) {
  LocalBed bed;
  const Client before(bed.address());
  bed.server.reset();
  bed.start();
  const Client after(bed.address());
  ASSERT_NE(after.port, nullptr) << after.error;
  after.send(bytes_of("hello"));
  EXPECT_EQ(copy(bed.receive()), bytes_of("hello"));
}

TEST(LocalPortTest, PlaceOfAClosedClientIsFreeAfterAllLanesHaveSeenIt) {
  LocalBed bed({.core_count = 2, .connections_max = 1});
  auto first = std::make_unique<Client>(bed.address());
  first->send(bytes_of("1"));
  const Endpoint first_address = bed.receive().source;
  const Client refused(bed.address());
  EXPECT_THAT(refused.error, HasSubstr("as many local connections as it allows"));
  first.reset();
  await([&] { return bed.server->stats().connections_closed == 1; });
  // No lane has seen it, so the memory is still in use.
  bed.send(bytes_of("answer"), first_address);
  EXPECT_NE(Client(bed.address()).error, "");
  std::unique_ptr<Client> second;
  await([&] {
    bed.update();
    second = std::make_unique<Client>(bed.address());
    return second->port != nullptr;
  });
  // A packet to the first client does not reach the second.
  second->send(bytes_of("2"));
  const Endpoint second_address = bed.receive().source;
  EXPECT_EQ(second_address.port, first_address.port);
  bed.send(bytes_of("for 1"), first_address);
  bed.send(bytes_of("for 2"), second_address);
  EXPECT_EQ(second->receive(), bytes_of("for 2"));
  EXPECT_EQ(bed.server->stats().packets.tx_refused, 1U);
  EXPECT_EQ(bed.server->stats().connections, 1U);
  EXPECT_GE(bed.server->stats().connections_refused, 2U);
}

TEST(LocalPortTest, RingsOfAllConnectionsAreBounded) {
  // 1 GB is 64 connections of 8 cores, each with two rings of 1 MB.
  EXPECT_EQ(connections_allowed({.core_count = 1}), 64U);
  EXPECT_EQ(connections_allowed({.core_count = 8}), 64U);
  EXPECT_EQ(connections_allowed({.core_count = 16}), 32U);
  EXPECT_EQ(connections_allowed({.core_count = 64}), 8U);
  EXPECT_EQ(connections_allowed({.core_count = 64, .connections_max = 3}), 3U);
  EXPECT_EQ(connections_allowed({.core_count = 64, .ring_bytes = 1U << 26}), 1U);
}

// --- Refusals ---

TEST(LocalPortTest, RefusesAddressesOfOtherMachines) {
  EXPECT_THAT(Client(*Endpoint::parse("192.0.2.1:12000")).error,
              HasSubstr("192.0.2.1:12000 is not an address of this machine"));
}

TEST(LocalPortTest, RefusesAServerThatDoesNotListen) {
  const auto port = *UdpPort::open({.local = Endpoint::ipv4(0x7f000001, 0)});
  EXPECT_THAT(Client(port->local()).error,
              AllOf(HasSubstr("cannot connect to the Unix socket @tributary-127.0.0.1:"),
                    HasSubstr("Connection refused")));
}

/// Listens on the Unix name of an address, as any user may. The tests use an address each, so that
/// none gets a port whose name is taken.
class Squatter {
 public:
  explicit Squatter(const Endpoint& address, int backlog = 8) : socket_(unix_socket().value()) {
    EXPECT_TRUE(bind_name(socket_.get(), local_name(address)).has_value());
    EXPECT_EQ(::listen(socket_.get(), backlog), 0);
  }
  /// Returns whether a client has connected.
  [[nodiscard]] bool has_caller() const {
    return FileDescriptor(::accept(socket_.get(), nullptr, nullptr)).is_open();
  }

 private:
  FileDescriptor socket_;
};

TEST(LocalPortTest, RefusesAServerThatDoesNotHoldTheUdpAddress) {
  const Endpoint address = UdpPort::open({.local = Endpoint::ipv4(0x7f000003, 0)}).value()->local();
  const Squatter squatter(address);
  EXPECT_THAT(Client(address).error,
              HasSubstr("the kernel names no user of this machine who holds the UDP address"));
  EXPECT_FALSE(squatter.has_caller());
}

TEST(LocalPortTest, AsksOnlyAtTheNameOfTheUdpAddress) {
  // As if another user held [::] for IPv6 alone, which the kernel allows beside the server's IPv4.
  const auto port = *UdpPort::open({.local = Endpoint::ipv4(0x7f000005, 0)});
  Endpoint any;
  any.port = port->local().port;
  const Squatter at_any(any);
  const Squatter at_any_ipv4(Endpoint::ipv4(0, any.port));
  EXPECT_THAT(Client(port->local()).error, HasSubstr("Connection refused"));
  EXPECT_FALSE(at_any.has_caller());
  EXPECT_FALSE(at_any_ipv4.has_caller());
}

TEST(LocalPortTest, FullQueueOfCallersSendsNobodyToAnotherName) {
  const auto port = *UdpPort::open({.local = Endpoint::ipv4(0x7f000006, 0)});
  const Squatter server(port->local(), 0);  // Takes one caller.
  Endpoint any;
  any.port = port->local().port;
  const Squatter at_any(any);
  const auto caller = unix_socket();
  ASSERT_TRUE(connect_name(caller->get(), local_name(port->local())).has_value());
  EXPECT_THAT(Client(port->local()).error, HasSubstr("Resource temporarily unavailable"));
  EXPECT_FALSE(at_any.has_caller());
}

TEST(LocalPortTest, TwoServersCannotHaveOneAddress) {
  const LocalBed bed;
  const auto second = LocalServer::open({.listen = bed.address()}, [](uint32_t) {});
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().text, HasSubstr("Address already in use"));
}

}  // namespace
}  // namespace tributary::io
