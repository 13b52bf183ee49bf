// SPDX-License-Identifier: Apache-2.0
// Method: single packets, then trains, then steering, each by hand and against the sent packets;
// then threads. Opening, refusals and multicast are in udp_port_open_test.cc.
#include "io/udp/udp_port.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <thread>

#include "tests/io/frames/bytes.h"
#include "tests/io/udp/udp_bed.h"
#include "tests/support/seed.h"

namespace tributary::io {
namespace {

using engine::kBurstPackets;
using engine::Packet;
using engine::TxPacket;

// --- one packet ---

void exchange(const Endpoint& local) {
  const auto server = open({.local = local});
  ASSERT_NE(server, nullptr);
  const auto client = open({.local = local, .peer = server->local()});
  ASSERT_NE(client, nullptr);
  EXPECT_NE(server->local().port, 0);
  EXPECT_EQ(server->payload_bytes_max(), 65'507U);

  const Bytes question = numbered(1, 100);
  client->queue(0).transmit(std::array{to(question, server->local())});
  const auto at_server = receive(server->queue(0), 1);
  ASSERT_EQ(at_server.size(), 1U);
  EXPECT_EQ(at_server[0].bytes, question);
  EXPECT_EQ(at_server[0].source, client->local());

  const Bytes answer = numbered(2, 50);
  server->queue(0).transmit(std::array{to(answer, at_server[0].source)});
  const auto at_client = receive(client->queue(0), 1);
  ASSERT_EQ(at_client.size(), 1U);
  EXPECT_EQ(at_client[0].bytes, answer);
  EXPECT_EQ(at_client[0].source, server->local());

  const engine::PortCounters counters = server->queue(0).counters();
  EXPECT_EQ(counters.rx_packets, 1U);
  EXPECT_EQ(counters.rx_bytes, 100U);
  EXPECT_EQ(counters.tx_packets, 1U);
  EXPECT_EQ(counters.tx_bytes, 50U);
  EXPECT_EQ(counters.tx_refused, 0U);
  EXPECT_GE(counters.system_calls, 2U);
}

TEST(UdpPort, ExchangesPacketsOverIpv4) { exchange(kLoopback4); }

/// The kernel keeps what the receive buffer holds and drops the rest of a flood that nobody reads.
TEST(UdpPort, CountsThePacketsThatTheKernelDropped) {
  const auto server =
      open({.local = kLoopback4, .receive_buffer_bytes = 64U << 10, .receive_offload = false});
  ASSERT_NE(server, nullptr);
  const auto client = open({.local = kLoopback4, .peer = server->local(), .send_offload = false});
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(server->queue(0).rx_dropped(), 0U);
  constexpr uint32_t kSent = 1000;
  const Bytes payload = numbered(1, 8000);
  for (uint32_t i = 0; i < kSent; i++) {
    client->queue(0).transmit(std::array{to(payload, server->local())});
  }
  ASSERT_EQ(client->queue(0).counters().tx_packets, kSent);
  const auto dropped = server->queue(0).rx_dropped();
  ASSERT_TRUE(dropped.has_value());
  EXPECT_GT(*dropped, 0U);
  std::array<Packet, kBurstPackets> burst;
  while (server->queue(0).receive(burst) > 0) {
  }
  EXPECT_EQ(server->queue(0).counters().rx_packets + *dropped, kSent);
}

TEST(UdpPort, ExchangesPacketsOverIpv6) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 loopback here";
  exchange(loopback6());
}

TEST(UdpPort, WildcardPortServesBothFamilies) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 loopback here";
  const auto server = open({});
  ASSERT_NE(server, nullptr);
  Endpoint at4 = kLoopback4;
  Endpoint at6 = loopback6();
  at4.port = at6.port = server->local().port;
  for (const Endpoint& address : {at4, at6}) {
    const auto client = open({.peer = address});
    ASSERT_NE(client, nullptr);
    // A train each way, so that joining and splitting are also tested with mapped addresses.
    const std::array<Bytes, 2> sent{numbered(1, 64), numbered(2, 64)};
    client->queue(0).transmit(std::array{to(sent[0], address), to(sent[1], address)});
    const auto arrived = receive(server->queue(0), 2);
    ASSERT_EQ(arrived.size(), 2U) << address.to_string();
    EXPECT_TRUE(arrived[0].source.is_same_peer(client->local()));
    server->queue(0).transmit(
        std::array{to(sent[0], arrived[0].source), to(sent[1], arrived[0].source)});
    const auto back = receive(client->queue(0), 2);
    ASSERT_EQ(back.size(), 2U) << address.to_string();
    EXPECT_EQ(back[1].bytes, sent[1]);
  }
  EXPECT_EQ(server->queue(0).counters().tx_refused, 0U);
}

TEST(UdpPort, ExchangesEmptyAndLargestPayloads) {
  const auto server = open({.local = kLoopback4});
  const auto client = open({.local = kLoopback4});
  const Endpoint address = server->local();
  const Bytes largest = numbered(3, 65'507);
  const Bytes oversized(65'508);
  client->queue(0).transmit(
      std::array{TxPacket{.destination = address}, to(largest, address), to(oversized, address)});
  const auto arrived = receive(server->queue(0), 2);
  ASSERT_EQ(arrived.size(), 2U);
  EXPECT_TRUE(arrived[0].bytes.empty());
  EXPECT_EQ(arrived[1].bytes, largest);
  EXPECT_EQ(client->queue(0).counters().tx_refused, 1U);
}

TEST(UdpPort, PayloadsAboveTheConfiguredSizeAreCountedNotDelivered) {
  const auto server = open({.local = kLoopback4, .payload_bytes_max = 100});
  const auto client = open({.local = kLoopback4});
  const Bytes large = numbered(1, 101);
  const Bytes small = numbered(2, 100);
  const Endpoint address = server->local();
  client->queue(0).transmit(std::array{to(large, address), to(small, address)});
  const auto arrived = receive(server->queue(0), 1);
  ASSERT_EQ(arrived.size(), 1U);
  EXPECT_EQ(arrived[0].bytes, small);
}

TEST(UdpPort, OversizedDatagramsAreCounted) {
  const auto server = open({.local = kLoopback4, .payload_bytes_max = 100});
  const auto client = open({.local = kLoopback4});
  const Bytes large = numbered(1, 101);
  client->queue(0).transmit(std::array{to(large, server->local())});
  server->queue(0).wait(seconds(2));
  expect_nothing(server->queue(0));
  EXPECT_EQ(server->queue(0).counters().rx_truncated, 1U);
  EXPECT_EQ(server->queue(0).counters().rx_packets, 0U);
  server->queue(0).transmit(std::array{to(large, client->local())});
  EXPECT_EQ(server->queue(0).counters().tx_refused, 1U);
}

// --- trains ---

TEST(UdpPort, TrainsArriveAsSinglePackets) {
  const auto server = open({.local = kLoopback4});
  const auto client = open({.local = kLoopback4});
  // 100 packets of 1000 bytes and a shorter one; a train has 64 packets (64,000 bytes).
  std::vector<Bytes> sent;
  for (uint32_t i = 0; i < 100; i++) sent.push_back(numbered(i, 1000));
  sent.push_back(numbered(100, 300));
  std::vector<TxPacket> packets;
  for (const Bytes& bytes : sent) packets.push_back(to(bytes, server->local()));
  client->queue(0).transmit(packets);
  EXPECT_EQ(client->queue(0).counters().system_calls, 1U);
  EXPECT_EQ(client->queue(0).counters().tx_packets, 101U);
  EXPECT_EQ(client->queue(0).counters().tx_bytes, 100'300U);

  const auto arrived = receive(server->queue(0), sent.size(), 48);
  ASSERT_EQ(arrived.size(), sent.size());
  for (size_t i = 0; i < sent.size(); i++) {
    ASSERT_EQ(arrived[i].bytes, sent[i]) << "packet " << i;
    ASSERT_EQ(arrived[i].source, client->local());
  }
  if (server->receive_offload()) {  // Two messages: one call to the kernel; the rest are leftovers.
    EXPECT_LE(server->queue(0).counters().system_calls, 2U);
  }
}

TEST(UdpPort, SamePacketsArriveWithoutOffloads) {
  const auto server = open({.local = kLoopback4, .receive_offload = false});
  const auto client = open({.local = kLoopback4, .send_offload = false});
  EXPECT_FALSE(server->receive_offload());
  std::vector<Bytes> sent;
  std::vector<TxPacket> packets;
  for (uint32_t i = 0; i < 100; i++) sent.push_back(numbered(i, 1000));
  for (const Bytes& bytes : sent) packets.push_back(to(bytes, server->local()));
  client->queue(0).transmit(packets);
  const auto arrived = receive(server->queue(0), sent.size());
  ASSERT_EQ(arrived.size(), sent.size());
  for (size_t i = 0; i < sent.size(); i++) ASSERT_EQ(arrived[i].bytes, sent[i]) << "packet " << i;
}

TEST(UdpPort, RestOfATrainIsReceivedWithoutWaiting) {
  const auto server = open({.local = kLoopback4});
  const auto client = open({.local = kLoopback4});
  const Bytes bytes = numbered(1, 200);
  const std::vector<TxPacket> packets(10, to(bytes, server->local()));
  client->queue(0).transmit(packets);
  std::array<Packet, 3> burst;
  uint32_t total = 0;
  while (total < 10) {
    server->queue(0).wait(seconds(2));
    const uint32_t count = server->queue(0).receive(burst);
    ASSERT_GT(count, 0U);
    total += count;
  }
  EXPECT_EQ(total, 10U);
}

TEST(UdpPort, InterleavedDestinationsKeepTheirOrder) {
  constexpr uint32_t kWorkers = 5;
  constexpr uint32_t kResults = 60;
  const auto server = open({.local = kLoopback4});
  std::vector<std::unique_ptr<UdpPort>> workers;
  for (uint32_t w = 0; w < kWorkers; w++) workers.push_back(open({.local = kLoopback4}));
  // Each result goes to all workers from one copy, as an engine sends it. These are 300 packets,
  // more than one group of the sender.
  std::vector<Bytes> results;
  for (uint32_t i = 0; i < kResults; i++) results.push_back(numbered(i, 400));
  std::vector<TxPacket> packets;
  for (const Bytes& result : results) {
    for (const auto& worker : workers) packets.push_back(to(result, worker->local()));
  }
  server->queue(0).transmit(packets);
  EXPECT_EQ(server->queue(0).counters().tx_packets, kWorkers * kResults);
  EXPECT_LE(server->queue(0).counters().system_calls, 2U);  // One per group.
  for (const auto& worker : workers) {
    const auto arrived = receive(worker->queue(0), kResults);
    ASSERT_EQ(arrived.size(), kResults);
    for (uint32_t i = 0; i < kResults; i++) ASSERT_EQ(arrived[i].bytes, results[i]) << i;
    expect_nothing(worker->queue(0));
  }
}

TEST(UdpPort, RandomBurstsArriveUnchanged) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  constexpr uint32_t kWorkers = 3;
  const auto server = open({.local = kLoopback4});
  std::vector<std::unique_ptr<UdpPort>> workers;
  for (uint32_t w = 0; w < kWorkers; w++) workers.push_back(open({.local = kLoopback4}));
  const std::array<uint32_t, 5> sizes{12, 60, 61, 1400, 4136};
  for (uint32_t round = 0; round < 100; round++) {
    std::vector<Bytes> sent(1 + prng.below(90));
    std::array<std::vector<const Bytes*>, kWorkers> model;
    std::vector<TxPacket> packets;
    uint32_t size = sizes[prng.below(5)];
    for (Bytes& bytes : sent) {
      if (prng.chance(0.2)) size = sizes[prng.below(5)];
      bytes = numbered(prng.any_u32(), size);
      // Sometimes the steering field changes, which ends a train, or the packet is empty.
      bytes[2] = static_cast<std::byte>(prng.below(8) / 7);
      if (prng.chance(0.05)) bytes.clear();
      const uint32_t worker = prng.below(kWorkers);
      model[worker].push_back(&bytes);
      packets.push_back(to(bytes, workers[worker]->local()));
    }
    server->queue(0).transmit(packets);
    for (uint32_t w = 0; w < kWorkers; w++) {
      const auto arrived =
          receive(workers[w]->queue(0), model[w].size(), 1 + prng.below(kBurstPackets));
      ASSERT_EQ(arrived.size(), model[w].size()) << "round " << round;
      for (size_t i = 0; i < arrived.size(); i++) {
        ASSERT_EQ(arrived[i].bytes, *model[w][i]) << "round " << round << " packet " << i;
      }
    }
  }
}

// --- steering ---

/// Makes a packet with the block in bytes 1-4, as in the Trio-ML header.
Bytes block_packet(uint32_t block, uint32_t size) {
  Bytes bytes(size);
  store_be<uint32_t>(bytes.data() + 1, block);
  return bytes;
}

TEST(UdpPort, SteersPacketsByTheirBlock) {
  const auto server = open({.local = kLoopback4, .queue_count = 4});
  ASSERT_NE(server, nullptr);
  ASSERT_EQ(server->queue_count(), 4U);
  const auto client = open({.local = kLoopback4});
  std::vector<Bytes> sent;
  for (uint32_t block = 0; block < 1024; block += 7) sent.push_back(block_packet(block, 80));
  std::vector<TxPacket> packets;
  std::map<uint32_t, uint32_t> expected;  // Packets per queue.
  for (const Bytes& bytes : sent) {
    packets.push_back(to(bytes, server->local()));
    expected[(load_be<uint32_t>(bytes.data() + 1) >> 7) & 3]++;
  }
  // All in one call: a train must not cross from one queue's blocks to the next queue's.
  client->queue(0).transmit(packets);
  for (uint32_t q = 0; q < 4; q++) {
    const auto arrived = receive(server->queue(q), expected[q]);
    EXPECT_EQ(arrived.size(), expected[q]) << "queue " << q;
    for (const Arrived& packet : arrived) {
      EXPECT_EQ((load_be<uint32_t>(packet.bytes.data() + 1) >> 7) & 3, q);
    }
    expect_nothing(server->queue(q));
  }
}

TEST(UdpPort, PacketsTooShortForTheFieldGoToQueueZero) {
  const auto server = open({.local = kLoopback4, .queue_count = 2});
  const auto client = open({.local = kLoopback4});
  const Bytes four = from_hex("ff ff ff ff");
  const Bytes five = from_hex("ff ff ff ff ff");
  client->queue(0).transmit(std::array{to(four, server->local()),
                                       TxPacket{.destination = server->local()},
                                       to(five, server->local())});
  EXPECT_EQ(receive(server->queue(0), 2).size(), 2U);
  EXPECT_EQ(receive(server->queue(1), 1).size(), 1U);
}

// --- waiting ---

TEST(UdpPort, PacketOrEarlierWakeEndsAWait) {
  const auto server = open({.local = kLoopback4});
  const auto client = open({.local = kLoopback4});
  const Bytes bytes = numbered(1, 40);
  client->queue(0).transmit(std::array{to(bytes, server->local())});
  server->queue(0).wait(seconds(1000));  // The test's time limit is the assertion.
  EXPECT_EQ(receive(server->queue(0), 1).size(), 1U);
  server->queue(0).wake();
  server->queue(0).wait(seconds(1000));
  server->queue(0).wait(nanoseconds(-1));  // The wake is consumed; this wait allows no time.
}

TEST(UdpPort, WakeFromAnotherThreadEndsAWait) {
  const auto server = open({.local = kLoopback4});
  for (uint32_t i = 0; i < 100; i++) {
    std::thread waker([&] { server->queue(0).wake(); });
    server->queue(0).wait(seconds(1000));  // The test's time limit is the assertion.
    waker.join();
  }
  EXPECT_LE(server->queue(0).counters().system_calls, 200U);
}

TEST(UdpPort, EachQueueRunsOnItsOwnThread) {
  constexpr uint32_t kQueues = 2;
  constexpr uint32_t kPackets = 2000;
  const auto server = open({.local = kLoopback4, .queue_count = kQueues});
  std::vector<std::thread> echoes;
  std::atomic<bool> stop{false};
  for (uint32_t q = 0; q < kQueues; q++) {
    echoes.emplace_back([&, q] {
      engine::PortQueue& queue = server->queue(q);
      std::array<Packet, kBurstPackets> burst;
      std::array<TxPacket, kBurstPackets> back;
      // Relaxed: wake() after the store gives enough order, and one more round is harmless.
      while (!stop.load(std::memory_order_relaxed)) {
        const uint32_t count = queue.receive(burst);
        if (count == 0) queue.wait(milliseconds(1000));
        for (uint32_t i = 0; i < count; i++) {
          back[i] = {.data = burst[i].data, .size = burst[i].size, .destination = burst[i].source};
        }
        queue.transmit(std::span(back).first(count));
      }
    });
  }
  const auto client = open({.local = kLoopback4, .peer = server->local()});
  uint32_t echoed = 0;
  for (uint32_t first = 0; first < kPackets; first += 50) {
    std::vector<Bytes> sent;
    std::vector<TxPacket> packets;
    for (uint32_t i = first; i < first + 50; i++) sent.push_back(block_packet(i * 16, 500));
    for (const Bytes& bytes : sent) packets.push_back(to(bytes, server->local()));
    client->queue(0).transmit(packets);
    echoed += static_cast<uint32_t>(receive(client->queue(0), 50).size());
  }
  stop.store(true, std::memory_order_relaxed);
  for (uint32_t q = 0; q < kQueues; q++) server->queue(q).wake();
  for (std::thread& echo : echoes) echo.join();
  EXPECT_EQ(echoed, kPackets);
  EXPECT_EQ(server->queue(0).counters().rx_packets + server->queue(1).counters().rx_packets,
            kPackets);
}

}  // namespace
}  // namespace tributary::io
