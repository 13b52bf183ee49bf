// SPDX-License-Identifier: Apache-2.0
/// @file
/// A modelled PFE's result, and its state at one moment, for any program that runs on it.
///
/// Threads: Pure functions.
/// Tests:   tests/lab/run_test.cc, tests/lab/run_observer_test.cc
#pragma once

#include <string>
#include <vector>

#include "engine/model/pfe_view.h"
#include "engine/model/report.h"
#include "lab/result.h"
#include "lab/trace/snapshot.h"

namespace tributary::lab {

/// The part that counts packets for which the packet buffer had no room.
inline constexpr const char* kPacketBufferFull = "dropped: packet buffer full";

/// The part that counts reservations whose work takes no time; see engine::Report.
inline constexpr const char* kReservationsOverflowed = "reservations beyond their reach";

/// Returns all parts but those that only the program knows (PartKind::kMemory, kSlots).
[[nodiscard]] AggregatorResult pfe_result(std::string name, const engine::Report& report);

/// Returns tables of the threads, of the packets that wait for one, and of the banks.
[[nodiscard]] std::vector<SnapshotTable> pfe_tables(const engine::PfeView& view, size_t rows_max);

}  // namespace tributary::lab
