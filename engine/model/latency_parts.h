// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a packet's time inside the machine is made of. The parts of a packet add up to its latency,
/// tick by tick.
#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"

namespace tributary::engine {

enum class LatencyPart : uint8_t {
  kIngress,       ///< Until its head could be given to a thread.
  kDispatch,      ///< Waiting for a free thread.
  kInstructions,  ///< Its thread's instructions, and waiting for the PPE to take them.
  kSram,          ///< Waiting for replies of SRAM,
  kDramCache,     ///< … of off-chip memory, from its cache,
  kDram,          ///< … of off-chip memory itself,
  kHash,          ///< … of hash operations,
  kTail,          ///< … of the packet buffer, for the tail.
  kBankQueue,     ///< Requests standing before a bank, or in the crossbar.
  kReorder,       ///< Done, and held until earlier packets of its flow were.
};
inline constexpr uint32_t kLatencyPartCount = 10;

/// "ingress", "dispatch", …
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
