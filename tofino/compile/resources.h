// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the tables, registers and conditions in one stage take of it, by the chip's own counting.
///
/// Model:   SRAM: a register or counter takes ceil(entries / (128 / width x 1024)) blocks and a
///          spare one, each with a map RAM (two-port memory made of one-port blocks). An exact
///          table takes rows of up to 5 entries, at least 2 ways; a ternary one TCAM blocks, and
///          SRAM for what its entries say. Crossbar bytes and address hashes that several units of
///          a stage need are shared. One gateway a condition, one instruction row for each action
///          that writes the PHV.
/// Not modelled: the vendor compiler's further sharing and splitting; see docs/tofino.md for how
///          far the counts are from published ones.
/// Threads: None; pure functions.
/// Tests:   tests/tofino/compile/placement_test.cc, switchml_program_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "tofino/compile/flow.h"
#include "tofino/program/program.h"

namespace tributary::tofino {

enum class Resource : uint8_t {
  kTables,
  kTernaryTables,
  kSramBlocks,
  kMapRams,
  kTcamBlocks,
  kStatefulAlus,
  kStatisticsAlus,
  kGateways,
  kCrossbarBytes,  ///< Of the exact crossbar, which also feeds ALUs, hashes and gateways.
  kTernaryCrossbarBytes,
  kHashBits,
  kHashDistributions,
  kVliwRows,
  kActionBusBytes,
  kRandomGenerators,
};
inline constexpr uint32_t kResourceCount = 15;

struct ResourceInfo {
  const char* name;  ///< "stateful ALUs", for messages.
  const char* key;   ///< "stateful_alus", in JSON.
  uint32_t limit;    ///< Of one stage.
};
[[nodiscard]] const ResourceInfo& info_of(Resource resource);

struct StageUse {
  std::array<uint32_t, kResourceCount> of{};
  [[nodiscard]] uint32_t operator[](Resource r) const { return of[static_cast<uint32_t>(r)]; }
  uint32_t& operator[](Resource r) { return of[static_cast<uint32_t>(r)]; }
  /// The first resource of which more is used than a stage has; none if it fits.
  [[nodiscard]] const ResourceInfo* exceeded() const;
};

/// @param units What lies in the stage.
[[nodiscard]] StageUse use_of_stage(const Program& program, std::span<const Unit* const> units);

/// SRAM blocks of `entries` words behind one ALU, the spare one included.
[[nodiscard]] uint32_t alu_sram_blocks(uint32_t entries, uint32_t entry_bits);

/// Blocks of a table's own memory.
struct TableMemory {
  uint32_t sram_blocks = 0;
  uint32_t tcam_blocks = 0;
  uint32_t hash_bits = 0;
};
[[nodiscard]] TableMemory memory_of(const Program& program, const Table& table);
[[nodiscard]] bool is_ternary(const Table& table);

}  // namespace tributary::tofino
