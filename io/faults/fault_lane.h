// SPDX-License-Identifier: Apache-2.0
/// @file
/// One direction of an impaired queue: its random draws, its held packets and its counts.
///
/// Threads: Owned by the queue's thread. Any thread may call counts().
/// Memory:  Taken in the constructor.
/// Tests:   tests/io/faults/impaired_port_test.cc
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/prng.h"
#include "io/counter_cells.h"
#include "io/faults/held_packets.h"
#include "io/faults/impaired_port.h"

namespace tributary::io {

/// The faults drawn for one packet.
struct Fate {
  bool lost = false;
  bool corrupted = false;
  bool reordered = false;
  bool duplicated = false;
};

class FaultLane {
 public:
  /// @param stream The lane's number in its port. Each lane has its own pseudo-random sequence.
  FaultLane(const FaultRates& rates, const ImpairmentConfig& config, uint64_t stream,
            uint32_t slot_bytes)
      : held(slot_bytes),
        rates_(rates),
        config_(config),
        fates_(sequence_seed(config.seed, 2 * stream)),
        details_(sequence_seed(config.seed, 2 * stream + 1)) {}

  /// Draws a packet's faults. It always draws four times, so that changing one rate does not shift
  /// the sequence of the others.
  [[nodiscard]] Fate draw() {
    Fate fate;
    fate.lost = fates_.chance(rates_.loss);
    fate.corrupted = fates_.chance(rates_.corrupt);
    fate.reordered = fates_.chance(rates_.reorder);
    fate.duplicated = fates_.chance(rates_.duplicate);
    return fate;
  }

  /// Inverts one bit of the `size` bytes at `data`; `size` must be at least 1.
  void corrupt(std::byte* data, uint32_t size) {
    const uint32_t bit = details_.below(size * 8);
    data[bit / 8] ^= std::byte{1} << (bit % 8);
    corrupted.add(1);
  }

  /// Holds a lent slot of `held` back for a random number of packets.
  void hold(uint32_t slot) {
    held.hold(slot, 1 + details_.below(config_.reorder_packets_max), config_.hold_calls_max);
  }

  [[nodiscard]] FaultCounts counts() const {
    return {.lost = lost.value(),
            .corrupted = corrupted.value(),
            .reordered = reordered.value(),
            .duplicated = duplicated.value()};
  }

  HeldPackets held;
  CounterCell lost;
  CounterCell corrupted;
  CounterCell reordered;
  CounterCell duplicated;

 private:
  /// Mixes twice, so that neighbouring seeds and streams give unrelated sequences.
  static uint64_t sequence_seed(uint64_t seed, uint64_t stream) {
    return Prng(Prng(seed).any_u64() + stream).any_u64();
  }

  const FaultRates rates_;
  const ImpairmentConfig config_;
  Prng fates_;
  Prng details_;
};

}  // namespace tributary::io
