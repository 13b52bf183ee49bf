// SPDX-License-Identifier: Apache-2.0
// Figure 14 of the Trio paper: the time that the other servers wait for a partial result, over the
// timeout. Each interval has twenty packets back to back. One server never contributes (§6.2).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "lab/figures/figure.h"

namespace tributary::lab {
namespace {

/// Assumed values around the paper's usual 10 ms; its text does not give the axis of its figure.
/// Below 2 ms, the round trip to the PFE of about 0.2 ms distorts the ratio.
constexpr std::array<uint32_t, 6> kTimeoutsMs{2, 4, 6, 10, 20, 50};
constexpr std::array<uint32_t, 3> kTimeoutsMsQuick{2, 5, 10};
constexpr uint32_t kPackets = 20;  ///< Source: Trio paper §6.2.
constexpr uint32_t kGradients = 1024;
constexpr uint32_t kBytesOfGradient = 4;
constexpr double kBoundOfTimeout = 2.0;  ///< Source: Trio paper §5, §6.2: within two intervals.

/// Bursts of 20 packets one after the other.
constexpr uint32_t kBursts = 4;
constexpr uint32_t kBurstsQuick = 2;
/// From a partial result to the next burst, in timeouts. A partial result comes when timer threads
/// run, so the fraction sets the point of their period at which the burst arrives. Assumed: any.
constexpr std::array<double, 5> kPausesOfTimeout{3.1, 3.3, 3.5, 3.7, 3.9};
constexpr uint32_t kPausesQuick = 2;

std::span<const double> pauses(const FigureOptions& options) {
  const std::span<const double> all = kPausesOfTimeout;
  return options.quick ? all.first(kPausesQuick) : all;
}

std::span<const uint32_t> timeouts(const FigureOptions& options) {
  if (options.quick) return kTimeoutsMsQuick;
  return kTimeoutsMs;
}

Duration nearest_ms(double count) {
  return Duration::from_ticks(std::llround(count * static_cast<double>(milliseconds(1).ticks())));
}

Result<Point> make_point(const FigureOptions& options, uint32_t timeout_ms, double pause) {
  const uint32_t bursts = options.count_of(kBursts, kBurstsQuick);
  Scenario scenario;
  scenario.backend = Backend::kTrioMl;
  scenario.straggler.pattern = Straggling::kAbsent;
  scenario.straggler.worker = 0;
  scenario.gradients = kGradients;
  scenario.model = {.kind = Model::kCustom,
                    .bucket_bytes = {kPackets * kGradients * kBytesOfGradient},
                    .forward = nearest_ms(pause * timeout_ms)};
  scenario.iterations = bursts;
  scenario.mitigation.timeout = milliseconds(timeout_ms);
  // The straggler must not count as permanent before the end.
  scenario.mitigation.permanent_after = milliseconds(int64_t{bursts + 2} * 8 * timeout_ms);
  return figure_point(options, fmt::format("timeout_ms={} pause={}", timeout_ms, pause),
                      std::move(scenario));
}

Result<std::vector<Point>> points(const FigureOptions& options) {
  std::vector<Result<Point>> made;
  for (const uint32_t timeout_ms : timeouts(options)) {
    for (const double pause : pauses(options)) {
      made.push_back(make_point(options, timeout_ms, pause));
    }
  }
  return all_or_error(std::move(made));
}

/// Over the points of one timeout, in ms; not numbers if one of them failed.
struct Recovery {
  double mean = 0.0;
  double longest = 0.0;
};

Recovery recovery_of(std::span<const PointOutcome> outcomes) {
  Recovery recovery;
  for (const PointOutcome& outcome : outcomes) {
    if (outcome.failed) return {.mean = NAN, .longest = NAN};
    const DurationSummary& latency = outcome.result.block_latency;
    recovery.mean += as_ms(latency.mean) / static_cast<double>(outcomes.size());
    recovery.longest = std::max(recovery.longest, as_ms(latency.max));
  }
  return recovery;
}

FigureOutcome finish(const FigureOptions& options, std::span<const Point> /*points*/,
                     std::span<const PointOutcome> outcomes) {
  FigureOutcome figure;
  PlotSeries mean{.name = "trio-ml, mean", .points = {}};
  PlotSeries longest{.name = "trio-ml, longest", .points = {}};
  PlotSeries bound{.name = "paper: at most 2 timeouts", .points = {}, .reference = true};
  bool within = true;
  const size_t phases = pauses(options).size();
  for (size_t i = 0; i < timeouts(options).size(); i++) {
    const double timeout_ms = timeouts(options)[i];
    const Recovery recovery = recovery_of(outcomes.subspan(i * phases, phases));
    const double bound_ms = kBoundOfTimeout * timeout_ms;
    figure.rows.push_back({.figure = "trio-14",
                           .series = "longest recovery",
                           .x = timeout_ms,
                           .paper = bound_ms,
                           .here = recovery.longest,
                           .unit = "ms",
                           .seed = options.seed});
    figure.rows.push_back({.figure = "trio-14",
                           .series = "mean recovery",
                           .x = timeout_ms,
                           .here = recovery.mean,
                           .unit = "ms",
                           .seed = options.seed});
    within = within && !(recovery.longest > bound_ms);
    mean.points.push_back({timeout_ms, recovery.mean});
    longest.points.push_back({timeout_ms, recovery.longest});
    bound.points.push_back({timeout_ms, bound_ms});
  }
  figure.notes = {"The paper's column is its bound, two timeouts, for the longest recovery.",
                  within ? "Every recovery took at most two timeouts."
                         : "NOT every recovery took at most two timeouts."};
  figure.plots = {{.title = "Trio Figure 14: from sending a packet to the partial result",
                   .x_label = "timeout (ms)",
                   .y_label = "recovery time (ms)",
                   .series = {mean, longest, bound},
                   .y_from_zero = true}};
  return figure;
}

}  // namespace

Figure trio_14() {
  return {.name = "trio-14",
          .description = "recovery from a straggler over the timeout; --iterations: bursts",
          .x_name = "timeout_ms",
          .points = points,
          .finish = finish};
}

}  // namespace tributary::lab
