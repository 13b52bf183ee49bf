// SPDX-License-Identifier: Apache-2.0
/// @file
/// Adds attackers to a plan of the fault campaign, and a wider shape: authentication, multicast
/// groups, unequal servers, plain clients.
///
/// Model:   Every draw has a generator of its own, so the rest of the plan is the same as without
///          attackers, and removing one kind of attacker leaves the others unchanged.
/// Errors:  None: every seed is a plan.
/// Tests:   tests/lab/faults/attack_plan_test.cc
#pragma once

#include "lab/faults/fault_plan.h"

namespace tributary::lab {

/// @pre The plan is of Trio-ML and has its jobs, faults and calm_at.
void draw_attack(FaultPlan& plan);

}  // namespace tributary::lab
