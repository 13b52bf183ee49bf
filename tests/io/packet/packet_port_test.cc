// SPDX-License-Identifier: Apache-2.0
// Method: two ports at the ends of a veth pair, in a network namespace that the test's thread makes
//         for itself (root only). They find each other by ARP and exchange payloads. Then a raw
//         socket sends frames as the published SwitchML client does, and frames to refuse.
#include "io/packet/packet_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/byte_order.h"
#include "io/frames/udp_frame.h"
#include "tests/io/veth_wire.h"

namespace tributary::io {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

std::unique_ptr<PacketPort> open(const std::string& text, bool lax_checksums = false) {
  const auto spec = parse_packet_port(text);
  EXPECT_TRUE(spec.has_value()) << spec.error().text;
  auto port = PacketPort::open({.spec = *spec, .udp_port = 12000, .lax_checksums = lax_checksums});
  EXPECT_TRUE(port.has_value()) << port.error().text;
  return port ? *std::move(port) : nullptr;
}

std::string refusal(const std::string& text) {
  const auto spec = parse_packet_port(text);
  const auto port = PacketPort::open({.spec = *spec, .udp_port = 12000});
  return port ? "allowed" : port.error().text;
}

/// A received payload.
struct Received {
  Bytes bytes;
  Endpoint source;
};

/// Waits on `at` until `count` payloads have arrived; `other` answers its questions meanwhile.
std::vector<Received> receive(engine::PortQueue& at, engine::PortQueue& other, size_t count) {
  std::vector<Received> received;
  std::array<engine::Packet, 64> burst;
  for (uint32_t i = 0; i < 1000 && received.size() < count; i++) {
    static_cast<void>(other.receive(burst));
    const uint32_t got = at.receive(burst);
    for (uint32_t k = 0; k < got; k++) {
      const auto bytes = burst[k].bytes();
      received.push_back({Bytes(bytes.begin(), bytes.end()), burst[k].source});
    }
    if (received.size() < count) at.wait(milliseconds(5));
  }
  return received;
}

void send(engine::PortQueue& queue, const std::vector<Bytes>& payloads, const Endpoint& to) {
  std::vector<engine::TxPacket> packets(payloads.size());
  for (size_t i = 0; i < payloads.size(); i++) {
    packets[i].data = payloads[i].data();
    packets[i].size = static_cast<uint32_t>(payloads[i].size());
    packets[i].destination = to;
  }
  queue.transmit(packets);
}

/// Lets both queues work until `done` returns true, for at most some seconds.
void until(const std::function<bool()>& done, engine::PortQueue& one, engine::PortQueue& other) {
  std::array<engine::Packet, 64> burst;
  for (uint32_t i = 0; i < 1000 && !done(); i++) {
    static_cast<void>(one.receive(burst));
    static_cast<void>(other.receive(burst));
    if (!done()) one.wait(milliseconds(5));
  }
}

uint64_t counted(const engine::PortQueue& queue, const std::string& wanted) {
  uint64_t count = 0;
  queue.visit_counters([&](const char* name, uint64_t value) {
    if (name == wanted) count = value;
  });
  return count;
}

TEST(PacketPort, TwoPortsFindEachOtherAndExchangePayloads) {
  on_a_wire([] {
    const auto a = open("packet:wire_a,ip=10.77.0.1/24");
    const auto b = open("packet:wire_b,ip=10.77.0.2/24");
    ASSERT_TRUE(a && b);
    EXPECT_EQ(a->local(), Endpoint::ipv4(0x0a4d0001, 12000));
    EXPECT_EQ(a->payload_bytes_max(), 4200U - 28);
    EXPECT_NE(a->mac(), 0U);
    engine::PortQueue& from = a->queue(0);
    engine::PortQueue& to = b->queue(0);
    // The first payload has no next hop yet; a's question finds it.
    send(from, {Bytes(10)}, b->local());
    EXPECT_EQ(from.counters().tx_refused, 1U);
    until([&] { return counted(from, "neighbour_learned") == 1; }, from, to);
    EXPECT_EQ(counted(from, "neighbour_learned"), 1U);
    EXPECT_EQ(counted(to, "arp_answered"), 1U);
    std::vector<Bytes> payloads;
    for (uint32_t i = 0; i < 100; i++) payloads.emplace_back(1 + i * 41, static_cast<std::byte>(i));
    payloads.emplace_back(4200 - 28, std::byte{7});
    send(from, payloads, b->local());
    const auto received = receive(to, from, payloads.size());
    ASSERT_EQ(received.size(), payloads.size());
    for (size_t i = 0; i < received.size(); i++) {
      EXPECT_EQ(received[i].bytes, payloads[i]) << i;
      EXPECT_EQ(received[i].source, a->local());
    }
    EXPECT_EQ(from.counters().tx_packets, payloads.size());
    EXPECT_EQ(to.counters().rx_packets, payloads.size());
    send(from, {Bytes(4200 - 27)}, b->local());
    EXPECT_EQ(from.counters().tx_refused, 2U);
  });
}

/// A raw socket on wire_b, for frames that no port sends.
class RawEnd {
 public:
  RawEnd() : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_ifindex = static_cast<int>(::if_nametoindex("wire_b"));
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  void send(const Bytes& frame) const {
    EXPECT_EQ(::send(socket_.get(), frame.data(), frame.size(), 0),
              static_cast<ssize_t>(frame.size()));
  }

 private:
  FileDescriptor socket_;
};

constexpr MacAddress kTheirMac{2, 0, 0, 0, 0, 2};

MacAddress mac_of(uint64_t number) {
  MacAddress mac{};
  for (size_t i = mac.size(); i-- > 0; number >>= 8) mac[i] = static_cast<uint8_t>(number);
  return mac;
}

/// Returns a frame of the published client: IP checksum 0, UDP checksum of the pseudo header.
Bytes client_frame(const PacketPort& to, size_t payload_bytes) {
  Bytes frame(kUdpFrameHeaderBytesIpv4 + payload_bytes);
  EXPECT_EQ(build_udp_frame({.source_mac = kTheirMac,
                             .destination_mac = mac_of(to.mac()),
                             .source = Endpoint::ipv4(0x0a4d0002, 4000),
                             .destination = to.local()},
                            Bytes(payload_bytes, std::byte{5}), frame),
            frame.size());
  store_be<uint16_t>(&frame[24], uint16_t{0});
  store_be<uint16_t>(&frame[40], uint16_t{0x1234});
  return frame;
}

TEST(PacketPort, LaxPortTakesTheFramesOfThePublishedClient) {
  on_a_wire([] {
    const RawEnd raw;
    for (const bool lax : {false, true}) {
      const auto port = open("packet:wire_a,ip=10.77.0.1/24", lax);
      ASSERT_TRUE(port);
      engine::PortQueue& queue = port->queue(0);
      raw.send(client_frame(*port, 100));
      const char* const expected = lax ? "delivered" : "bad_ip_checksum";
      until([&] { return counted(queue, expected) == 1; }, queue, queue);
      EXPECT_EQ(counted(queue, expected), 1U);
    }
  });
}

TEST(PacketPort, GiantAndTaggedFramesAreCounted) {
  on_a_wire([] {
    const RawEnd raw;
    const auto port = open("packet:wire_a,ip=10.77.0.1/24,mtu=1500", /*lax_checksums=*/true);
    ASSERT_TRUE(port);
    engine::PortQueue& queue = port->queue(0);
    raw.send(client_frame(*port, 2000));
    Bytes tagged = client_frame(*port, 100);
    const Bytes tag{std::byte{0x81}, std::byte{0}, std::byte{0}, std::byte{9}};
    tagged.insert(tagged.begin() + 12, tag.begin(), tag.end());
    raw.send(tagged);
    raw.send(client_frame(*port, 100));
    until([&] { return counted(queue, "delivered") == 1; }, queue, queue);
    EXPECT_EQ(counted(queue, "delivered"), 1U);
    EXPECT_EQ(counted(queue, "giant"), 1U);
    EXPECT_EQ(counted(queue, "vlan"), 1U);
    EXPECT_EQ(queue.counters().rx_truncated, 1U);
  });
}

// The published client answers no ARP: its MAC address comes from its session call.
TEST(PacketPort, PinnedNeighbourIsReachedWithoutArp) {
  on_a_wire([] {
    const auto a = open("packet:wire_a,ip=10.77.0.1/24");
    const auto b = open("packet:wire_b,ip=10.77.0.2/24");
    ASSERT_TRUE(a && b);
    a->pin_neighbour(b->local(), b->mac());
    send(a->queue(0), {Bytes(100)}, b->local());
    EXPECT_EQ(receive(b->queue(0), a->queue(0), 1).size(), 1U);
    EXPECT_EQ(counted(b->queue(0), "arp_answered"), 0U);
    a->unpin_neighbour(b->local());
    send(a->queue(0), {Bytes(100)}, b->local());
    EXPECT_EQ(counted(a->queue(0), "unresolved"), 1U);
  });
}

TEST(PacketPort, WarnsOfAKernelThatForwards) {
  on_a_wire([] {
    const auto alone = open("packet:wire_a,ip=10.77.0.1/24");
    ASSERT_TRUE(run("(echo 1 > /proc/sys/net/ipv4/conf/wire_b/forwarding)"));
    const auto routed = open("packet:wire_b,ip=10.77.0.2/24");
    ASSERT_TRUE(alone && routed);
    EXPECT_THAT(alone->warnings(), ::testing::IsEmpty());
    EXPECT_THAT(routed->warnings(),
                ::testing::ElementsAre(HasSubstr("to fix: ip route add blackhole 10.77.0.2")));
  });
}

TEST(PacketPort, RefusesInterfacesThatCannotWork) {
  on_a_wire([] {
    EXPECT_THAT(refusal("packet:wire_c,ip=10.77.0.1/24"),
                HasSubstr("there is no interface 'wire_c'; see: ip link"));
    EXPECT_THAT(refusal("packet:wire_a,ip=10.77.0.1/24,mtu=9000"),
                HasSubstr("mtu=9000 is not allowed; allowed: 576 to the MTU of wire_a, 4200"));
    ASSERT_TRUE(run("ip link set lo up"));
    EXPECT_THAT(refusal("packet:lo,ip=10.77.0.1/24"), HasSubstr("is not an Ethernet interface"));
    ASSERT_TRUE(run("ip address add 10.77.0.1/24 dev wire_a"));
    EXPECT_THAT(refusal("packet:wire_a,ip=10.77.0.1/24"), HasSubstr("the kernel has this ip too"));
    EXPECT_EQ(refusal("packet:wire_a,ip=10.77.0.3/24"), "allowed");
    ASSERT_TRUE(run("ip link set wire_a down"));
    EXPECT_THAT(refusal("packet:wire_a,ip=10.77.0.3/24"), HasSubstr("ip link set dev wire_a up"));
  });
}

}  // namespace
}  // namespace tributary::io
