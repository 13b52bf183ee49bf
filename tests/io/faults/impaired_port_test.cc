// SPDX-License-Identifier: Apache-2.0
// Method: rates of 0 and 1 by hand, refusals, then random rates. The output must be the input minus
// the lost packets plus the duplicates. The same seed must give the same result twice.
#include "io/faults/impaired_port.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "io/memory/in_memory_port.h"
#include "io/udp/path_mtu.h"
#include "io/udp/udp_port.h"
#include "tests/io/frames/bytes.h"
#include "tests/support/seed.h"

namespace tributary::io {
namespace {

using engine::Packet;
using engine::TxPacket;
using Numbers = std::vector<uint32_t>;

const Endpoint kWorker = Endpoint::ipv4(0x7f000001, 40001);

/// An impaired in-memory port that gives access to the inner port.
struct Bed {
  explicit Bed(const ImpairmentConfig& config) {
    auto memory = std::make_unique<InMemoryPort>(InMemoryPortConfig{.payload_bytes_max = 256});
    inner = memory.get();
    port = std::move(*ImpairedPort::make(std::move(memory), config));
  }
  engine::PortQueue& queue() { return port->queue(0); }

  void send(uint32_t number) {
    const Bytes bytes = numbered(number, 16);
    queue().transmit(std::array{to(bytes, kWorker)});
  }
  Numbers sent() {
    Numbers numbers;
    for (const SentPacket& packet : inner->take_sent(0)) {
      numbers.push_back(number_of(packet.bytes));
    }
    return numbers;
  }
  Numbers received(uint32_t burst_packets = engine::kBurstPackets) {
    std::array<Packet, engine::kBurstPackets> burst;
    const uint32_t count = queue().receive(std::span(burst).first(burst_packets));
    Numbers numbers;
    for (uint32_t i = 0; i < count; i++) numbers.push_back(number_of(burst[i].bytes()));
    return numbers;
  }
  void inject(uint32_t number) { ASSERT_TRUE(inner->inject(0, numbered(number, 16), kWorker)); }

  std::unique_ptr<ImpairedPort> port;
  InMemoryPort* inner = nullptr;
};

TEST(ImpairedPort, ReportsThePathMtuOfTheInnerPort) {
  // An address of TEST-NET-1 (RFC 5737), which is never at the other end of a loopback.
  const Endpoint far = Endpoint::ipv4(0xc0000201, 9);
  EXPECT_EQ(Bed(ImpairmentConfig{}).port->path_mtu(far), engine::kIpBytesMax);
  auto sockets = UdpPort::open({.local = Endpoint::ipv4(0x7f000001, 0)});
  ASSERT_TRUE(sockets) << sockets.error().text;
  const auto port = ImpairedPort::make(*std::move(sockets), ImpairmentConfig{});
  ASSERT_TRUE(port);
  EXPECT_EQ((*port)->path_mtu(far), path_mtu(far));  // As in the kernel's routes.
  EXPECT_LT((*port)->path_mtu(far), engine::kIpBytesMax);
}

TEST(ImpairedPort, PacketsPassInOrderWithoutFaults) {
  Bed bed({});
  for (uint32_t i = 0; i < 3; i++) bed.inject(i);
  EXPECT_EQ(bed.received(), (Numbers{0, 1, 2}));
  for (uint32_t i = 0; i < 3; i++) bed.send(i);
  EXPECT_EQ(bed.sent(), (Numbers{0, 1, 2}));
  EXPECT_EQ(bed.port->rx_faults(0), FaultCounts{});
  EXPECT_EQ(bed.port->tx_faults(0), FaultCounts{});
}

TEST(ImpairedPort, LossRateOneDropsEveryPacket) {
  Bed bed({.rx = {.loss = 1}, .tx = {.loss = 1}});
  bed.inject(1);
  bed.send(2);
  EXPECT_TRUE(bed.received().empty());
  EXPECT_TRUE(bed.sent().empty());
  EXPECT_EQ(bed.port->rx_faults(0), (FaultCounts{.lost = 1}));
  EXPECT_EQ(bed.port->tx_faults(0), (FaultCounts{.lost = 1}));
}

TEST(ImpairedPort, DuplicationRateOneDoublesEveryPacket) {
  Bed bed({.rx = {.duplicate = 1}, .tx = {.duplicate = 1}});
  bed.inject(1);
  bed.inject(2);
  EXPECT_EQ(bed.received(), (Numbers{1, 1, 2, 2}));
  bed.send(3);
  EXPECT_EQ(bed.sent(), (Numbers{3, 3}));
  EXPECT_EQ(bed.port->rx_faults(0), (FaultCounts{.duplicated = 2}));
}

TEST(ImpairedPort, DuplicateWaitsForTheNextBurstIfThisOneIsFull) {
  Bed bed({.rx = {.duplicate = 1}});
  bed.inject(1);
  EXPECT_EQ(bed.received(1), (Numbers{1}));
  EXPECT_EQ(bed.received(1), (Numbers{1}));
  EXPECT_TRUE(bed.received(1).empty());
}

TEST(ImpairedPort, ChangingAPacketInPlaceKeepsItsDuplicate) {
  Bed bed({.rx = {.duplicate = 1}});
  bed.inject(1);
  std::array<Packet, 4> burst;
  ASSERT_EQ(bed.queue().receive(burst), 2U);
  burst[0].data[0] = std::byte{9};
  EXPECT_EQ(copy_of(burst[1]), numbered(1, 16));
  EXPECT_EQ(burst[1].source, kWorker);
}

TEST(ImpairedPort, CorruptionFlipsOneBitOfACopy) {
  Bed bed({.rx = {.corrupt = 1}, .tx = {.corrupt = 1}});
  const auto bits_apart = [](std::span<const std::byte> a, std::span<const std::byte> b) {
    int bits = 0;
    for (size_t i = 0; i < a.size(); i++) {
      bits += std::popcount(std::to_integer<uint8_t>(a[i] ^ b[i]));
    }
    return bits;
  };
  const Bytes original = numbered(5, 16);
  const Bytes payload = original;
  bed.queue().transmit(std::array{to(payload, kWorker), TxPacket{.destination = kWorker}});
  EXPECT_EQ(payload, original);
  const auto sent = bed.inner->take_sent(0);
  ASSERT_EQ(sent.size(), 2U);  // An empty packet has no bit to invert.
  EXPECT_EQ(bits_apart(sent[0].bytes, original), 1);
  bed.inject(5);
  std::array<Packet, 2> burst;
  ASSERT_EQ(bed.queue().receive(burst), 1U);
  EXPECT_EQ(bits_apart(burst[0].bytes(), original), 1);
  EXPECT_EQ(bed.port->tx_faults(0), (FaultCounts{.corrupted = 1}));
}

TEST(ImpairedPort, SendsMoreCorruptedPacketsThanItHasSlots) {
  // More copies than slots: the port must send some in between.
  Bed bed({.tx = {.corrupt = 1}});
  std::vector<Bytes> storage;
  std::vector<TxPacket> packets;
  for (uint32_t i = 0; i < 200; i++) storage.push_back(numbered(i, 16));
  for (const Bytes& bytes : storage) packets.push_back(to(bytes, kWorker));
  bed.queue().transmit(packets);
  const auto sent = bed.inner->take_sent(0);
  ASSERT_EQ(sent.size(), 200U);
  for (uint32_t i = 0; i < 200; i++) EXPECT_NE(sent[i].bytes, storage[i]) << i;
  EXPECT_EQ(bed.port->tx_faults(0).corrupted, 200U);
}

TEST(ImpairedPort, WaitReleasesHeldPackets) {
  Bed bed({.rx = {.reorder = 1}, .tx = {.reorder = 1}});
  bed.inject(1);
  bed.send(2);
  EXPECT_TRUE(bed.received().empty());
  EXPECT_TRUE(bed.sent().empty());
  bed.queue().wait(Duration{});
  EXPECT_EQ(bed.received(), (Numbers{1}));
  EXPECT_EQ(bed.sent(), (Numbers{2}));
}

TEST(ImpairedPort, CallLimitReleasesHeldPackets) {
  Bed bed({.rx = {.reorder = 1}, .tx = {.reorder = 1}, .hold_calls_max = 5});
  bed.inject(1);
  bed.send(2);  // Call 1 for the sending lane.
  Numbers received;
  uint32_t calls = 0;
  while (received.empty() && calls < 100) {
    received = bed.received();
    calls++;
  }
  // The first receive() takes the packet from the inner port; the fifth after that returns it.
  EXPECT_EQ(calls, 6U);
  EXPECT_EQ(received, (Numbers{1}));
  EXPECT_EQ(bed.sent(), (Numbers{2}));
}

TEST(ImpairedPort, ReorderingDelaysByAtMostTheConfiguredPackets) {
  Bed bed({.tx = {.reorder = 0.2}, .reorder_packets_max = 4, .seed = 7});
  constexpr uint32_t kCount = 200;
  for (uint32_t i = 0; i < kCount; i++) bed.send(i);
  bed.queue().wait(Duration{});
  const Numbers sent = bed.sent();
  ASSERT_EQ(sent.size(), kCount);
  uint32_t late = 0;
  for (uint32_t i = 0; i < kCount; i++) {
    const auto later_before = std::count_if(sent.begin(), sent.begin() + i,
                                            [&](uint32_t number) { return number > sent[i]; });
    late += later_before != 0;
    // Up to 4 that pass by themselves, and held packets that become due at the same time.
    EXPECT_LE(later_before, 8) << "packet " << sent[i];
  }
  EXPECT_GT(late, 20U);  // 40 are expected.
  EXPECT_EQ(bed.port->tx_faults(0).reordered, late);
}

TEST(ImpairedPort, RefusesBadProbabilitiesAndLimits) {
  const auto error = [](const ImpairmentConfig& config) {
    const auto made =
        ImpairedPort::make(std::make_unique<InMemoryPort>(InMemoryPortConfig{}), config);
    return made ? std::string() : made.error().text;
  };
  EXPECT_EQ(error({.rx = {.loss = 1.5}}), "rx.loss 1.5 is not allowed; it must be 0 to 1");
  EXPECT_EQ(error({.tx = {.reorder = -0.1}}), "tx.reorder -0.1 is not allowed; it must be 0 to 1");
  EXPECT_NE(error({.reorder_packets_max = 0}), "");
  EXPECT_NE(error({.hold_calls_max = 0}), "");
}

/// Sends and receives `count` numbered packets in random bursts. @return both ends' sequences.
std::pair<Numbers, Numbers> walk(const ImpairmentConfig& config, uint64_t seed, uint32_t count,
                                 FaultCounts& rx, FaultCounts& tx) {
  Bed bed(config);
  Prng prng(seed);
  Numbers received;
  Numbers sent;
  const auto collect = [&](uint32_t burst) {
    const Numbers some = bed.received(burst);
    received.insert(received.end(), some.begin(), some.end());
    const Numbers others = bed.sent();
    sent.insert(sent.end(), others.begin(), others.end());
    return some.size();
  };
  for (uint32_t i = 0; i < count; i++) {
    bed.inject(i);
    bed.send(i);
    if (prng.chance(0.3)) collect(1 + prng.below(8));
    // The inner port's queue has room for 256.
    while (bed.inner->waiting_count(0) > 200) collect(engine::kBurstPackets);
    if (prng.chance(0.01)) bed.queue().wait(Duration{});
  }
  // The port hands out a packet that it holds back after at most hold_calls_max empty calls.
  for (uint32_t empty = 0; empty <= config.hold_calls_max;) {
    bed.queue().wait(Duration{});
    empty = collect(engine::kBurstPackets) == 0 && bed.inner->waiting_count(0) == 0 ? empty + 1 : 0;
  }
  rx = bed.port->rx_faults(0);
  tx = bed.port->tx_faults(0);
  return {received, sent};
}

TEST(ImpairedPort, CountersMatchFaultsOnARandomWalk) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  constexpr uint32_t kCount = 20'000;
  const ImpairmentConfig config{.rx = {.loss = 0.1, .reorder = 0.1, .duplicate = 0.05},
                                .tx = {.loss = 0.05, .reorder = 0.2, .duplicate = 0.1},
                                .seed = seed};
  FaultCounts rx;
  FaultCounts tx;
  const auto [received, sent] = walk(config, seed, kCount, rx, tx);
  const auto check = [&](const Numbers& numbers, const FaultCounts& faults,
                         const FaultRates& rates) {
    std::map<uint32_t, uint32_t> times;
    for (const uint32_t number : numbers) times[number]++;
    uint64_t doubled = 0;
    for (const auto& [number, count] : times) {
      ASSERT_LT(number, kCount);
      ASSERT_LE(count, 2U);
      doubled += count == 2;
    }
    EXPECT_EQ(faults.lost, kCount - times.size());
    EXPECT_EQ(faults.duplicated, doubled);
    // Six standard deviations of a binomial of 20,000: at most 6 * sqrt(20000 * 0.25) = 425.
    EXPECT_NEAR(static_cast<double>(faults.lost), rates.loss * kCount, 425);
    const double passed = (1 - rates.loss) * kCount;
    EXPECT_NEAR(static_cast<double>(faults.reordered), rates.reorder * passed, 425);
    EXPECT_NEAR(static_cast<double>(faults.duplicated), rates.duplicate * passed, 425);
  };
  check(received, rx, config.rx);
  check(sent, tx, config.tx);
}

TEST(ImpairedPort, SeedDeterminesTheFaults) {
  const FaultRates rates{.loss = 0.1, .corrupt = 0.1, .reorder = 0.1, .duplicate = 0.1};
  const auto run = [&](uint64_t seed) {
    FaultCounts rx;
    FaultCounts tx;
    return walk({.rx = rates, .tx = rates, .seed = seed}, 1, 2000, rx, tx);
  };
  const auto first = run(11);
  EXPECT_EQ(first, run(11));
  EXPECT_NE(first, run(12));
}

TEST(ImpairedPort, ChangingOneRateKeepsTheDrawsOfTheOthers) {
  const auto lost = [](double duplicate) {
    Bed bed({.tx = {.loss = 0.3, .duplicate = duplicate}, .seed = 5});
    for (uint32_t i = 0; i < 100; i++) bed.send(i);
    Numbers sent = bed.sent();
    sent.erase(std::unique(sent.begin(), sent.end()), sent.end());
    return sent;
  };
  EXPECT_EQ(lost(0), lost(0.5));
}

}  // namespace
}  // namespace tributary::io
