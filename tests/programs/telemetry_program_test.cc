// SPDX-License-Identifier: Apache-2.0
// Method: 30 captures of generated traffic and noise. On both machines, each packet is in exactly
// one record or one refusal counter, and the records equal those of the simplest model: a map from
// each frame's flow to its packets. Timeouts lie beyond the captures, so each flow has one record.
#include "programs/telemetry_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "programs/traffic_capture.h"
#include "tests/programs/captures.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/seed.h"
#include "traffic/generator.h"

namespace tributary::programs {
namespace {

using testing::TestPacket;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::multiset<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::multiset<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.insert(line);
  return lines;
}

class TelemetryProgramTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return scratch_.path() / name; }

  /// Runs over "in.pcap". The files begin with `name`.
  [[nodiscard]] RunEnd run(const std::string& name, bool on_model,
                           const std::vector<WrittenKey>& keys = {},
                           uint32_t packet_bytes_max = kPacketBytesLimit) const {
    RunRequest request{.in = path("in.pcap"),
                       .out = path(name + ".pcap"),
                       .records = path(name + ".jsonl"),
                       .packet_bytes_max = packet_bytes_max};
    if (on_model) request.model = engine::Parameters();
    const auto settings = kTelemetryProgram.settings().read(keys, "");
    EXPECT_TRUE(settings) << settings.error().text;
    auto end = kTelemetryProgram.run(*settings, request);
    EXPECT_TRUE(end);
    return *std::move(end);
  }

  /// Expects that records and counters account for each packet once.
  static void expect_whole(const RunEnd& end) {
    EXPECT_FALSE(end.problem);
    uint64_t counted = 0, accounted = 0;
    for (const OutcomeCount& outcome : end.report.outcomes) {
      counted += outcome.counter.packets;
      if (outcome.name == "accounted") accounted = outcome.counter.packets;
    }
    EXPECT_EQ(counted, end.report.input.packets);
    EXPECT_EQ(end.report.output.forwarded, end.report.input.packets);
    EXPECT_EQ(end.report.details["exported"]["packets"], accounted);
    EXPECT_EQ(end.report.details["flows_in_store"], 0);
  }

  testing::ScratchDirectory scratch_;
};

std::vector<TestPacket> generated(uint64_t seed, uint64_t packets) {
  traffic::Config config;
  config.seed = seed;
  config.background.flows = 20;
  config.packets = packets;
  auto generator = traffic::Generator::create(config);
  EXPECT_TRUE(generator);
  std::vector<TestPacket> list;
  while (const auto packet = generator->next()) {
    list.push_back({1'700'000'000'000'000'000 + in_nanoseconds(packet->at - Instant()),
                    {packet->frame.begin(), packet->frame.end()}});
  }
  return list;
}

TEST_F(TelemetryProgramTest, TheDefaultStoreHoldsAHundredThousandFlows) {
  traffic::Config config;
  config.packets = 250'000;
  config.background.flows = 100'000;
  config.background.zipf = 0.2;  // So that few packets reach nearly all flows.
  auto generator = traffic::Generator::create(config);
  ASSERT_TRUE(generator);
  ASSERT_TRUE(write_traffic(*generator, path("in.pcap")));
  ASSERT_GT(generator->summary().flows_begun, 80'000U);
  const RunEnd end = run("live", false);
  expect_whole(end);
  for (const OutcomeCount& outcome : end.report.outcomes) {
    EXPECT_EQ(outcome.counter.packets, outcome.name == "accounted" ? config.packets : 0)
        << outcome.name;
  }
  EXPECT_GE(end.report.details["records"], 80'000);
}

TEST_F(TelemetryProgramTest, BothMachinesWriteTheSamePacketsAndRecords) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(::testing::Message() << "replay with TRIB_TEST_SEED=" << seed);
  Prng prng(seed);
  for (uint32_t round = 0; round < 100; round++) {
    auto packets = generated(prng.any_u64(), 100);
    for (TestPacket& noise : testing::random_packets(prng, 20)) {
      const auto place = prng.below(static_cast<uint32_t>(packets.size()));
      noise.at_ns = packets[place].at_ns;
      packets.insert(packets.begin() + place, noise);
    }
    testing::write_capture(path("in.pcap"), packets);
    const RunEnd live = run("live", false), model = run("model", true);
    expect_whole(live);
    expect_whole(model);
    ASSERT_EQ(bytes_of(path("live.pcap")), bytes_of(path("model.pcap"))) << round;
    ASSERT_EQ(lines_of(path("live.jsonl")), lines_of(path("model.jsonl"))) << round;
  }
}

TEST_F(TelemetryProgramTest, ACaptureHasNoCollector) {
  testing::write_capture(path("in.pcap"), {});
  const auto settings = kTelemetryProgram.settings().parse("collector=127.0.0.1:4739");
  ASSERT_TRUE(settings);
  const auto end = kTelemetryProgram.run(*settings, {.in = path("in.pcap")});
  ASSERT_FALSE(end);
  EXPECT_EQ(
      end.error().text,
      "collector has no effect over a capture; allowed: none, or any with tributary serve; to "
      "keep the records: --records or --ipfix");
}

// A message of 1,400 bytes holds the records of many flows; the longest packet has 1,000.
TEST_F(TelemetryProgramTest, MessagesMayBeLongerThanTheLongestPacket) {
  testing::write_capture(path("in.pcap"), generated(/*seed=*/1, 2'000));
  const RunEnd live = run("live", /*on_model=*/false, {}, /*packet_bytes_max=*/1'000);
  const RunEnd model = run("model", /*on_model=*/true, {}, /*packet_bytes_max=*/1'000);
  EXPECT_GT(live.report.input.too_long, 0U);
  EXPECT_GT(live.report.details["records"], 0);
  EXPECT_FALSE(lines_of(path("live.jsonl")).empty());
  EXPECT_EQ(lines_of(path("live.jsonl")), lines_of(path("model.jsonl")));
  EXPECT_EQ(bytes_of(path("live.pcap")), bytes_of(path("model.pcap")));
  ASSERT_TRUE(model.report.model);
  EXPECT_EQ(model.report.model->pfe.refused_too_long, 0U);
}

TEST_F(TelemetryProgramTest, FullStoreRefusesAndCounts) {
  testing::write_capture(path("in.pcap"), generated(/*seed=*/1, 500));
  for (const bool on_model : {false, true}) {
    const RunEnd end = run("a", on_model, {{.name = "flows-max", .text = "4", .where = ""}});
    expect_whole(end);
    EXPECT_EQ(end.report.details["records"], 4);
    EXPECT_GT(end.report.outcomes[1].counter.packets, 0U);
    EXPECT_EQ(end.report.outcomes[1].name, "store_full");
  }
}

// Packets of one flow come faster than a swap of its last time takes, at a sixth of the rate that
// the report predicts. A thread that gets a later time back must not wait for the flow's end.
TEST_F(TelemetryProgramTest, SteadyFlowHoldsNoThread) {
  constexpr int64_t kGapNs = 60;
  constexpr int64_t kPackets = 5'000;
  std::vector<std::byte> frame = testing::ipv4_frame(60);
  frame[17] = std::byte{46};  // Total length.
  std::vector<TestPacket> packets;
  for (int64_t i = 0; i < kPackets; i++) packets.push_back({i * kGapNs, frame});
  testing::write_capture(path("in.pcap"), packets);
  const RunEnd end = run("steady", /*on_model=*/true);
  expect_whole(end);
  ASSERT_TRUE(end.report.model);
  EXPECT_LT(end.report.model->pfe.latency.max, microseconds(60));
  const auto& xtxns = end.report.model->pfe.xtxn_counts;
  const auto swaps =
      std::ranges::find(xtxns, "fetch-and-swap", [](const auto& row) { return row.kind; });
  ASSERT_NE(swaps, xtxns.end());
  EXPECT_LT(swaps->issued, 2U * kPackets);
}

TEST_F(TelemetryProgramTest, AFullDiskForPacketsLeavesTheRecordsWhole) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  testing::write_capture(path("in.pcap"), generated(/*seed=*/1, 5'000));
  for (const bool on_model : {false, true}) {
    RunRequest request{.in = path("in.pcap"), .out = "/dev/full", .records = path("records.jsonl")};
    if (on_model) request.model = engine::Parameters();
    const auto end = kTelemetryProgram.run(*kTelemetryProgram.settings().read({}, ""), request);
    ASSERT_TRUE(end && end->problem);
    EXPECT_THAT(end->problem->text, ::testing::HasSubstr("No space left on device"));
    uint64_t packets = 0;
    for (const std::string& line : lines_of(request.records)) {
      packets += nlohmann::json::parse(line)["packets"].get<uint64_t>();
    }
    EXPECT_EQ(end->report.outcomes[0].name, "accounted");
    EXPECT_GT(packets, 0U);
    EXPECT_EQ(packets, end->report.outcomes[0].counter.packets);
  }
}

TEST_F(TelemetryProgramTest, TimersExportIdleAndLongFlows) {
  // A flow of two packets a second apart, then silence; another flow sends once a second for 10 s.
  std::vector<TestPacket> packets;
  auto short_lived = testing::ipv4_frame(60), long_lived = testing::ipv4_frame(60);
  for (auto* frame : {&short_lived, &long_lived}) {
    (*frame)[17] = std::byte{46};  // IPv4 total length.
    (*frame)[23] = std::byte{17};  // UDP.
    (*frame)[39] = std::byte{26};  // UDP length.
  }
  long_lived[37] = std::byte{9};  // Another port.
  for (int64_t second = 0; second <= 10; second++) {
    const int64_t at_ns = 1'700'000'000'000'000'000 + second * 1'000'000'000;
    if (second < 2) packets.push_back({at_ns, short_lived});
    packets.push_back({at_ns + 1'000, long_lived});
  }
  testing::write_capture(path("in.pcap"), packets);
  for (const bool on_model : {false, true}) {
    const RunEnd end = run("a", on_model,
                           {{.name = "inactive-timeout-ms", .text = "1500", .where = ""},
                            {.name = "active-timeout-ms", .text = "4000", .where = ""}});
    expect_whole(end);
    const auto& reasons = end.report.details["records_by_reason"];
    EXPECT_EQ(reasons["idle"], 1);    // The first flow, in (1.5 s, 3 s] of silence.
    EXPECT_EQ(reasons["active"], 2);  // The second flow, each in (4 s, 5 s] of its life.
    EXPECT_EQ(reasons["forced_end"], 1);
  }
}

}  // namespace
}  // namespace tributary::programs
