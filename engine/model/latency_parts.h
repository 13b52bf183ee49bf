// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of a packet's time inside the machine. A packet's parts add up to its latency, to the
/// tick.
#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"

namespace tributary::engine {

enum class LatencyPart : uint8_t {
  kIngress,       ///< Until a thread could get its head.
  kDispatch,      ///< Waiting for a free thread.
  kInstructions,  ///< Its thread's instructions, and waiting for the PPE's issue slots.
  kSram,          ///< Waiting for SRAM.
  kDramCache,     ///< Waiting for off-chip memory, cache hits.
  kDram,          ///< Waiting for off-chip memory, cache misses.
  kHash,          ///< Waiting for hash operations.
  kTail,          ///< Waiting for the packet buffer, for the tail.
  kBankQueue,     ///< Requests queued at a bank or in the crossbar.
  kReorder,       ///< Done, but held for earlier packets of its flow.
};
inline constexpr uint32_t kLatencyPartCount = 10;

/// Returns "ingress", "dispatch", …
[[nodiscard]] const char* to_string(LatencyPart part);

/// Indexed by LatencyPart.
struct LatencyParts {
  std::array<Duration, kLatencyPartCount> spent{};

  [[nodiscard]] Duration& operator[](LatencyPart part) {
    return spent[static_cast<uint32_t>(part)];
  }
  [[nodiscard]] Duration operator[](LatencyPart part) const {
    return spent[static_cast<uint32_t>(part)];
  }
  [[nodiscard]] Duration sum() const {
    Duration total;
    for (const Duration part : spent) total += part;
    return total;
  }
};

}  // namespace tributary::engine
