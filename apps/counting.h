// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counts packets by outcome, in one Packet/Byte Counter for each outcome, and refuses packets.
///
/// Source: Trio paper §2.3 (Packet/Byte Counters).
/// Tests:  tests/apps/trio_ml/refusal_test.cc, tests/apps/switchml/refusal_test.cc
#pragma once

#include <cstdint>

#include "apps/instructions.h"
#include "memory/xtxn.h"
#include "microcode/machine.h"

namespace tributary::apps {

/// The result of a check: the packet is accepted, or refused for a reason that is a counter.
/// One byte, unlike std::optional<Outcome>, which costs a contribution 26 instructions.
template <class Outcome>
class Verdict {
 public:
  constexpr Verdict() = default;  ///< Accepted.
  constexpr Verdict(Outcome reason) : reason_(reason) {}

  [[nodiscard]] constexpr bool is_refused() const { return reason_ != Outcome::kCount; }
  /// @pre is_refused().
  [[nodiscard]] constexpr Outcome reason() const { return reason_; }

 private:
  Outcome reason_ = Outcome::kCount;
};

/// Adds `times` packets of `size_bytes` bytes each to the counter of `outcome`.
/// @param shard Its counters() are indexed by Outcome.
template <microcode::Machine M, class Shard, class Outcome>
void count(M& m, Shard& shard, Outcome outcome, uint32_t size_bytes = 0, uint64_t times = 1) {
  m.instruction(kCount);
  memory::post_counter_increment(m, shard.counters()[static_cast<uint32_t>(outcome)], size_bytes,
                                 times);
}

/// Drops the packet and counts it under `reason`. Has no other effect.
template <microcode::Machine M, class Shard, class Outcome>
void refuse(M& m, Shard& shard, Outcome reason) {
  count(m, shard, reason, m.packet_size());
  m.drop(static_cast<uint32_t>(reason));
}

}  // namespace tributary::apps
