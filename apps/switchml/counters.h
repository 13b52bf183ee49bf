// SPDX-License-Identifier: Apache-2.0
/// @file
/// Everything a packet can cause in the SwitchML program, by name. One Packet/Byte Counter each,
/// per shard; the names are what `tributary serve --protocol switchml --json` reports.
///
/// Tests: tests/apps/switchml/refusal_test.cc
#pragma once

#include <array>
#include <cstdint>

#include "apps/counting.h"
#include "memory/rmw.h"

namespace tributary::switchml {

enum class Outcome : uint8_t {
  // What was done.
  kAggregated,     ///< A contribution was added.
  kSlotCompleted,  ///< Every worker had contributed.
  kResultSent,     ///< One for each worker.
  kRetransmitted,  ///< A kept result, once more, to the worker that asked.
  kDuplicate,      ///< Contribution that its slot holds already and that is not complete.
  kSlotRestarted,  ///< The slot had begun with a packet that turned out to be an old one.
  kSlotReclaimed,  ///< What the slot held is forgotten: some worker is a new process.
  // Why a packet was refused. No other effect.
  kNotIp,
  kBadIpHeader,
  kIpOptions,
  kFragment,
  kNotUdp,
  kWrongPort,
  kTruncated,          ///< Shorter than its headers.
  kNotSwitchml,        ///< Another message type.
  kUnknownWorker,      ///< From an address that belongs to no session.
  kSessionIncomplete,  ///< Some worker of the session has not registered yet.
  kWrongElements,      ///< Not the session's number of elements.
  kLengthDiffers,      ///< Shorter or longer than its size field says.
  kSlotOutsidePool,
  kPhaseAhead,    ///< For a slot's next use, although its other set is not complete.
  kChunkDiffers,  ///< Another job or packet than the one that its slot is adding up.
  kSlotBusy,      ///< The slot's result is being sent; modelled machine only.
  kCount,
};
inline constexpr uint32_t kOutcomeCount = static_cast<uint32_t>(Outcome::kCount);

/// The counter's name, as in "slot_outside_pool".
[[nodiscard]] const char* to_string(Outcome outcome);

/// The result of a check of a packet.
using Verdict = apps::Verdict<Outcome>;
inline constexpr Verdict kAccepted{};

using Counters = std::array<memory::PacketByteCounter, kOutcomeCount>;

}  // namespace tributary::switchml
