// SPDX-License-Identifier: Apache-2.0
#include "base/running_program.h"

namespace tributary {
namespace {

constinit thread_local const RunningProgram* running = nullptr;

}  // namespace

void set_running_program(const RunningProgram* program) noexcept { running = program; }

const RunningProgram* running_program() noexcept { return running; }

}  // namespace tributary
