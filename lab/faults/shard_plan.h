// SPDX-License-Identifier: Apache-2.0
/// @file
/// The part of a plan that only sharded plans have (fault_plan.h).
///
/// Model:   Each addition has its own random stream, so the rest of the plan is that of the same
///          seed without shards.
/// Errors:  None.
/// Tests:   tests/lab/faults/shard_plan_test.cc
#pragma once

#include "lab/faults/fault_plan.h"

namespace tributary::lab {

/// Replaces the tree by two to four aggregators, over which every job cuts its tensors. Call it
/// before faults are drawn.
void draw_shards(FaultPlan& plan);

/// Aims some of the drawn cuts and delays at the cable between one rank and one aggregator. Draws
/// more faults of whole aggregators, and ranks with another list.
/// @param only The permitted kinds.
void draw_shard_faults(FaultPlan& plan, FaultKinds only);

}  // namespace tributary::lab
