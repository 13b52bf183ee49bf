// SPDX-License-Identifier: Apache-2.0
/// @file
/// The outcomes of packets in the SwitchML program, by name. Each shard has one Packet/Byte Counter
/// for each outcome. `tributary serve --protocol switchml --json` reports them under these names.
///
/// Tests: tests/apps/switchml/refusal_test.cc
#pragma once

#include <array>
#include <cstdint>

#include "apps/counting.h"
#include "memory/rmw.h"

namespace tributary::switchml {

enum class Outcome : uint8_t {
  // Packets served and sent, and events.
  kAggregated,     ///< A contribution was added.
  kSlotCompleted,  ///< Every worker had contributed.
  kResultSent,     ///< Counts each worker.
  kRetransmitted,  ///< A kept result was sent to the worker that asked for it.
  kDuplicate,      ///< The incomplete slot already holds the contribution.
  kSlotRestarted,  ///< The slot's use had begun with an old packet.
  kSlotReclaimed,  ///< The slot was cleared because a worker is a new process.
  // Reasons to refuse a packet. A refused packet has no other effect.
  kNotIp,
  kBadIpHeader,
  kIpOptions,
  kFragment,
  kNotUdp,
  kWrongPort,
  kTruncated,          ///< Shorter than its headers.
  kNotSwitchml,        ///< Another message type.
  kUnknownWorker,      ///< From an address that belongs to no session.
  kSessionIncomplete,  ///< A worker of the session has not registered yet.
  kWrongElements,      ///< Not the session's number of elements.
  kLengthDiffers,      ///< The length contradicts the size field.
  kSlotOutsidePool,
  kPhaseAhead,    ///< For a slot's next use while its other set is incomplete.
  kChunkDiffers,  ///< Job or packet id differs from the slot's current sum.
  kSlotBusy,      ///< The slot's result is being sent; modelled machine only.
  kCount,
};
inline constexpr uint32_t kOutcomeCount = static_cast<uint32_t>(Outcome::kCount);

/// Returns the counter's name, as in "slot_outside_pool".
[[nodiscard]] const char* to_string(Outcome outcome);

/// The result of a check of a packet.
using Verdict = apps::Verdict<Outcome>;
inline constexpr Verdict kAccepted{};

using Counters = std::array<memory::PacketByteCounter, kOutcomeCount>;

}  // namespace tributary::switchml
