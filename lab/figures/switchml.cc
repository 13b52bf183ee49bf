// SPDX-License-Identifier: Apache-2.0
#include "lab/figures/switchml.h"

#include <fmt/format.h>

#include <utility>

#include "net/packet.h"

namespace tributary::lab {
namespace {

/// Of back ends that leave the choice, as SwitchML's larger packets have.
constexpr uint32_t kGradients = 256;

}  // namespace

uint32_t paper_pool(uint32_t gbps) { return gbps > 10 ? 512 : 128; }

Result<Point> tensor_point(const FigureOptions& options, const TensorRun& run) {
  std::vector<std::string> keys{fmt::format("backend={}", run.backend),
                                fmt::format("workers={}", run.workers),
                                fmt::format("link.rate_gbps={}", run.gbps),
                                fmt::format("host.nic_gbps={}", run.gbps),
                                fmt::format("host.packet_cost_ns={}", kRdmaPacketCostNs),
                                "host.gradients_cost_ns=0",
                                fmt::format("gradients={}", kGradients),
                                fmt::format("window={}", run.pool),
                                fmt::format("switchml.pool={}", run.pool),
                                fmt::format("link.loss={}", run.loss),
                                fmt::format("host.retransmission={}", run.loss > 0),
                                "model.name=custom",
                                fmt::format("model.bucket_bytes={}", run.tensor_bytes),
                                fmt::format("iterations={}", run.iterations),
                                fmt::format("train={}", run.train)};
  keys.insert(keys.end(), run.more.begin(), run.more.end());
  return figure_point(options,
                      fmt::format("{} {} workers {} Gbit/s pool {} loss {}", run.backend,
                                  run.workers, run.gbps, run.pool, run.loss),
                      keys);
}

FigureRow switchml_row(const FigureOptions& options, const char* figure, std::string series,
                       double x, double here, const char* unit) {
  return {.figure = figure,
          .series = std::move(series),
          .x = x,
          .here = here,
          .unit = unit,
          .seed = options.seed};
}

LinePlot switchml_plot(std::string title, std::string x_label, std::string y_label,
                       PlotScale x_scale) {
  return {.title = std::move(title),
          .x_label = std::move(x_label),
          .y_label = std::move(y_label),
          .series = {},
          .height_px = 360,
          .x_scale = x_scale,
          .y_from_zero = true};
}

double tensor_ms(const Json& outcome) { return outcome["mean_iteration_ns"].get<double>() / 1e6; }

double maximum_goodput(uint32_t gbps, uint32_t elements, uint32_t head_bytes) {
  constexpr uint32_t kElementBytes = 4;
  const double packet_bytes = elements * kElementBytes + head_bytes + net::kWireOverheadBytes;
  const double packets_per_s = gbps * 1e9 / 8 / packet_bytes;
  return packets_per_s * elements / 1e6;
}

}  // namespace tributary::lab
