// SPDX-License-Identifier: Apache-2.0
/// @file
/// How a program counts what packets cause: one Packet/Byte Counter for each of its outcomes.
///
/// Source: Trio paper §2.3 (Packet/Byte Counters).
/// Tests:  tests/apps/trio_ml/refusal_test.cc, tests/apps/switchml/refusal_test.cc
#pragma once

#include <cstdint>

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

inline constexpr microcode::Instruction kCount{"count", {.register_reads = 2}};

/// Counts a thing of `size_bytes`, `times` over. @param shard Its counters() are by Outcome.
template <microcode::Machine M, class Shard, class Outcome>
void count(M& m, Shard& shard, Outcome outcome, uint32_t size_bytes = 0, uint64_t times = 1) {
  m.instruction(kCount);
  memory::post_counter_increment(m, shard.counters()[static_cast<uint32_t>(outcome)], size_bytes,
                                 times);
}

/// Ends the packet at hand: counted under its reason, no other effect.
template <microcode::Machine M, class Shard, class Outcome>
void refuse(M& m, Shard& shard, Outcome reason) {
  count(m, shard, reason, m.packet_size());
  m.drop(static_cast<uint32_t>(reason));
}

}  // namespace tributary::apps
