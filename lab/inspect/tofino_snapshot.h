// SPDX-License-Identifier: Apache-2.0
/// @file
/// The state of a modelled Tofino at one moment, as tables: the slots in use, the registers of one
/// slot by stage, the counters, and the traffic manager's numbers.
///
/// Model:   A program keeps `slots` slots. A register or counter with slots x k entries has k of
///          them for each: slot, slot + slots, … (SwitchML's two sets); the column `set` numbers
///          them. Registers with other numbers of entries belong to no slot.
/// Threads: One.
/// Tests:   tests/lab/inspect/tofino_snapshot_test.cc
#pragma once

#include <cstdint>
#include <string>

#include "lab/trace/snapshot.h"
#include "tofino/pipeline/switch.h"

namespace tributary::lab {

/// The properties of a program that its slot tables need.
struct SlotShape {
  uint32_t slots = 0;  ///< Not 0.
  bool values = true;  ///< False in the elided form: registers of payload do not exist.
};

/// Returns the tables. For a slot that does not exist there are no registers. @param device Is only
/// read.
[[nodiscard]] NodeSnapshot tofino_snapshot(std::string node, tofino::Switch& device,
                                           SlotShape shape, const SnapshotRequest& request);

}  // namespace tributary::lab
