// SPDX-License-Identifier: Apache-2.0
/// @file
/// The faults of `tributary bench chaos`, in an order that a seed determines.
///
/// Model:   Each round has every kind of fault once, shuffled, so a short run sees them all.
/// Units:   As the names say.
/// Threads: One.
/// Tests:   tests/bench/chaos/fault_schedule_test.cc
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/prng.h"

namespace tributary::chaos {

enum class FaultKind : uint8_t {
  kKillWorker,   ///< SIGKILL: its peers learn of it from the server.
  kStopWorker,   ///< SIGTERM: it sends a leave.
  kPauseWorker,  ///< SIGSTOP for less than the silence after which a worker is gone.
  kKillJoiner,   ///< SIGKILL while it waits for a peer to join.
  kKillServer,   ///< SIGKILL, then another server at the same address.
  kStopServer,   ///< SIGTERM, then another server at the same address.
  kPauseServer,  ///< SIGSTOP.
  kLoss,         ///< All sockets drop received packets at random.
};
inline constexpr uint32_t kFaultKindCount = 8;

/// Returns a name such as "kill_worker".
[[nodiscard]] const char* to_string(FaultKind kind);
/// Returns the kind with this name.
[[nodiscard]] std::optional<FaultKind> parse_fault_kind(std::string_view name);
/// Returns all kinds.
[[nodiscard]] std::vector<FaultKind> all_fault_kinds();

struct Fault {
  FaultKind kind = FaultKind::kKillWorker;
  uint32_t rank = 0;                   ///< The victim, for faults of a worker.
  std::chrono::milliseconds delay{};   ///< Undisturbed time before it.
  std::chrono::milliseconds length{};  ///< Length of a pause, a loss, or the server's absence.
  double loss = 0;                     ///< Probability, for kLoss.
};

class FaultSchedule {
 public:
  /// @param kinds Not empty.
  FaultSchedule(uint64_t seed, uint32_t workers, std::span<const FaultKind> kinds);

  [[nodiscard]] Fault next();

 private:
  Prng prng_;
  const uint32_t workers_;
  std::vector<FaultKind> round_;
  size_t place_;
};

}  // namespace tributary::chaos
