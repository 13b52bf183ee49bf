// SPDX-License-Identifier: Apache-2.0
/// @file
/// The systems that Figures 12 and 13 of the Trio paper compare where workers straggle.
///
/// Model:   - Trio-ML on two PFEs with a third on top (Trio paper §6.1, Figure 11b).
///          - SwitchML with 256 elements a packet, a pool of 512 and four pipes. Once without
///            retransmission, as in the paper's evaluation (§6.1), and once with it.
///          - A switch at line rate that waits for all workers. It shows how much of the difference
///            is waiting.
/// Tests:   tests/lab/figures/figures_test.cc
#pragma once

#include <array>
#include <cstdint>

#include "lab/scenario.h"

namespace tributary::lab {

struct StragglingSystem {
  const char* name;  ///< Of its series.
  Backend backend;
  Topology topology;
  bool retransmission;
};

inline constexpr std::array<StragglingSystem, 4> kStragglingSystems{
    {{"waiting-switch", Backend::kWaitingSwitch, Topology::kStar, false},
     {"switchml-256", Backend::kSwitchml256, Topology::kStar, false},
     {"switchml-256 resending", Backend::kSwitchml256, Topology::kStar, true},
     {"trio-ml", Backend::kTrioMl, Topology::kChassis, false}}};
// Places in the list. The paper's speed-up is kSwitchml's time over kTrio's.
inline constexpr uint32_t kSwitchml = 1;
inline constexpr uint32_t kSwitchmlResending = 2;
inline constexpr uint32_t kTrio = 3;

/// Packets that one simulated packet represents. Assumed: tests/lab/straggling_run_test.cc bounds
/// the error.
inline constexpr uint32_t kStragglingTrain = 64;

/// Returns a scenario of the system, with the Trio paper's six workers.
[[nodiscard]] inline Scenario scenario_of(const StragglingSystem& system, Model model,
                                          uint32_t iterations) {
  Scenario scenario;
  scenario.backend = system.backend;
  scenario.topology = system.topology;
  scenario.host.retransmission = system.retransmission;
  scenario.switchml.pool = 512;
  scenario.model.kind = model;
  scenario.iterations = iterations;
  scenario.train = kStragglingTrain;
  return scenario;
}

}  // namespace tributary::lab
