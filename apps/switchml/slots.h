// SPDX-License-Identifier: Apache-2.0
/// @file
/// The slots of one session on one core: SwitchML's two pools (paper §4.5, Algorithm 3), with what
/// a server needs beyond them.
///
/// Model:   A slot has two sets, which its workers use in turn: while one is added up, the other
///          keeps the result before it. A worker goes on to the other set when it has this one's
///          result, so nobody is ever more than one use behind.
/// Beyond:  The published switch believes every packet that a worker has not sent before. Here a
///          packet must also fit: all contributions of a use have one name (job number and packet
///          id, which the switch only echoes), and a new use begins only when the other set is
///          complete. So a sum never mixes two chunks. An old packet that comes late can still
///          begin a use; its worker's next packet, under another name, then starts the use over.
/// Restart: Where nobody says that workers are started again (SessionConfig::watches_ports), a new
///          UDP port does: a worker keeps the port from which it uses a slot for as long as it
///          lives. From another one it is a new process, which counts from the beginning: what the
///          slot's two sets hold is forgotten. And when a worker's port comes up for the first
///          time, every incomplete sum is forgotten, since it may be of processes that are gone;
///          those that live have no result and send their parts again.
/// Shapes:  Slots go round the cores in runs of kSlotsPerRun, so that a sender's train mostly stays
///          on one core.
/// Memory:  All of it from SharedMemory, when the shard is made; touched only where used.
/// Threads: Owned by one shard.
/// Source:  SwitchML paper, Algorithm 3; its published code for what names a packet.
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
/// Slots that the pool index can name: 14 bits. The published switch has 8,192.
inline constexpr uint32_t kSlotsLimit = wire::kSwitchmlSlotMax + 1;
/// Elements of the largest packet.
inline constexpr uint32_t kElementsMax = 256;
/// Consecutive slots that one core owns. Assumed: half of what one thread of a client with the
/// published window (256 packets over 4 threads) has on its way, so that two cores share each.
inline constexpr uint32_t kSlotsPerRun = 32;

/// The core (shard) that owns a slot. @pre shard_count is a power of two.
[[nodiscard]] constexpr uint32_t owner_of(uint32_t slot, uint32_t shard_count) {
  return slot / kSlotsPerRun & (shard_count - 1);
}

/// What says which part of which tensor a packet carries.
struct ChunkName {
  uint32_t packet_id = 0;
  uint8_t job_number = 0;
  friend bool operator==(const ChunkName&, const ChunkName&) = default;
};

/// A contribution, as far as its slot's records need it.
struct Contribution {
  ChunkName name{};
  uint32_t worker = 0;
  uint16_t udp_port = 0;  ///< From which it came: where its worker awaits the result.
  int8_t exponent0 = 0;
  int8_t exponent1 = 0;
};

/// The session that a set belongs to.
struct SetOwner {
  uint32_t epoch;
  uint32_t workers;
  uint32_t generation = 0;  ///< Counts ports that came up; 0: nobody looks at ports.
};

enum class SetPhase : uint8_t { kUnused, kAdding, kFinishing, kComplete };

/// One set of a slot. Changed by XTXNs only.
struct alignas(64) SetRecord {
  uint32_t epoch = 0;       ///< Of the session that it holds something of.
  uint32_t generation = 0;  ///< Of the owner, when its use began.
  uint32_t use = 0;         ///< Orders the two sets: the larger was begun later.
  uint32_t seen = 0;        ///< Bit w: worker w is in.
  uint16_t admitted = 0;    ///< Contributions let in.
  uint16_t settled = 0;     ///< Of those, how many have added their payload.
  uint16_t readers = 0;     ///< Threads that are about to send the result.
  SetPhase phase = SetPhase::kUnused;
  int8_t exponent0 = INT8_MIN;
  int8_t exponent1 = INT8_MIN;
  ChunkName name{};
  uint64_t sent_in_burst = 0;  ///< The last burst in which the result was sent; 0: none.
  std::array<uint16_t, kWorkersMax> udp_ports{};
};

/// What admit() did.
enum class Admission : uint8_t {
  kFirst,      ///< Let in; the lanes count as zero.
  kRestarted,  ///< The same, and the incomplete sum that the set held is forgotten.
  kReclaimed,  ///< The same; what the slot held was, or may have been, of processes that are gone.
  kAdded,      ///< Let in.
  kDuplicate,
  kKept,  ///< In already, and the set is complete: the result is to be sent again. One more reader.
  kPhaseAhead,
  kChunkDiffers,
  kBusy,
};

[[nodiscard]] inline bool in_progress(const SetRecord& set) {
  return set.phase == SetPhase::kAdding || set.phase == SetPhase::kFinishing;
}

/// Whether a packet under another name than its worker's last one for this set is a new beginning
/// all the same, because that last one was an old packet come late: the sum is incomplete and
/// nobody adds to it now, or it is the one of the two that nobody can need any more.
[[nodiscard]] inline bool supersedes(const SetRecord& here, const SetRecord& other,
                                     uint32_t workers) {
  if (here.phase == SetPhase::kAdding) return here.admitted == here.settled;
  if (here.phase != SetPhase::kComplete || in_progress(other)) return false;
  return workers == 1 || (other.phase == SetPhase::kComplete && here.use < other.use);
}

/// Whether a worker that has used the slot from another port shows that it was started again.
[[nodiscard]] inline bool is_new_worker(const SetRecord& set, const Contribution& contribution) {
  const uint16_t known = set.udp_ports[contribution.worker];  // 0: not in this set's last use.
  return known != 0 && known != contribution.udp_port && !TRIB_MUTANT(kPortIgnored);
}

/// Whether threads are at work on what a set holds.
[[nodiscard]] inline bool is_at_work(const SetRecord& set) {
  return set.readers > 0 || set.phase == SetPhase::kFinishing || set.admitted != set.settled;
}

/// Whether a sum is incomplete and was begun before the last port came up.
[[nodiscard]] inline bool is_doubtful(const SetRecord& set, const SetOwner& owner) {
  return set.phase == SetPhase::kAdding && set.generation != owner.generation;
}

/// A result may still be on its way out of the lanes; that is not forgotten.
inline void forget(SetRecord& set, const SetOwner& owner) {
  set = SetRecord{.epoch = owner.epoch, .sent_in_burst = set.sent_in_burst};
}

/// Lets a contribution into a set, or says why not. Served whole.
/// @param other The slot's other set.
/// @param begin Called before kFirst and kRestarted, with the lanes about to change.
template <class Begin>
[[nodiscard]] Admission admit(SetRecord& here, SetRecord& other, const SetOwner& owner,
                              const Contribution& contribution, Begin&& begin) {
  // The session before left them; a slot costs nothing until it is used.
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
  // A worker that begins the next use has the other set's result; else it asks for this one's.
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
    // Under the name of its own result it may be that use once more, so it does not look newer.
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

/// The contribution's payload is in the lanes. @return true to exactly one caller: the one that
/// makes the sum final and now has to send the result.
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
  /// Room for slots 0 … slots_max-1 as far as one of `shard_count` cores owns them.
  static Result<SlotPool> create(uint32_t slots_max, uint32_t shard_count,
                                 memory::SharedMemory& memory);
  /// What create() takes.
  [[nodiscard]] static uint64_t memory_bytes(uint32_t slots_max, uint32_t shard_count);

  /// @pre The slot is below slots_max and of this core.
  [[nodiscard]] SetRecord& record(uint32_t slot, uint32_t set) const {
    return records_[place_of(slot, set)];
  }
  [[nodiscard]] int32_t* lanes(uint32_t slot, uint32_t set) const {
    return reinterpret_cast<int32_t*>(buffer(slot, set) + kHeadRoomBytes);
  }
  /// Where the message begins, so that the lanes follow its head.
  [[nodiscard]] std::byte* head(uint32_t slot, uint32_t set) const {
    return buffer(slot, set) + kHeadRoomBytes - SwitchmlHeader::kBytes;
  }
  /// A finished message: head and lanes.
  [[nodiscard]] std::span<const std::byte> message(uint32_t slot, uint32_t set,
                                                   uint32_t elements) const {
    return {head(slot, set), SwitchmlHeader::kBytes + size_t{elements} * 4};
  }

 private:
  /// In front of the lanes, which so begin on a cache line.
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
