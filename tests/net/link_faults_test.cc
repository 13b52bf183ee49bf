// SPDX-License-Identifier: Apache-2.0
// Method: each fault alone over many packets, against its rate with a bound of five standard
// deviations (a fixed seed, so the outcome never changes). Then effects that faults must never
// have, then all faults at once.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <set>

#include "tests/net/net_bed.h"
#include "tests/support/seed.h"

namespace tributary::net {
namespace {

constexpr uint32_t kPackets = 20'000;

/// Sends packets, one a microsecond. A packet's size is its number.
void send_all(CableBed& bed, uint32_t packets = kPackets) {
  for (uint32_t i = 0; i < packets; i++) {
    bed.send(i % 8'000);
    bed.core.run_until(bed.core.now() + microseconds(1));
  }
  bed.run();
}

void expect_share(uint64_t count, double share, double packets = kPackets) {
  EXPECT_NEAR(static_cast<double>(count), share * packets,
              5 * std::sqrt(packets * share * (1 - share)));
}

TEST(LinkFaults, LossHasItsConfiguredRate) {
  CableBed bed({.faults = {.loss = 0.3}});
  send_all(bed);
  expect_share(bed.counters().lost, 0.3);
  EXPECT_EQ(bed.b.received.size() + bed.counters().lost, kPackets);
  EXPECT_EQ(bed.counters().packets, kPackets);  // Lost packets took the wire, too.
}

void expect_loss_in_runs(double loss, double run) {
  CableBed bed({.faults = {.loss = loss, .loss_run = run}});
  std::vector<bool> lost;
  for (uint32_t i = 0; i < kPackets; i++) {
    const uint64_t before = bed.counters().lost;
    bed.send(0);
    lost.push_back(bed.counters().lost > before);
    bed.run();
  }
  uint64_t runs = lost.front() ? 1 : 0;
  for (uint32_t i = 1; i < kPackets; i++) runs += lost[i] && !lost[i - 1] ? 1 : 0;
  // Packets in a run depend on each other, so the variance is 2 x run times as large.
  EXPECT_NEAR(static_cast<double>(bed.counters().lost), loss * kPackets,
              5 * std::sqrt(kPackets * loss * (1 - loss) * 2 * run));
  EXPECT_NEAR(static_cast<double>(bed.counters().lost) / static_cast<double>(runs), run, run / 10);
}

TEST(LinkFaults, BurstLossHasItsRateAndRunLength) {
  expect_loss_in_runs(0.2, 5);
  expect_loss_in_runs(0.6, 4);
}

TEST(LinkFaults, DetectedCorruptionDropsThePacket) {
  CableBed bed({.faults = {.corrupt = 0.1}});
  send_all(bed);
  expect_share(bed.counters().corrupted, 0.1);
  EXPECT_EQ(bed.counters().undetected, 0u);
  EXPECT_EQ(bed.b.received.size() + bed.counters().corrupted, kPackets);
}

TEST(LinkFaults, UndetectedCorruptionFlipsOneBitOfACopy) {
  CableBed bed({.faults = {.corrupt = 0.5, .undetected = 0.5, .flip_begin = 4, .flip_end = 6}});
  const std::array<std::byte, 16> zeros{};
  const PacketRef sent = bed.network.packets().make(host_address(0), host_address(1), 100, zeros);
  std::set<uint32_t> hit;
  for (uint32_t i = 0; i < kPackets; i++) bed.network.transmit(bed.a_id, 0, sent);
  bed.run();
  uint64_t flipped = 0;
  for (const auto& received : bed.b.received) {
    for (uint32_t byte = 0; byte < 16; byte++) {
      const auto bits = std::to_integer<uint32_t>(received.packet->stored[byte]);
      if (bits == 0) continue;
      flipped++;
      EXPECT_EQ(std::popcount(bits), 1);
      hit.insert(byte * 8 + static_cast<uint32_t>(std::countr_zero(bits)));
    }
  }
  expect_share(bed.counters().undetected, 0.25);
  EXPECT_EQ(flipped, bed.counters().undetected);
  EXPECT_EQ(hit.size(), 16u);  // Every bit of bytes 4 and 5, and no other.
  EXPECT_EQ(*hit.begin(), 32u);
  EXPECT_EQ(*hit.rbegin(), 47u);
  EXPECT_EQ(sent->stored[4], std::byte{0});
}

TEST(LinkFaults, ElidedPacketsAreNotCorrupted) {
  CableBed bed({.faults = {.corrupt = 1, .undetected = 1}});
  bed.send(100);
  bed.run();
  EXPECT_TRUE(bed.b.received.empty());
  EXPECT_EQ(bed.counters().corrupted, 1u);
  EXPECT_EQ(bed.counters().undetected, 0u);
}

TEST(LinkFaults, DuplicatesHaveTheirRateAndFollowTheirPacket) {
  CableBed bed({.faults = {.duplicate = 0.2}});
  send_all(bed);
  expect_share(bed.counters().duplicated, 0.2);
  EXPECT_EQ(bed.b.received.size(), kPackets + bed.counters().duplicated);
  for (size_t i = 1; i < bed.b.received.size(); i++) {
    EXPECT_LE(bed.b.received[i - 1].at, bed.b.received[i].at);
  }
}

TEST(LinkFaults, ReorderingDelaysWithinItsBoundAndLosesNothing) {
  const Duration most = microseconds(50);
  CableBed bed({.faults = {.reorder = 0.1, .reorder_max = most}});
  send_all(bed);
  expect_share(bed.counters().reordered, 0.1);
  ASSERT_EQ(bed.b.received.size(), kPackets);
  std::vector<uint32_t> times(8'000);
  uint32_t late = 0;
  for (const auto& received : bed.b.received) {
    const uint32_t number = received.packet->size_bytes;
    const Instant sent_at{microseconds(int64_t{8'000} * times[number]++ + number)};
    const Duration plain =
        Duration::from_ticks(int64_t{8} * (number + kWireOverheadBytes)) + nanoseconds(500);
    const Duration extra = received.at - sent_at - plain;
    EXPECT_GE(extra, Duration());
    EXPECT_LE(extra, most);
    late += extra > Duration() ? 1 : 0;
  }
  EXPECT_EQ(late, bed.counters().reordered);
}

TEST(LinkFaults, JitterKeepsTheOrder) {
  CableBed bed({.faults = {.jitter = microseconds(20)}});
  send_all(bed, 5'000);
  ASSERT_EQ(bed.b.received.size(), 5'000u);
  Duration sum;
  for (uint32_t i = 0; i < 5'000; i++) {
    EXPECT_EQ(bed.b.received[i].packet->size_bytes, i);
    sum += bed.b.received[i].at - Instant(microseconds(i));
  }
  EXPECT_GT(sum / 5'000, microseconds(10));  // Above the mean: packets behind a late one wait.
}

TEST(LinkFaults, OrderIsKeptAfterFaultsEnd) {
  CableBed bed({.faults = {.jitter = milliseconds(1)}});
  for (uint32_t i = 0; i < 100; i++) bed.send(i);
  bed.network.set_faults(bed.link, {});
  for (uint32_t i = 100; i < 200; i++) bed.send(i);
  bed.run();
  ASSERT_EQ(bed.b.received.size(), 200u);
  for (uint32_t i = 0; i < 200; i++) EXPECT_EQ(bed.b.received[i].packet->size_bytes, i);
}

TEST(LinkFaults, CutDropsQueuedAndInFlightPackets) {
  CableBed bed(LinkConfig{});
  bed.send(934);  // Arrives at 580 ns.
  bed.send(934);  // At 660 ns.
  bed.core.run_until(at_ticks(60'000));
  bed.network.set_cut(bed.link, true);
  bed.send(934);
  bed.core.run_until(at_ticks(100'000));
  bed.network.set_cut(bed.link, false);
  bed.send(934);
  bed.run();
  EXPECT_EQ(bed.counters().cut, 2u);
  EXPECT_EQ(bed.b.received.size(), 2u);
  EXPECT_EQ(bed.network.packets().held_count(), 2u);
}

TEST(LinkFaults, RefusesBadProbabilities) {
  const auto text = [](const LinkFaults& faults) {
    const auto good = check(faults);
    return good ? std::string("accepted") : good.error().text;
  };
  EXPECT_EQ(text({}), "accepted");
  EXPECT_EQ(text({.duplicate = -0.1}), "duplicate=-0.1 is not a probability; allowed: 0 to 1");
  EXPECT_EQ(text({.corrupt = std::nan("")}), "corrupt=nan is not a probability; allowed: 0 to 1");
  EXPECT_EQ(text({.loss_run = 0.5}), "loss_run=0.5 is too short; allowed: 1 or more");
  EXPECT_EQ(text({.loss = 0.9, .loss_run = 4}),
            "loss=0.9 cannot come in runs of loss_run=4; allowed: at most 0.8");
  EXPECT_EQ(text({.reorder = 0.1}), "reorder=0.1 needs a reorder_max; allowed: more than 0");
  EXPECT_EQ(text({.flip_begin = 7, .flip_end = 7}),
            "flip_begin=7 leaves no byte to flip; allowed: below flip_end=7");
}

constexpr LinkFaults kEverything{.loss = 0.1,
                                 .corrupt = 0.05,
                                 .undetected = 0.5,
                                 .duplicate = 0.1,
                                 .reorder = 0.1,
                                 .jitter = microseconds(3),
                                 .reorder_max = microseconds(30)};

uint64_t digest_of_a_run(uint64_t seed, EventCore::Queue queue, uint64_t* accounted = nullptr) {
  CableBed bed(
      {.rate_bits_per_s = 10'000'000'000, .queue_bytes_max = 50'000, .faults = kEverything}, seed,
      1, queue);
  Prng prng(seed);
  for (uint32_t i = 0; i < 3'000; i++) {
    std::vector<std::byte> bytes(prng.below(300));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.any_u32());
    bed.network.transmit(
        bed.a_id, 0,
        bed.network.packets().make(host_address(0), host_address(1),
                                   static_cast<uint32_t>(bytes.size()) + 7, bytes));
    bed.core.run_until(bed.core.now() + nanoseconds(prng.below(300)));
  }
  bed.run();
  const LinkCounters counters = bed.counters();
  EXPECT_GT(counters.tail_dropped, 0u);
  if (accounted != nullptr) {
    *accounted = counters.tail_dropped + counters.lost + counters.corrupted - counters.undetected +
                 bed.b.received.size() - counters.duplicated;
  }
  EXPECT_EQ(bed.network.packets().held_count() <= bed.b.received.size(), true);
  return bed.network.digest();
}

TEST(LinkFaults, EveryPacketIsCountedAndTheDigestRepeats) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  uint64_t accounted = 0;
  const uint64_t digest = digest_of_a_run(seed, EventCore::Queue::kCalendar, &accounted);
  EXPECT_EQ(accounted, 3'000u);
  EXPECT_EQ(digest_of_a_run(seed, EventCore::Queue::kCalendar), digest);
  EXPECT_EQ(digest_of_a_run(seed, EventCore::Queue::kHeap), digest);
  EXPECT_NE(digest_of_a_run(seed + 1, EventCore::Queue::kCalendar), digest);
}

// A fixed value, which every compiler, build type and machine must reach.
TEST(LinkFaults, DigestOfSeedOneIsKnown) {
  EXPECT_EQ(digest_of_a_run(1, EventCore::Queue::kCalendar), 3408572258577789016u);
}

}  // namespace
}  // namespace tributary::net
