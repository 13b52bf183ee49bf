// SPDX-License-Identifier: Apache-2.0
/// @file
/// Names the packet program that a thread runs, and its last instruction, for the errors about
/// rules that the program breaks.
///
/// Threads: Each thread has its own. A signal handler may read its thread's.
/// Tests:   tests/base/assert_test.cc
#pragma once

#include <source_location>
#include <string_view>

namespace tributary {

struct RunningProgram {
  std::string_view program;           ///< Empty: it has no name.
  const char* instruction = nullptr;  ///< Its last mark; null: none, or the machine keeps none.
  std::source_location place = {};    ///< Source line of the mark.
};

/// Sets the program that this thread runs. It must outlive its use; null: none.
void set_running_program(const RunningProgram* program) noexcept;
/// Returns the program that this thread runs; null: none.
[[nodiscard]] const RunningProgram* running_program() noexcept;

/// Sets the program of this thread for a scope.
class RunningProgramScope {
 public:
  explicit RunningProgramScope(const RunningProgram& program) { set_running_program(&program); }
  ~RunningProgramScope() { set_running_program(nullptr); }
  RunningProgramScope(const RunningProgramScope&) = delete;
  RunningProgramScope& operator=(const RunningProgramScope&) = delete;
};

/// Returns `Program` with its kName, if it has one.
template <class Program>
[[nodiscard]] constexpr RunningProgram running_program_of() {
  if constexpr (requires { Program::kName; }) {
    return {.program = Program::kName};
  } else {
    return {};
  }
}

}  // namespace tributary
