// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the figures of the SwitchML paper share: its microbenchmark of one tensor after the other
/// without computation (§6.1).
///
/// Units:   Goodput in 10^6 elements a second, as the paper's "aggregated tensor elements" (ATE/s).
/// Threads: Pure functions.
/// Tests:   tests/lab/figures/switchml_figures_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/figures/figure.h"

namespace tributary::lab {

/// What a packet costs a worker's host. Assumed: the paper's fastest variant leaves packets to the
/// RDMA NIC (§5 "Supporting RDMA"); a NIC of its time handles 200 million of them a second, and
/// moves their elements itself.
inline constexpr double kRdmaPacketCostNs = 5;

/// One measurement of the microbenchmark.
struct TensorRun {
  std::string backend;  ///< "switchml-256", "ring", …
  uint32_t workers = 8;
  uint32_t gbps = 10;
  uint32_t pool = 128;
  double loss = 0;
  uint64_t tensor_bytes = 0;
  uint32_t iterations = 1;
  uint32_t train = 1;
  std::vector<std::string> more = {};  ///< Further keys, "key=value".
};

/// Slots that the paper uses at a rate, 10 or 100 Gbit/s. Source: SwitchML paper, Appendix C.
[[nodiscard]] uint32_t paper_pool(uint32_t gbps);

/// The point of a run; 256 gradients a packet where the back end leaves the choice.
[[nodiscard]] Result<Point> tensor_point(const FigureOptions& options, const TensorRun& run);

/// A row of `figure`; what the paper says is the caller's to add.
[[nodiscard]] FigureRow switchml_row(const FigureOptions& options, const char* figure,
                                     std::string series, double x, double here, const char* unit);

/// A plot without series, its y axis from zero.
[[nodiscard]] LinePlot switchml_plot(std::string title, std::string x_label, std::string y_label,
                                     PlotScale x_scale = PlotScale::kLinear);

/// Time of one aggregation, from an outcome.
[[nodiscard]] double tensor_ms(const Json& outcome);

/// Elements a second, in millions, that a rate carries in packets of so many elements with so many
/// bytes of a protocol's head, every header of the wire counted.
[[nodiscard]] double maximum_goodput(uint32_t gbps, uint32_t elements, uint32_t head_bytes);

}  // namespace tributary::lab
