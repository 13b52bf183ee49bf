// SPDX-License-Identifier: Apache-2.0
/// @file
/// The packet programs that users can run by name: over a capture, and on live traffic.
///
/// Tests: tests/programs/program_test.cc
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/key_table.h"
#include "base/result.h"
#include "programs/capture_program.h"
#include "programs/live_service.h"

namespace tributary::programs {

struct Program : CaptureProgram {
  std::string_view mechanisms;  ///< The parts of the chip that it uses.
  Result<std::unique_ptr<LiveService>> (*serve)(const KeyValues& settings,
                                                const ServeRequest& request,
                                                const InstanceTerms& terms);
};

/// Returns all programs, in the order of their names.
[[nodiscard]] std::span<const Program> programs();
/// Returns the program of this name, or null.
[[nodiscard]] const Program* find_program(std::string_view name);

}  // namespace tributary::programs
