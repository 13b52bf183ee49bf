// SPDX-License-Identifier: Apache-2.0
/// @file
/// A job of plain clients that runs beside the sessions of a campaign run.
///
/// Model:   The clients run some generations in a row. When their aggregator has restarted, its
///          results are lost, so a launcher starts all of them over with the next generation.
/// Judged:  Every sum, and that all clients finish. Nobody forges their packets, because the
///          paper's format has no key (docs/security.md).
/// Threads: One.
/// Tests:   tests/lab/faults/plain_client_test.cc
#pragma once

#include <memory>
#include <vector>

#include "lab/faults/fault_world.h"
#include "lab/faults/journal.h"
#include "lab/faults/plain_client.h"

namespace tributary::lab {

class PlainJob {
 public:
  PlainJob(const PlainJobPlan& plan, FaultWorld& world, Journal& journal);
  ~PlainJob();

  void start();
  /// Notes that the process of an aggregator has started.
  void on_restart(uint32_t aggregator);
  [[nodiscard]] bool done() const;
  /// Judges all results.
  void check();

 private:
  class Host;

  const PlainJobPlan& plan_;
  Journal& journal_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace tributary::lab
