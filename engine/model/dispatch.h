// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Dispatch module chooses the PPE thread for a packet (Trio paper §2.1, "sends the packet head
/// to a PPE for processing based on availability, and the PPE spawns a new thread").
///
/// Model:   AvailabilityDispatch chooses the least loaded PPE. FlowDispatch chooses a group of
///          threads by flow, for engines whose groups share no memory.
/// Threads: Owned by one engine thread.
/// Errors:  If no thread is free, start() returns nullopt and the packet waits.
/// Memory:  All of it is taken in the constructors.
/// Tests:   tests/engine/model/dispatch_test.cc
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "microcode/hash.h"
#include "microcode/packet_head.h"

namespace tributary::engine {

/// One thread of one PPE.
struct PpeThread {
  uint32_t ppe = 0;
  uint32_t thread = 0;

  friend bool operator==(const PpeThread&, const PpeThread&) = default;
};

/// Chooses the PPE with the fewest threads at work. Among equals it takes the next one after the
/// PPE chosen last, in a circle. The paper does not say how ties are broken ("assumed"); this rule
/// is deterministic and spreads the first packets.
class AvailabilityDispatch {
 public:
  struct Config {
    uint32_t ppe_count = 0;     ///< At least 1.
    uint32_t threads_each = 0;  ///< 1 to kThreadsEachMax.
  };
  /// A PPE has "tens of threads" (Trio paper §2.1); they fit one word of flags.
  static constexpr uint32_t kThreadsEachMax = 64;

  explicit AvailabilityDispatch(const Config& config);

  /// Takes a thread for the next packet: the lowest free one of the chosen PPE.
  /// @return nullopt while all threads of all PPEs work.
  [[nodiscard]] std::optional<PpeThread> start();
  /// Frees a thread that start() returned. @pre it is not free.
  void finish(PpeThread thread);

  /// Returns the number of threads at work on a PPE.
  [[nodiscard]] uint32_t load(uint32_t ppe) const {
    return static_cast<uint32_t>(std::popcount(busy_[ppe]));
  }
  [[nodiscard]] uint32_t busy_count() const { return busy_count_; }

 private:
  static constexpr uint32_t kBitsPerWord = 64;

  /// Moves a PPE from the set for one load to the set for another.
  void move(uint32_t ppe, uint32_t from_load, uint32_t to_load);
  /// Returns the first PPE with this load at or after `from`, in a circle.
  [[nodiscard]] std::optional<uint32_t> next_with(uint32_t load, uint32_t from) const;

  const Config config_;
  const uint32_t words_;              ///< In a set of PPEs.
  std::vector<uint64_t> busy_;        ///< Shape [ppe_count]; bit t: thread t is at work.
  std::vector<uint64_t> ppes_with_;   ///< Shape [threads_each + 1][words]: sets of PPEs by load.
  std::vector<uint32_t> count_with_;  ///< Shape [threads_each + 1].
  uint32_t next_ppe_ = 0;             ///< Where the search among equals begins.
  uint32_t busy_count_ = 0;
};

/// A field of the packet head that the flow's hash includes.
struct FlowField {
  uint32_t bit_offset = 0;  ///< From the packet's first bit.
  uint32_t bit_width = 0;   ///< 1 to 32.

  friend bool operator==(const FlowField&, const FlowField&) = default;
};

/// Returns the field F of a header that begins `header_offset_bytes` into the packet.
template <class F>
[[nodiscard]] constexpr FlowField flow_field(uint32_t header_offset_bytes) {
  constexpr auto kWidth = static_cast<uint32_t>(std::popcount(F::kMask));
  return {(header_offset_bytes + F::kLastByte + 1) * 8 - F::kShift - kWidth, kWidth};
}

/// Assigns each flow to a group: the hash of programmable fields (§2.2) selects it, so all packets
/// of a flow meet in one group.
class FlowDispatch {
 public:
  /// @param fields      Packets that agree in all of these fields are one flow. None: all packets
  ///                    are one flow. A field outside 1 to 32 bits is a bug.
  /// @param group_count Number of groups, at least 1.
  FlowDispatch(std::span<const FlowField> fields, uint32_t group_count, uint64_t seed = 0);

  /// Returns the packet's flow, for the Reorder Engine. It skips a field that lies past the end of
  /// the head, so short packets have flows too.
  [[nodiscard]] uint64_t flow_of(const microcode::PacketHead& head) const;
  /// Returns the group of a flow, below group_count.
  [[nodiscard]] uint32_t group_of(uint64_t flow) const;

 private:
  const std::vector<FlowField> fields_;
  const uint32_t group_count_;
  const uint64_t seed_;
};

}  // namespace tributary::engine
