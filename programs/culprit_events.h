// SPDX-License-Identifier: Apache-2.0
/// @file
/// The events of the guard's culprits, for the log: each culprit that began or ended, and the
/// number of those that the report has left out.
///
/// Threads: One.
/// Memory:  A number for each open culprit of the report.
/// Tests:   tests/programs/culprit_events_test.cc
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "apps/guard/report.h"
#include "programs/program_instance.h"

namespace tributary::programs {

class CulpritEvents {
 public:
  /// Returns the events since the previous call. Always call it with the same report.
  [[nodiscard]] std::vector<ProgramEvent> take(const guard::Report& report);

 private:
  uint64_t noted_ = 0;       ///< Entries of the report that take() has seen or missed.
  std::set<uint64_t> open_;  ///< Entries that it has seen and that had not ended.
};

}  // namespace tributary::programs
