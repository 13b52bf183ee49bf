// SPDX-License-Identifier: Apache-2.0
/// @file
/// The systems that Figures 12 and 13 of the Trio paper compare where workers straggle.
///
/// Model:   Trio-ML on two PFEs with a third on top (Trio paper §6.1, Figure 11b); SwitchML with
/// 256
///          elements a packet, a pool of 512 and four pipes, retransmission off as in the paper's
///          evaluation (§6.1), and on; and a switch at line rate that waits for everyone, which
///          shows how much of the difference is waiting.
/// Tests:   tests/lab/figures/figures_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tributary::lab {

struct StragglingSystem {
  const char* name;  ///< Of its series.
  const char* backend;
  const char* topology;
  bool retransmission;
};

inline constexpr std::array<StragglingSystem, 4> kStragglingSystems{
    {{"waiting-switch", "waiting-switch", "star", false},
     {"switchml-256", "switchml-256", "star", false},
     {"switchml-256 resending", "switchml-256", "star", true},
     {"trio-ml", "trio-ml", "chassis", false}}};
// Places in the list; the paper's speed-up is kSwitchml's time over kTrio's.
inline constexpr uint32_t kSwitchml = 1;
inline constexpr uint32_t kSwitchmlResending = 2;
inline constexpr uint32_t kTrio = 3;

[[nodiscard]] inline std::vector<std::string> keys_of(const StragglingSystem& system) {
  return {std::string("backend=") + system.backend, std::string("topology=") + system.topology,
          std::string("host.retransmission=") + (system.retransmission ? "true" : "false"),
          "switchml.pool=512"};
}

}  // namespace tributary::lab
