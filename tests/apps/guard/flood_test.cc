// SPDX-License-Identifier: Apache-2.0
// Method: generated traffic whose truth is known, in virtual time with the default settings. Each
// flood is ten times the background. The shares of innocent, flash crowd and flood packets that
// pass are computed from the labels.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <iostream>
#include <string>
#include <tuple>

#include "apps/guard/app.h"
#include "tests/apps/guard/bed.h"
#include "traffic/generator.h"

namespace tributary::guard {
namespace {

using traffic::Label;

constexpr Duration kFloodStart = seconds(2);

/// A background of 5,000 packets/s for nine seconds.
traffic::Config background() {
  traffic::Config config;
  config.seed = 7;
  config.packets = traffic::kPacketsMax;
  config.length = seconds(9);
  config.background = {.flows = 5'000, .zipf = 1.1, .rate = 5'000, .churn = 100, .servers = 64};
  return config;
}

traffic::FloodConfig flood_of(traffic::FloodKind kind, uint32_t sources) {
  return {
      .kind = kind, .rate = 50'000, .start = kFloodStart, .length = seconds(6), .sources = sources};
}

struct Tally {
  uint64_t packets = 0;
  uint64_t passed = 0;
  [[nodiscard]] double share() const {
    return packets == 0 ? 1.0 : static_cast<double>(passed) / static_cast<double>(packets);
  }
};

struct Result {
  std::array<Tally, traffic::kLabelCount> all{};
  Tally at_victim;    ///< Innocent packets to the flooded server.
  Tally flood_after;  ///< Later than two timer periods after the detection.
  std::vector<Culprit> culprits;
  apps::Counts counts;
  uint32_t suspects_max = 0;
  [[nodiscard]] const Tally& of(Label label) const { return all[static_cast<size_t>(label)]; }
  /// Returns the time from the flood's start to the first detection, in milliseconds.
  [[nodiscard]] double detect_ms() const {
    return culprits.empty() ? -1 : in_seconds(culprits[0].detected_at - at(kFloodStart)) * 1'000;
  }
};

/// Tells whether a frame goes to the IPv4 address of the flooded server.
bool is_to_victim(std::span<const std::byte> frame) {
  static const auto victim =
      traffic::server_address(traffic::kFloodServer, /*ipv6=*/false, 0).address;
  return wire::EthernetHeader::EtherType::load(frame.data()) == wire::kEtherTypeIpv4 &&
         std::memcmp(frame.data() + 30, victim.data() + 12, 4) == 0;
}

Result run(const traffic::Config& traffic, const GuardConfig& config) {
  Bed bed(config);
  auto generator = *traffic::Generator::create(traffic);
  const uint64_t dram_before = bed.memory().used_bytes(memory::Range::kDram);
  Result result;
  Instant settled_at = Instant::never();
  while (const auto packet = generator.next()) {
    const bool passed = bed.send(packet->at, packet->frame);
    if (settled_at == Instant::never() && bed.count(Outcome::kDetected) > 0) {
      settled_at = bed.state().report().culprits()[0].detected_at + config.timer_period * 2;
    }
    Tally& tally = result.all[static_cast<size_t>(packet->label)];
    tally.packets++;
    tally.passed += passed ? 1 : 0;
    if (packet->label == Label::kFlood && packet->at > settled_at) {
      result.flood_after.packets++;
      result.flood_after.passed += passed ? 1 : 0;
    }
    if (packet->label == Label::kInnocent && is_to_victim(packet->frame)) {
      result.at_victim.packets++;
      result.at_victim.passed += passed ? 1 : 0;
    }
    result.suspects_max = std::max(result.suspects_max, bed.state().suspect_count());
  }
  EXPECT_EQ(bed.memory().used_bytes(memory::Range::kDram), dram_before);
  result.culprits = bed.state().report().culprits();
  result.counts = bed.counts();
  if (!result.culprits.empty()) std::cout << to_text(result.culprits[0]) << "\n";
  std::cout << "innocent_passed " << result.of(Label::kInnocent).share() << ", flash crowd "
            << result.of(Label::kFlashCrowd).share() << ", flood_passed after detection "
            << result.flood_after.share() << " of " << result.flood_after.packets
            << ", innocent at the victim " << result.at_victim.share() << " of "
            << result.at_victim.packets << ", detect_ms " << result.detect_ms() << "\n";
  return result;
}

/// Settings with the default bandwidths and times, and tables of moderate size.
GuardConfig defaults() {
  GuardConfig config;
  config.suspects_max = 16'384;
  config.hash_seed = 99;
  return config;
}

TEST(GuardFlood, NothingHappensWithoutAFlood) {
  const Result result = run(background(), defaults());
  EXPECT_EQ(result.of(Label::kInnocent).share(), 1.0);
  EXPECT_TRUE(result.culprits.empty());
  EXPECT_EQ(result.suspects_max, 0U);
}

TEST(GuardFlood, SynFloodOfTenMillionSpoofedSourcesBesideAFlashCrowd) {
  traffic::Config traffic = background();
  traffic.flood = flood_of(traffic::FloodKind::kSyn, 10'000'000);
  traffic.flash_crowd =
      traffic::FlashCrowdConfig{.sources = 5'000, .start = seconds(3), .spread = seconds(4)};
  const Result result = run(traffic, defaults());
  EXPECT_GE(result.of(Label::kInnocent).share(), 0.98);
  EXPECT_EQ(result.of(Label::kFlashCrowd).share(), 1.0);
  EXPECT_LE(result.flood_after.share(), 0.01);
  EXPECT_GE(result.flood_after.packets, 50'000U);
  EXPECT_GE(result.detect_ms(), 3'000);
  // The destination's level waits four timer periods longer than the detect time.
  EXPECT_LE(result.detect_ms(), 4'500);
  EXPECT_LE(result.suspects_max, 16'384U);
  ASSERT_EQ(result.culprits.size(), 1U);
  EXPECT_EQ(result.culprits[0].level, Level::kDestination);
  EXPECT_EQ(result.culprits[0].kind, PacketKind::kTcpSyn);
  EXPECT_EQ(result.culprits[0].destination, Endpoint::parse("198.18.0.1:1")->address);
}

TEST(GuardFlood, Amplification) {
  traffic::Config traffic = background();
  traffic.flood = flood_of(traffic::FloodKind::kAmplification, 20'000);
  const Result result = run(traffic, defaults());
  EXPECT_GE(result.of(Label::kInnocent).share(), 0.98);
  // The flood's first 333 packets are calm traffic, and make nobody known.
  EXPECT_EQ(result.flood_after.passed, 0U);
  EXPECT_GE(result.flood_after.packets, 50'000U);
  ASSERT_EQ(result.culprits.size(), 1U);
  EXPECT_EQ(result.culprits[0].kind, PacketKind::kUdp);
}

/// The sources of a flood, and the traffic's seed.
using FloodCase = std::tuple<uint32_t, uint64_t>;
class GuardFloodOfReflectors : public ::testing::TestWithParam<FloodCase> {};

TEST_P(GuardFloodOfReflectors, IsDropped) {
  traffic::Config traffic = background();
  std::tie(std::ignore, traffic.seed) = GetParam();
  traffic.background.servers = 256;
  traffic.flood = flood_of(traffic::FloodKind::kAmplification, std::get<0>(GetParam()));
  traffic.flood->start = seconds(1);  // As `tributary traffic` does.
  const Result result = run(traffic, defaults());
  EXPECT_GE(result.of(Label::kInnocent).share(), 0.98);
  EXPECT_LE(result.flood_after.share(), 0.01);
  EXPECT_GE(result.flood_after.packets, 50'000U);
}
// Not 500 sources: then each sends the bandwidth that a source may use.
INSTANTIATE_TEST_SUITE_P(SourcesAndSeeds, GuardFloodOfReflectors,
                         ::testing::Combine(::testing::Values(200, 1'000, 2'000, 5'000, 20'000),
                                            ::testing::Values(1, 2)));

TEST(GuardFlood, AFewLoudReflectorsAreDroppedOneByOne) {
  traffic::Config traffic = background();
  traffic.flood = flood_of(traffic::FloodKind::kAmplification, 100);
  const Result result = run(traffic, defaults());
  EXPECT_EQ(result.of(Label::kInnocent).share(), 1.0);
  EXPECT_LE(result.flood_after.share(), 0.01);
  EXPECT_EQ(result.culprits.size(), 100U);
  for (const Culprit& culprit : result.culprits) EXPECT_EQ(culprit.level, Level::kSource);
}

TEST(GuardFlood, PulsesDoNotEscape) {
  traffic::Config traffic = background();
  traffic.flood = flood_of(traffic::FloodKind::kPulse, 10'000'000);
  traffic.flood->pulse_on = milliseconds(300);
  traffic.flood->pulse_off = milliseconds(700);
  const Result result = run(traffic, defaults());
  EXPECT_GE(result.of(Label::kInnocent).share(), 0.98);
  EXPECT_LE(result.flood_after.share(), 0.01);
  EXPECT_GE(result.flood_after.packets, 10'000U);
}

TEST(GuardFlood, PulsesOfFewReflectorsGatherNoKnownSources) {
  // Each pulse begins in calm traffic: the violation of the one before has ended.
  Bed bed(defaults());
  uint64_t packets = 0;
  for (uint32_t pulse = 0; pulse < 10; pulse++) {
    const Instant begin = at(seconds(5) * pulse);
    for (uint32_t i = 0; i < 25'000; i++) {
      const std::string source = "192." + std::to_string(packets % 200) + "." +
                                 std::to_string(packets / 200 % 100) + ".1:53";
      bed.send(begin + microseconds(20) * i, udp_frame(source.c_str(), "198.18.0.1:1024"));
      packets++;
    }
  }
  EXPECT_EQ(bed.count(Outcome::kSourceKnown), 0U);
}

TEST(GuardFlood, AFlashCrowdAboveTheBandwidthPasses) {
  traffic::Config traffic = background();
  traffic.flash_crowd =
      traffic::FlashCrowdConfig{.sources = 12'000, .start = seconds(2), .spread = seconds(6)};
  GuardConfig config = defaults();
  // The crowd's 2,000 SYNs/s violate this bandwidth twice over, for longer than the detect time.
  config.levels[static_cast<size_t>(Level::kDestination)].pps[0] = 1'000;
  const Result result = run(traffic, config);
  EXPECT_EQ(result.of(Label::kFlashCrowd).share(), 1.0);
  EXPECT_EQ(result.of(Label::kInnocent).share(), 1.0);
  EXPECT_GT(result.counts.at("violation"), 0U);
  EXPECT_TRUE(result.culprits.empty());
}

}  // namespace
}  // namespace tributary::guard
