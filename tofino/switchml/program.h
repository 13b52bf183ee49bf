// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML's switch program (SwitchML paper, Algorithm 3) for the pipeline model, as data.
///
/// Model:   Every pair of stateful words holds two elements of a slot, and lets one out a packet. A
///          packet is added in consume passes, 64 elements each, which carry the second half of the
///          result of the last pass; each harvest pass puts 32 more elements in front of the
///          payload. With 64 elements: one consume, one harvest, in the workers' pipe. With 256:
///          consume in the pipes 0, 1, 3, 2 through ports that are looped back (same port, next
///          pipe), then seven harvests in the pipes 2, 3, 3, 1, 1, 0, 0 through the chip's inner
///          loops, each its own (that is why pipe 2, which has one, comes last).
///          The set of workers seen and their count are kept in each pipe, so that a packet lost in
///          the chip's buffer is repaired by a retransmission like any other.
/// Stages:  receive (worker, slot) — bitmap and simulated loss — was it seen? — then nine stages of
///          processors, count, exponents, and in the last the next step.
/// Time-outs: a variant that gives up a slot whose workers do not come, see docs/tofino.md: a phase
///          register says what is new, what is late and what neither; an age register counts the
///          packet generator's sweeps; a slot that is too old is closed in a pass of its own.
///          Packet ids are then in network byte order and rise from phase to phase of a slot, 0 to
///          2^31 - 1; the published clients do neither.
/// Known, as published: a packet delayed by two phases is taken for a new one, since one bit tells
///          phases apart; results bear the UDP ports and the packet id of the last worker.
/// Errors:  None; place() refuses variants that do not fit.
/// Source:  SwitchML paper §4.5, §5; numbers of p4lang/p4app-switchML, b5c74a0. No code of it.
/// Tests:   tests/tofino/switchml/program_test.cc, switchml_switch_test.cc,
///          switchml_control_test.cc, switchml_timeout_test.cc
#pragma once

#include <cstdint>

#include "tofino/program/program.h"
#include "wire/switchml.h"

namespace tributary::tofino {

/// Elements of a packet that one harvest pass reads: one word of each processor.
inline constexpr uint32_t kSwitchmlProcessors = 32;
using wire::kSwitchmlWorkersMax;

struct SwitchmlVariant {
  uint32_t elements = 64;  ///< A packet's: 64 or 256.
  /// Slots of each of the two sets. Published: 16,384 register entries (p4app-switchML).
  uint32_t slots = 8'192;
  /// Stateful register pairs that hold values; other than kSwitchmlProcessors only to see what
  /// fits.
  uint32_t processors = kSwitchmlProcessors;
  /// Pins this many processors to each of the stages from 3 on; 0 leaves it to the placement.
  uint32_t processors_per_stage = 0;
  /// Gives slots up whose workers do not come (switchml_timeout.cc); 64 elements only.
  bool timeout = false;
  uint64_t switch_mac = 0x0200'0000'0001;
  uint32_t switch_ip = 0x0a00'00fe;
};

[[nodiscard]] Program switchml_program(const SwitchmlVariant& variant);

/// What a packet is on its way through the chip (header "md", field "type").
inline constexpr uint32_t kConsumeFirst = 0;
inline constexpr uint32_t kConsumeMask = 0xfc;  ///< 0 … 3 are consume passes.
inline constexpr uint32_t kHarvestFirst = 8;
inline constexpr uint32_t kHarvestLast = 14;  ///< Even ones read low words, odd ones high words.
/// With time-outs: a packet of the generator; one that closes a slot; a late one, and its answer.
inline constexpr uint32_t kSweep = 32;
inline constexpr uint32_t kClose = 33;
inline constexpr uint32_t kLate = 34;
inline constexpr uint32_t kLateAnswer = 35;

}  // namespace tributary::tofino
