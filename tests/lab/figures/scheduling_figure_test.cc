// SPDX-License-Identifier: Apache-2.0
// Method: the figure at its quick size, against the times by hand that stand beside its results.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "lab/figures/figure.h"
#include "tests/lab/figures/quick_figure.h"

namespace tributary::lab {
namespace {

constexpr double kGbps = 10;  ///< The rate of the quick figure.

TEST(Scheduling, TimesAreThoseByHand) {
  const FigureOutcome figure = quick_outcome(scheduling());
  for (const char* name :
       {"trio-ml, ResNet-50", "trio-ml, VGG-16", "sharded, ResNet-50", "sharded, VGG-16"}) {
    SCOPED_TRACE(name);
    const auto at = [&](const char* series) {
      return value_at(figure, fmt::format("{}: {}", name, series), kGbps);
    };
    const double waiting = at("no overlap, by hand");
    const double least = at("least, by hand");
    EXPECT_GE(at("no overlap"), waiting);
    EXPECT_LE(at("no overlap"), 1.03 * waiting);
    // In arrival order the first layers' sum comes last.
    EXPECT_DOUBLE_EQ(at("overlap in arrival order"), at("no overlap"));
    EXPECT_GE(at("overlap by priority"), least);
    EXPECT_LE(at("overlap by priority"), 1.10 * least);
    EXPECT_GT(at("speed-up"), 1.04);
    EXPECT_LE(at("speed-up"), 4.0 / 3);  // The forward pass is a third of the computation.
  }
  // 10 Gbit/s carry ResNet-50 in 84 ms, with 68 ms of computation, and VGG-16 in 453 ms, with 129
  // ms: nearly all of a forward pass of 23 ms and of 43 ms is hidden.
  EXPECT_NEAR(value_at(figure, "trio-ml, ResNet-50: speed-up, by hand", kGbps), 1.27, 0.01);
  EXPECT_NEAR(value_at(figure, "trio-ml, VGG-16: speed-up, by hand", kGbps), 1.095, 0.005);
}

}  // namespace
}  // namespace tributary::lab
