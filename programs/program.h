// SPDX-License-Identifier: Apache-2.0
/// @file
/// The packet programs that users can run by name: over a capture, and on live traffic.
///
/// Tests: tests/programs/program_test.cc
#pragma once

#include <span>
#include <string_view>

#include "programs/live_service.h"

namespace tributary::programs {

struct Program : ServedProgram {
  std::string_view mechanisms;  ///< The parts of the chip that it uses.
  std::string_view memory;      ///< Its memory on each core, and the settings that change it.
};

/// Returns all programs, in the order of their names.
[[nodiscard]] std::span<const Program> programs();
/// Returns the program of this name, or null.
[[nodiscard]] const Program* find_program(std::string_view name);

}  // namespace tributary::programs
