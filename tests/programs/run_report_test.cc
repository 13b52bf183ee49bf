// SPDX-License-Identifier: Apache-2.0
// Method: the text of hand-made statistics of a server and of a run over a capture.
#include "programs/run_report.h"

#include <gtest/gtest.h>

namespace tributary::programs {
namespace {

TEST(RunReport, TextOfAServerAddsUpItsCores) {
  const nlohmann::json stats{
      {"cores", {{{"packets", 3}}, {{"packets", 4}}}},
      {"ports", {{{"tx_refused", 1}}, {{"tx_refused", 2}}}},
      {"forwarded", 5},
      {"dropped", 2},
      {"outcomes",
       {{"known", {{"packets", 0}, {"bytes", 0}}}, {"policed", {{"packets", 2}, {"bytes", 99}}}}},
      {"events", {{"expired", 3}, {"violation", 0}}},
      {"details", {nlohmann::json::object(), {{"culprits", {{{"text", "who, when and why"}}}}}}}};
  EXPECT_EQ(live_text("guard", stats),
            "guard: 7 packets: 5 forwarded, 2 dropped\n"
            "  policed                             2 packets               99 bytes\n"
            "  expired                             3 times\n"
            "  3 packets lost after the program: a port refused them (tx_refused)\n"
            "  culprit: who, when and why\n");
}

TEST(RunReport, TextShowsTheFirstCulpritsOnly) {
  RunReport report;
  report.program = "guard";
  report.details["culprits"] = nlohmann::ordered_json::array();
  for (uint32_t i = 0; i < 25; i++) report.details["culprits"].push_back({{"text", "x"}});
  const std::string text = as_text(report);
  EXPECT_NE(text.find("  culprit: x\n  and 5 more culprits: see --json\n"), std::string::npos);
  EXPECT_EQ(text.find("not kept"), std::string::npos);
  report.details["culprits_left_out"] = 76;
  EXPECT_NE(as_text(report).find("see --json\n  and 76 earlier culprits that are not kept: see "
                                 "culprits-max\n"),
            std::string::npos);
}

TEST(RunReport, CutHeadersAreNotFilledUp) {
  RunReport report;
  report.input.cut = 5;
  report.input.headers_cut = 2;
  EXPECT_EQ(as_json(report)["input"]["cut"], 5);
  EXPECT_EQ(as_json(report)["input"]["headers_cut"], 2);
  EXPECT_NE(as_text(report).find("  3 packets filled up with zeros: the capture cut them\n"
                                 "  2 packets truncated: the capture cut their headers\n"),
            std::string::npos);
}

TEST(RunReport, ModelCountsPacketsThatAreTooLong) {
  RunReport report;
  report.model.emplace();
  EXPECT_EQ(as_json(report)["model"]["refused_too_long"], 0);
  EXPECT_EQ(as_text(report).find("longer than"), std::string::npos);
  report.model->pfe.refused_too_long = 7;
  EXPECT_EQ(as_json(report)["model"]["refused_too_long"], 7);
  EXPECT_NE(
      as_text(report).find("  7 packets and messages dropped: longer than the chip's packets\n"),
      std::string::npos);
}

TEST(RunReport, LatencyGoesOnToThePort) {
  RunReport report;
  report.model.emplace();
  EXPECT_EQ(as_json(report)["model"]["egress_us_mean"], 0.0);
  EXPECT_EQ(as_text(report).find("to the port"), std::string::npos);
  engine::Report& pfe = report.model->pfe;
  pfe.latency.mean = microseconds(20);
  pfe.latency.p99 = microseconds(22);
  pfe.left = 4;
  pfe.egress_time = microseconds(10);
  pfe.egress_time_max = microseconds(4);
  EXPECT_DOUBLE_EQ(as_json(report)["model"]["egress_us_mean"].get<double>(), 2.5);
  EXPECT_DOUBLE_EQ(as_json(report)["model"]["egress_us_max"].get<double>(), 4.0);
  EXPECT_NE(as_text(report).find("latency 20.0 us (p99 22.0 us), then 2.5 us to the port, at most"),
            std::string::npos)
      << as_text(report);
}

TEST(RunReport, EventsAreNoPackets) {
  RunReport report;
  report.program = "guard";
  report.outcomes = {{"forwarded", {.packets = 5, .bytes = 300}, /*is_event=*/false},
                     {"expired", {.packets = 7, .bytes = 0}, /*is_event=*/true}};
  const auto json = as_json(report);
  EXPECT_EQ(json["outcomes"].dump(), R"({"forwarded":{"packets":5,"bytes":300}})");
  EXPECT_EQ(json["events"].dump(), R"({"expired":7})");
  EXPECT_NE(as_text(report).find("  expired                             7 times\n"),
            std::string::npos);
}

}  // namespace
}  // namespace tributary::programs
