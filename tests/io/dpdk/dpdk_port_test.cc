// SPDX-License-Identifier: Apache-2.0
// Method: two ports in this process, joined by rings in memory, so the test needs no card,
// privilege or hugepage. Packets are compared byte by byte. tests/io/frames/frame_link_test.cc and
// tests/system/dpdk_test.cc test frames that no port would send.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "base/clock.h"
#include "io/dpdk/open_dpdk_port.h"
#include "io/dpdk/ring_pair.h"
#include "io/frames/link_inspect.h"
#include "tests/io/frames/bytes.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/seed.h"

namespace tributary::io {
namespace {

using ::testing::HasSubstr;

const Endpoint kServer = Endpoint::ipv4(0x0a000001, 12000);
const Endpoint kWorker = Endpoint::ipv4(0x0a000002, 5000);

/// Two ports and the wire between them.
class DpdkPorts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_dpdk()) GTEST_SKIP() << "built without DPDK";
  }

  /// Opens both ports. @param queues Of each port. @param rings Queues of the wire.
  void open(uint32_t queues = 1, uint32_t rings = 1, const Endpoint& server = kServer,
            const Endpoint& worker = kWorker) {
    static uint32_t number = 0;
    auto pair = make_ring_pair("t" + std::to_string(number++), rings);
    ASSERT_TRUE(pair) << pair.error().text;
    server_ = open_end((*pair)[0], server, queues);
    worker_ = open_end((*pair)[1], worker, queues);
    ASSERT_NE(server_, nullptr);
    ASSERT_NE(worker_, nullptr);
  }

  static std::unique_ptr<engine::Port> open_end(DpdkDeviceSpec device, const Endpoint& local,
                                                uint32_t queues) {
    device.address = local;
    device.address->port = 0;
    device.prefix_bits = local.is_ipv4() ? 24 : 64;
    auto spec = join_dpdk_devices({std::move(device)});
    if (!spec) {
      ADD_FAILURE() << spec.error().text;
      return nullptr;
    }
    auto opened = open_dpdk_port({.spec = *spec, .udp_port = local.port, .queue_count = queues});
    if (!opened) {
      ADD_FAILURE() << opened.error().text;
      return nullptr;
    }
    return std::move(opened->port);
  }

  /// Returns the packets that `queue` has for its program.
  static std::vector<std::pair<Bytes, Endpoint>> receive(engine::PortQueue& queue) {
    std::array<engine::Packet, engine::kBurstPackets> burst;
    std::vector<std::pair<Bytes, Endpoint>> got;
    const uint32_t count = queue.receive(burst);
    for (uint32_t i = 0; i < count; i++) got.emplace_back(copy_of(burst[i]), burst[i].source);
    return got;
  }

  static void send(engine::PortQueue& queue, const Bytes& bytes, const Endpoint& destination) {
    const engine::TxPacket packet = to(bytes, destination);
    queue.transmit({&packet, 1});
  }

  /// Lets the worker find the server's MAC address, with one question and one answer.
  void meet() {
    send(worker(), numbered(0, 20), server_->local());
    static_cast<void>(receive(worker()));  // Sends the question.
    static_cast<void>(receive(server()));  // Answers it.
    static_cast<void>(receive(worker()));  // Learns.
  }

  engine::PortQueue& server() { return server_->queue(0); }
  engine::PortQueue& worker() { return worker_->queue(0); }

  static uint64_t counted(const engine::PortQueue& queue, const std::string& name) {
    std::map<std::string, uint64_t> counters;
    queue.visit_counters([&](const char* of, uint64_t value) { counters[of] = value; });
    EXPECT_TRUE(counters.contains(name)) << name;
    return counters[name];
  }

  std::unique_ptr<engine::Port> server_;
  std::unique_ptr<engine::Port> worker_;
};

void expect_both_ways(engine::PortQueue& worker, engine::PortQueue& server,
                      const Endpoint& worker_at, const Endpoint& server_at, uint32_t bytes) {
  const Bytes there = numbered(1, bytes);
  const engine::TxPacket out = to(there, server_at);
  worker.transmit({&out, 1});
  std::array<engine::Packet, 4> burst;
  ASSERT_EQ(server.receive(burst), 1U);
  EXPECT_EQ(copy_of(burst[0]), there);
  EXPECT_EQ(burst[0].source, worker_at);
  EXPECT_EQ(burst[0].layer, engine::PacketLayer::kUdpPayload);
  // A host that has sent a packet need not be asked for.
  const Bytes back = numbered(2, bytes);
  const engine::TxPacket reply = to(back, worker_at);
  server.transmit({&reply, 1});
  ASSERT_EQ(worker.receive(burst), 1U);
  EXPECT_EQ(copy_of(burst[0]), back);
}

TEST_F(DpdkPorts, DatagramsPassBothWays) {
  ASSERT_NO_FATAL_FAILURE(open());
  meet();
  for (const uint32_t bytes : {12U, 1408U, server_->payload_bytes_max()}) {
    expect_both_ways(worker(), server(), kWorker, kServer, bytes);
  }
  EXPECT_EQ(server_->payload_bytes_max(), 9000U - 28);
  EXPECT_EQ(server_->local(), kServer);
}

TEST_F(DpdkPorts, DatagramsPassBothWaysOverIpv6) {
  const Endpoint server_at = *Endpoint::parse("[fd00::1]:12000");
  const Endpoint worker_at = *Endpoint::parse("[fd00::2]:5000");
  ASSERT_NO_FATAL_FAILURE(open(1, 1, server_at, worker_at));
  meet();
  expect_both_ways(worker(), server(), worker_at, server_at, 1408);
  EXPECT_EQ(counted(server(), "neighbour_answered"), 1U);
}

TEST_F(DpdkPorts, PacketToAnUnknownNeighbourIsDroppedNotQueued) {
  ASSERT_NO_FATAL_FAILURE(open());
  send(worker(), numbered(0, 20), kServer);
  EXPECT_EQ(worker().counters().tx_refused, 1U);
  EXPECT_EQ(counted(worker(), "unresolved"), 1U);
  static_cast<void>(receive(worker()));
  EXPECT_TRUE(receive(server()).empty());
  EXPECT_EQ(counted(server(), "arp_answered"), 1U);
  static_cast<void>(receive(worker()));
  EXPECT_EQ(counted(worker(), "neighbour_learned"), 1U);
}

TEST_F(DpdkPorts, AllReceiversGetTheSamePayload) {
  ASSERT_NO_FATAL_FAILURE(open());
  meet();
  expect_both_ways(worker(), server(), kWorker, kServer, 100);
  // Sixty copies of one result, as for sixty sources behind one wire, then another result.
  const Bytes result = numbered(7, 4136);
  const Bytes other = numbered(8, 4136);
  std::vector<engine::TxPacket> packets(60, to(result, kWorker));
  packets.push_back(to(other, kWorker));
  server().transmit(packets);
  const auto got = receive(worker());
  ASSERT_EQ(got.size(), 61U);
  for (size_t i = 0; i < 60; i++) ASSERT_EQ(got[i].first, result) << i;
  EXPECT_EQ(got[60].first, other);
}

TEST_F(DpdkPorts, BuffersReturnToThePool) {
  ASSERT_NO_FATAL_FAILURE(open());
  meet();
  // Far more packets than buffers, so a leak would show.
  for (uint32_t i = 0; i < 20'000; i++) {
    const Bytes bytes = numbered(i, 200);
    const std::array<engine::TxPacket, 2> twice{to(bytes, kServer), to(bytes, kServer)};
    worker().transmit(twice);
    std::array<engine::Packet, 8> burst;
    ASSERT_EQ(server().receive(burst), 2U) << i;
    ASSERT_EQ(number_of(burst[1].bytes()), i);
  }
  EXPECT_EQ(worker().counters().tx_refused, 1U);  // The one sent before they met.
}

TEST_F(DpdkPorts, FullWireDropsAndCountsPackets) {
  ASSERT_NO_FATAL_FAILURE(open());
  meet();
  std::array<engine::Packet, engine::kBurstPackets> burst;
  const uint64_t refused_before = worker().counters().tx_refused;
  const uint64_t sent_before = worker().counters().tx_packets;
  const Bytes bytes = numbered(1, 100);
  const std::vector<engine::TxPacket> packets(engine::kBurstPackets, to(bytes, kServer));
  for (uint32_t i = 0; i < 40; i++) worker().transmit(packets);  // 2560 packets for 1023 places.
  const uint64_t lost = worker().counters().tx_refused - refused_before;
  EXPECT_EQ(lost, 40 * engine::kBurstPackets - (kRingFrames - 1));
  uint32_t received = 0;
  while (const uint32_t some = server().receive(burst)) received += some;
  EXPECT_EQ(received, kRingFrames - 1);
  EXPECT_EQ(worker().counters().tx_packets - sent_before, received);
  EXPECT_EQ(worker().counters().tx_bytes, received * bytes.size());
  expect_both_ways(worker(), server(), kWorker, kServer, 100);  // The wire still works.
}

TEST_F(DpdkPorts, RefusesOversizedForeignAndFramePackets) {
  ASSERT_NO_FATAL_FAILURE(open());
  meet();
  const uint64_t before = worker().counters().tx_refused;
  const Bytes large(worker_->payload_bytes_max() + 1);
  send(worker(), large, kServer);
  send(worker(), numbered(0, 20), *Endpoint::parse("[fd00::1]:12000"));
  engine::TxPacket frame = to(large, kServer);
  frame.layer = engine::PacketLayer::kFrame;
  worker().transmit({&frame, 1});
  EXPECT_EQ(worker().counters().tx_refused - before, 3U);
  EXPECT_TRUE(receive(server()).empty());
}

TEST_F(DpdkPorts, GiantFrameIsDroppedAndCounted) {
  auto pair = make_ring_pair("giant", 1);
  ASSERT_TRUE(pair) << pair.error().text;
  (*pair)[0].mtu = 1500;  // The other end of the wire sends up to 9000.
  server_ = open_end((*pair)[0], kServer, 1);
  worker_ = open_end((*pair)[1], kWorker, 1);
  ASSERT_TRUE(server_ && worker_);
  meet();
  send(worker(), numbered(1, 1473), kServer);
  EXPECT_TRUE(receive(server()).empty());
  EXPECT_EQ(counted(server(), "giant"), 1U);
  EXPECT_EQ(server().counters().rx_truncated, 1U);
  EXPECT_EQ(counted(server(), "delivered"), 0U);
  expect_both_ways(worker(), server(), kWorker, kServer, 1472);
  EXPECT_EQ(counted(server(), "giant"), 1U);
}

TEST_F(DpdkPorts, WaitEndsAtAPacketAWakeUpOrTheDeadline) {
  ASSERT_NO_FATAL_FAILURE(open());
  meet();
  send(worker(), numbered(3, 20), kServer);
  server().wait(seconds(3600));
  const auto got = receive(server());
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(number_of(got[0].first), 3U);
  server().wake();
  server().wait(seconds(3600));
  const Instant began = monotonic_now();
  server().wait(microseconds(100));
  EXPECT_GE(monotonic_now() - began, microseconds(100));
}

TEST_F(DpdkPorts, ServesMoreCoresThanQueues) {
  ASSERT_NO_FATAL_FAILURE(open(2, 1));
  meet();
  expect_both_ways(worker(), server(), kWorker, kServer, 500);
  // The second core has no receive queue of its own. It sends through the shared queue and knows
  // the worker's address.
  EXPECT_TRUE(receive(server_->queue(1)).empty());
  send(server_->queue(1), numbered(9, 300), kWorker);
  const auto got = receive(worker());
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(number_of(got[0].first), 9U);
}

TEST_F(DpdkPorts, JoinedGroupDeliversDatagrams) {
  ASSERT_NO_FATAL_FAILURE(open());
  const Endpoint group = Endpoint::ipv4(0xef010203, 7000);
  const auto joined = worker_->join_group(group);
  ASSERT_TRUE(joined) << joined.error().text;
  EXPECT_TRUE(*joined);
  EXPECT_FALSE(worker_->join_group(kServer));
  send(server(), numbered(4, 400), group);  // Needs no neighbour.
  const auto got = receive(worker());       // Also reports the membership.
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(number_of(got[0].first), 4U);
  EXPECT_EQ(got[0].second, kServer);
}

TEST_F(DpdkPorts, RandomPayloadsArriveIntactAndInOrder) {
  ASSERT_NO_FATAL_FAILURE(open());
  meet();
  expect_both_ways(worker(), server(), kWorker, kServer, 100);
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t step = 0; step < 500; step++) {
    std::vector<Bytes> payloads(1 + prng.below(8));
    std::vector<engine::TxPacket> packets;
    std::vector<const Bytes*> expected;
    for (Bytes& payload : payloads) {
      payload.resize(prng.below(server_->payload_bytes_max() + 1));
      for (std::byte& byte : payload) byte = static_cast<std::byte>(prng.any_u32());
      for (uint32_t copies = 1 + prng.below(3); copies > 0; copies--) {
        packets.push_back(to(payload, kWorker));
        expected.push_back(&payload);
      }
    }
    server().transmit(packets);
    const auto got = receive(worker());
    ASSERT_EQ(got.size(), expected.size()) << step;
    for (size_t i = 0; i < got.size(); i++) ASSERT_EQ(got[i].first, *expected[i]) << step;
  }
}

TEST_F(DpdkPorts, TapOpensWithMoreCoresThanItsQueues) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root for a tap device";
  DpdkDeviceSpec device = *parse_dpdk_device("dpdk:tap,hugepages=off");
  const auto port = open_end(device, kServer, 8);
  ASSERT_NE(port, nullptr);
  EXPECT_EQ(port->queue_count(), 8U);
}

TEST_F(DpdkPorts, RefusalsNameCauseAndRemedy) {
  const testing::ScratchDirectory directory;
  const auto refusal_with = [](const std::string& text, uint32_t cores) {
    const auto device = parse_dpdk_device("dpdk:" + text);
    if (!device) return device.error().text;
    auto spec = join_dpdk_devices({*device});
    if (!spec) return spec.error().text;
    const auto opened = open_dpdk_port({.spec = *spec, .udp_port = 12000, .queue_count = cores});
    return opened ? std::string("opened") : opened.error().text;
  };
  const auto refusal = [&](const std::string& text) { return refusal_with(text, 1); };
  const std::string ip = ",ip=10.0.0.1/24,hugepages=off";
  EXPECT_THAT(refusal("ff:1f.7" + ip), HasSubstr("there is no PCI device 0000:ff:1f.7"));
  EXPECT_THAT(refusal("virtio_user,path=" + (directory.path() / "none").string() + ip),
              HasSubstr("no process serves"));
  EXPECT_THAT(refusal("af_packet,iface=nosuchif" + ip),
              HasSubstr("there is no interface nosuchif"));
  EXPECT_THAT(refusal("null,nonsense=1" + ip),
              AllOf(HasSubstr("the driver refuses 'dpdk:null,nonsense=1"),
                    HasSubstr("to fix: see its keys in")));
  // The error has the line of DPDK's log that names the cause, not the later lines.
  EXPECT_THAT(refusal("tap,iface=longer_than_15_bytes" + ip),
              AnyOf(HasSubstr("needs CAP_NET_ADMIN"), HasSubstr("invalid remote interface name")));
  EXPECT_THAT(refusal("null,mbufs=100" + ip), HasSubstr("mbufs=100 is too few"));
  EXPECT_THAT(refusal("null,mbufs=4000000" + ip), HasSubstr("MB of memory are needed and"));
  EXPECT_THAT(refusal_with("null,mbufs=2000" + ip, /*cores=*/2),
              AllOf(HasSubstr("mbufs=2000 is too few; 2 queues and 2 cores need 3328"),
                    HasSubstr("give mbufs=3328")));
  EXPECT_EQ(refusal("null" + ip), "opened");
}

}  // namespace
}  // namespace tributary::io
