// SPDX-License-Identifier: Apache-2.0
/// @file
/// The inside of a modelled Tofino at one moment, as tables: the slots in use, the registers of one
/// slot stage by stage, counters, and what the traffic manager has done.
///
/// Model:   A program keeps `slots` slots. A register or counter with slots x k entries has k of
///          them for each: slot, slot + slots, … (SwitchML's two sets); the column `set` numbers
///          them. What has other numbers of entries belongs to no slot.
/// Threads: One.
/// Tests:   tests/lab/inspect/tofino_snapshot_test.cc
#pragma once

#include <cstdint>
#include <string>

#include "lab/trace/snapshot.h"
#include "tofino/pipeline/switch.h"

namespace tributary::lab {

/// What there is to know of a program to show its slots.
struct SlotShape {
  uint32_t slots = 0;  ///< Not 0.
  bool values = true;  ///< False in the elided form: registers of payload do not exist.
};

/// @param device Is only looked at. A wish for a slot that there is not has no registers.
[[nodiscard]] NodeSnapshot tofino_snapshot(std::string node, tofino::Switch& device,
                                           SlotShape shape, const SnapshotWish& wish);

}  // namespace tributary::lab
