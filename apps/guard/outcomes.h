// SPDX-License-Identifier: Apache-2.0
/// @file
/// The outcomes of packets in the guard, by name, and events of its records. Each has one
/// Packet/Byte Counter.
///
/// Model:   Every packet has exactly one of the outcomes before kViolation. Those from kViolation
///          on are events and count beside it.
/// Tests:   tests/apps/guard/program_test.cc
#pragma once

#include <array>
#include <cstdint>

#include "memory/rmw.h"

namespace tributary::guard {

enum class Outcome : uint8_t {
  // Forwarded packets.
  kForwarded,  ///< Belongs to no culprit.
  kAllowed,    ///< From a source of the allow-list.
  kKnown,      ///< Goes to a culprit destination, but from a known source.
  kPoliced,    ///< Belongs to a culprit that stays within its bandwidth.
  kKept,       ///< Belongs to a culprit whose action is keep.
  kWouldDrop,  ///< Dry run.
  kNotIp,
  // Dropped packets.
  kDroppedSource,
  kDroppedNetwork,
  kDroppedDestination,
  kNotFrame,
  kBadIpHeader,
  kTruncated,
  // Events.
  kViolation,         ///< A destination's policer turned red for a packet kind.
  kDetected,          ///< A flow became a culprit.
  kRecovered,         ///< A culprit stayed below its bandwidth for the recover time.
  kTimedOut,          ///< A culprit was released after the timeout time.
  kExpired,           ///< An idle record was erased.
  kSourceKnown,       ///< A source became known: by a handshake, or for a kind, in calm traffic.
  kSuspectUntracked,  ///< No record left for a suspect; its destination judges it.
  kDestinationUntracked,  ///< No record left for a destination; its packet is forwarded.
  kCount,
};
inline constexpr uint32_t kOutcomeCount = static_cast<uint32_t>(Outcome::kCount);

/// Returns the counter's name, as in "dropped_source".
[[nodiscard]] const char* to_string(Outcome outcome);

using Counters = std::array<memory::PacketByteCounter, kOutcomeCount>;

}  // namespace tributary::guard
