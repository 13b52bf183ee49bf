// SPDX-License-Identifier: Apache-2.0
// The share of each assumed or calibrated constant in the results of figures. A result that grows
// by 1 % with a constant that grows by 1 % depends on it alone: its share is 100 %.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>

#include "engine/model/parameters.h"
#include "lab/figures/byteps.h"
#include "lab/figures/byteps_models.h"
#include "lab/figures/repetition.h"
#include "lab/figures/straggling_systems.h"
#include "lab/workload/ddp_workload.h"
#include "lab/workload/dnn_shape.h"

namespace tributary::lab {
namespace {

constexpr char kName[] = "constants";
/// Each constant is halved and doubled: a calibrated one may be wrong by that much.
constexpr std::array<double, 2> kFactors{0.5, 2};

// --- Constants -----------------------------------------------------------------------------------

struct Constant {
  std::string name;  ///< As a key of the scenario, or as a PFE's parameter.
  double value;
  std::string unit;
  std::function<void(Scenario&, double factor)> multiply;
  bool is_whole = false;
};

Duration times(Duration duration, double factor) {
  return Duration::from_ticks(std::llround(static_cast<double>(duration.ticks()) * factor));
}

template <class Member>
Constant time_constant(const char* name, Member member) {
  Scenario scenario;
  return {
      .name = name,
      .value = as_ns(member(scenario)),
      .unit = "ns",
      .multiply = [member](Scenario& s, double factor) { member(s) = times(member(s), factor); }};
}

uint64_t whole(uint64_t value, double factor) {
  return static_cast<uint64_t>(std::llround(static_cast<double>(value) * factor));
}

/// Gives a network with computation of its own `factor` times as much, and another split of it.
void set_passes(Scenario& scenario, double factor, double backward_per_forward) {
  if (scenario.model.kind == Model::kCustom) return;
  const Duration all = times(compute_time(dnn_shape(scenario.model.kind)), factor);
  scenario.model.forward = times(all, 1 / (1 + backward_per_forward));
  scenario.model.backward = all - scenario.model.forward;
}

/// The PFE's numbers that no paper states.
/// @param source  Part of their source's text.
void add_pfe_constants(std::vector<Constant>& constants,
                       std::initializer_list<const char*> source) {
  const Scenario scenario;
  for (const engine::ParameterRow& row :
       engine::parameter_rows(*engine::preset(scenario.pfe.generation))) {
    const bool found = std::any_of(source.begin(), source.end(), [&](const char* text) {
      return row.source.find(text) != std::string::npos;
    });
    if (!found || row.value == 0) continue;
    constants.push_back({.name = row.name,
                         .value = row.value,
                         .unit = row.unit,
                         .multiply =
                             [row](Scenario& s, double factor) {
                               s.pfe.overrides.push_back({row.name, row.value * factor});
                             },
                         .is_whole = row.unit != "ns"});
  }
}

/// The scenarios of the BytePS paper are the only ones here with these back ends.
bool is_byteps(const Scenario& scenario) {
  return scenario.backend == Backend::kSharded || scenario.backend == Backend::kRing;
}

/// The assumed numbers of the BytePS paper's figures.
void add_byteps_constants(std::vector<Constant>& constants) {
  constants.push_back({.name = "byteps.window_packets",
                       .value = kBytepsWindow,
                       .unit = "packets",
                       .multiply =
                           [](Scenario& s, double factor) {
                             if (is_byteps(s)) {
                               s.window = static_cast<uint32_t>(whole(s.window, factor));
                             }
                           },
                       .is_whole = true});
  constants.push_back({.name = "byteps.v100_over_p100",
                       .value = kV100OverP100,
                       .unit = "",
                       .multiply = [](Scenario& s, double factor) {
                         if (!is_byteps(s)) return;
                         s.model.forward = times(s.model.forward, factor);
                         s.model.backward = times(s.model.backward, factor);
                       }});
  constants.push_back({.name = "byteps.nvlink_pcie_gbytes_per_s",
                       .value = kBytepsPcieBytesPerS / 1e9,
                       .unit = "GB/s",
                       .multiply = [](Scenario& s, double factor) {
                         // It limits all-reduce. A machine never exceeds its NIC.
                         if (!is_byteps(s) || s.link.rate_bits_per_s >= kBytepsBitsPerS) return;
                         s.link.rate_bits_per_s =
                             std::min(whole(s.link.rate_bits_per_s, factor), kBytepsBitsPerS);
                         s.host.nic_bits_per_s = s.link.rate_bits_per_s;
                       }});
}

std::vector<Constant> constants_of(const FigureOptions& options) {
  std::vector<Constant> constants;
  if (options.quick) {
    add_pfe_constants(constants, {"calibrated"});
    return constants;
  }
  add_pfe_constants(constants, {"assumed", "calibrated"});
  constants.push_back(time_constant("host.packet_cost_ns",
                                    [](Scenario& s) -> Duration& { return s.host.packet_cost; }));
  constants.push_back(time_constant(
      "host.gradients_cost_ns", [](Scenario& s) -> Duration& { return s.host.gradients_cost; }));
  constants.push_back(time_constant("link.propagation_ns",
                                    [](Scenario& s) -> Duration& { return s.link.propagation; }));
  constants.push_back(time_constant("fabric.propagation_ns",
                                    [](Scenario& s) -> Duration& { return s.fabric.propagation; }));
  constants.push_back({.name = "link.queue_bytes",
                       .value = static_cast<double>(Scenario().link.queue_bytes_max),
                       .unit = "B",
                       .multiply = [](Scenario& s, double factor) {
                         s.link.queue_bytes_max = whole(s.link.queue_bytes_max, factor);
                       }});
  constants.push_back({.name = "host.receive_buffer_bytes",
                       .value = static_cast<double>(Scenario().host.receive_buffer_bytes),
                       .unit = "B",
                       .multiply = [](Scenario& s, double factor) {
                         s.host.receive_buffer_bytes = whole(s.host.receive_buffer_bytes, factor);
                       }});
  constants.push_back(
      {.name = "resnet50_computation_ms",
       .value = as_ms(compute_time(dnn_shape(Model::kResnet50))),
       .unit = "ms",
       .multiply = [](Scenario& s, double factor) { set_passes(s, factor, kBackwardPerForward); }});
  constants.push_back({.name = "backward_per_forward",
                       .value = kBackwardPerForward,
                       .unit = "",
                       .multiply = [](Scenario& s, double factor) {
                         set_passes(s, 1, kBackwardPerForward * factor);
                       }});
  constants.push_back({.name = "fabric.rate_gbps",
                       .value = static_cast<double>(Scenario().fabric.rate_bits_per_s) / 1e9,
                       .unit = "Gbit/s",
                       .multiply = [](Scenario& s, double factor) {
                         s.fabric.rate_bits_per_s = whole(s.fabric.rate_bits_per_s, factor);
                       }});
  add_byteps_constants(constants);
  return constants;
}

// --- Results -------------------------------------------------------------------------------------

Result<std::vector<Point>> straggling_points(const FigureOptions& options) {
  Scenario scenario = scenario_of(kStragglingSystems[kTrioSkip], Model::kResnet50, 10);
  scenario.straggler.pattern = Straggling::kSlowWorker;
  scenario.straggler.probability = kPaperProbability;
  return all_or_error({figure_point(options, "iteration", std::move(scenario))});
}

FigureOutcome straggling_row(const FigureOptions& options, std::span<const Point> /*points*/,
                             std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  figure.rows = {figure_row(options, kName, "iteration", 16, iteration_ms(outcomes[0]), "ms")};
  return figure;
}

struct Column {
  const char* name;
  const char* series;
  double x;
};

/// A figure at its quick size, and the values in it that stand for it.
struct Subject {
  Figure figure;
  std::vector<Column> columns;
};

std::vector<Subject> subjects(const FigureOptions& options) {
  const Figure straggling{.name = kName,
                          .description = "",
                          .x_name = "",
                          .points = straggling_points,
                          .finish = straggling_row};
  const Subject calibrated{trio_15(),
                           {{"trio-15, latency, 64 gradients", "latency", 64},
                            {"trio-15, latency, 1024 gradients", "latency", 1024}}};
  if (options.quick) return {calibrated};
  return {calibrated,
          {trio_16(), {{"trio-16, throughput, window 256", "Trio-ML-1024 throughput", 256}}},
          {trio_14(), {{"trio-14, recovery, 10 ms", "longest recovery", 10}}},
          {straggling, {{"trio-13, iteration, 16 %", "iteration", 16}}},
          {switchml_9(),
           {{"switchml-9, round trip, 32 slots", "DPDK: round trip", 32},
            {"switchml-9, time, 512 slots", "DPDK: time", 512}}},
          {byteps_13(),
           {{"byteps-13, over no spare machine", "NVLink, over no spare machine", 8},
            {"byteps-13, over all-reduce", "NVLink, over all-reduce", 8}}}};
}

double value_of(const FigureOutcome& figure, const Column& column) {
  for (const FigureRow& row : figure.rows) {
    if (row.series == column.series && row.x == column.x) return row.here;
  }
  return NAN;
}

// --- Points --------------------------------------------------------------------------------------

/// The options of a subject's points where a constant is multiplied by a factor.
FigureOptions with(const FigureOptions& options, const Constant& constant, double factor) {
  FigureOptions all{.seed = options.seed, .seeds = 1, .quick = true, .settings = options.settings};
  all.settings.push_back(
      {.name = constant.name, .where = constant.name, .set = [constant, factor](Scenario& s) {
         constant.multiply(s, factor);
       }});
  return all;
}

FigureOptions without_change(const FigureOptions& options) {
  return {.seed = options.seed, .seeds = 1, .quick = true, .settings = options.settings};
}

/// Returns the nearest allowed factor: a whole number stays whole and at least 1.
double factor_for(const Constant& constant, double factor) {
  if (!constant.is_whole) return factor;
  return std::max(1.0, std::round(constant.value * factor)) / constant.value;
}

/// Calls `visit` with each variation's options: the unchanged one, then two for each constant.
void for_each_variation(
    const FigureOptions& options,
    const std::function<void(const std::string&, const FigureOptions&)>& visit) {
  visit("unchanged", without_change(options));
  for (const Constant& constant : constants_of(options)) {
    for (const double factor : kFactors) {
      visit(fmt::format("{} x {}", constant.name, factor),
            with(options, constant, factor_for(constant, factor)));
    }
  }
}

Result<std::vector<Point>> points(const FigureOptions& options) {
  std::vector<Result<Point>> made;
  for_each_variation(options, [&](const std::string& label, const FigureOptions& varied) {
    for (const Subject& subject : subjects(options)) {
      auto all = subject.figure.points(varied);
      if (!all) {
        made.emplace_back(tl::unexpected(all.error()));
        continue;
      }
      for (Point& point : *all) {
        point.label = fmt::format("{}: {}", label, point.label);
        made.emplace_back(std::move(point));
      }
    }
  });
  return all_or_error(std::move(made));
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> points,
                     std::span<const PointOutcome> outcomes) {
  const std::vector<Subject> all = subjects(options);
  std::vector<std::vector<double>> values;  // By variation, then column.
  size_t next = 0;
  for_each_variation(options, [&](const std::string&, const FigureOptions& varied) {
    std::vector<double>& row = values.emplace_back();
    for (const Subject& subject : all) {
      const size_t count = subject.figure.points(varied)->size();
      const FigureOutcome figure =
          subject.figure.finish(varied, points.subspan(next, count), outcomes.subspan(next, count));
      for (const Column& column : subject.columns) row.push_back(value_of(figure, column));
      next += count;
    }
  });
  FigureOutcome figure;
  const std::vector<Constant> constants = constants_of(options);
  for (size_t c = 0; c < constants.size(); c++) {
    const Constant& constant = constants[c];
    const double width = factor_for(constant, kFactors[1]) - factor_for(constant, kFactors[0]);
    size_t column = 0;
    for (const Subject& subject : all) {
      for (const Column& of : subject.columns) {
        const double change = values[2 * c + 2][column] - values[2 * c + 1][column];
        figure.rows.push_back(
            figure_row(options, kName, fmt::format("{}: {}", constant.name, of.name),
                       constant.value, 100 * change / (width * values[0][column]), "%"));
        column++;
      }
    }
  }
  figure.notes = {
      "Share of a constant in a result: the result's relative change over the constant's, from "
      "half to twice its value. Below 0: the result shrinks where the constant grows. Constants "
      "that "
      "a paper or a standard states are not listed. Figures have their quick size.",
      "Not varied, though assumed: the 5 ns a packet of SwitchML's RDMA hosts (switchml-3); the "
      "NIC's transmit ring of 64 packets (switchml-9); the threefold timeout of an upper PFE, the "
      "positions of the delay points, and the computation of DenseNet161 and VGG11 at ResNet50's "
      "rate of multiply-adds (trio-12, trio-13); the first pass of the Tofino, which is taken to "
      "last as long as a further one, and the latency of a resubmission; the cable between a "
      "worker and a server on its own host, 100 ns; the latency of the waiting switch; and the "
      "ring's acknowledgements."};
  return figure;
}

}  // namespace

Figure constants() {
  return {.name = kName,
          .description = "share of assumed and calibrated constants in results of six figures",
          .x_name = "value",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
