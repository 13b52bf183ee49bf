// SPDX-License-Identifier: Apache-2.0
// Method:  three network namespaces in a row; the one in the middle has no address and runs a
//          program between its two interfaces. A server and a worker at the ends exchange packets
//          through it. Needs root.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/programs/captures.h"
#include "tests/system/network.h"
#include "tests/system/process.h"
#include "tests/system/server.h"
#include "wire/headers.h"
#include "wire/ipfix.h"

namespace tributary::system_test {
namespace {

using ::testing::HasSubstr;

/// A VethTest whose end "ours" is joined to a third namespace, `far_`, by a second wire. far_ has
/// 10.77.0.3/24. Nobody answers ARP through a program that drops it, so neighbours are fixed.
class InlineTest : public VethTest {
 protected:
  InlineTest() : far_("tributary_c" + std::to_string(getpid())) {}
  ~InlineTest() override { run("ip netns del " + far_); }
  void SetUp() override {
    VethTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_TRUE(run("ip netns add " + far_));
    ASSERT_TRUE(run("ip link add far mtu 4200 netns " + ours_ +
                    " type veth peer name wire mtu 4200 netns " + far_));
    ASSERT_TRUE(run("ip -n " + ours_ + " link set far up"));
    ASSERT_TRUE(run("ip -n " + theirs_ + " link set wire address 02:00:00:00:00:02"));
    ASSERT_TRUE(run("ip -n " + far_ + " link set wire address 02:00:00:00:00:03 up"));
    ASSERT_TRUE(run("ip -n " + far_ + " address add 10.77.0.3/24 dev wire"));
    ASSERT_TRUE(
        run("ip -n " + theirs_ + " neigh replace 10.77.0.3 lladdr 02:00:00:00:00:03 dev wire"));
    ASSERT_TRUE(
        run("ip -n " + far_ + " neigh replace 10.77.0.2 lladdr 02:00:00:00:00:02 dev wire"));
  }

  /// Starts `serve` in the middle.
  [[nodiscard]] std::unique_ptr<Process> start(const std::vector<std::string>& more) const {
    const Inside inside(ours_);
    std::vector<std::string> words{"serve"};
    words.insert(words.end(), more.begin(), more.end());
    return std::make_unique<Process>(words);
  }

  /// Sums of two workers at one end, by a server at the other, are exact.
  void expect_sums_through_the_wire() const {
    std::unique_ptr<Process> server;
    {
      const Inside inside(far_);
      server = std::make_unique<Process>(
          std::vector<std::string>{"serve", "--listen", "10.77.0.3", "--job", "id=1,sources=2"});
    }
    ASSERT_TRUE(server->wait_for_line("ready")) << server->errors();
    const Inside inside(theirs_);
    std::vector<std::unique_ptr<Process>> workers;
    for (const std::string rank : {"0", "1"}) {
      workers.push_back(std::make_unique<Process>(
          std::vector<std::string>{"worker", "--server", "10.77.0.3", "--world", "2", "--rank",
                                   rank, "--verify", "--elements", "50000", "--iterations", "3"}));
    }
    for (const auto& worker : workers) EXPECT_EQ(worker->wait_for_end(), 0) << worker->errors();
    server->signal(SIGTERM);
    EXPECT_EQ(server->wait_for_end(), 0);
  }

  const std::string far_;
};

TEST_F(InlineTest, FilterPassesIpAndDropsTheRest) {
  const std::string json = scratch("inline_filter.json");
  const auto filter = start({"--program", "filter", "--port", "packet:wire", "--port", "packet:far",
                             "--cores", "2", "--json", json});
  ASSERT_TRUE(filter->wait_for_line("ready")) << filter->errors();
  expect_sums_through_the_wire();
  // An address without a fixed neighbour: ARP, which the filter drops.
  ASSERT_TRUE(run("ip netns exec " + theirs_ + " bash -c 'echo > /dev/udp/10.77.0.9/9'"));
  filter->signal(SIGTERM);
  EXPECT_EQ(filter->wait_for_end(), 0) << filter->errors();
  const auto stats = json_of(json);
  EXPECT_EQ(stats["program"], "filter");
  EXPECT_GT(stats["forwarded"], 0);
  EXPECT_GT(stats["outcomes"]["non_ip"]["packets"], 0);
  EXPECT_EQ(stats["cores"].size(), 2U);
  EXPECT_THAT(filter->output(), HasSubstr("  non_ip "));  // The report for people.
  uint64_t refused = 0, received = 0, trains = 0;
  for (const auto& port : stats["ports"]) {
    refused += port["tx_refused"].get<uint64_t>();
    received += port["rx_packets"].get<uint64_t>();
    trains += port["frames"]["trains"].get<uint64_t>();
  }
  EXPECT_EQ(refused, 0U);
  EXPECT_GT(trains, 0U);  // The kernels at both ends send trains, which arrive whole.
  EXPECT_EQ(stats["forwarded"].get<uint64_t>() + stats["dropped"].get<uint64_t>(), received);
  uint64_t outcomes = 0;  // Of both cores.
  for (const auto& outcome : stats["outcomes"]) outcomes += outcome["packets"].get<uint64_t>();
  EXPECT_EQ(outcomes, received);
  EXPECT_EQ(stats["outcomes"]["forwarded"]["packets"], stats["forwarded"]);
}

TEST_F(InlineTest, TheLogSaysWhichPortIsDownUpOrGone) {
  const auto filter =
      start({"--program", "filter", "--port", "packet:wire", "--port", "packet:far"});
  ASSERT_TRUE(filter->wait_for_line("ready")) << filter->errors();
  ASSERT_TRUE(run("ip -n " + far_ + " link set wire down"));  // The other end of "far".
  EXPECT_TRUE(filter->wait_for_error("event=port_down port=far")) << filter->errors();
  ASSERT_TRUE(run("ip -n " + far_ + " link set wire up"));
  EXPECT_TRUE(filter->wait_for_error("event=port_up port=far")) << filter->errors();
  ASSERT_TRUE(run("ip -n " + far_ + " link delete wire"));
  EXPECT_TRUE(filter->wait_for_error("the interface far that was opened is gone"))
      << filter->errors();
  filter->signal(SIGTERM);
  EXPECT_EQ(filter->wait_for_end(), 0) << filter->errors();
}

/// A collector: a UDP socket of the namespace in which it is made.
class Collector {
 public:
  Collector() : socket_(::socket(AF_INET, SOCK_DGRAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    socklen_t size = sizeof address;
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~Collector() { ::close(socket_); }
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }
  /// Returns the flows of all messages that have arrived.
  [[nodiscard]] std::vector<wire::IpfixFlow> take_flows() const {
    std::vector<wire::IpfixFlow> flows;
    std::array<std::byte, 9'000> message;
    for (;;) {
      const ssize_t bytes = ::recv(socket_, message.data(), message.size(), MSG_DONTWAIT);
      if (bytes < 0) return flows;
      const auto decoded = wire::decode_ipfix(std::span(message).first(static_cast<size_t>(bytes)));
      EXPECT_TRUE(decoded) << decoded.error().text;
      if (decoded) flows.insert(flows.end(), decoded->flows.begin(), decoded->flows.end());
    }
  }

 private:
  const int socket_;
  uint16_t port_ = 0;
};

TEST_F(InlineTest, TelemetryExportsEachPacketOnce) {
  ASSERT_TRUE(run("ip -n " + ours_ + " link set lo up"));
  std::unique_ptr<Collector> collector;
  {
    const Inside inside(ours_);
    collector = std::make_unique<Collector>();
  }
  const std::string json = scratch("inline_telemetry.json");
  const auto telemetry =
      start({"--program", "telemetry,collector=127.0.0.1:" + std::to_string(collector->port()),
             "--port", "packet:wire", "--port", "packet:far", "--cores", "2", "--json", json});
  ASSERT_TRUE(telemetry->wait_for_line("ready")) << telemetry->errors();
  expect_sums_through_the_wire();
  telemetry->signal(SIGTERM);
  EXPECT_EQ(telemetry->wait_for_end(), 0) << telemetry->errors();

  uint64_t packets = 0;
  std::set<std::pair<uint16_t, uint16_t>> ports;
  for (const wire::IpfixFlow& flow : collector->take_flows()) {
    packets += flow.packets;
    if (flow.protocol == wire::kIpProtocolUdp) {
      ports.insert({flow.source_port, flow.destination_port});
    }
  }
  EXPECT_EQ(json_of(json)["outcomes"]["accounted"]["packets"], packets);
  // Two workers and the server's answers to each: four flows at least.
  EXPECT_GE(ports.size(), 4U);
}

TEST_F(InlineTest, GuardSeesEachDestinationAtOneCore) {
  // Without neighbour discovery the two hosts are the only destinations.
  for (const std::string& network : {ours_, theirs_, far_}) {
    ASSERT_TRUE(run("ip netns exec " + network + " sysctl -w net.ipv6.conf.all.disable_ipv6=1"));
  }
  const std::string json = scratch("inline_guard.json");
  const auto guard = start({"--program", "guard", "--port", "packet:wire", "--port", "packet:far",
                            "--cores", "2", "--json", json});
  ASSERT_TRUE(guard->wait_for_line("ready")) << guard->errors();
  expect_sums_through_the_wire();
  // A hash of flows would share these 64 among both cores, and each would have a record.
  ASSERT_TRUE(run("ip netns exec " + theirs_ +
                  " bash -c 'for i in {1..64}; do echo > /dev/udp/10.77.0.3/9; done'"));
  guard->signal(SIGTERM);
  EXPECT_EQ(guard->wait_for_end(), 0) << guard->errors();
  const auto stats = json_of(json);
  uint64_t destinations = 0;
  for (const auto& core : stats["details"]) destinations += core["destinations"].get<uint64_t>();
  EXPECT_GE(destinations, 1U);
  EXPECT_LE(destinations, 2U);
  EXPECT_EQ(stats["dropped"], 0);
}

/// A socket for the frames of an interface of the namespace in which it is made.
class FrameSocket {
 public:
  explicit FrameSocket(const char* interface)
      : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))) {
    sockaddr_ll at{};
    at.sll_family = AF_PACKET;
    at.sll_protocol = htons(ETH_P_ALL);
    at.sll_ifindex = static_cast<int>(::if_nametoindex(interface));
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  }
  ~FrameSocket() { ::close(socket_); }
  FrameSocket(const FrameSocket&) = delete;
  FrameSocket& operator=(const FrameSocket&) = delete;

  /// Sends packets to `count` addresses, each behind an outer and an inner VLAN tag.
  void send_doubly_tagged(uint8_t count) const {
    constexpr std::array<uint8_t, 8> kTags{0x88, 0xa8, 0, 5, 0x81, 0, 0, 6};
    for (uint8_t i = 0; i < count; i++) {
      std::vector<std::byte> frame = testing::ipv4_frame(60);
      frame[17] = std::byte{46};  // Total length.
      frame[33] = std::byte{i};   // Last byte of the destination.
      const auto tags = std::as_bytes(std::span(kTags));
      frame.insert(frame.begin() + 12, tags.begin(), tags.end());
      EXPECT_EQ(::send(socket_, frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
    }
  }

  /// Waits until `count` frames have arrived, at most 10 s for each.
  [[nodiscard]] bool wait_for_frames(uint32_t count) const {
    constexpr int kLimitMs = 10'000;
    std::array<std::byte, 256> frame;
    for (uint32_t i = 0; i < count; i++) {
      pollfd readable{.fd = socket_, .events = POLLIN, .revents = 0};
      if (::poll(&readable, 1, kLimitMs) != 1) return false;
      if (::recv(socket_, frame.data(), frame.size(), 0) < 0) return false;
    }
    return true;
  }

 private:
  const int socket_;
};

TEST_F(InlineTest, GuardSharesDoublyTaggedFramesByDestination) {
  for (const std::string& network : {ours_, theirs_, far_}) {
    ASSERT_TRUE(run("ip netns exec " + network + " sysctl -w net.ipv6.conf.all.disable_ipv6=1"));
  }
  const std::string json = scratch("inline_tagged.json");
  const auto guard = start({"--program", "guard", "--port", "packet:wire", "--port", "packet:far",
                            "--cores", "2", "--json", json});
  ASSERT_TRUE(guard->wait_for_line("ready")) << guard->errors();
  std::unique_ptr<FrameSocket> near, far;
  {
    const Inside inside(theirs_);
    near = std::make_unique<FrameSocket>("wire");
  }
  {
    const Inside inside(far_);
    far = std::make_unique<FrameSocket>("wire");
  }
  near->send_doubly_tagged(64);
  ASSERT_TRUE(far->wait_for_frames(64));
  guard->signal(SIGTERM);
  EXPECT_EQ(guard->wait_for_end(), 0) << guard->errors();
  const auto stats = json_of(json);
  uint64_t destinations = 0;
  for (const auto& core : stats["details"]) {
    EXPECT_GE(core["destinations"], 8);
    destinations += core["destinations"].get<uint64_t>();
  }
  EXPECT_EQ(destinations, 64U);
}

TEST_F(InlineTest, RefusalsNameCauseAndRemedy) {
  const auto refusal = [this](const std::vector<std::string>& words) {
    const auto process = start(words);
    EXPECT_EQ(process->wait_for_end(), 2) << process->errors();
    return process->errors();
  };
  EXPECT_THAT(refusal({"--program", "filter", "--port", "packet:none"}),
              HasSubstr("there is no interface 'none'; see: ip link"));
  EXPECT_THAT(refusal({"--program", "filter", "--port", "packet:lo"}), HasSubstr("lo is down"));
  EXPECT_THAT(refusal({"--program", "filter"}), HasSubstr("a program needs one --port"));
  EXPECT_THAT(refusal({"--program", "filter", "--port", "packet:wire", "--job", "id=1,sources=2"}),
              HasSubstr("--job cannot be combined with --program"));
}

}  // namespace
}  // namespace tributary::system_test
