// SPDX-License-Identifier: Apache-2.0
/// @file
/// The entry of `filter` in the list of programs.
///
/// Tests: tests/programs/program_test.cc
#pragma once

#include "programs/program.h"

namespace tributary::programs {

extern const Program kFilterProgram;

}  // namespace tributary::programs
