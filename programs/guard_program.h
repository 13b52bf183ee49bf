// SPDX-License-Identifier: Apache-2.0
/// @file
/// The entry of `guard` in the list of programs.
///
/// Tests: tests/programs/guard_program_test.cc
#pragma once

#include "programs/program.h"

namespace tributary::programs {

extern const Program kGuardProgram;

}  // namespace tributary::programs
