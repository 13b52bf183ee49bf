// SPDX-License-Identifier: Apache-2.0
/// @file
/// The systems that Figures 12 and 13 of the Trio paper compare where workers straggle.
///
/// Model:   - Trio-ML on two PFEs with a third on top (Trio paper §6.1, Figure 11b).
///          - SwitchML with 256 elements a packet, a pool of 512 and four pipes. Once without
///            retransmission, as in the paper's evaluation (§6.1), and once with it.
///          - A switch at line rate that waits for all workers. It shows how much of the difference
///            is waiting.
///          Trio-ML appears twice. "compute": a worker that has slept computes every iteration in
///          full, as a training script does that only calls sleep(). "skip": it abandons iterations
///          that the others have completed, and contributes nothing to them.
/// Tests:   tests/lab/figures/straggling_systems_test.cc
#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "host/straggler_pattern.h"
#include "lab/figures/figure.h"
#include "lab/figures/repetition.h"
#include "lab/report/sample.h"
#include "lab/scenario.h"

namespace tributary::lab {

struct StragglingSystem {
  const char* name;  ///< Name of its series.
  Backend backend;
  Topology topology;
  bool retransmission;
  CatchUp catch_up = CatchUp::kSkip;
};

inline constexpr std::array<StragglingSystem, 5> kStragglingSystems{
    {{"waiting-switch", Backend::kWaitingSwitch, Topology::kStar, false},
     {"switchml-256", Backend::kSwitchml256, Topology::kStar, false},
     {"switchml-256 resending", Backend::kSwitchml256, Topology::kStar, true},
     {"trio-ml skip", Backend::kTrioMl, Topology::kChassis, false, CatchUp::kSkip},
     {"trio-ml compute", Backend::kTrioMl, Topology::kChassis, false, CatchUp::kCompute}}};
// Places in the list. The paper's speed-up is kSwitchml's time over Trio-ML's.
inline constexpr uint32_t kWaiting = 0;
inline constexpr uint32_t kSwitchml = 1;
inline constexpr uint32_t kSwitchmlResending = 2;
inline constexpr uint32_t kTrioSkip = 3;
inline constexpr uint32_t kTrioCompute = 4;

[[nodiscard]] constexpr bool mitigates(const StragglingSystem& system) {
  return system.backend == Backend::kTrioMl;
}

/// The waiting switch without stragglers.
inline constexpr StragglingSystem kIdealSystem{"ideal", Backend::kIdeal, Topology::kStar, false};

/// Longer than any run. Source: Trio paper §5 describes the exclusion of permanent stragglers, and
/// §6 does not use it.
inline constexpr Duration kNeverPermanent = seconds(3600);

/// Source: Trio paper §6.2, of the speed-ups in its text.
inline constexpr uint32_t kPaperPercent = 16;
inline constexpr double kPaperProbability = kPaperPercent / 100.0;

/// An interpretation of the paper's "one of the workers": each delay point draws a worker, or it is
/// always the same one. Series of the second interpretation have the suffix.
struct StragglerReading {
  const char* suffix;
  Straggling pattern;
};
inline constexpr std::array<StragglerReading, 2> kStragglerReadings{
    {{"", Straggling::kSlowWorker}, {", same sleeper", Straggling::kSlowWorkerFixed}}};

/// Packets that one simulated packet represents; more of the network with five times the gradients.
/// Assumed: tests/lab/figures/straggling_systems_test.cc bounds the error.
[[nodiscard]] constexpr uint32_t straggling_train(Model model) {
  return model == Model::kVgg11 ? 256 : 128;
}

/// Returns a scenario of the system, with the Trio paper's six workers.
[[nodiscard]] inline Scenario scenario_of(const StragglingSystem& system, Model model,
                                          uint32_t iterations) {
  Scenario scenario;
  scenario.backend = system.backend;
  scenario.topology = system.topology;
  scenario.host.retransmission = system.retransmission;
  scenario.mitigation.catch_up = system.catch_up;
  scenario.mitigation.permanent_after = kNeverPermanent;
  scenario.switchml.pool = 512;
  scenario.model.kind = model;
  scenario.iterations = iterations;
  scenario.train = straggling_train(model);
  return scenario;
}

/// Gives the scenario a computation of `ms` instead of the model's own. Assumed: the backward pass
/// takes twice as long as the forward pass.
inline void set_computation(Scenario& scenario, uint32_t ms) {
  scenario.model.forward = milliseconds(ms) / 3;
  scenario.model.backward = milliseconds(ms) - scenario.model.forward;
}

/// Returns the share of iterations in which a worker falls asleep: at one or more of the delay
/// points.
[[nodiscard]] inline double asleep_share(double probability) {
  return 1 - std::pow(1 - probability, host::kDelayPoints);
}

/// Returns the mean speed-up of mitigation that takes no time, where the same worker always sleeps:
/// if all wait, each delay point adds `probability` mean sleeps to an iteration. 1.60 at 16 %.
[[nodiscard]] constexpr double free_speedup(double probability) {
  const double mean_sleep = (host::kDelayFactorMin + host::kDelayFactorMax) / 2;  // In iterations.
  return 1 + host::kDelayPoints * probability * mean_sleep;
}

/// Returns a sentence on the runs in which the sleeper left the job; empty if there are none.
[[nodiscard]] inline std::string dropout_sentence(const BlockShares& shares) {
  if (!(shares.dropped_out > 0)) return "";
  return fmt::format(" In {} the sleeper leaves the job, more than {} windows behind.",
                     dropouts_text(shares), MitigationSettings().history);
}

/// Returns when windows wait for timeouts, as the start of a sentence: "While a server sleeps".
/// Names late workers instead if more sums lack a worker than iterations have a sleep. Only workers
/// that compute every iteration stay late. Names the runs in which a worker left the job.
/// @param shares Of the runs.
[[nodiscard]] inline std::string when_timeouts(CatchUp catch_up, const BlockShares& shares,
                                               double probability) {
  const double asleep = asleep_share(probability);
  const bool leaves = shares.dropped_out > 0;
  if (catch_up != CatchUp::kCompute || !(shares.degraded > asleep)) {
    if (!leaves) return "While a server sleeps";
    return fmt::format("While a server sleeps, and after it has left the job in {}",
                       dropouts_text(shares));
  }
  return fmt::format(
      "A worker that computes every iteration stays late after its sleep: {:.0f} % of the sums "
      "lack a worker, while one falls asleep in {:.0f} % of the iterations.{} As long as it is {}",
      100 * shares.degraded, 100 * asleep, dropout_sentence(shares),
      leaves ? "late or gone" : "late");
}

/// A setting that favours mitigation more than the figures' own, with the same sleeper always. It
/// shows what keeps them from the paper's values.
struct FavourableSetting {
  const char* name;
  uint32_t percent;  ///< Probability of a delay.

  /// Returns whether the paper has speed-ups at this probability.
  [[nodiscard]] constexpr bool is_papers() const { return percent == kPaperPercent; }
};
inline constexpr std::array<FavourableSetting, 2> kFavourableSettings{
    {{"same sleeper, timeout 1 ms, 700 ms of computation", 16},
     {"same sleeper, timeout 1 ms, 700 ms of computation, p = 20 %", 20}}};

/// Returns the setting's result: the sample's mean and error. Names the runs in which the sleeper
/// left the job, and a probability that the paper does not have.
/// @param shares Of Trio-ML's runs.
[[nodiscard]] inline SettingValue value_with(const FavourableSetting& setting, const Sample& sample,
                                             const BlockShares& shares) {
  std::string name = setting.name;
  if (shares.dropped_out > 0) {
    name += fmt::format(" (the sleeper leaves the job in {})", dropouts_text(shares));
  }
  return {.setting = std::move(name),
          .here = sample.mean,
          .standard_error = sample.standard_error,
          .unlike_paper = setting.is_papers() ? "" : fmt::format("p = {} %", setting.percent)};
}

/// Returns why a speed-up with the setting differs from the paper's.
/// @param shares Of Trio-ML's runs.
[[nodiscard]] inline std::string cause_with(const FavourableSetting& setting,
                                            const BlockShares& shares) {
  const double probability = setting.percent / 100.0;
  return fmt::format(
      "With the same sleeper always, p = {} % allows {:.2f} on average: where all wait, {} delay "
      "points add {:.2f} iterations of sleep to each iteration, and mitigation saves no more. "
      "Timeouts and the seeds' draws account for the rest.{}",
      setting.percent, free_speedup(probability), host::kDelayPoints, free_speedup(probability) - 1,
      dropout_sentence(shares));
}

[[nodiscard]] inline Scenario favourable_scenario(const FavourableSetting& setting,
                                                  const StragglingSystem& system, Model model,
                                                  uint32_t iterations) {
  Scenario scenario = scenario_of(system, model, iterations);
  scenario.straggler.pattern = Straggling::kSlowWorkerFixed;
  scenario.straggler.probability = setting.percent / 100.0;
  scenario.mitigation.timeout = milliseconds(1);
  set_computation(scenario, 700);
  return scenario;
}

}  // namespace tributary::lab
