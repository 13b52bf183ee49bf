// SPDX-License-Identifier: Apache-2.0
/// @file
/// A modelled PFE for people, whatever program runs on it: what it has done, and its inside at one
/// moment.
///
/// Threads: Pure functions.
/// Tests:   tests/lab/run_test.cc, run_observer_test.cc
#pragma once

#include <string>
#include <vector>

#include "engine/model/pfe_view.h"
#include "engine/model/report.h"
#include "lab/result.h"
#include "lab/trace/snapshot.h"

namespace tributary::lab {

/// All but what only its program knows (kMemoryPart, kSlotsPart).
[[nodiscard]] AggregatorResult pfe_result(std::string name, const engine::Report& report);

/// Threads, the queue before them, and the banks.
[[nodiscard]] std::vector<SnapshotTable> pfe_tables(const engine::PfeView& view, size_t rows_max);

}  // namespace tributary::lab
