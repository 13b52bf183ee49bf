// SPDX-License-Identifier: Apache-2.0
// Method: the quick figure against Figure 15, where the calibrated constants add up by hand.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tributary::lab
