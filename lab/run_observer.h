// SPDX-License-Identifier: Apache-2.0
/// @file
/// Somebody who looks into a run while it goes on: traces it, stops it, asks for its inside.
///
/// Must:    An observer only looks. A run that is observed has the digest of the run that is not.
/// Threads: The run's.
/// Errors:  begin() may refuse; the run then ends with its error before anything has happened.
/// Tests:   tests/lab/inspect/run_observer_test.cc
#pragma once

#include <span>

#include "base/event_core.h"
#include "base/result.h"

namespace tributary::net {
class Network;
}

namespace tributary::lab {

class InspectedNode;

/// What of a run can be looked at; valid until the run ends.
struct RunInside {
  const EventCore& core;
  net::Network& network;  ///< For its links' taps, names and queues.
  std::span<InspectedNode* const> aggregators;
};

class RunObserver {
 public:
  /// All is built and nothing has happened. What `inside` refers to stays until the run ends.
  [[nodiscard]] virtual Result<void> begin(const RunInside& inside) = 0;

  /// Asked before each event. @param next When that is; the core's now() is the last one's time.
  /// @return false to end the run here: it fails with kEndedByObserver.
  [[nodiscard]] virtual bool before_event(Instant next) = 0;

  /// The last event is over, however the run went, and the network and the nodes are still there.
  virtual void end() {}

 protected:
  ~RunObserver() = default;
};

inline constexpr char kEndedByObserver[] = "the run was ended by whoever looked at it";

}  // namespace tributary::lab
