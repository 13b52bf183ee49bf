// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked times of serialisation, queue, ECN and tail drop, then refusals, then a
// random walk of one link against the simplest model: a list of departures.
#include "net/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "tests/net/net_bed.h"
#include "tests/support/seed.h"

namespace tributary::net {
namespace {

using ::testing::HasSubstr;

/// 100 Gbit/s is 0.08 ns = 8 ticks a byte, so a packet of 934 bytes (1,000 on the wire) takes
/// 8,000 ticks; 500 ns of propagation are 50,000.
constexpr uint32_t kSize = 1000 - kWireOverheadBytes;

TEST(Network, DelayIsSerialisationPlusPropagation) {
  CableBed bed(LinkConfig{});
  bed.send(kSize);
  bed.send(kSize);
  EXPECT_EQ(bed.network.queue_bytes(bed.link), 2000u);
  bed.core.run_until(at_ticks(8'000));
  EXPECT_EQ(bed.network.queue_bytes(bed.link), 1000u);
  bed.core.run_until(at_ticks(8'001));
  EXPECT_EQ(bed.network.queue_bytes(bed.link), 1000u);  // One tick is an eighth of a byte.
  bed.run();
  ASSERT_EQ(bed.b.received.size(), 2u);
  EXPECT_EQ(bed.b.received[0].at, at_ticks(58'000));
  EXPECT_EQ(bed.b.received[1].at, at_ticks(66'000));
  EXPECT_EQ(bed.counters().packets, 2u);
  EXPECT_EQ(bed.counters().bytes, 2000u);
  EXPECT_EQ(bed.counters().queue_bytes_peak, 2000u);
  EXPECT_EQ(bed.network.counters().delivered, 2u);
}

TEST(Network, LaterPacketFindsAFreeLink) {
  CableBed bed(LinkConfig{});
  bed.send(kSize);
  bed.core.run_until(at_ticks(20'000));
  bed.send(kSize);
  bed.run();
  EXPECT_EQ(bed.b.received[1].at, at_ticks(20'000 + 8'000 + 50'000));
}

TEST(Network, RateWithoutWholeTicksPerByteRoundsUp) {
  // 3 Gbit/s: 1,000 bytes take 8e3 / 3e9 s = 266,666.67 ticks.
  CableBed bed({.rate_bits_per_s = 3'000'000'000, .propagation = Duration()});
  bed.send(kSize);
  bed.send(kSize);
  EXPECT_EQ(bed.network.queue_bytes(bed.link), 2000u);
  bed.run();
  EXPECT_EQ(bed.b.received[0].at, at_ticks(266'667));
  EXPECT_EQ(bed.b.received[1].at, at_ticks(533'334));
}

TEST(Network, DropsPacketsThatExceedTheQueue) {
  CableBed bed({.queue_bytes_max = 3000});
  for (uint32_t i = 0; i < 3; i++) bed.send(kSize);
  bed.send(1 - 1);  // 66 bytes on the wire: 3,066 do not fit.
  EXPECT_EQ(bed.counters().tail_dropped, 1u);
  bed.core.run_until(at_ticks(8 * 65));
  bed.send(0);  // 2,935 + 66 = 3,001.
  EXPECT_EQ(bed.counters().tail_dropped, 2u);
  bed.core.run_until(at_ticks(8 * 66));
  bed.send(0);  // 3,000 fit.
  EXPECT_EQ(bed.counters().tail_dropped, 2u);
  EXPECT_EQ(bed.counters().queue_bytes_peak, 3000u);
  bed.run();
  EXPECT_EQ(bed.b.received.size(), 4u);
  EXPECT_EQ(bed.network.packets().held_count(), 4u);  // All at b; the dropped ones are back.
}

TEST(Network, IdleLinkAcceptsAPacketLargerThanItsQueue) {
  CableBed bed({.queue_bytes_max = 100});
  bed.send(kSize);
  bed.send(0);
  bed.run();
  EXPECT_EQ(bed.b.received.size(), 1u);
  EXPECT_EQ(bed.counters().tail_dropped, 1u);
}

TEST(Network, EcnMarksPacketsAboveTheThreshold) {
  CableBed bed({.ecn_bytes = 1000});
  bed.send(kSize);  // Finds 0.
  bed.send(kSize);  // Finds 1,000, which is not above the limit.
  bed.send(kSize);  // Finds 2,000.
  bed.run();
  EXPECT_FALSE(bed.b.received[0].packet->congestion_experienced);
  EXPECT_FALSE(bed.b.received[1].packet->congestion_experienced);
  EXPECT_TRUE(bed.b.received[2].packet->congestion_experienced);
  EXPECT_EQ(bed.counters().marked, 1u);
}

TEST(Network, EcnMarkDoesNotChangeOtherHoldersPackets) {
  CableBed bed({.ecn_bytes = 0});
  const PacketRef shared = bed.packet(kSize);
  bed.network.transmit(bed.a_id, 0, shared);
  bed.network.transmit(bed.a_id, 0, shared);
  bed.run();
  EXPECT_FALSE(bed.b.received[0].packet->congestion_experienced);
  EXPECT_TRUE(bed.b.received[1].packet->congestion_experienced);
  EXPECT_FALSE(shared->congestion_experienced);
}

TEST(Network, DirectionsAreIndependent) {
  CableBed bed(LinkConfig{});
  bed.send(kSize);
  bed.network.transmit(bed.b_id, 0, bed.packet(kSize));
  bed.run();
  ASSERT_EQ(bed.a.received.size(), 1u);
  EXPECT_EQ(bed.a.received[0].at, bed.b.received[0].at);
  EXPECT_EQ(bed.network.link_name(bed.link), "a.0>b.0");
  EXPECT_EQ(bed.network.link_name(bed.link + 1), "b.0>a.0");
  EXPECT_EQ(bed.network.find_link("b.0>a.0").value(), bed.link + 1);
  EXPECT_EQ(bed.network.link_at(bed.b_id, 0).value(), bed.link + 1);
}

TEST(Network, CountsPacketsAtAPortWithoutCable) {
  CableBed bed(LinkConfig{});
  bed.network.transmit(bed.a_id, 7, bed.packet(kSize));
  bed.run();
  EXPECT_EQ(bed.network.counters().no_link, 1u);
  EXPECT_EQ(bed.network.packets().held_count(), 0u);
}

TEST(Network, RefusesWrongWiring) {
  CableBed bed(LinkConfig{});
  const auto refusal = [&](NodeId a, uint32_t port_a, NodeId b, uint32_t port_b,
                           const LinkConfig& forth) {
    const auto result = bed.network.connect(a, port_a, b, port_b, forth, LinkConfig{});
    return result ? std::string("accepted") : result.error().text;
  };
  EXPECT_THAT(refusal(0, 0, 1, 1, {}), HasSubstr("a: port 0 has a cable already, a.0>b.0"));
  EXPECT_THAT(refusal(0, 1, 1, 0, {}), HasSubstr("b: port 0 has a cable already"));
  EXPECT_THAT(refusal(0, 1, 2, 0, {}), HasSubstr("node 2 does not exist"));
  EXPECT_THAT(refusal(0, 1, 0, 1, {}), HasSubstr("cabled to itself"));
  EXPECT_THAT(refusal(0, 70'000, 1, 1, {}), HasSubstr("port 70000 is out of range"));
  EXPECT_THAT(refusal(0, 1, 1, 1, {.rate_bits_per_s = 0}), HasSubstr("rate=0 bit/s"));
  EXPECT_THAT(refusal(0, 1, 1, 1, {.propagation = nanoseconds(-1)}), HasSubstr("propagation=-1"));
  EXPECT_THAT(refusal(0, 1, 1, 1, {.faults = {.loss = 1.5}}), HasSubstr("loss=1.5"));
  EXPECT_EQ(bed.network.link_count(), 2u);
  EXPECT_THAT(bed.network.find_link("x").error().text, HasSubstr("as in a.0>b.0"));
  EXPECT_THAT(bed.network.link_at(0, 9).error().text, HasSubstr("no cable at port 9"));
  EXPECT_FALSE(bed.network.find_node("c").has_value());
}

/// Lists the departures of all accepted packets. The depth is the work that has not left.
struct ListModel {
  struct Entry {
    int64_t starts;
    int64_t leaves;
  };
  /// Returns the ticks of work before a packet that arrives at `now`.
  [[nodiscard]] int64_t waiting(int64_t now) const {
    int64_t sum = 0;
    for (const Entry& entry : entries) {
      sum += std::max<int64_t>(0, entry.leaves - std::max(now, entry.starts));
    }
    return sum;
  }
  std::vector<Entry> entries;
};

TEST(Network, RandomPacketsMatchAListOfDepartures) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  constexpr int64_t kTicksPerByte = 32;  // 25 Gbit/s.
  const LinkConfig config{.rate_bits_per_s = 25'000'000'000,
                          .propagation = nanoseconds(3),
                          .queue_bytes_max = 9'000,
                          .ecn_bytes = 4'000};
  CableBed bed(config);
  ListModel model;
  std::vector<std::pair<Instant, bool>> expected;  // Arrival, marked.
  uint64_t dropped = 0;
  for (uint32_t step = 0; step < 2'000; step++) {
    const uint32_t size = prng.below(1500);
    const int64_t now = bed.core.now().since_start().ticks();
    const int64_t wire = (size + kWireOverheadBytes) * kTicksPerByte;
    const int64_t waiting = model.waiting(now);
    EXPECT_EQ(bed.network.queue_bytes(bed.link), (waiting + kTicksPerByte - 1) / kTicksPerByte);
    bed.send(size);
    if (waiting > 0 && waiting + wire > 9'000 * kTicksPerByte) {
      dropped++;
    } else {
      model.entries.push_back({now + waiting, now + waiting + wire});
      expected.emplace_back(at_ticks(now + waiting + wire + 300), waiting > 4'000 * kTicksPerByte);
    }
    bed.core.run_until(bed.core.now() + Duration::from_ticks(prng.below(50'000)));
  }
  bed.run();
  EXPECT_GT(dropped, 10u);
  EXPECT_EQ(bed.counters().tail_dropped, dropped);
  ASSERT_EQ(bed.b.received.size(), expected.size());
  for (size_t i = 0; i < expected.size(); i++) {
    ASSERT_EQ(bed.b.received[i].at, expected[i].first) << "packet " << i;
    ASSERT_EQ(bed.b.received[i].packet->congestion_experienced, expected[i].second);
  }
}

}  // namespace
}  // namespace tributary::net
