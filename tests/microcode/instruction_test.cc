// SPDX-License-Identifier: Apache-2.0
// Method: the compiler checks the budget, so most of this test passes by compiling. An Instruction
// over budget does not compile, so none appears here.
#include "microcode/instruction.h"

#include <gtest/gtest.h>

#include <string_view>

namespace tributary::microcode {
namespace {

// "Four registers or two local memory reads" (Trio paper §3.1).
static_assert(fits_one_instruction({}));
static_assert(fits_one_instruction({.register_reads = 4}));
static_assert(!fits_one_instruction({.register_reads = 5}));
static_assert(fits_one_instruction({.lmem_reads = 2}));
static_assert(!fits_one_instruction({.lmem_reads = 3}));
static_assert(fits_one_instruction({.register_reads = 2, .lmem_reads = 1}));
static_assert(!fits_one_instruction({.register_reads = 3, .lmem_reads = 1}));
static_assert(!fits_one_instruction({.register_reads = 1, .lmem_reads = 2}));

// "And two registers or two local memory writes."
static_assert(fits_one_instruction({.register_writes = 2}));
static_assert(!fits_one_instruction({.register_writes = 3}));
static_assert(fits_one_instruction({.lmem_writes = 2}));
static_assert(!fits_one_instruction({.lmem_writes = 3}));
static_assert(fits_one_instruction({.register_writes = 1, .lmem_writes = 1}));
static_assert(!fits_one_instruction({.register_writes = 2, .lmem_writes = 1}));

// Reads and writes have separate budgets.
static_assert(fits_one_instruction({.register_reads = 4, .register_writes = 2}));
static_assert(fits_one_instruction({.lmem_reads = 2, .lmem_writes = 2}));
// Large counts do not wrap around into the budget.
static_assert(!fits_one_instruction({.register_reads = 255, .lmem_reads = 255}));
static_assert(!fits_one_instruction({.register_writes = 255, .lmem_writes = 255}));

TEST(Instruction, InstructionKeepsItsNameAndUse) {
  constexpr Instruction kParse{"parse", {.lmem_reads = 2, .register_writes = 1}};
  EXPECT_EQ(std::string_view(kParse.name), "parse");
  EXPECT_EQ(kParse.use.lmem_reads, 2);
  EXPECT_EQ(kParse.use.register_writes, 1);
}

}  // namespace
}  // namespace tributary::microcode
