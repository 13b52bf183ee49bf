// SPDX-License-Identifier: Apache-2.0
// Method: a tenfold SYN flood with spoofed sources over generated traffic and a flash crowd, on
// both machines, against the shares that the guard promises; then 100 random captures, over
// which both machines must write the same bytes; then settings and their refusals.
#include "programs/guard_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "apps/guard/packet_facts.h"
#include "programs/traffic_capture.h"
#include "tests/programs/captures.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/seed.h"
#include "traffic/generator.h"

namespace tributary::programs {
namespace {

using ::testing::HasSubstr;

class GuardProgramTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return scratch_.path() / name; }

  void write_traffic(const traffic::Config& config) const {
    auto generator = traffic::Generator::create(config);
    ASSERT_TRUE(generator) << generator.error().text;
    const auto written = programs::write_traffic(*generator, path("in.pcap"));
    ASSERT_TRUE(written) << written.error().text;
  }

  [[nodiscard]] Result<RunEnd> run(const std::vector<WrittenKey>& keys, bool on_model = false,
                                   const std::string& out = "") const {
    RunRequest request{.in = path("in.pcap"), .out = out};
    if (on_model) request.model = engine::Parameters();
    const auto settings = kGuardProgram.settings().read(keys, "");
    EXPECT_TRUE(settings) << settings.error().text;
    return kGuardProgram.run(*settings, request);
  }

  testing::ScratchDirectory scratch_;
};

/// 100 innocent packets/s for 12 s, ten times as many SYNs from the second second on, and 200
/// clients that come at once.
traffic::Config flooded(uint64_t seed) {
  traffic::Config config;
  config.seed = seed;
  config.packets = 200'000;
  config.length = seconds(12);
  config.background.flows = 50;
  config.background.rate = 300;
  config.flood = traffic::FloodConfig();
  config.flood->rate = 3'000;
  config.flood->start = seconds(2);
  config.flood->sources = 1'000'000;
  config.flash_crowd = traffic::FlashCrowdConfig();
  config.flash_crowd->sources = 200;
  config.flash_crowd->start = seconds(3);
  return config;
}

const std::vector<WrittenKey> kSmallServer{{.name = "destination-pps", .text = "1000", .where = ""},
                                           {.name = "detect-ms", .text = "1000", .where = ""}};

TEST_F(GuardProgramTest, DropsAFloodAndKeepsTheInnocent) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  write_traffic(flooded(seed));
  for (const bool on_model : {false, true}) {
    const auto end = run(kSmallServer, on_model);
    ASSERT_TRUE(end) << end.error().text;
    EXPECT_FALSE(end->problem);
    const auto& details = end->report.details;
    uint64_t packets = 0;
    for (const OutcomeCount& outcome : end->report.outcomes) {
      packets += outcome.is_event ? 0 : outcome.counter.packets;
    }
    EXPECT_EQ(packets, end->report.input.packets);  // Every packet has exactly one outcome.
    EXPECT_GE(details["innocent_passed"].get<double>(), 0.98);
    EXPECT_EQ(details["flash_crowd_passed"], 1.0);
    EXPECT_LE(details["flood_passed"].get<double>(), 0.01);
    // The detect time, and up to five timer periods (apps/guard/README.md).
    EXPECT_GT(details["detect_ms"].get<double>(), 1'000);
    EXPECT_LE(details["detect_ms"].get<double>(), 1'000 + 6 * 250);
    ASSERT_FALSE(details["culprits"].empty());
    EXPECT_THAT(details["culprits"][0]["text"].get<std::string>(),
                HasSubstr("tcp_syn from anywhere to 198.18.0.1"));
    EXPECT_EQ(details["culprits"][0]["source"], "anywhere");
    EXPECT_EQ(details["culprits"][0]["destination"], "198.18.0.1");
  }
}

/// Returns three to six seconds of SYNs and UDP packets from a few sources to two servers, some of
/// them above kTightLimits. The model's threads start 22.5 us after a packet arrives, and its
/// timers run every 25 ms, so no packet arrives near those times.
std::vector<testing::TestPacket> random_floods(Prng& prng) {
  constexpr int64_t kTimerNs = 25'000'000;
  const auto frame_from = [](uint32_t source, uint32_t server, bool is_syn) {
    auto frame = testing::ipv4_frame(60);
    frame[17] = std::byte{46};  // Total length: all but the Ethernet header.
    frame[26] = std::byte{10};
    frame[28] = static_cast<std::byte>(source % 3);  // Three networks.
    frame[29] = static_cast<std::byte>(source);
    frame[33] = static_cast<std::byte>(server);
    frame[23] = std::byte{is_syn ? uint8_t{6} : uint8_t{17}};
    frame[47] = std::byte{2};
    return frame;
  };
  std::vector<testing::TestPacket> packets{{1, frame_from(0, 0, true)}};
  const uint32_t sources = 1 + prng.below(8);
  const uint32_t per_tick = 1 + prng.below(4);
  const uint32_t ticks = 120 + prng.below(120);
  for (uint32_t tick = 0; tick < ticks; tick++) {
    const uint32_t count = prng.below(2 * per_tick);
    for (uint32_t i = 0; i < count; i++) {
      const int64_t at = tick * kTimerNs + 5'000'000 + i * 1'000'000;
      packets.push_back({at, frame_from(prng.below(sources), prng.below(2), prng.chance(0.7))});
    }
  }
  return packets;
}

const std::vector<WrittenKey> kTightLimits{{.name = "source-pps", .text = "2", .where = ""},
                                           {.name = "network-pps", .text = "4", .where = ""},
                                           {.name = "destination-pps", .text = "3", .where = ""},
                                           {.name = "detect-ms", .text = "1000", .where = ""},
                                           {.name = "recover-ms", .text = "1000", .where = ""}};

TEST_F(GuardProgramTest, BothMachinesWriteTheSameBytes) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  Prng prng(seed);
  uint32_t with_culprits = 0;
  for (uint32_t round = 0; round < 100; round++) {
    testing::write_capture(path("in.pcap"), random_floods(prng));
    const auto live = run(kTightLimits, /*on_model=*/false, path("live.pcap"));
    const auto model = run(kTightLimits, /*on_model=*/true, path("model.pcap"));
    ASSERT_TRUE(live && model) << round;
    ASSERT_EQ(testing::read_capture(path("live.pcap")), testing::read_capture(path("model.pcap")))
        << round;
    ASSERT_EQ(live->report.details["culprits"], model->report.details["culprits"]) << round;
    ASSERT_GT(live->report.output.forwarded, 0U) << round;
    with_culprits += live->report.details["culprits"].empty() ? 0 : 1;
  }
  EXPECT_GT(with_culprits, 20U);
}

TEST_F(GuardProgramTest, ModelPaysForEachFlowThatATimerJudges) {
  // One packet to each of three destinations, and one more when their records have gone.
  std::vector<testing::TestPacket> packets;
  for (uint32_t i = 0; i < 3; i++) {
    auto frame = testing::ipv4_frame(60);
    frame[17] = std::byte{46};  // Total length: all but the Ethernet header.
    frame[33] = static_cast<std::byte>(i);
    packets.push_back({1'000'000 + i, frame});
  }
  packets.push_back({700'000'000, packets[0].bytes});
  testing::write_capture(path("in.pcap"), packets);
  const auto end = run({}, /*on_model=*/true);
  ASSERT_TRUE(end && end->report.model);
  const auto& rows = end->report.model->accounting.instructions;
  const auto row_of = [&](std::string_view name) {
    return std::find_if(rows.begin(), rows.end(),
                        [&](const auto& row) { return row.name == name; });
  };
  // The timers visit the records after 250 and 500 ms. The second visit erases them.
  ASSERT_NE(row_of("judge_flow"), rows.end());
  EXPECT_EQ(row_of("judge_flow")->executed, 2U * 3 * guard::kKindCount);
  EXPECT_EQ(row_of("judge_flow")->most.xtxns, 1U);
  ASSERT_NE(row_of("expire_record"), rows.end());
  EXPECT_EQ(row_of("expire_record")->executed, 3U);
}

TEST_F(GuardProgramTest, OnlyTrafficToTheGeneratorsServersHasAScore) {
  auto frame = testing::ipv4_frame(60);
  frame[17] = std::byte{46};  // Total length: all but the Ethernet header.
  frame[23] = std::byte{17};
  frame[26] = std::byte{10};  // 10.0.0.0
  frame[30] = std::byte{10};
  testing::write_capture(path("in.pcap"), {{1, frame}, {2, frame}});
  auto end = run({});
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->report.details["innocent_passed"].is_null());
  frame[30] = std::byte{198};  // To 198.18.0.1.
  frame[31] = std::byte{18};
  frame[33] = std::byte{1};
  testing::write_capture(path("in.pcap"), {{1, frame}, {2, frame}});
  end = run({});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->report.details["innocent_passed"], 1.0);
}

/// Returns 7 s of UDP packets: a client sends 100 packets/s to 198.18.0.2, and from 3 s on a flood
/// goes to 198.18.0.1, each packet from another network.
std::vector<testing::TestPacket> loud_client_and_flood(uint32_t flood_gap_ms) {
  std::vector<testing::TestPacket> packets;
  uint32_t networks = 0;
  for (uint32_t ms = 0; ms < 7'000; ms += 10) {
    auto frame = testing::ipv4_frame(60);
    frame[17] = std::byte{46};  // Total length: all but the Ethernet header.
    frame[23] = std::byte{17};
    frame[26] = std::byte{10};  // From 10.0.0.0.
    frame[30] = std::byte{198};
    frame[31] = std::byte{18};
    frame[33] = std::byte{2};
    packets.push_back({int64_t{ms} * 1'000'000 + 1, frame});
    if (ms < 3'000 || ms % flood_gap_ms != 0) continue;
    frame[26] = std::byte{240};
    frame[27] = static_cast<std::byte>(networks / 256);
    frame[28] = static_cast<std::byte>(networks % 256);
    frame[33] = std::byte{1};
    packets.push_back({int64_t{ms} * 1'000'000 + 2, frame});
    networks++;
  }
  return packets;
}

TEST_F(GuardProgramTest, AnEarlierCulpritIsNoDetectionOfTheFlood) {
  testing::write_capture(path("in.pcap"), loud_client_and_flood(/*flood_gap_ms=*/10));
  auto end = run(kTightLimits);
  ASSERT_TRUE(end);
  ASSERT_GE(end->report.details["culprits"].size(), 2U);
  EXPECT_EQ(end->report.details["culprits"][0]["destination"], "198.18.0.2");
  ASSERT_TRUE(end->report.details["detect_ms"].is_number());
  // The detect time and four timer periods, and up to two periods until a timer judges.
  EXPECT_GT(end->report.details["detect_ms"], 1'000.0);
  EXPECT_LT(end->report.details["detect_ms"], 2'600.0);
  EXPECT_EQ(end->report.details["flood_passed"], 0.0);

  // A packet a second is no flood, so nothing detects it.
  testing::write_capture(path("in.pcap"), loud_client_and_flood(/*flood_gap_ms=*/1'000));
  end = run(kTightLimits);
  ASSERT_TRUE(end);
  ASSERT_FALSE(end->report.details["culprits"].empty());
  EXPECT_TRUE(end->report.details["detect_ms"].is_null());
  EXPECT_TRUE(end->report.details["flood_passed"].is_null());
}

TEST_F(GuardProgramTest, TheReportKeepsTheLatestCulprits) {
  // 1,100 sources of as many networks send 10 packets/s each for 1.8 s, and 2 are allowed.
  std::vector<testing::TestPacket> packets;
  for (int64_t round = 0; round < 18; round++) {
    for (int64_t source = 0; source < 1'100; source++) {
      auto frame = testing::ipv4_frame(60);
      frame[17] = std::byte{46};  // Total length: all but the Ethernet header.
      frame[23] = std::byte{17};
      frame[26] = std::byte{10};
      frame[27] = static_cast<std::byte>(source / 256);
      frame[28] = static_cast<std::byte>(source % 256);
      packets.push_back({round * 100'000'000 + source * 50'000, frame});
    }
  }
  testing::write_capture(path("in.pcap"), packets);
  std::vector<WrittenKey> keys{{.name = "source-pps", .text = "2", .where = ""},
                               {.name = "network-pps", .text = "1000", .where = ""},
                               {.name = "destination-pps", .text = "100", .where = ""},
                               {.name = "detect-ms", .text = "1000", .where = ""}};
  auto end = run(keys);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->report.details["culprits"].size(), 1'024U);
  EXPECT_EQ(end->report.details["culprits_left_out"], 76);
  EXPECT_THAT(as_text(end->report),
              HasSubstr("  and 1004 more culprits: see --json\n"
                        "  and 76 earlier culprits that are not kept: see culprits-max\n"));
  keys.push_back({.name = "culprits-max", .text = "1100", .where = ""});
  end = run(keys);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->report.details["culprits"].size(), 1'100U);
  EXPECT_EQ(end->report.details["culprits_left_out"], 0);
}

TEST_F(GuardProgramTest, DryRunDropsNothing) {
  write_traffic(flooded(/*seed=*/1));
  std::vector<WrittenKey> keys = kSmallServer;
  keys.push_back({.name = "dry-run", .text = "on", .where = ""});
  const auto end = run(keys);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->report.dropped, 0U);
  EXPECT_EQ(end->report.output.forwarded, end->report.input.packets);
  ASSERT_FALSE(end->report.details["culprits"].empty());
  EXPECT_EQ(end->report.details["culprits"][0]["dropped"], 0);
  EXPECT_GT(end->report.details["culprits"][0]["would_drop"], 0);
}

TEST_F(GuardProgramTest, AllowedSourcesPass) {
  write_traffic(flooded(/*seed=*/1));
  std::vector<WrittenKey> keys = kSmallServer;
  keys.push_back({.name = "allow", .text = "192.0.2.0/24+240.0.0.0/8+2001:db8::/32", .where = ""});
  const auto end = run(keys);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->report.dropped, 0U);
  EXPECT_TRUE(end->report.details["culprits"].empty());
  EXPECT_TRUE(end->report.details["detect_ms"].is_null());
}

TEST_F(GuardProgramTest, LongGapsAreShort) {
  // Two packets a month apart. Timers for the whole gap would take minutes.
  auto frame = testing::ipv4_frame(60);
  frame[17] = std::byte{46};  // Total length.
  testing::write_capture(path("in.pcap"), {{1, frame}, {int64_t{29} * 86'400'000'000'000, frame}});
  for (const bool on_model : {false, true}) {
    const auto end = run({}, on_model);
    ASSERT_TRUE(end);
    EXPECT_EQ(end->report.input.packets, 2U);
    EXPECT_EQ(end->report.details["destinations"], 1);  // The first packet's record has expired.
  }
}

TEST_F(GuardProgramTest, RefusesBadSettingsInOneLine) {
  testing::write_capture(path("in.pcap"), {{1, testing::ipv4_frame(60)}});
  const auto refusal = [this](const std::string& name, const std::string& text) {
    const auto end = run({{.name = name, .text = text, .where = ""}});
    return end ? std::string("accepted") : end.error().text;
  };
  EXPECT_THAT(refusal("action", "reject"), HasSubstr("allowed: drop, police, keep"));
  EXPECT_EQ(refusal("timeout-ms", "300000"),
            "timeout-ms has no effect; allowed: none, or any with timeout-active");
  const auto earlier_output = scratch_.file("out.pcap", "an earlier output");
  EXPECT_FALSE(run({{.name = "action", .text = "reject", .where = ""}}, false, earlier_output));
  EXPECT_EQ(std::filesystem::file_size(earlier_output), 17U);
  for (const char* text :
       {"10.0.0.0", "10.0.0.0/33", "10.0.0/8", "/8", "::1/129", "10.0.0.0/-1", "a::b::c/3"}) {
    EXPECT_THAT(refusal("allow", text), HasSubstr("ADDRESS/BITS")) << text;
  }
}

}  // namespace
}  // namespace tributary::programs
