// SPDX-License-Identifier: Apache-2.0
// Method: small traces through both machines. With a place for every flow both find all large
// flows; with little memory they lose some. Equal settings give equal bytes on any number of
// threads. Then the refusals.
#include "lab/telemetry/telemetry_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lab/telemetry/telemetry_report.h"
#include "lab/telemetry/trio_run.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;

TelemetryComparison small_settings() {
  TelemetryComparison settings;
  settings.flows = 300;
  settings.packets = 6'000;
  settings.rate = 100'000;
  settings.churn = 500;
  settings.top = 20;
  settings.period = milliseconds(10);
  settings.memories = {1 << 20};
  return settings;
}

class EveryFlowHasAPlace : public ::testing::TestWithParam<uint64_t> {};

TEST_P(EveryFlowHasAPlace, AndBothMachinesFindAllLargeFlows) {
  TelemetryComparison settings = small_settings();
  settings.seed = GetParam();
  const auto result = run_telemetry(settings, 1);
  ASSERT_TRUE(result.has_value()) << result.error().text;
  ASSERT_EQ(result->rows.size(), 2U);
  EXPECT_EQ(result->packets, settings.packets);
  for (const TelemetryRow& row : result->rows) {
    SCOPED_TRACE(row.machine);
    EXPECT_EQ(row.score.recall, 1);
    EXPECT_EQ(row.score.false_positives, 0U);
    EXPECT_GE(row.places, result->flows);
    EXPECT_LE(row.memory_bytes, row.memory_limit);
    EXPECT_EQ(row.lost_packets, 0U);
    ASSERT_TRUE(row.score.detect_ms.has_value());
    EXPECT_GT(*row.score.detect_ms, 0);
    EXPECT_LE(*row.score.detect_ms, 12.5 + 1);  // A period, a quarter of it, and the last report.
  }
  const TelemetryRow& trio = result->rows[0];
  const TelemetryRow& tofino = result->rows[1];
  // Records count every packet. The sketch may miss a flow's first packets while it recirculates.
  EXPECT_EQ(trio.score.count_error, 0);
  EXPECT_EQ(*trio.uncounted_packets, 0U);
  EXPECT_GT(*trio.instructions_per_packet, 5);
  EXPECT_FALSE(trio.passes_per_packet.has_value());
  EXPECT_LT(tofino.score.count_error, 0.05);
  EXPECT_FALSE(tofino.instructions_per_packet.has_value());
  // Each flow takes a slot once, which is a second pass.
  EXPECT_GE(*tofino.passes_per_packet,
            1 + static_cast<double>(result->flows) / static_cast<double>(result->packets));
}

INSTANTIATE_TEST_SUITE_P(Seeds, EveryFlowHasAPlace, ::testing::Values(1, 2, 3));

TEST(TelemetryComparison, LittleMemoryCostsRecallAndCounts) {
  TelemetryComparison settings = small_settings();
  settings.memories = {1'024};
  const auto result = run_telemetry(settings, 1);
  ASSERT_TRUE(result.has_value()) << result.error().text;
  const TelemetryRow& trio = result->rows[0];
  const TelemetryRow& tofino = result->rows[1];
  EXPECT_LT(trio.score.recall, 1);
  EXPECT_GT(*trio.uncounted_packets, 0U);
  EXPECT_EQ(trio.score.false_positives, 0U);  // Records never count too much.
  EXPECT_EQ(tofino.places, 32U);              // 1,024 bytes hold 16 slots of 20 bytes in each row.
  EXPECT_EQ(tofino.memory_bytes, 640U);
  EXPECT_FALSE(trio.sram_bytes.has_value());
  // Six registers and a counter have a block of 16 KiB and a spare one each.
  EXPECT_GE(*tofino.sram_bytes, 7U * 2 * 16'384);
  EXPECT_EQ(*tofino.sram_bytes % 16'384, 0U);
  EXPECT_GT(tofino.score.count_error, 0);
}

TEST(TelemetryComparison, RowsDoNotDependOnThreads) {
  TelemetryComparison settings = small_settings();
  settings.memories = {4'096, 65'536};
  const auto one = run_telemetry(settings, 1);
  const auto four = run_telemetry(settings, 4);
  ASSERT_TRUE(one.has_value() && four.has_value());
  EXPECT_EQ(telemetry_json(settings, *one), telemetry_json(settings, *four));
  EXPECT_EQ(telemetry_text(settings, *one), telemetry_text(settings, *four));
  settings.seed = 2;
  const auto other = run_telemetry(settings, 1);
  ASSERT_TRUE(other.has_value());
  EXPECT_NE(telemetry_json(settings, *one), telemetry_json(settings, *other));
}

TEST(TelemetryComparison, JsonHasAllFieldsAndNullForWhatAMachineLacks) {
  const TelemetryComparison settings = small_settings();
  const TelemetryResult result{
      .packets = 10,
      .flows = 3,
      .large_flows = 1,
      .threshold = 7,
      .rows = {{.machine = "trio",
                .memory_limit = 1'024,
                .memory_bytes = 1'000,
                .places = 4,
                .score = {.recall = 0.5, .false_positives = 2, .count_error = 0.25},
                .instructions_per_packet = 14.5,
                .uncounted_packets = 3,
                .report_bytes = 99}}};
  const auto json = nlohmann::json::parse(telemetry_json(settings, result));
  EXPECT_EQ(json["trace"]["threshold"], 7);
  const auto& row = json["rows"][0];
  EXPECT_EQ(row["machine"], "trio");
  EXPECT_EQ(row["memory_bytes"], 1'000);
  EXPECT_TRUE(row["sram_bytes"].is_null());
  EXPECT_EQ(row["recall"], 0.5);
  EXPECT_EQ(row["false_positives"], 2);
  EXPECT_EQ(row["count_error"], 0.25);
  EXPECT_TRUE(row["detect_ms"].is_null());
  EXPECT_EQ(row["instructions_per_packet"], 14.5);
  EXPECT_TRUE(row["passes_per_packet"].is_null());
  EXPECT_EQ(row["uncounted_packets"], 3);
}

TEST(TelemetryComparison, AStoreCountsRecordsKeysFlagsAndBuckets) {
  // Records of 128 bytes, keys of 48, flags of 8. The buckets of 64 bytes have a place for twice as
  // many keys at four each, rounded up to a power of two: 100 records need 51, so 64.
  const auto bytes = trio_store_bytes(100);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(*bytes, 100U * (128 + 48 + 8) + 64 * 64);
}

TEST(TelemetryComparison, RefusesSettingsOutOfRange) {
  const auto refusal = [](auto change) {
    TelemetryComparison settings;
    change(settings);
    const auto checked = check(settings);
    return checked ? std::string() : checked.error().text;
  };
  EXPECT_EQ(refusal([](auto&) {}), "");
  EXPECT_EQ(refusal([](auto& s) { s.flows = 0; }),
            "flows=0 is out of range; allowed: 1 to 1000000");
  EXPECT_THAT(refusal([](auto& s) { s.packets = 0; }), HasSubstr("packets=0 is out of range"));
  EXPECT_THAT(refusal([](auto& s) { s.top = 10'001; }), HasSubstr("top=10001 is out of range"));
  EXPECT_THAT(refusal([](auto& s) { s.rate = 0; }), HasSubstr("rate=0 is out of range"));
  EXPECT_THAT(refusal([](auto& s) { s.period = Duration(); }), HasSubstr("period-ms=0"));
  EXPECT_THAT(refusal([](auto& s) { s.zipf = 6; }), HasSubstr("zipf"));
  EXPECT_THAT(refusal([](auto& s) { s.churn = -1; }), HasSubstr("churn"));
}

TEST(ParseMemories, ReadsUnitsAndRefusesEverythingElse) {
  EXPECT_EQ(*parse_memories("--memory", "2048,64K,1M"),
            (std::vector<uint64_t>{2'048, 65'536, 1'048'576}));
  for (const char* wrong : {"", "64K,", ",", "x", "64k", "64KB", "-1", "1.5M", "1023", "513M",
                            "18446744073709551616", "99999999999M"}) {
    const auto parsed = parse_memories("--memory", wrong);
    ASSERT_FALSE(parsed.has_value()) << wrong;
    EXPECT_THAT(parsed.error().text, HasSubstr("allowed: sizes from 1K to 512M")) << wrong;
  }
  std::string many = "1K";
  for (uint32_t i = 0; i < kTelemetryMemoriesMax; i++) many += ",1K";
  EXPECT_THAT(parse_memories("--memory", many).error().text, HasSubstr("more than 32 sizes"));
}

}  // namespace
}  // namespace tributary::lab
