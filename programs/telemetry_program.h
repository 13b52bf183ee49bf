// SPDX-License-Identifier: Apache-2.0
/// @file
/// The entry of `telemetry` in the list of programs.
///
/// Tests: tests/programs/telemetry_program_test.cc
#pragma once

#include "programs/program.h"

namespace tributary::programs {

extern const Program kTelemetryProgram;

}  // namespace tributary::programs
