// SPDX-License-Identifier: Apache-2.0
// Method: `serve --program` with tunnels on the loopback interface, without any rights, and plain
// sockets at their other ends: frames back out of one tunnel, frames from one tunnel to the other,
// and datagrams that must not pass.
#include "wire/vxlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/prng.h"
#include "tests/programs/captures.h"
#include "tests/support/seed.h"
#include "tests/support/udp_peer.h"
#include "tests/system/process.h"
#include "tests/system/server.h"

namespace tributary::system_test {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr uint32_t kNetwork = 7;

Bytes datagram_of(const Bytes& frame, uint32_t network = kNetwork) {
  const auto header = wire::vxlan_header(network);
  Bytes datagram(header.begin(), header.end());
  datagram.insert(datagram.end(), frame.begin(), frame.end());
  return datagram;
}

/// Returns a frame that the filter drops.
Bytes arp_frame() {
  Bytes frame(60);
  wire::MutableView<wire::EthernetHeader>(frame.data())
      .set<wire::EthernetHeader::EtherType>(0x0806);
  return frame;
}

std::string tunnel_text(uint16_t port, const Endpoint& peer) {
  return "vxlan:127.0.0.1:" + std::to_string(port) + ",peer=" + peer.to_string() +
         ",vni=" + std::to_string(kNetwork);
}

nlohmann::json end(Process& process, const std::string& json) {
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait_for_end(), 0) << process.errors();
  return json_of(json);
}

TEST(Vxlan, OneTunnelSendsFramesBack) {
  const testing::UdpPeer peer;
  const uint16_t port = free_port();
  const std::string json = scratch("vxlan_one.json");
  Process filter(
      {"serve", "--program", "filter", "--port", tunnel_text(port, peer.at()), "--json", json});
  ASSERT_TRUE(filter.wait_for_line("ready")) << filter.errors();
  const Endpoint to = Endpoint::ipv4(INADDR_LOOPBACK, port);
  peer.send(datagram_of(arp_frame()), to);
  const Bytes frame = testing::ipv4_frame(100);
  peer.send(datagram_of(frame), to);
  const auto back = peer.receive();
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, datagram_of(frame));
  const auto stats = end(filter, json);
  EXPECT_EQ(stats["forwarded"], 1);
  EXPECT_EQ(stats["outcomes"]["non_ip"]["packets"], 1);
}

TEST(Vxlan, FramesGoFromOneTunnelToTheOther) {
  const testing::UdpPeer left, right;
  const uint16_t left_port = free_port(), right_port = free_port();
  const std::string json = scratch("vxlan_two.json");
  Process program({"serve", "--program", "telemetry,collector=127.0.0.1:9", "--port",
                   tunnel_text(left_port, left.at()), "--port", tunnel_text(right_port, right.at()),
                   "--json", json});
  ASSERT_TRUE(program.wait_for_line("ready")) << program.errors();
  const Bytes there = testing::ipv4_frame(80), and_back = testing::ipv4_frame(1'400);
  left.send(datagram_of(there), Endpoint::ipv4(INADDR_LOOPBACK, left_port));
  const auto at_right = right.receive();
  ASSERT_TRUE(at_right);
  EXPECT_EQ(*at_right, datagram_of(there));
  right.send(datagram_of(and_back), Endpoint::ipv4(INADDR_LOOPBACK, right_port));
  const auto at_left = left.receive();
  ASSERT_TRUE(at_left);
  EXPECT_EQ(*at_left, datagram_of(and_back));
  EXPECT_EQ(end(program, json)["forwarded"], 2);
}

TEST(Vxlan, HostileDatagramsAreCounted) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  const testing::UdpPeer peer, stranger(INADDR_LOOPBACK + 1);
  const uint16_t port = free_port();
  const std::string json = scratch("vxlan_hostile.json");
  Process filter(
      {"serve", "--program", "filter", "--port", tunnel_text(port, peer.at()), "--json", json});
  ASSERT_TRUE(filter.wait_for_line("ready")) << filter.errors();
  const Endpoint to = Endpoint::ipv4(INADDR_LOOPBACK, port);
  const Bytes frame = testing::ipv4_frame(100);
  uint64_t malformed = 0;
  for (uint32_t i = 0; i < 200; i++) {
    stranger.send(datagram_of(frame), to);
    Bytes bytes(prng.below(120));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.below(256));
    if (prng.chance(0.5)) bytes = datagram_of(bytes);  // A random frame in a good tunnel.
    if (!wire::vxlan_frame(bytes, kNetwork)) malformed++;
    peer.send(bytes, to);
    if (i % 20 != 0) continue;
    peer.send(datagram_of(frame), to);  // Keeps the socket's buffer from filling up.
    for (auto back = peer.receive(); back != datagram_of(frame); back = peer.receive()) {
      ASSERT_TRUE(back);  // Others are random frames that the filter forwards.
    }
  }
  peer.send(datagram_of(frame), to);
  for (auto back = peer.receive(); back != datagram_of(frame); back = peer.receive()) {
    ASSERT_TRUE(back);
  }
  const auto stats = end(filter, json);
  EXPECT_EQ(stats["ports"][0]["frames"]["tunnel_foreign"], 200);
  EXPECT_EQ(stats["ports"][0]["frames"]["tunnel_malformed"], malformed);
  EXPECT_EQ(stats["ports"][0]["frames"]["kernel_dropped"], 0);
}

TEST(Vxlan, RefusalsNameTheFlag) {
  Process cores({"serve", "--program", "filter", "--port", "vxlan:127.0.0.1:1,peer=127.0.0.1:2",
                 "--cores", "2"});
  EXPECT_EQ(cores.wait_for_end(), 2);
  EXPECT_THAT(cores.errors(), HasSubstr("a tunnel has one core"));
  Process address({"serve", "--program", "filter", "--port", "vxlan:192.0.2.1,peer=127.0.0.1"});
  EXPECT_EQ(address.wait_for_end(), 2);
  EXPECT_THAT(address.errors(), HasSubstr("cannot bind"));
}

}  // namespace
}  // namespace tributary::system_test
