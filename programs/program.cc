// SPDX-License-Identifier: Apache-2.0
#include "programs/program.h"

#include <algorithm>
#include <array>

#include "programs/filter_program.h"
#include "programs/guard_program.h"
#include "programs/telemetry_program.h"

namespace tributary::programs {

std::span<const Program> programs() {
  static const std::array kPrograms{kFilterProgram, kGuardProgram, kTelemetryProgram};
  return kPrograms;
}

const Program* find_program(std::string_view name) {
  const auto all = programs();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Program& p) { return p.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace tributary::programs
