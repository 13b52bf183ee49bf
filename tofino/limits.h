// SPDX-License-Identifier: Apache-2.0
/// @file
/// The resources and the speed of the first-generation Tofino. Each number of the pipeline model is
/// here once, with unit and source.
///
/// Sources: "TNA" is Intel's public "Tofino Native Architecture" document (631348-0001). "Compiler"
///          is the published P4 compiler for it (p4lang/p4c, backends/tofino). "Model" is the
///          published functional model (p4lang/open-p4studio). "SwitchML §5" is the SwitchML paper.
///          Facts were taken from them, but no code.
/// Tests:   tests/tofino/compile/check_test.cc, placement_test.cc (each limit is enforced).
#pragma once

#include <cstdint>

#include "base/time.h"

namespace tributary::tofino {

// --- The chip -----------------------------------------------------------------------------------

/// Pipes of the full chip; they share only the traffic manager. TNA p.8.
inline constexpr uint32_t kPipes = 4;
/// Match-action stages of a pipe, shared by its ingress and its egress. Compiler, device.h.
inline constexpr uint32_t kStages = 12;
/// A device port number is pipe x 128 + local port (9 bits). TNA p.76.
inline constexpr uint32_t kPortsPerPipe = 128;
/// Front-panel 100 Gbit/s ports of a pipe: local ports 0, 4, … 60. TNA p.76, table 8.
inline constexpr uint32_t kFrontPanelPortsPerPipe = 16;
/// Distance from one 100 Gbit/s port to the next: a quad has four channels. TNA p.76.
inline constexpr uint32_t kPortStride = 4;
/// Local ports 64 (CPU Ethernet or recirculation) and 68 (recirculation and packet generator) loop
/// back inside the chip. TNA p.77, table 9.
inline constexpr uint32_t kLoopLocalPortFirst = 64;
inline constexpr uint32_t kLoopLocalPortSecond = 68;
/// Rate of a front-panel or recirculation quad in bit/s. TNA p.16, p.77.
inline constexpr uint64_t kPortRate = 100'000'000'000;
/// Packet buffer in bytes: 280 x 1024 cells of 80 bytes. Model, tm_tofino.h.
inline constexpr uint64_t kPacketBufferBytes = 280ULL * 1024 * 80;
/// Multicast groups. The model says that the table of 65,536 "was halved" (rmt-defs-shared.h).
inline constexpr uint32_t kMulticastGroups = 32'768;
/// Mirror sessions 1 … 1023; 0 is reserved. TNA p.58.
inline constexpr uint32_t kMirrorSessionMax = 1'023;

/// Applications of a packet generator, and the bytes of its buffer. TNA p.69; model,
/// rmt-defs-shared.h.
inline constexpr uint32_t kGeneratorApplications = 8;
inline constexpr uint32_t kGeneratorBufferBytes = 16'384;
/// Batches per sweep and packets per batch are 16-bit numbers. TNA p.70.
inline constexpr uint32_t kGeneratorNumbers = 1 << 16;

// --- Time ---------------------------------------------------------------------------------------

/// Clock period of the 1.25 GHz part; fused-down parts run at 1.0 and 1.1 GHz. Model, lld_sku.c.
inline constexpr Duration kClockPeriod = picoseconds(800);
/// Time from a packet's arrival at a pipe until it leaves the egress. Each further pass takes 520
/// ns (measured, SwitchML §5). The first pass is assumed to take as long.
inline constexpr Duration kPassLatency = nanoseconds(520);
/// Time from a packet's arrival to its second parse if it is resubmitted. Assumed: half a pass,
/// because it skips egress and loop.
inline constexpr Duration kResubmitLatency = kPassLatency / 2;
/// Time in which a port sends one byte.
inline constexpr Duration kPortByteTime = seconds(8) / static_cast<int64_t>(kPortRate);
static_assert(kPortByteTime == picoseconds(80));
/// Preamble 8, FCS 4, gap 12: bytes that a frame adds on a looped-back port. IEEE 802.3. Assumed:
/// the loops inside the chip add them too.
inline constexpr uint32_t kFrameOverheadBytes = 24;
/// Cycles of a match-dependent stage, of an action-dependent stage, and of an independent stage.
/// Compiler, power_spec.h.
inline constexpr uint32_t kMatchDependentCycles = 20;
inline constexpr uint32_t kActionDependentCycles = 2;
inline constexpr uint32_t kConcurrentCycles = 1;
/// Extra cycles of a match-dependent stage that uses a TCAM, and of one that uses a stateful ALU.
inline constexpr uint32_t kTcamCycles = 2;
inline constexpr uint32_t kStatefulCycles = 4;
/// Extra cycles between stages 5 and 6, where the pipe turns a corner.
inline constexpr uint32_t kCornerTurnCycles = 4;

// --- Parser -------------------------------------------------------------------------------------

/// TCAM rows of a parser. Compiler, parde_spec.h.
inline constexpr uint32_t kParserRows = 256;
/// Bits that a row can match in addition to the state: one 16-bit and two 8-bit matchers.
inline constexpr uint32_t kParserMatchBits = 32;
/// Containers of each size (8, 16, 32 bit) that a row can fill.
inline constexpr uint32_t kParserExtractsPerSize = 4;
/// Bytes that an ingress and an egress parser can read. Compiler assembler, target.h: the nominal
/// figure, and the lower figure for an egress that shares its stages with an ingress.
inline constexpr uint32_t kIngressParserBytes = 16'368;
inline constexpr uint32_t kEgressParserBytes = 160;
/// Validity bits (headers) of a thread's deparser. Compiler assembler, target.h.
inline constexpr uint32_t kValidityBits = 256;
/// Checksum units of a deparser.
inline constexpr uint32_t kDeparserChecksums = 6;
/// The longest header that a checksum unit covers here: IPv4 with all options (RFC 791).
inline constexpr uint32_t kChecksumHeaderBytes = 60;

// --- Packet header vector (PHV) -----------------------------------------------------------------

/// Containers that the stages can access, by size. Compiler, phv_spec.cpp.
inline constexpr uint32_t kPhvContainers32 = 64;
inline constexpr uint32_t kPhvContainers16 = 96;
inline constexpr uint32_t kPhvContainers8 = 64;
/// Ingress and egress get containers in groups of this many. Groups 4i belong to ingress, groups
/// 4i + 1 to egress.
inline constexpr uint32_t kPhvGroup = 16;
inline constexpr uint32_t kPhvBits =
    32 * kPhvContainers32 + 16 * kPhvContainers16 + 8 * kPhvContainers8;
/// Containers that only parser and deparser can access ("tagalong"): 32 x 32, 48 x 16, 32 x 8 bits.
inline constexpr uint32_t kTagalongBits = 32 * 32 + 16 * 48 + 8 * 32;
static_assert(kPhvBits == 4096 && kTagalongBits == 2048);
/// The widest field. A wider header field becomes several fields.
inline constexpr uint32_t kFieldBitsMax = 32;

// --- One stage ----------------------------------------------------------------------------------

/// Source: compiler, mau_spec.h and memories.h, unless stated otherwise.
inline constexpr uint32_t kStageTables = 16;
inline constexpr uint32_t kStageTernaryTables = 8;
inline constexpr uint32_t kStageSramBlocks = 80;
inline constexpr uint32_t kStageMapRams = 48;
inline constexpr uint32_t kStageTcamBlocks = 24;
inline constexpr uint32_t kStageStatefulAlus = 4;
inline constexpr uint32_t kStageStatisticsAlus = 4;
inline constexpr uint32_t kStageGateways = 16;
inline constexpr uint32_t kStageExactCrossbarBytes = 128;
inline constexpr uint32_t kStageTernaryCrossbarBytes = 66;
inline constexpr uint32_t kStageHashBits = 8 * 52;
inline constexpr uint32_t kStageHashDistributions = 6;
inline constexpr uint32_t kStageVliwRows = 32;
inline constexpr uint32_t kStageActionBusBytes = 128;
inline constexpr uint32_t kStageRandomGenerators = 2;

/// An SRAM block: 1024 rows of 128 bits. A TCAM block: 512 rows of 44 bits.
inline constexpr uint32_t kSramRows = 1024;
inline constexpr uint32_t kSramRowBits = 128;
inline constexpr uint32_t kTcamRows = 512;
inline constexpr uint32_t kTcamRowBits = 44;
/// SRAM blocks that one ALU may span, including the spare one: six rows of RAMs (model,
/// mau-defs-shared.h).
inline constexpr uint32_t kAluSramBlocks = 36;
/// Exact match: at most 5 entries per row, at least 2 ways (compiler, table_format.h), 4 version
/// bits per entry, and 10 hash bits per way for the row.
inline constexpr uint32_t kExactEntriesPerRow = 5;
inline constexpr uint32_t kExactWaysMin = 2;
inline constexpr uint32_t kVersionBits = 4;
inline constexpr uint32_t kHashRowBits = 10;
/// An entry's parameters lie beside the key up to this many bits; more bits need action RAM.
inline constexpr uint32_t kImmediateBits = 32;
/// PHV bits and hash bits that a gateway can read. Compiler, device.cpp.
inline constexpr uint32_t kGatewayBits = 32 + 12;

// --- Stateful ALU -------------------------------------------------------------------------------

/// Source: TNA p.62–64; compiler, device.cpp and stateful_alu.cpp.
inline constexpr uint32_t kRegisterActionsPerRegister = 4;
inline constexpr uint32_t kStatefulComparisons = 2;
inline constexpr uint32_t kStatefulUpdatesPerWord = 2;
/// Distinct constants outside [kSmallConstantMin, kSmallConstantMax] that a register's actions use.
inline constexpr uint32_t kStatefulConstants = 4;
inline constexpr int32_t kSmallConstantMin = -8;
inline constexpr int32_t kSmallConstantMax = 7;

}  // namespace tributary::tofino
