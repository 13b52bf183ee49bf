// SPDX-License-Identifier: Apache-2.0
/// @file
/// The inside of a modelled Tofino at one moment, as tables: the slots in use, the registers of one
/// slot stage by stage, counters, and what the traffic manager has done.
///
/// Model:   A program keeps `slots` slots. A register or counter with slots x k entries has k of
///          them for each: slot, slot + slots, … (SwitchML's two sets); the column `set` numbers
///          them. What has other numbers of entries belongs to no slot.
/// Threads: One.
/// Tests:   tests/lab/cluster/tofino_snapshot_test.cc
#pragma once

#include <cstdint>
#include <string>

#include "lab/trace/snapshot.h"
#include "tofino/switch.h"

namespace tributary::lab {

/// @param device Is only looked at. @param slots Of the program, not 0. A wish for a slot beyond
///               them has no registers.
[[nodiscard]] NodeSnapshot tofino_snapshot(std::string node, tofino::Switch& device, uint32_t slots,
                                           const SnapshotWish& wish);

}  // namespace tributary::lab
