// SPDX-License-Identifier: Apache-2.0
/// @file
/// PRECISION (Ben Basat et al., ICNP 2018) for the pipeline model, as data: counts the packets of
/// the largest IPv4 flows in two rows of slots. docs/tofino.md describes it.
///
/// Model:   A slot holds a flow and its count. A packet has one slot in each row. If a slot holds
///          its flow, the count rises. Otherwise the packet recirculates with a probability of
///          about 1 / (smaller count + 1), and takes over the slot with the smaller count.
/// Errors:  None; place() refuses rows that do not fit.
/// Source:  arXiv 1808.03412; the authors' reference program for bmv2. No code of it.
/// Tests:   tests/tofino/precision/control_test.cc
#pragma once

#include <cstdint>

#include "tofino/limits.h"
#include "tofino/program/program.h"

namespace tributary::tofino {

/// Rows of slots. Assumed; the authors' program has three. Two compare a flow in one stage, which
/// has four stateful ALUs.
inline constexpr uint32_t kPrecisionRows = 2;
/// Bytes of a slot: the addresses, the ports and the protocol (a register of two words each), and
/// the count.
inline constexpr uint32_t kPrecisionSlotBytes = 8 + 8 + 4;
/// Slots of a row, a power of two. The largest rows still leave every stateful ALU within the SRAM
/// blocks that it can span.
inline constexpr uint32_t kPrecisionSlotsMin = 2;
inline constexpr uint32_t kPrecisionSlotsMax = 65'536;
/// Port of the inner loop that packets recirculate through.
inline constexpr uint32_t kPrecisionLoopPort = kLoopLocalPortSecond;

struct PrecisionVariant {
  /// Slots of each row: a power of two from kPrecisionSlotsMin to kPrecisionSlotsMax.
  uint32_t slots = 4'096;
  /// Every packet leaves through this port of pipe 0.
  uint32_t out_port = kPortStride;
};

/// Builds the program.
///
/// First pass:  compute both slots' indices; compare the slots' flows with the packet's; increase
///              the count of the slot that holds the flow, or read both counts; draw.
/// Second pass: write the flow and its count, smaller count + 1, into the slot that loses.
///
/// A stateful ALU accesses its register once per pass, and knows only its own words. Therefore even
/// an empty slot is taken in a second pass.
///
/// Packets that are not TCP or UDP over IPv4 without options, and fragments without ports, are
/// counted (`not_measured`) and forwarded.
[[nodiscard]] Program precision_program(const PrecisionVariant& variant);

/// The registers of a row. Addresses: source, destination. Ports: both ports, then the protocol.
struct PrecisionRegisters {
  RegisterId addresses = kNone;
  RegisterId ports = kNone;
  RegisterId count = kNone;
};
/// Returns a row's registers in the program, for the control plane.
[[nodiscard]] constexpr PrecisionRegisters precision_registers(uint32_t row) {
  const auto first = static_cast<RegisterId>(3 * row);
  return {first, static_cast<RegisterId>(first + 1), static_cast<RegisterId>(first + 2)};
}

}  // namespace tributary::tofino
