// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counts the resources of a stage that its tables, registers and conditions take, in the chip's
/// own units. memory_of() and alu_sram_blocks() say how memory is counted.
///
/// Model:   Units of a stage share the crossbar bytes and address hashes that they have in common.
///          A condition takes one gateway. An action that writes the PHV takes one instruction row.
/// Not modelled: further sharing and splitting by the vendor's compiler. docs/tofino.md has the
///          comparison with published counts.
/// Threads: None; pure functions.
/// Tests:   tests/tofino/compile/placement_test.cc, tests/tofino/switchml/program_test.cc
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
  kCrossbarBytes,  ///< Bytes of the exact crossbar, which also feeds ALUs, hashes and gateways.
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
  uint32_t limit;    ///< Limit of one stage.
};
[[nodiscard]] const ResourceInfo& info_of(Resource resource);

struct StageUse {
  std::array<uint32_t, kResourceCount> of{};
  [[nodiscard]] uint32_t operator[](Resource r) const { return of[static_cast<uint32_t>(r)]; }
  uint32_t& operator[](Resource r) { return of[static_cast<uint32_t>(r)]; }
  /// Returns the first resource that exceeds a stage's limit; null if all fit.
  [[nodiscard]] const ResourceInfo* exceeded() const;
};

/// Returns the resources of a stage.
/// @param units The units in the stage.
[[nodiscard]] StageUse use_of_stage(const Program& program, std::span<const Unit* const> units);

/// Returns the SRAM blocks of `entries` words behind one ALU: ceil(entries / (128 / width x 1024))
/// blocks and a spare one. Each block also takes a map RAM, because two-port memory is made of
/// one-port blocks.
[[nodiscard]] uint32_t alu_sram_blocks(uint32_t entries, uint32_t entry_bits);

/// Blocks of a table's own memory. An exact table takes rows of up to 5 entries in at least 2 ways.
/// A ternary table takes TCAM blocks, and SRAM for its entries' actions and parameters.
struct TableMemory {
  uint32_t sram_blocks = 0;
  uint32_t tcam_blocks = 0;
  uint32_t hash_bits = 0;
};
[[nodiscard]] TableMemory memory_of(const Program& program, const Table& table);
[[nodiscard]] bool is_ternary(const Table& table);

}  // namespace tributary::tofino
