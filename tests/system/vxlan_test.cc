// SPDX-License-Identifier: Apache-2.0
// Method: `serve --program` with tunnels on the loopback interface, without any rights, and plain
// sockets at their other ends: frames back out of one tunnel, frames from one tunnel to the other,
// datagrams that must not pass; the records, the log and the report of a program that serves.
#include "wire/vxlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "tests/programs/captures.h"
#include "tests/support/seed.h"
#include "tests/support/udp_peer.h"
#include "tests/system/control_folder.h"
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

/// Returns a frame from 10.0.0.`host` to 10.0.1.1.
Bytes ipv4_frame_from(uint8_t host) {
  Bytes frame = testing::ipv4_frame(100);
  wire::MutableView<wire::Ipv4Header> ip(frame.data() + wire::EthernetHeader::kBytes);
  ip.set<wire::Ipv4Header::TotalLength>(100 - wire::EthernetHeader::kBytes);
  ip.set<wire::Ipv4Header::SourceAddress>(0x0a000000U + host);
  ip.set<wire::Ipv4Header::DestinationAddress>(0x0a000101U);
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
  EXPECT_EQ(stats["outcomes"]["forwarded"], (nlohmann::json{{"packets", 1}, {"bytes", 100}}));
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

TEST(Vxlan, TelemetryWritesItsRecords) {
  const testing::UdpPeer peer, collector;
  const uint16_t port = free_port();
  const std::string records = scratch("vxlan_records.jsonl"), json = scratch("vxlan_records.json");
  Process program({"serve", "--program", "telemetry,collector=" + collector.at().to_string(),
                   "--port", tunnel_text(port, peer.at()), "--records", records, "--json", json});
  ASSERT_TRUE(program.wait_for_line("ready")) << program.errors();
  for (const uint8_t source : {uint8_t{1}, uint8_t{2}}) {
    const Bytes frame = ipv4_frame_from(source);
    peer.send(datagram_of(frame), Endpoint::ipv4(INADDR_LOOPBACK, port));
    ASSERT_EQ(peer.receive(), datagram_of(frame));
  }
  // The flows are exported at the end: to the collector, and to the file.
  const auto stats = end(program, json);
  EXPECT_EQ(stats["messages_lost"], 0);
  EXPECT_TRUE(collector.receive());
  std::ifstream file(records);
  std::vector<std::string> sources;
  for (std::string line; std::getline(file, line);) {
    sources.push_back(nlohmann::json::parse(line)["source"]);
  }
  EXPECT_THAT(sources, ::testing::UnorderedElementsAre("10.0.0.1", "10.0.0.2"));
  EXPECT_THAT(program.output(), HasSubstr("telemetry: 2 packets: 2 forwarded, 0 dropped\n"));
}

TEST(Vxlan, AFailedWriteOfRecordsFailsTheServer) {
  const testing::UdpPeer peer;
  const uint16_t port = free_port();
  Process program({"serve", "--program", "telemetry,collector=127.0.0.1:9", "--port",
                   tunnel_text(port, peer.at()), "--records", "/dev/full"});
  ASSERT_TRUE(program.wait_for_line("ready")) << program.errors();
  const Bytes frame = ipv4_frame_from(1);
  peer.send(datagram_of(frame), Endpoint::ipv4(INADDR_LOOPBACK, port));
  ASSERT_EQ(peer.receive(), datagram_of(frame));
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait_for_end(), 1);
  EXPECT_THAT(program.errors(), HasSubstr("/dev/full: No space left on device"));
}

class VxlanControl : public ControlFolder {};

TEST_F(VxlanControl, GuardLogsItsCulprits) {
  const testing::UdpPeer peer;
  const uint16_t port = free_port();
  Process guard({"serve", "--program",
                 "guard,source-pps=1,network-pps=10000000,destination-pps=1,detect-ms=1000,"
                 "allow=10.0.0.2/32",
                 "--port", tunnel_text(port, peer.at())});
  ASSERT_TRUE(guard.wait_for_line("ready")) << guard.errors();
  {
    // The frames of the allowed source return always, so they pace the culprit's.
    const std::jthread sender([&](const std::stop_token& stop) {
      const Bytes paced = datagram_of(ipv4_frame_from(2));
      while (!stop.stop_requested()) {
        peer.send(datagram_of(ipv4_frame_from(1)), Endpoint::ipv4(INADDR_LOOPBACK, port));
        peer.send(paced, Endpoint::ipv4(INADDR_LOOPBACK, port));
        for (auto back = peer.receive(); back != paced; back = peer.receive()) {
          if (!back) return;
        }
      }
    });
    EXPECT_TRUE(guard.wait_for_error(
        "warn event=culprit_detected reason=source_bandwidth kind=other source=10.0.0.1/32 "
        "destination=10.0.1.1 pps="));
  }
  EXPECT_THAT(run({"log", "--name", "guard"}), HasSubstr("event=culprit_detected"));
  EXPECT_THAT(run({"status", "--name", "guard"}),
              AllOf(HasSubstr("\nrecords: culprits 1 destinations 1 suspects "),
                    HasSubstr("\n  other from 10.0.0.1/32 to 10.0.1.1: "),
                    HasSubstr(" s ago; action drop, ")));
  const auto status = nlohmann::json::parse(run({"status", "--json", "--name", "guard"}));
  EXPECT_EQ(status["notices"].size(), 1U);
  EXPECT_EQ(status["tx_bytes"], status["tx_packets"].get<uint64_t>() * ipv4_frame_from(2).size());
  guard.signal(SIGTERM);
  EXPECT_EQ(guard.wait_for_end(), 0) << guard.errors();
  EXPECT_THAT(guard.output(), HasSubstr("  culprit: other from 10.0.0.1/32 to 10.0.1.1: "));
  EXPECT_THAT(guard.output(), HasSubstr("  dropped_source "));
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
  uint64_t foreign = 0;
  for (uint32_t i = 0; i < 200; i++) {
    stranger.send(datagram_of(frame), to);
    foreign++;
    Bytes bytes(prng.below(120));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.below(256));
    if (prng.chance(0.5)) bytes = datagram_of(bytes);  // A random frame in a good tunnel.
    const auto network = wire::vxlan_network(bytes);
    if (!network) malformed++;
    if (network && network != kNetwork) foreign++;
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
  EXPECT_EQ(stats["ports"][0]["frames"]["tunnel_foreign"], foreign);
  EXPECT_EQ(stats["ports"][0]["frames"]["tunnel_malformed"], malformed);
  EXPECT_EQ(stats["ports"][0]["frames"]["kernel_dropped"], 0);
}

TEST(Vxlan, RefusalsNameTheFlag) {
  Process cores({"serve", "--program", "filter", "--port", "vxlan:127.0.0.1:1,peer=127.0.0.1:2",
                 "--cores", "2"});
  EXPECT_EQ(cores.wait_for_end(), 2);
  EXPECT_THAT(cores.errors(), HasSubstr("a tunnel has one core"));
  Process address({"serve", "--program", "filter", "--port", "vxlan:192.0.2.1,peer=127.0.0.1"});
  EXPECT_EQ(address.wait_for_end(), 1);  // The address may come later.
  EXPECT_THAT(address.errors(), HasSubstr("cannot bind"));
  Process records({"serve", "--program", "filter", "--port", "vxlan:127.0.0.1:1,peer=127.0.0.1:2",
                   "--records", scratch("none.jsonl")});
  EXPECT_EQ(records.wait_for_end(), 2);
  EXPECT_THAT(records.errors(), HasSubstr("such as telemetry; filter has none"));
  Process aggregator({"serve", "--job", "id=1,sources=1", "--records", scratch("none.jsonl")});
  EXPECT_EQ(aggregator.wait_for_end(), 2);
  EXPECT_THAT(aggregator.errors(), HasSubstr("--records needs --program telemetry"));
}

}  // namespace
}  // namespace tributary::system_test
