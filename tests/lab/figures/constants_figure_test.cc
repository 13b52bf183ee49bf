// SPDX-License-Identifier: Apache-2.0
// Method: the quick figure against Figure 15, where the calibrated constants add up by hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "engine/model/parameters.h"
#include "lab/figures/figure.h"
#include "lab/result.h"
#include "tests/lab/figures/quick_figure.h"

namespace tributary::lab {
namespace {

TEST(Constants, SharesAreThoseByHand) {
  const engine::Parameters parameters = *engine::preset(5);
  const FigureOutcome latency = quick_outcome(trio_15());
  const FigureOutcome figure = quick_outcome(constants());
  for (const double gradients : {64.0, 1024.0}) {
    const double us = value_at(latency, "latency", gradients);
    const std::string column =
        gradients == 64 ? ": trio-15, latency, 64 gradients" : ": trio-15, latency, 1024 gradients";
    const double ingress_ns = as_ns(parameters.ingress_latency);
    const double tail_ns = as_ns(parameters.tail_read_latency);
    // A contribution waits once for its head, and once for each 64 bytes of its tail. A head of 192
    // bytes holds 138 bytes of gradients; the rest are 2 and 63 chunks.
    EXPECT_NEAR(value_at(figure, "ingress_latency_ns" + column, ingress_ns), ingress_ns / us / 10,
                0.1);
    const double chunks = gradients == 64 ? 3 : 63;
    EXPECT_NEAR(value_at(figure, "tail_read_latency_ns" + column, tail_ns),
                chunks * tail_ns / us / 10, 0.2);
  }
}

/// Each of the BytePS paper's constants changes its points, and no other figure's.
TEST(Constants, BytepsConstantsChangeItsPointsAlone) {
  const auto points = constants().points({});
  ASSERT_TRUE(points) << points.error().text;
  std::map<std::string, const Point*> by_label;
  for (const Point& point : *points) by_label[point.label] = &point;
  const auto scenario = [&](const std::string& label) -> const Scenario& {
    EXPECT_TRUE(by_label.contains(label)) << label;
    return by_label[label]->scenario;
  };
  const Scenario& own = scenario("unchanged: NVLink, 8 spare");
  EXPECT_EQ(scenario("byteps.window_packets x 2: NVLink, 8 spare").window, 2 * own.window);
  EXPECT_EQ(scenario("byteps.v100_over_p100 x 2: NVLink, 8 spare").model.forward,
            own.model.forward * 2);
  // All-reduce has half of 13.1 GB/s. Twice that is more than the NIC's 90 Gbit/s.
  const Scenario& ring = scenario("unchanged: NVLink, all-reduce");
  EXPECT_EQ(ring.link.rate_bits_per_s, 52'400'000'000U);
  const char* label = "byteps.nvlink_pcie_gbytes_per_s x {}: NVLink, all-reduce";
  EXPECT_EQ(scenario(fmt::format(fmt::runtime(label), 0.5)).link.rate_bits_per_s, 26'200'000'000U);
  EXPECT_EQ(scenario(fmt::format(fmt::runtime(label), 2)).link.rate_bits_per_s, 90'000'000'000U);
  for (const auto& [name, point] : by_label) {
    const size_t colon = name.find(": ");
    if (!name.starts_with("byteps.") || name.find("NVLink") != name.npos ||
        name.find("PCIe") != name.npos) {
      continue;
    }
    EXPECT_EQ(point_key(*point), point_key(*by_label["unchanged" + name.substr(colon)])) << name;
  }
}

}  // namespace
}  // namespace tributary::lab
