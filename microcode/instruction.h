// SPDX-License-Identifier: Apache-2.0
/// @file
/// Instruction marks: a program says where each of its microcode instructions begins and what the
/// instruction reads and writes. The live machine compiles marks away; the modelled machine counts
/// and prices them.
///
/// Budget:  "Typically, a single Microcode instruction can perform four registers or two local
///          memory reads, and two registers or two local memory writes" (Trio paper §3.1). An
///          instruction over budget does not compile, as with Trio's compiler (§3.1).
/// Tests:   tests/microcode/instruction_test.cc
#pragma once

#include <cstdint>

namespace tributary::microcode {

/// What one instruction touches. Source of the limits: Trio paper §3.1.
struct InstructionUse {
  uint8_t register_reads = 0;
  uint8_t lmem_reads = 0;
  uint8_t register_writes = 0;
  uint8_t lmem_writes = 0;
};

/// Four register reads or two local memory reads (so one of the latter costs two of the former),
/// and two writes of either kind.
[[nodiscard]] constexpr bool fits_one_instruction(InstructionUse use) {
  return use.register_reads + 2 * use.lmem_reads <= 4 && use.register_writes + use.lmem_writes <= 2;
}

/// One instruction of a program. Make them `constexpr` at namespace scope.
struct Instruction {
  const char* name;
  InstructionUse use;

  /// Does not compile when `instruction_use` is over the budget of one instruction.
  consteval Instruction(const char* instruction_name, InstructionUse instruction_use)
      : name(instruction_name), use(instruction_use) {
    if (!fits_one_instruction(use)) throw "more than one instruction can read or write";
  }
};

}  // namespace tributary::microcode
