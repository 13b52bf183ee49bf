// SPDX-License-Identifier: Apache-2.0
#include "lab/figures/switchml.h"

#include <fmt/format.h>

#include <utility>

#include "net/packet.h"

namespace tributary::lab {
namespace {

/// Gradients a packet, as in SwitchML's larger packets.
constexpr uint32_t kGradients = 256;

}  // namespace

uint32_t paper_pool(uint32_t gbps) { return gbps > 10 ? 512 : 128; }

Scenario tensor_scenario(const TensorRun& run) {
  Scenario scenario;
  scenario.backend = run.backend;
  scenario.workers = run.workers;
  scenario.link.rate_bits_per_s = uint64_t{run.gbps} * 1'000'000'000;
  scenario.link.faults.loss = run.loss;
  scenario.host.nic_bits_per_s = scenario.link.rate_bits_per_s;
  scenario.link.propagation += run.more_delay / 2;  // There and back.
  if (run.rdma) {
    scenario.host.packet_cost = kRdmaPacketCost;
    scenario.host.gradients_cost = Duration();
  }
  scenario.host.retransmission = run.loss > 0;
  scenario.gradients = kGradients;
  scenario.window = run.pool;
  scenario.switchml.pool = run.pool;
  scenario.model = {.kind = Model::kCustom, .bucket_bytes = {run.tensor_bytes}};
  scenario.iterations = run.iterations;
  scenario.train = run.train;
  scenario.timeline = run.timeline;
  return scenario;
}

std::string tensor_label(const TensorRun& run) {
  return fmt::format("{}{} {} workers {} Gbit/s pool {} loss {} delay {:.0f} us",
                     name_of(run.backend), run.rdma ? " RDMA" : "", run.workers, run.gbps, run.pool,
                     run.loss, as_us(run.more_delay));
}

Result<Point> tensor_point(const FigureOptions& options, const TensorRun& run) {
  return figure_point(options, tensor_label(run), tensor_scenario(run));
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

double tensor_ms(const PointOutcome& outcome) {
  return value_of(outcome, [](const RunResult& run) { return as_ms(run.mean_iteration); });
}

double maximum_goodput(uint32_t gbps, uint32_t elements, uint32_t head_bytes) {
  constexpr uint32_t kElementBytes = 4;
  const double packet_bytes = elements * kElementBytes + head_bytes + net::kWireOverheadBytes;
  const double packets_per_s = gbps * 1e9 / 8 / packet_bytes;
  return packets_per_s * elements / 1e6;
}

}  // namespace tributary::lab
