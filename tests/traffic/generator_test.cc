// SPDX-License-Identifier: Apache-2.0
// Method: counts and rates of fixed seeds against their expectation; a separate reader checks
// every frame and each TCP flow; digests show that a seed yields the same bytes everywhere.
#include "traffic/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/support/seed.h"
#include "tests/traffic/check_frame.h"
#include "wire/headers.h"

namespace tributary::traffic {
namespace {

using testing::check_frame;
using testing::ReadFrame;

/// FNV-1a, 64 bits.
class Digest {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      value_ = (value_ ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3ULL;
    }
  }
  void add(Instant at) {
    const int64_t ticks = at.since_start().ticks();
    add(std::as_bytes(std::span(&ticks, 1)));
  }
  [[nodiscard]] uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325ULL;
};

uint64_t digest_of(const Config& config, Label only = Label::kInnocent, bool all = true) {
  auto generator = *Generator::create(config);
  Digest digest;
  while (const auto packet = generator.next()) {
    if (!all && packet->label != only) continue;
    digest.add(packet->at);
    digest.add(packet->frame);
  }
  return digest.value();
}

/// Addresses, protocol and ports: the bytes that name a flow.
std::string flow_of(std::span<const std::byte> frame, const ReadFrame& read) {
  const auto ip = frame.subspan(14);
  const auto addresses = read.ipv6 ? ip.subspan(8, 32) : ip.subspan(12, 8);
  const auto ports = ip.subspan(read.ipv6 ? 40 : 20, 4);
  std::string name(1, static_cast<char>(read.protocol));
  for (const auto part : {addresses, ports}) {
    name.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  return name;
}

Endpoint source_of(std::span<const std::byte> frame) {
  Endpoint source;
  const bool ipv6 = testing::word_at(frame, 12) == 0x86dd;
  source = Endpoint::ipv4(0, 0);
  for (uint32_t i = 0; i < (ipv6 ? 16U : 4U); i++) {
    source.address[(ipv6 ? 0 : 12) + i] =
        static_cast<uint8_t>(testing::byte_at(frame, (ipv6 ? 22 : 26) + i));
  }
  return source;
}

Config everything() {
  Config config;
  config.seed = 2026;
  config.packets = 60'000;
  config.background = {.flows = 500, .zipf = 1.1, .rate = 10'000, .churn = 200, .servers = 16};
  config.flood = FloodConfig{.kind = FloodKind::kSyn,
                             .rate = 100'000,
                             .start = milliseconds(100),
                             .length = milliseconds(300),
                             .sources = 10'000'000};
  config.flash_crowd =
      FlashCrowdConfig{.sources = 1'000, .start = milliseconds(50), .spread = milliseconds(200)};
  return config;
}

TEST(Generator, RefusesSettingsOutOfRange) {
  Config config;
  config.background.flows = 0;
  EXPECT_FALSE(Generator::create(config));
}

TEST(Generator, SameSeedSameBytes) {
  Config config = everything();
  config.packets = 1'000;
  config.flood->start = milliseconds(40);
  config.flash_crowd->start = milliseconds(10);
  // The first 1,000 packets. GCC and Clang, debug and release, must all agree.
  EXPECT_EQ(digest_of(config), 0xc74f45f80f7aabd1ULL);
  EXPECT_EQ(digest_of(config), digest_of(config));
  const uint64_t before = digest_of(config);
  config.seed++;
  EXPECT_NE(digest_of(config), before);
}

TEST(Generator, AFloodDoesNotChangeTheBackground) {
  Config config = everything();
  config.packets = kPacketsMax;
  config.length = milliseconds(500);
  Config background = config;
  background.flood.reset();
  background.flash_crowd.reset();
  EXPECT_EQ(digest_of(config, Label::kInnocent, false), digest_of(background));
}

TEST(Generator, FramesAreRightAndInOrder) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Config config = everything();
  config.seed = seed;
  auto generator = *Generator::create(config);
  Instant last;
  uint64_t packets = 0;
  uint64_t bytes = 0;
  while (const auto packet = generator.next()) {
    ASSERT_GE(packet->at, last);
    last = packet->at;
    check_frame(packet->frame);
    ASSERT_EQ(label_of(source_of(packet->frame)), packet->label);
    packets++;
    bytes += packet->frame.size();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(packets, config.packets);
  const Summary& summary = generator.summary();
  EXPECT_EQ(summary.of(Label::kInnocent).packets + summary.of(Label::kFlood).packets +
                summary.of(Label::kFlashCrowd).packets,
            packets);
  EXPECT_EQ(summary.of(Label::kInnocent).bytes + summary.of(Label::kFlood).bytes +
                summary.of(Label::kFlashCrowd).bytes,
            bytes);
}

TEST(Generator, FlowSizesFollowZipf) {
  Config config;
  config.packets = 200'000;
  config.background = {.flows = 1'000, .zipf = 1.1, .rate = 100'000, .churn = 0};
  auto generator = *Generator::create(config);
  std::map<std::string, uint64_t> packets;
  while (const auto packet = generator.next()) {
    packets[flow_of(packet->frame, check_frame(packet->frame))]++;
  }
  std::vector<uint64_t> sizes;
  for (const auto& [flow, count] : packets) sizes.push_back(count);
  std::sort(sizes.rbegin(), sizes.rend());
  double total = 0;
  for (uint32_t rank = 1; rank <= 1'000; rank++) total += std::pow(rank, -1.1);
  for (const uint32_t rank : {1U, 2U, 3U, 10U}) {
    const double expected = 200'000 * std::pow(rank, -1.1) / total;
    EXPECT_NEAR(static_cast<double>(sizes[rank - 1]), expected, 5 * std::sqrt(expected)) << rank;
  }
  EXPECT_EQ(generator.summary().flows_begun, sizes.size());
  EXPECT_EQ(generator.summary().flows_ended, 0U);
}

TEST(Generator, BackgroundHasItsRateMixAndShares) {
  Config config;
  config.packets = 100'000;
  config.background = {.flows = 20'000,
                       .zipf = 0.0,
                       .rate = 50'000,
                       .churn = 0,
                       .ipv6_percent = 20,
                       .udp_percent = 30};
  auto generator = *Generator::create(config);
  std::map<uint32_t, uint32_t> sizes;
  double udp = 0;
  double ipv6 = 0;
  double counted = 0;
  while (const auto packet = generator.next()) {
    const ReadFrame read = check_frame(packet->frame);
    udp += read.protocol == 17 ? 1 : 0;
    ipv6 += read.ipv6 ? 1 : 0;
    if ((read.tcp_flags & wire::kTcpSyn) != 0) continue;
    sizes[std::max(read.ip_bytes, 60U)]++;  // An IPv6 TCP packet has at least 60 bytes.
    counted++;
  }
  // 100,000 arrivals take 2 s, give or take 5 * 2 s / sqrt(100,000).
  EXPECT_NEAR(in_seconds(generator.summary().of(Label::kInnocent).last_at.since_start()), 2.0,
              0.032);
  // 20,000 flows: five standard deviations of their shares, and the packets' on top.
  EXPECT_NEAR(udp / 1e5, 0.3, 0.02);
  EXPECT_NEAR(ipv6 / 1e5, 0.2, 0.02);
  ASSERT_EQ(sizes.size(), 3U);
  EXPECT_NEAR(sizes[60] / counted, 7.0 / 12, 0.01);
  EXPECT_NEAR(sizes[576] / counted, 4.0 / 12, 0.01);
  EXPECT_NEAR(sizes[1500] / counted, 1.0 / 12, 0.01);
}

TEST(Generator, TcpFlowsBeginWithSynEndWithFinAndNumberTheirBytes) {
  Config config = everything();
  config.flood.reset();
  auto generator = *Generator::create(config);
  std::map<std::string, uint32_t> expected;  // The next sequence number of each open flow.
  uint64_t fins = 0;
  while (const auto packet = generator.next()) {
    const ReadFrame read = check_frame(packet->frame);
    if (read.protocol != 6) continue;
    const std::string flow = flow_of(packet->frame, read);
    const bool syn = (read.tcp_flags & wire::kTcpSyn) != 0;
    const bool fin = (read.tcp_flags & wire::kTcpFin) != 0;
    ASSERT_EQ(syn, !expected.contains(flow));
    if (!syn) {
      ASSERT_EQ(read.sequence_number, expected[flow]);
    }
    expected[flow] = read.sequence_number + read.payload_bytes + (syn ? 1 : 0);
    if (fin) expected.erase(flow);
    fins += fin ? 1 : 0;
  }
  // About 4.8 s at 200 flows per second, of which 70 % use TCP and many have not begun; and 1,000
  // connections of the flash crowd.
  EXPECT_GT(fins, 1'300U);
  EXPECT_GT(generator.summary().flows_ended, 400U);
}

TEST(Generator, SynFloodHasItsRateTimeAndSources) {
  auto generator = *Generator::create(everything());
  std::set<std::array<uint8_t, 16>> sources;
  while (const auto packet = generator.next()) {
    if (packet->label != Label::kFlood) continue;
    const ReadFrame read = check_frame(packet->frame);
    ASSERT_EQ(read.tcp_flags, wire::kTcpSyn);
    ASSERT_EQ(testing::word_at(packet->frame, 32), 1U);  // To 198.18.0.1.
    sources.insert(source_of(packet->frame).address);
  }
  const ClassSummary& flood = generator.summary().of(Label::kFlood);
  // 100,000 packets/s for 0.3 s, within five standard deviations of a Poisson count.
  EXPECT_NEAR(static_cast<double>(flood.packets), 30'000, 5 * std::sqrt(30'000));
  EXPECT_GE(flood.first_at, Instant() + milliseconds(100));
  EXPECT_LT(flood.last_at, Instant() + milliseconds(400));
  // 30,000 draws from 10,000,000 repeat 45 times on average.
  EXPECT_GT(sources.size() + 150, flood.packets);
}

TEST(Generator, FloodSourcesComeFromAPool) {
  Config config = everything();
  config.flood->sources = 50;
  config.flood->kind = FloodKind::kAmplification;
  auto generator = *Generator::create(config);
  std::set<std::array<uint8_t, 16>> sources;
  while (const auto packet = generator.next()) {
    if (packet->label != Label::kFlood) continue;
    const ReadFrame read = check_frame(packet->frame);
    ASSERT_EQ(read.protocol, 17U);
    ASSERT_EQ(read.ip_bytes, 1500U);
    ASSERT_EQ(testing::word_at(packet->frame, 34), 53U);
    sources.insert(source_of(packet->frame).address);
  }
  EXPECT_EQ(sources.size(), 50U);
}

TEST(Generator, PulsesHaveGaps) {
  Config config = everything();
  config.flood->kind = FloodKind::kPulse;
  config.flood->pulse_on = milliseconds(20);
  config.flood->pulse_off = milliseconds(80);
  auto generator = *Generator::create(config);
  while (const auto packet = generator.next()) {
    if (packet->label != Label::kFlood) continue;
    const Duration since = packet->at - (Instant() + config.flood->start);
    ASSERT_LT(since.ticks() % milliseconds(100).ticks(), milliseconds(20).ticks());
  }
  // Three pulses of 20 ms at 100,000 packets/s.
  EXPECT_NEAR(static_cast<double>(generator.summary().of(Label::kFlood).packets), 6'000,
              5 * std::sqrt(6'000));
}

TEST(Generator, FlashCrowdClientsBehave) {
  Config config = everything();
  config.flood.reset();
  auto generator = *Generator::create(config);
  std::map<std::array<uint8_t, 16>, std::vector<Instant>> times;
  while (const auto packet = generator.next()) {
    if (packet->label != Label::kFlashCrowd) continue;
    ASSERT_EQ(testing::word_at(packet->frame, 32), 2U);  // To 198.18.0.2.
    times[source_of(packet->frame).address].push_back(packet->at);
  }
  ASSERT_EQ(times.size(), 1'000U);
  for (const auto& [source, at] : times) {
    ASSERT_EQ(at.size(), 10U);
    EXPECT_EQ(at[1] - at[0], milliseconds(50));
    // 50 ms, 1 ms and seven gaps of at most 120 ms.
    EXPECT_LT(at.back() - at.front(), milliseconds(900));
  }
  const ClassSummary& crowd = generator.summary().of(Label::kFlashCrowd);
  EXPECT_EQ(crowd.packets, 10'000U);
  EXPECT_EQ(crowd.first_at, Instant() + milliseconds(50));
}

TEST(Generator, EndsAfterItsLength) {
  Config config = everything();
  config.packets = kPacketsMax;
  config.length = milliseconds(150);
  auto generator = *Generator::create(config);
  Instant last;
  while (const auto packet = generator.next()) last = packet->at;
  EXPECT_LE(last, Instant() + milliseconds(150));
  EXPECT_GT(last, Instant() + milliseconds(149));
  EXPECT_FALSE(generator.next());
}

}  // namespace
}  // namespace tributary::traffic
