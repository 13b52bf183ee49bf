// SPDX-License-Identifier: Apache-2.0
/// @file
/// Instruction marks: a program marks the start of each of its microcode instructions and declares
/// the most that it reads and writes. The live machine compiles the marks away. The modelled
/// machine counts them, charges their time, and stops a program that exceeds its declaration
/// (access_meter.h).
///
/// Budget:  "Typically, a single Microcode instruction can perform four registers or two local
///          memory reads, and two registers or two local memory writes" (Trio paper §3.1). An
///          instruction over budget does not compile, as with Trio's compiler (§3.1).
/// Tests:   tests/microcode/instruction_test.cc
#pragma once

#include <cstdint>

namespace tributary::microcode {

/// The most reads and writes of one instruction. Source of the limits: Trio paper §3.1.
struct InstructionUse {
  uint8_t register_reads = 0;
  uint8_t lmem_reads = 0;
  uint8_t register_writes = 0;
  uint8_t lmem_writes = 0;
  bool operator==(const InstructionUse&) const = default;
};

/// Returns whether one instruction can do this: four register reads or two local memory reads (so
/// one local memory read counts as two register reads), and two writes of either kind.
[[nodiscard]] constexpr bool fits_one_instruction(InstructionUse use) {
  return use.register_reads + 2 * use.lmem_reads <= 4 && use.register_writes + use.lmem_writes <= 2;
}

/// One instruction of a program. Define instructions as `constexpr` at namespace scope.
struct Instruction {
  const char* name;
  InstructionUse use;

  /// Fails to compile if `instruction_use` exceeds the budget of one instruction.
  consteval Instruction(const char* instruction_name, InstructionUse instruction_use)
      : name(instruction_name), use(instruction_use) {
    if (!fits_one_instruction(use)) throw "more than one instruction can read or write";
  }
};

}  // namespace tributary::microcode
