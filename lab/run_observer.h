// SPDX-License-Identifier: Apache-2.0
/// @file
/// An observer of a run: traces it, stops it, or reads its state.
///
/// Invariant: An observer changes nothing. An observed run has the digest of an unobserved one.
/// Threads: The run's.
/// Errors:  If begin() refuses, the run ends with its error before the first event.
/// Tests:   tests/lab/run_observer_test.cc
#pragma once

#include <span>

#include "base/event_core.h"
#include "base/result.h"

namespace tributary::net {
class Network;
}

namespace tributary::lab {

class InspectedNode;

/// The parts of a run that an observer may read; valid until the run ends.
struct RunInside {
  const EventCore& core;
  net::Network& network;  ///< For its links' taps, names and queues.
  std::span<InspectedNode* const> aggregators;
};

class RunObserver {
 public:
  /// Called before the first event, when everything is built.
  [[nodiscard]] virtual Result<void> begin(const RunInside& inside) = 0;

  /// Called before each event. @param next Time of the event; the core's now() is that of the last.
  /// @return false to end the run with kEndedByObserver.
  [[nodiscard]] virtual bool before_event(Instant next) = 0;

  /// Called after the last event, also of a failed run, while the network and the nodes exist.
  virtual void end() {}

 protected:
  ~RunObserver() = default;
};

inline constexpr char kEndedByObserver[] = "the run was ended by whoever looked at it";

}  // namespace tributary::lab
