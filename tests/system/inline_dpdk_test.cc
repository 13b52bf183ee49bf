// SPDX-License-Identifier: Apache-2.0
// Method: `serve --program` on DPDK devices that need no card and no hugepages: capture files as
// both ends of a wire, so that each frame in and out is known; a device that delivers frames
// without end, on two cores; a tunnel at the other end; as root, a tap and an interface between a
// server and its workers. Then refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/prng.h"
#include "tests/programs/captures.h"
#include "tests/support/seed.h"
#include "tests/support/udp_peer.h"
#include "tests/system/network.h"
#include "tests/system/process.h"
#include "tests/system/server.h"
#include "wire/headers.h"
#include "wire/vxlan.h"

namespace tributary::system_test {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;
using Frames = std::vector<Bytes>;

/// Writes a capture of these frames.
void write_frames(const std::string& path, const Frames& frames) {
  std::vector<testing::TestPacket> packets;
  for (const Bytes& frame : frames) packets.push_back({.at_ns = 0, .bytes = frame});
  testing::write_capture(path, packets);
}

Frames frames_of(const std::string& path) {
  Frames frames;
  for (const testing::TestPacket& packet : testing::read_capture(path)) {
    frames.push_back(packet.bytes);
  }
  return frames;
}

/// An IPv4 frame that differs from others by its last byte.
Bytes frame_of(uint32_t size, uint32_t number) {
  Bytes frame = testing::ipv4_frame(size);
  frame.back() = static_cast<std::byte>(number);
  return frame;
}

/// The `--port` of a device that receives one capture file and sends to another.
std::string capture_port(const std::string& in, const std::string& out) {
  return "dpdk:pcap,rx_pcap=" + in + ",tx_pcap=" + out;
}

/// A program with its file of counters.
class Program {
 public:
  explicit Program(const std::vector<std::string>& words) : json_(scratch(test_name() + ".json")) {
    std::vector<std::string> all{"serve", "--json", json_, "--program"};
    all.insert(all.end(), words.begin(), words.end());
    process_ = std::make_unique<Process>(all);
    EXPECT_TRUE(process_->wait_for_line("ready")) << process_->errors();
  }
  static std::string test_name() {
    return ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }

  /// Waits until every core has received `packets`, frames that the port refuses included.
  void wait_for_packets(uint64_t packets) {
    const auto deadline = Clock::now() + kPatience;
    while (Clock::now() < deadline && !::testing::Test::HasFailure()) {
      bool all = true;
      const nlohmann::json stats = requested_stats(*process_, json_);
      for (const auto& port : stats["ports"]) {
        const auto& frames = port["frames"];
        all &= port["rx_packets"].get<uint64_t>() + frames["runt"].get<uint64_t>() +
                   frames["giant"].get<uint64_t>() >=
               packets;
      }
      if (all) return;
    }
    ADD_FAILURE() << "fewer packets than " << packets << process_->errors();
  }
  /// Ends the program. @return its counters.
  nlohmann::json end() {
    process_->signal(SIGTERM);
    EXPECT_EQ(process_->wait_for_end(), 0) << process_->errors();
    return json_of(json_);
  }

 private:
  const std::string json_;
  std::unique_ptr<Process> process_;
};

TEST(InlineDpdk, FramesLeaveByTheOtherPortAndBadOnesAreCounted) {
  const std::string left_in = scratch("left_in.pcap"), left_out = scratch("left_out.pcap");
  const std::string right_in = scratch("right_in.pcap"), right_out = scratch("right_out.pcap");
  Bytes arp(60);
  wire::MutableView<wire::EthernetHeader>(arp.data()).set<wire::EthernetHeader::EtherType>(0x0806);
  const Bytes options = testing::ipv4_frame(100, /*header_words=*/6);
  const Bytes truncated = testing::ipv4_frame(33);  // An IPv4 header would end at byte 34.
  const Bytes runt(13), giant = frame_of(1'523, 9);
  const Frames there{frame_of(60, 1), frame_of(1'514, 2), frame_of(1'522, 3)};
  const Frames back{frame_of(70, 4), frame_of(80, 5)};
  write_frames(left_in, {there[0], arp, runt, there[1], options, giant, truncated, there[2]});
  write_frames(right_in, back);
  Program filter({"filter", "--port", capture_port(left_in, left_out), "--port",
                  capture_port(right_in, right_out)});
  filter.wait_for_packets(8 + 2);
  const auto stats = filter.end();
  EXPECT_EQ(frames_of(right_out), there);
  EXPECT_EQ(frames_of(left_out), back);
  EXPECT_EQ(stats["forwarded"], 5);
  EXPECT_EQ(stats["dropped"], 3);
  EXPECT_EQ(stats["outcomes"]["non_ip"]["packets"], 1);
  EXPECT_EQ(stats["outcomes"]["ip_options"]["packets"], 1);
  EXPECT_EQ(stats["outcomes"]["no_header"]["packets"], 1);
  const auto& port = stats["ports"][0];
  EXPECT_EQ(port["rx_packets"], 8);
  EXPECT_EQ(port["tx_packets"], 5);
  EXPECT_EQ(port["tx_refused"], 0);
  EXPECT_EQ(port["frames"]["runt"], 1);
  EXPECT_EQ(port["frames"]["giant"], 1);
}

TEST(InlineDpdk, OnePortSendsJumboFramesBack) {
  const std::string in = scratch("jumbo_in.pcap"), out = scratch("jumbo_out.pcap");
  const Frames jumbo{frame_of(9'014, 1), frame_of(4'000, 2)};
  write_frames(in, {jumbo[0], frame_of(9'023, 9), jumbo[1]});
  Program filter({"filter", "--port", capture_port(in, out) + ",mtu=9000"});
  filter.wait_for_packets(3);
  const auto stats = filter.end();
  EXPECT_EQ(frames_of(out), jumbo);
  EXPECT_EQ(stats["forwarded"], 2);
  EXPECT_EQ(stats["ports"][0]["frames"]["giant"], 1);
}

TEST(InlineDpdk, RandomFramesAreForwardedOrCounted) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  const std::string in = scratch("random_in.pcap"), out = scratch("random_out.pcap");
  const auto packets = testing::random_packets(prng, 3'000);
  testing::write_capture(in, packets);
  Program filter({"filter", "--port", capture_port(in, out)});
  filter.wait_for_packets(packets.size());
  const auto stats = filter.end();
  const auto& frames = stats["ports"][0]["frames"];
  EXPECT_EQ(stats["forwarded"].get<size_t>(), frames_of(out).size());
  EXPECT_EQ(stats["forwarded"].get<uint64_t>() + stats["dropped"].get<uint64_t>() +
                frames["runt"].get<uint64_t>() + frames["giant"].get<uint64_t>(),
            packets.size());
  EXPECT_GT(stats["forwarded"], 0);
  EXPECT_GT(frames["runt"], 0);
}

TEST(InlineDpdk, AWireFromATunnelToADevice) {
  const std::string in = scratch("tunnel_in.pcap"), out = scratch("tunnel_out.pcap");
  const testing::UdpPeer peer;
  const uint16_t port = free_port();
  const Bytes to_peer = frame_of(100, 1), to_device = frame_of(200, 2);
  write_frames(in, {to_peer});
  Program filter({"filter", "--port", capture_port(in, out), "--port",
                  "vxlan:127.0.0.1:" + std::to_string(port) + ",peer=" + peer.at().to_string()});
  const auto header = wire::vxlan_header(0);
  const auto datagram_of = [&header](const Bytes& frame) {
    Bytes datagram(header.begin(), header.end());
    datagram.insert(datagram.end(), frame.begin(), frame.end());
    return datagram;
  };
  EXPECT_EQ(peer.receive(), datagram_of(to_peer));
  peer.send(datagram_of(to_device), Endpoint::ipv4(INADDR_LOOPBACK, port));
  filter.wait_for_packets(2);
  EXPECT_EQ(filter.end()["forwarded"], 2);
  EXPECT_EQ(frames_of(out), Frames{to_device});
}

TEST(InlineDpdk, EachCoreHasItsQueue) {
  // net_null delivers frames of zeros, which the filter drops, on all queues and without end.
  Program filter({"filter", "--port", "dpdk:null", "--port", "dpdk:null", "--cores", "2"});
  filter.wait_for_packets(1'000);
  const auto stats = filter.end();
  EXPECT_EQ(stats["cores"].size(), 2U);
  EXPECT_EQ(stats["dropped"], stats["outcomes"]["non_ip"]["packets"]);
}

class InlineTap : public VethTest {};

TEST_F(InlineTap, SumsAreExactAcrossATapAndAnInterface) {
  // theirs_ -- wire -- the program -- tap -- the kernel of ours_, with the server's address.
  const std::string trains_off = " link set wire gso_max_segs 1 gso_max_size 1500";
  if (!run("ip -n " + theirs_ + trains_off)) GTEST_SKIP() << "the ip command cannot limit trains";
  ASSERT_TRUE(run("ip -n " + theirs_ + " link set wire address 02:00:00:00:00:02"));
  std::unique_ptr<Program> filter;
  {
    const Inside inside(ours_);
    filter = std::make_unique<Program>(std::vector<std::string>{
        "filter", "--port", "packet:wire", "--port", "dpdk:tap,iface=inner,hugepages=off"});
  }
  for (const char* command :
       {"link set inner address 02:00:00:00:00:01", "address add 10.77.0.1/24 dev inner",
        "neigh replace 10.77.0.2 lladdr 02:00:00:00:00:02 dev inner"}) {
    ASSERT_TRUE(run("ip -n " + ours_ + " " + command)) << command;
  }
  ASSERT_TRUE(
      run("ip -n " + theirs_ + " neigh replace 10.77.0.1 lladdr 02:00:00:00:00:01 dev wire"));
  std::unique_ptr<Process> server;
  {
    const Inside inside(ours_);
    server = std::make_unique<Process>(
        std::vector<std::string>{"serve", "--listen", "10.77.0.1", "--job", "id=1,sources=1"});
  }
  ASSERT_TRUE(server->wait_for_line("ready")) << server->errors();
  {
    const Inside inside(theirs_);
    Process worker({"worker", "--server", "10.77.0.1", "--world", "1", "--rank", "0", "--verify",
                    "--elements", "50000", "--iterations", "3"});
    EXPECT_EQ(worker.wait_for_end(), 0) << worker.errors();
  }
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait_for_end(), 0);
  const auto stats = filter->end();
  EXPECT_GE(stats["forwarded"], 2 * 3 * 50'000 / 352);
}

TEST(InlineDpdk, RefusalsAreOneLine) {
  const auto refusal = [](const std::vector<std::string>& ports, const std::string& program) {
    std::vector<std::string> words{"serve", "--program", program};
    words.insert(words.end(), ports.begin(), ports.end());
    Process process(words);
    EXPECT_EQ(process.wait_for_end(), 2) << process.errors();
    EXPECT_EQ(lines_of(process.errors()).size(), 1U) << process.errors();
    return process.errors();
  };
  EXPECT_THAT(refusal({"--port", "dpdk:vhots"}, "filter"), HasSubstr("'vhots' is not a device"));
  EXPECT_THAT(refusal({"--port", "dpdk:ff:1f.7"}, "filter"),
              HasSubstr("there is no PCI device 0000:ff:1f.7"));
  EXPECT_THAT(refusal({"--port", "dpdk:null,ip=10.0.0.1/24"}, "filter"),
              HasSubstr("leave out ip and gw"));
  EXPECT_THAT(refusal({"--port", "dpdk:null0", "--port", "dpdk:null0"}, "filter"),
              HasSubstr("the device net_null0 is named twice"));
  EXPECT_THAT(refusal({"--port", "dpdk:null", "--cores", "2"}, "guard"),
              HasSubstr("cannot share its frames among 2 cores by IP destination"));
  EXPECT_THAT(
      refusal({"--port", capture_port(scratch("none.pcap"), scratch("out.pcap"))}, "filter"),
      HasSubstr("--port: net_pcap0: the driver refuses"));
}

}  // namespace
}  // namespace tributary::system_test
