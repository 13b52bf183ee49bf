// SPDX-License-Identifier: Apache-2.0
// Method: a summary set by hand, as text and as JSON.
#include "cli/programs/traffic_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tributary::cli {
namespace {

using traffic::Label;

traffic::Summary two_classes() {
  traffic::Summary summary;
  summary.classes[0] = {.packets = 3,
                        .bytes = 200,
                        .first_at = Instant() + milliseconds(1),
                        .last_at = Instant() + milliseconds(9)};
  summary.classes[1] = {.packets = 2,
                        .bytes = 120,
                        .first_at = Instant() + milliseconds(5),
                        .last_at = Instant() + milliseconds(10)};
  summary.flows_begun = 2;
  summary.flows_ended = 1;
  return summary;
}

TEST(TrafficReport, Text) {
  EXPECT_EQ(traffic_text(two_classes()),
            "5 packets, 320 bytes in 0.010000 s; 2 background flows\n"
            "  innocent    3 packets, 200 bytes, from 0.001000 s to 0.009000 s\n"
            "  flood       2 packets, 120 bytes, from 0.005000 s to 0.010000 s\n");
}

TEST(TrafficReport, Json) {
  traffic::Config config;
  config.flood = traffic::FloodConfig{.kind = traffic::FloodKind::kPulse};
  const auto json = traffic_json(config, two_classes());
  EXPECT_EQ(json["packets"], 5);
  EXPECT_EQ(json["bytes"], 320);
  EXPECT_DOUBLE_EQ(json["seconds"], 0.01);
  EXPECT_EQ(json["flows_begun"], 2);
  EXPECT_EQ(json["settings"]["zipf"], 1.1);
  EXPECT_EQ(json["settings"]["flood"]["pulse_on_ms"], 500);
  EXPECT_FALSE(json["settings"].contains("flash_crowd"));
  EXPECT_EQ(json["classes"].size(), 3U);
  EXPECT_EQ(json["classes"][0]["source_prefixes"].size(), 2U);
  EXPECT_DOUBLE_EQ(json["classes"][1]["first_s"], 0.005);
  EXPECT_FALSE(json["classes"][2].contains("first_s"));
  EXPECT_FALSE(json.contains("flash_crowd_server"));
}

}  // namespace
}  // namespace tributary::cli
