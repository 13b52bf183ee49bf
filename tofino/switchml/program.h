// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML's switch program (SwitchML paper, Algorithm 3) for the pipeline model, as data. The
/// variant with timeouts (timeout.cc) closes slots whose workers do not contribute. docs/tofino.md
/// describes it, and the weaknesses that this program shares with the published one.
///
/// Stages:  receive (worker, slot); bitmap and simulated loss; duplicate check; nine stages of
///          processors, count and exponents; next step in the last one.
/// Errors:  None; place() refuses variants that do not fit.
/// Source:  SwitchML paper §4.5, §5; numbers of p4lang/p4app-switchML, b5c74a0. No code of it.
/// Tests:   tests/tofino/switchml/program_test.cc, switch_test.cc, control_test.cc, timeout_test.cc
#pragma once

#include <cstdint>

#include "tofino/program/program.h"
#include "wire/switchml.h"

namespace tributary::tofino {

/// Elements of a packet that one harvest pass reads: one word per processor.
inline constexpr uint32_t kSwitchmlProcessors = 32;
using wire::kSwitchmlWorkersMax;

/// Selects the program to build.
struct SwitchmlVariant {
  uint32_t elements = 64;  ///< Elements per packet: 64 or 256.
  /// Slots of each of the two sets. Published: 16,384 register entries (p4app-switchML).
  uint32_t slots = 8'192;
  /// Stateful register pairs that hold values. Use other numbers than kSwitchmlProcessors only to
  /// see whether they fit.
  uint32_t processors = kSwitchmlProcessors;
  /// Pins this many processors to each stage from 3 on; 0 leaves the choice to the placement.
  uint32_t processors_per_stage = 0;
  /// Closes slots whose workers do not contribute (timeout.cc); 64 elements only.
  bool timeout = false;
  uint64_t switch_mac = 0x0200'0000'0001;
  uint32_t switch_ip = 0x0a00'00fe;
};

/// Builds the program.
///
/// Each pair of stateful words holds two elements of a slot and outputs one per packet. A packet
/// therefore takes several passes:
///  - Each consume pass adds 64 elements. The last one outputs the second half of its 64 sums.
///  - Each harvest pass puts 32 more elements in front of the payload.
///
/// With 64 elements there is one consume pass and one harvest pass, both in the workers' pipe.
///
/// With 256 elements the consume passes use the pipes 0, 1, 3, 2, through ports that are looped
/// back (same port, next pipe). Seven harvest passes in the pipes 2, 3, 3, 1, 1, 0, 0 follow. Each
/// uses an inner loop of its own. Pipe 2 has only one harvest pass, so it is the last consume pipe.
/// Each pipe has its own bitmap and count. Pipe 0 drops a repeated packet until its slot is
/// complete; then the packet passes through all pipes, and so repairs one that was lost in the
/// chip's buffer.
///
/// With timeouts a phase register tells new packets from late ones, and an age register counts the
/// packet generator's sweeps. A slot that is too old is closed in a pass of its own. Packet ids
/// must be in network byte order, 0 to 2^31 - 1, and must rise from phase to phase of a slot. The
/// published clients do neither.
///
/// As published: one bit tells phases apart, so a packet that is delayed by two phases counts as a
/// new one. Results have the UDP ports and the packet id of the last worker.
[[nodiscard]] Program switchml_program(const SwitchmlVariant& variant);

/// The type of a packet during its passes through the chip (header "md", field "type").
inline constexpr uint32_t kConsumeFirst = 0;
inline constexpr uint32_t kConsumeMask = 0xfc;  ///< 0 … 3 are consume passes.
inline constexpr uint32_t kHarvestFirst = 8;
inline constexpr uint32_t kHarvestLast = 14;  ///< Even types read low words, odd ones high words.
/// With timeouts: a generated packet, one that closes a slot, a late packet, and its answer.
inline constexpr uint32_t kSweep = 32;
inline constexpr uint32_t kClose = 33;
inline constexpr uint32_t kLate = 34;
inline constexpr uint32_t kLateAnswer = 35;

}  // namespace tributary::tofino
