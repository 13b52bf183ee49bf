// SPDX-License-Identifier: Apache-2.0
/// @file
/// The slots of one session on one core: SwitchML's two pools (paper §4.5, Algorithm 3), with
/// checks that a server needs. admit() has the rules.
///
/// Model:   A slot has two sets, which its workers use in turn: while one is added up, the other
///          keeps the previous result. A worker moves to the other set when it has this set's
///          result, so no worker is more than one use behind.
/// Shapes:  Runs of kSlotsPerRun slots are dealt to the cores in turn, so that a sender's train
///          mostly stays on one core.
/// Memory:  Taken from SharedMemory when the shard is made. Owned by one shard.
/// Source:  SwitchML paper, Algorithm 3, and its published code (the name of a packet).
/// Tests:   tests/apps/switchml/slots_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/mutant.h"
#include "base/result.h"
#include "memory/shared_memory.h"
#include "wire/switchml.h"

namespace tributary::switchml {

using wire::SwitchmlHeader;

inline constexpr uint32_t kWorkersMax = wire::kSwitchmlWorkersMax;
/// Limit on slots: the pool index has 14 bits. The published switch has 8,192.
inline constexpr uint32_t kSlotsLimit = wire::kSwitchmlSlotMax + 1;
/// Elements of the largest packet.
inline constexpr uint32_t kElementsMax = 256;
/// Consecutive slots that one core owns. Assumed: half the packets in flight of one client thread
/// with the published window (256 packets over 4 threads), so that two cores share each thread.
inline constexpr uint32_t kSlotsPerRun = 32;

/// Returns the core (shard) that owns a slot. @pre shard_count is a power of two.
[[nodiscard]] constexpr uint32_t owner_of(uint32_t slot, uint32_t shard_count) {
  return slot / kSlotsPerRun & (shard_count - 1);
}

/// The name of a chunk: the tensor part that a packet carries. The switch only echoes it.
struct ChunkName {
  uint32_t packet_id = 0;
  uint8_t job_number = 0;
  friend bool operator==(const ChunkName&, const ChunkName&) = default;
};

/// The fields of a contribution that its slot's records need.
struct Contribution {
  ChunkName name{};
  uint32_t worker = 0;
  uint16_t udp_port = 0;  ///< Its sender's port, where the worker awaits the result.
  int8_t exponent0 = 0;
  int8_t exponent1 = 0;
};

/// The session that a set belongs to.
struct SetOwner {
  uint32_t epoch;
  uint32_t workers;
  uint32_t generation = 0;  ///< Counts new worker ports; 0: ports are not watched.
};

enum class SetPhase : uint8_t { kUnused, kAdding, kFinishing, kComplete };

/// One set of a slot. Changed by XTXNs only.
struct alignas(64) SetRecord {
  uint32_t epoch = 0;       ///< The session that the set belongs to.
  uint32_t generation = 0;  ///< The owner's, when the use began.
  uint32_t use = 0;         ///< Orders the two sets: the larger began later.
  uint32_t seen = 0;        ///< Bit w: worker w is admitted.
  uint16_t admitted = 0;    ///< Contributions admitted.
  uint16_t settled = 0;     ///< Admitted contributions that have added their payload.
  uint16_t readers = 0;     ///< Threads that are sending the result.
  SetPhase phase = SetPhase::kUnused;
  int8_t exponent0 = INT8_MIN;
  int8_t exponent1 = INT8_MIN;
  ChunkName name{};
  uint64_t sent_in_burst = 0;  ///< The last burst in which the result was sent; 0: none.
  std::array<uint16_t, kWorkersMax> udp_ports{};
};

/// The result of admit().
enum class Admission : uint8_t {
  kFirst,      ///< Admitted as the first; the lanes count as zero.
  kRestarted,  ///< kFirst, after an incomplete sum was dropped.
  kReclaimed,  ///< kFirst, after data of possibly dead processes was dropped.
  kAdded,      ///< Admitted.
  kDuplicate,
  kKept,  ///< Already in the complete set: send the result. Adds a reader.
  kPhaseAhead,
  kChunkDiffers,
  kBusy,
};

[[nodiscard]] inline bool in_progress(const SetRecord& set) {
  return set.phase == SetPhase::kAdding || set.phase == SetPhase::kFinishing;
}

/// Returns true if this packet restarts the set: its worker's admitted packet was a late duplicate
/// from an earlier use. The packet restarts it if the sum is incomplete and no thread is adding to
/// it, or if no worker can still need the set's result.
[[nodiscard]] inline bool supersedes(const SetRecord& here, const SetRecord& other,
                                     uint32_t workers) {
  if (here.phase == SetPhase::kAdding) return here.admitted == here.settled;
  if (here.phase != SetPhase::kComplete || in_progress(other)) return false;
  return workers == 1 || (other.phase == SetPhase::kComplete && here.use < other.use);
}

/// Tells whether the worker has restarted: it used the set before from another port.
[[nodiscard]] inline bool is_new_worker(const SetRecord& set, const Contribution& contribution) {
  const uint16_t known = set.udp_ports[contribution.worker];  // 0: not in the set's last use.
  return known != 0 && known != contribution.udp_port && !TRIB_MUTANT(kPortIgnored);
}

/// Tells whether threads are working on the set.
[[nodiscard]] inline bool is_at_work(const SetRecord& set) {
  return set.readers > 0 || set.phase == SetPhase::kFinishing || set.admitted != set.settled;
}

/// Tells whether the set holds an incomplete sum from before the newest port appeared.
[[nodiscard]] inline bool is_doubtful(const SetRecord& set, const SetOwner& owner) {
  return set.phase == SetPhase::kAdding && set.generation != owner.generation;
}

/// Clears the set, but keeps sent_in_burst: the result may not have left the lanes yet.
inline void forget(SetRecord& set, const SetOwner& owner) {
  set = SetRecord{.epoch = owner.epoch, .sent_in_burst = set.sent_in_burst};
}

/// Admits a contribution to a set, or returns the reason not to. Served whole.
///
/// Names:   The published switch accepts every packet that a worker has not sent before. Here all
///          contributions of a use must also have one name, and a new use begins only when the
///          other set is complete. So a sum never mixes two chunks. An old packet that comes late
///          can still begin a use; its worker's next packet has another name and starts the use
///          over.
/// Restart: With SessionConfig::watches_ports a new UDP port shows that a worker has restarted,
///          since a worker uses a slot from one port for as long as it lives. The slot's two sets
///          are then cleared. When a worker's port appears for the first time, every incomplete sum
///          is dropped: it may be of dead processes, and live ones retransmit.
/// @param other The slot's other set.
/// @param begin Called before a use begins, when the lanes are about to change.
template <class Begin>
[[nodiscard]] Admission admit(SetRecord& here, SetRecord& other, const SetOwner& owner,
                              const Contribution& contribution, Begin&& begin) {
  // Records of the previous session are cleared here, so a slot costs nothing until it is used.
  if (here.epoch != owner.epoch) here = SetRecord{.epoch = owner.epoch};
  if (other.epoch != owner.epoch) other = SetRecord{.epoch = owner.epoch};
  bool reclaimed = false;
  if (owner.generation != 0) {
    const bool is_new = is_new_worker(here, contribution) || is_new_worker(other, contribution);
    const bool forget_here = is_new || is_doubtful(here, owner);
    const bool forget_other = is_new || is_doubtful(other, owner);
    reclaimed = forget_here || forget_other;
    if (reclaimed && (is_at_work(here) || is_at_work(other))) return Admission::kBusy;
    if (forget_here) forget(here, owner);
    if (forget_other) forget(other, owner);
  }
  const uint32_t bit = uint32_t{1} << contribution.worker;
  const bool seen = (here.seen & bit) != 0 && !TRIB_MUTANT(kAddedAgain);
  const bool same_name = here.name == contribution.name;
  const bool complete = here.phase == SetPhase::kComplete;
  const bool begins = seen ? !same_name && supersedes(here, other, owner.workers)
                           : complete || here.phase == SetPhase::kUnused;
  // A worker that begins the next use has the other set's result; any other asks for this set's.
  if (complete && ((seen && !begins) || (same_name && in_progress(other))) &&
      !TRIB_MUTANT(kResultNotKept)) {
    here.readers++;
    return Admission::kKept;
  }
  if (seen && !begins) return Admission::kDuplicate;
  if (in_progress(other)) return Admission::kPhaseAhead;
  if (!begins && !same_name && !TRIB_MUTANT(kChunkUnchecked)) return Admission::kChunkDiffers;
  const bool restarts = begins && here.phase == SetPhase::kAdding;
  if (begins) {
    if (here.readers > 0) return Admission::kBusy;
    begin();
    // A packet with the name of the set's own result may repeat that use, so `use` stays.
    const uint32_t use = complete && same_name ? here.use : std::max(here.use, other.use) + 1;
    here = SetRecord{.epoch = owner.epoch,
                     .generation = owner.generation,
                     .use = use,
                     .phase = SetPhase::kAdding,
                     .name = contribution.name};
  }
  here.seen |= bit;
  other.seen &= ~bit;
  here.admitted++;
  here.udp_ports[contribution.worker] = contribution.udp_port;
  if (reclaimed && begins) return Admission::kReclaimed;
  if (restarts) return Admission::kRestarted;
  return begins ? Admission::kFirst : Admission::kAdded;
}

/// Records that the contribution's payload is in the lanes.
/// @return true to exactly one caller: its contribution makes the sum final, and it must send the
///         result.
[[nodiscard]] inline bool settle(SetRecord& set, uint32_t workers,
                                 const Contribution& contribution) {
  set.settled++;
  set.exponent0 = std::max(set.exponent0, contribution.exponent0);
  set.exponent1 = std::max(set.exponent1, contribution.exponent1);
  const uint32_t added = TRIB_MUTANT(kSumBeforeAdded) ? set.admitted : set.settled;
  if (added != workers - (TRIB_MUTANT(kSumOneShort) ? 1 : 0)) return false;
  set.phase = SetPhase::kFinishing;
  return true;
}

class SlotPool {
 public:
  /// Takes memory for those of slots 0 to slots_max - 1 that one of `shard_count` cores owns.
  static Result<SlotPool> create(uint32_t slots_max, uint32_t shard_count,
                                 memory::SharedMemory& memory);
  /// Returns the bytes that create() takes.
  [[nodiscard]] static uint64_t memory_bytes(uint32_t slots_max, uint32_t shard_count);

  /// Returns the record of a set. @pre The slot is below slots_max and belongs to this core.
  [[nodiscard]] SetRecord& record(uint32_t slot, uint32_t set) const {
    return records_[place_of(slot, set)];
  }
  [[nodiscard]] int32_t* lanes(uint32_t slot, uint32_t set) const {
    return reinterpret_cast<int32_t*>(buffer(slot, set) + kHeadRoomBytes);
  }
  /// Returns the start of the message, whose head ends where the lanes begin.
  [[nodiscard]] std::byte* head(uint32_t slot, uint32_t set) const {
    return buffer(slot, set) + kHeadRoomBytes - SwitchmlHeader::kBytes;
  }
  /// Returns a finished message: head and lanes.
  [[nodiscard]] std::span<const std::byte> message(uint32_t slot, uint32_t set,
                                                   uint32_t elements) const {
    return {head(slot, set), SwitchmlHeader::kBytes + size_t{elements} * 4};
  }

 private:
  /// Head room in front of the lanes, so that these begin on a cache line.
  static constexpr uint32_t kHeadRoomBytes = 64;
  static constexpr uint32_t kBufferBytes = kHeadRoomBytes + kElementsMax * 4;

  SlotPool(SetRecord* records, std::byte* buffers, uint32_t shard_shift)
      : records_(records), buffers_(buffers), shard_shift_(shard_shift) {}

  [[nodiscard]] static uint32_t place_count(uint32_t slots_max, uint32_t shard_count);
  [[nodiscard]] uint32_t place_of(uint32_t slot, uint32_t set) const {
    const uint32_t run = slot / kSlotsPerRun >> shard_shift_;
    return 2 * (run * kSlotsPerRun + slot % kSlotsPerRun) + set;
  }
  [[nodiscard]] std::byte* buffer(uint32_t slot, uint32_t set) const {
    return buffers_ + size_t{place_of(slot, set)} * kBufferBytes;
  }

  SetRecord* records_;  ///< Shape [place_count][2].
  std::byte* buffers_;  ///< Shape [place_count][2][kBufferBytes].
  uint32_t shard_shift_;
};

}  // namespace tributary::switchml
