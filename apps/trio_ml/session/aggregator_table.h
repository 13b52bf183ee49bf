// SPDX-License-Identifier: Apache-2.0
/// @file
/// The aggregators of a sharded job, as its directory hands them out at the join.
///
/// Model:   The directory is one of the job's aggregators. It refuses a join whose list has another
///          digest, and answers it with one entry of the table.
/// Shapes:  [entries], at most wire::kAggregatorsMax.
/// Threads: Immutable. A control thread publishes a new table; shard 0 reads it.
/// Errors:  None.
/// Tests:   tests/apps/trio_ml/session/session_lists_test.cc
#pragma once

#include <cstdint>
#include <vector>

#include "base/endpoint.h"

namespace tributary::trio_ml {

struct AggregatorTable {
  struct Entry {
    Endpoint address;
    uint32_t weight = 1;
  };
  std::vector<Entry> entries;
  uint64_t digest = 0;  ///< plan::plan_digest() of the entries.
};

}  // namespace tributary::trio_ml
