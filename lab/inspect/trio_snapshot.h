// SPDX-License-Identifier: Apache-2.0
/// @file
/// Trio-ML's block records at one moment, as a table.
///
/// Threads: One, the shard's.
/// Tests:   tests/lab/run_observer_test.cc
#pragma once

#include "apps/trio_ml/shard.h"
#include "lab/trace/snapshot.h"

namespace tributary::lab {

/// Returns a row for each block record in use that matches the request. @param shard Is only read.
[[nodiscard]] SnapshotTable trio_block_table(trio_ml::Shard& shard, const SnapshotRequest& request,
                                             Instant now);

}  // namespace tributary::lab
