// SPDX-License-Identifier: Apache-2.0
/// @file
/// The microbenchmark of the SwitchML paper, which its figures share: one tensor after the other,
/// without computation (§6.1).
///
/// Units:   Goodput in 10^6 elements a second, as the paper's "aggregated tensor elements" (ATE/s).
/// Threads: Pure functions.
/// Tests:   tests/lab/figures/switchml_figures_test.cc
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "lab/figures/figure.h"

namespace tributary::lab {

/// The time of a host with an RDMA NIC for each packet: a second preset beside HostSettings', which
/// is the paper's DPDK. Assumed: the NIC handles packets (§5 "Supporting RDMA"). One of its time
/// handles 200 million a second and moves their elements itself.
inline constexpr Duration kRdmaPacketCost = nanoseconds(5);

/// One measurement of the microbenchmark.
struct TensorRun {
  Backend backend = Backend::kSwitchml256;
  uint32_t workers = 8;
  uint32_t gbps = 10;
  uint32_t pool = 128;
  double loss = 0;
  uint64_t tensor_bytes = 0;
  uint32_t iterations = 1;
  uint32_t train = 1;
  TimelineSettings timeline = {};
  bool rdma = false;  ///< kRdmaPacketCost instead of the scenario's host costs.
  /// Added to a round trip, for delays of hosts that the model lacks.
  Duration more_delay = {};
};

/// Returns the paper's slots at 10 or 100 Gbit/s. Source: SwitchML paper, Appendix C.
[[nodiscard]] uint32_t paper_pool(uint32_t gbps);

/// Returns the scenario of a run. Back ends that let the scenario choose send 256 gradients a
/// packet.
[[nodiscard]] Scenario tensor_scenario(const TensorRun& run);
/// Returns the label of a run's point.
[[nodiscard]] std::string tensor_label(const TensorRun& run);
/// Returns the point of a run.
[[nodiscard]] Result<Point> tensor_point(const FigureOptions& options, const TensorRun& run);

/// Returns a plot without series. Its y axis starts at zero.
[[nodiscard]] LinePlot switchml_plot(std::string title, std::string x_label, std::string y_label,
                                     PlotScale x_scale = PlotScale::kLinear);

/// Returns the time of one aggregation.
[[nodiscard]] double tensor_ms(const PointOutcome& outcome);

/// Returns the most elements a second, in millions, that a link carries in packets of `elements`
/// with a protocol head of `head_bytes`. Counts every header on the wire.
[[nodiscard]] double maximum_goodput(uint32_t gbps, uint32_t elements, uint32_t head_bytes);

}  // namespace tributary::lab
