// SPDX-License-Identifier: Apache-2.0
/// @file
/// A running server as its log and its control API see it. Each kind of server implements it.
///
/// Threads: Any, except that take_events() belongs to one thread at a time.
/// Tests:   tests/server/appliance_test.cc, tests/server/switchml/switchml_appliance_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "apps/trio_ml/event.h"
#include "server/snapshot.h"

namespace tributary::server {

class ObservedServer {
 public:
  ObservedServer() = default;
  ObservedServer(const ObservedServer&) = delete;
  ObservedServer& operator=(const ObservedServer&) = delete;
  virtual ~ObservedServer() = default;

  /// Returns the state of all cores. Each core copies its part between two bursts.
  [[nodiscard]] virtual Snapshot snapshot() = 0;

  // Only Trio-ML's cores note events; other servers have none.

  /// Calls `take` for each event that the cores have noted since the last call, core by core. Takes
  /// no lock and does not wait for a core.
  virtual void take_events(const std::function<void(const trio_ml::Event&)>& /*take*/) {}
  /// Returns the drained jobs that have gone since the last call.
  [[nodiscard]] virtual std::vector<uint8_t> take_drained() { return {}; }
  /// Returns the events that the cores could not note, because nobody took the earlier ones.
  [[nodiscard]] virtual uint64_t events_lost() const { return 0; }
};

}  // namespace tributary::server
