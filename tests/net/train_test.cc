// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked times of a train over one and two links. Then small cases that compare trains
// of k packets with single packets, within the bounds that the docs state.
#include <gtest/gtest.h>

#include <memory>

#include "net/topology.h"
#include "tests/net/net_bed.h"

namespace tributary::net {
namespace {

constexpr uint32_t kSize = 1000 - kWireOverheadBytes;  // 8,000 ticks at 100 Gbit/s.

TEST(Train, TrainOccupiesTheLinkForAllItsPackets) {
  CableBed bed({.queue_bytes_max = 8'000, .ecn_bytes = 6'500}, 1, 4);
  bed.send(kSize);
  EXPECT_EQ(bed.network.queue_bytes(bed.link), 4'000u);
  bed.send(kSize);  // Its last packet finds 7,000 bytes queued.
  bed.send(kSize);  // 12,000 bytes do not fit.
  bed.run();
  ASSERT_EQ(bed.b.received.size(), 2u);
  EXPECT_EQ(bed.b.received[0].at, at_ticks(4 * 8'000 + 50'000));
  EXPECT_EQ(bed.b.received[1].at, at_ticks(8 * 8'000 + 50'000));
  EXPECT_FALSE(bed.b.received[0].packet->congestion_experienced);
  EXPECT_TRUE(bed.b.received[1].packet->congestion_experienced);
  EXPECT_EQ(bed.counters().bytes, 8'000u);
  EXPECT_EQ(bed.counters().packets, 8u);
  EXPECT_EQ(bed.counters().tail_dropped, 4u);
  EXPECT_EQ(bed.counters().marked, 4u);
}

/// Hosts at a switch; the first ones send, the last one receives.
struct Incast {
  Incast(uint32_t senders, uint32_t train, const LinkConfig& link) : network(core, 1, train) {
    for (uint32_t i = 0; i <= senders; i++) hosts.push_back(std::make_unique<SinkNode>(core));
    StarShape shape{.workers = senders + 1, .link = link};
    const Topology topology = star(shape);
    uint32_t next = 0;
    auto made = build(topology, network, [&](const NodeSpec& spec) -> Result<BuiltNode> {
      ids.push_back(network.add_node(*hosts[next++], spec.name));
      return BuiltNode{ids.back(), nullptr, false};
    });
    EXPECT_TRUE(made.has_value());
    built = std::move(*made);
  }
  void send(uint32_t sender, uint32_t size_bytes) {
    network.transmit(ids[sender], 0,
                     network.packets().make(host_address(sender),
                                            host_address(static_cast<uint32_t>(ids.size()) - 1),
                                            size_bytes, {}));
  }
  [[nodiscard]] const std::vector<SinkNode::Received>& received() const {
    return hosts.back()->received;
  }
  EventCore core;
  Network network;
  std::vector<std::unique_ptr<SinkNode>> hosts;
  std::vector<NodeId> ids;
  BuiltNetwork built;
};

TEST(Train, ForwarderCutsATrainThrough) {
  // 4 packets of 8,000 ticks: the last leaves the host at 32,000, reaches the switch at 82,000,
  // leaves it 8,000 later and arrives at 140,000. One packet alone takes 116,000.
  Incast bed(1, 4, {});
  bed.send(0, kSize);
  while (bed.core.run_next()) continue;
  ASSERT_EQ(bed.received().size(), 1u);
  EXPECT_EQ(bed.received()[0].at, at_ticks(140'000));
}

/// Each sender sends `packets` at once. @return when the last one has arrived.
Instant incast_ends(uint32_t senders, uint32_t train, uint32_t packets, uint64_t rate) {
  Incast bed(senders, train, {.rate_bits_per_s = rate, .queue_bytes_max = uint64_t{1} << 40});
  for (uint32_t i = 0; i < packets / train; i++) {
    for (uint32_t sender = 0; sender < senders; sender++) bed.send(sender, kSize);
  }
  while (bed.core.run_next()) continue;
  EXPECT_EQ(bed.received().size(), senders * packets / train);
  return bed.received().back().at;
}

// The bound: the time of a transfer differs by less than one train's time on the slowest link. So
// the goodput of n trains differs by less than 1 / n.
TEST(Train, GoodputDiffersByLessThanOneTrain) {
  for (const uint32_t senders : {1u, 2u, 5u}) {
    for (const uint32_t packets : {32u, 128u, 1'024u}) {
      for (const uint64_t rate : {uint64_t{10'000'000'000}, uint64_t{100'000'000'000}}) {
        const Instant single = incast_ends(senders, 1, packets, rate);
        const Instant trains = incast_ends(senders, 32, packets, rate);
        const auto packet_ticks = static_cast<int64_t>(8'000 * 100'000'000'000 / rate);
        const Duration bound = Duration::from_ticks(packet_ticks * 32);
        EXPECT_LE(trains - single, bound) << senders << " senders, " << packets << " packets";
        EXPECT_LE(single - trains, bound) << senders << " senders, " << packets << " packets";
      }
    }
  }
}

/// Returns the greatest depth of the queue to the receiver.
uint64_t peak(uint32_t senders, uint32_t train, uint32_t packets) {
  Incast bed(senders, train, {.queue_bytes_max = uint64_t{1} << 40});
  for (uint32_t i = 0; i < packets / train; i++) {
    for (uint32_t sender = 0; sender < senders; sender++) bed.send(sender, kSize);
  }
  while (bed.core.run_next()) continue;
  const LinkId last = *bed.network.link_at(bed.network.find_node("switch").value(), senders);
  return bed.network.counters(last).queue_bytes_peak;
}

// The bound: one train of each sender.
TEST(Train, QueuesDifferByLessThanATrainOfEachSender) {
  for (const uint32_t senders : {2u, 3u, 6u}) {
    const uint64_t single = peak(senders, 1, 256);
    const uint64_t trains = peak(senders, 32, 256);
    const uint64_t difference = single > trains ? single - trains : trains - single;
    EXPECT_LE(difference, uint64_t{senders} * 32 * 1000) << single << " and " << trains;
  }
}

}  // namespace
}  // namespace tributary::net
