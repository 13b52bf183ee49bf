// SPDX-License-Identifier: Apache-2.0
/// @file
/// Predicts the packet rate of a program on a modelled Trio chip.
///
/// Model:   Runs the program over generated traffic, and divides each resource's capacity by the
///          packets' use of it (rate_limit() in run_report.h).
/// Exact:   Equal arguments give equal predictions.
/// Threads: Any.
/// Errors:  One line for refused settings, and for a machine without memory for the traffic.
/// Tests:   tests/programs/rate_prediction_test.cc
#pragma once

#include "base/result.h"
#include "engine/model/parameters.h"
#include "programs/program.h"
#include "programs/run_report.h"
#include "traffic/config.h"

namespace tributary::programs {

/// @param program With its default settings.
[[nodiscard]] Result<RateLimit> predict_rate(const Program& program, const engine::Parameters& chip,
                                             const traffic::Config& traffic);

}  // namespace tributary::programs
