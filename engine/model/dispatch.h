// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Dispatch module: which PPE thread gets a packet (Trio paper §2.1, "sends the packet head to
/// a PPE for processing based on availability, and the PPE spawns a new thread").
///
/// Model:   Two rules, for two kinds of engine.
///          Availability: the PPE with the fewest threads at work; among equals the next one after
///          the PPE chosen last, in a circle. The paper does not say how equals are told apart
///          ("assumed"); this rule is deterministic and spreads the first packets.
///          Flow: a hash of programmable fields (§2.2) names a group of threads, so that all
///          packets of a flow meet in one group; for engines whose groups share no memory.
/// Threads: Owned by one engine thread.
/// Errors:  No free thread anywhere is an answer, not an error: the packet waits in front.
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

class AvailabilityDispatch {
 public:
  struct Config {
    uint32_t ppe_count = 0;     ///< At least 1.
    uint32_t threads_each = 0;  ///< 1 to kThreadsEachMax.
  };
  /// A PPE has "tens of threads" (Trio paper §2.1); they fit one word of flags.
  static constexpr uint32_t kThreadsEachMax = 64;

  explicit AvailabilityDispatch(const Config& config);

  /// Takes the thread that the next packet goes to: the lowest free one of the chosen PPE.
  /// @return nothing while all threads of all PPEs work.
  [[nodiscard]] std::optional<PpeThread> start();
  /// The thread has ended. @pre it was started and has not ended yet.
  void finish(PpeThread thread);

  /// Threads at work on a PPE.
  [[nodiscard]] uint32_t load(uint32_t ppe) const {
    return static_cast<uint32_t>(std::popcount(busy_[ppe]));
  }
  [[nodiscard]] uint32_t busy_count() const { return busy_count_; }

 private:
  static constexpr uint32_t kBitsPerWord = 64;

  /// Moves a PPE from the set of those with one load to that of another.
  void move(uint32_t ppe, uint32_t from_load, uint32_t to_load);
  /// The first PPE with this load at or after `from`, in a circle.
  [[nodiscard]] std::optional<uint32_t> next_with(uint32_t load, uint32_t from) const;

  const Config config_;
  const uint32_t words_;              ///< Of a set of PPEs.
  std::vector<uint64_t> busy_;        ///< Shape [ppe_count]; bit t: thread t is at work.
  std::vector<uint64_t> ppes_with_;   ///< Shape [threads_each + 1][words]: PPEs by load.
  std::vector<uint32_t> count_with_;  ///< Shape [threads_each + 1].
  uint32_t next_ppe_ = 0;             ///< Where the search among equals begins.
  uint32_t busy_count_ = 0;
};

/// A field of the packet head that goes into the flow's hash.
struct FlowField {
  uint32_t bit_offset = 0;  ///< From the packet's first bit.
  uint32_t bit_width = 0;   ///< 1 to 32.

  friend bool operator==(const FlowField&, const FlowField&) = default;
};

/// The field F of a header that begins `header_offset_bytes` into the packet.
template <class F>
[[nodiscard]] constexpr FlowField flow_field(uint32_t header_offset_bytes) {
  constexpr auto kWidth = static_cast<uint32_t>(std::popcount(F::kMask));
  return {(header_offset_bytes + F::kLastByte + 1) * 8 - F::kShift - kWidth, kWidth};
}

class FlowDispatch {
 public:
  /// @param fields      What makes a flow: packets that agree in all of them are one flow. None:
  ///                    all packets are one flow. Each has 1 to 32 bits, else it is a bug.
  /// @param group_count Groups to share packets between; at least 1.
  FlowDispatch(std::span<const FlowField> fields, uint32_t group_count, uint64_t seed = 0);

  /// The packet's flow, for the Reorder Engine. A field that lies past the end of the head is left
  /// out, so short packets have flows too.
  [[nodiscard]] uint64_t flow_of(const microcode::PacketHead& head) const;
  /// The group that a flow belongs to, below group_count.
  [[nodiscard]] uint32_t group_of(uint64_t flow) const;

 private:
  const std::vector<FlowField> fields_;
  const uint32_t group_count_;
  const uint64_t seed_;
};

}  // namespace tributary::engine
