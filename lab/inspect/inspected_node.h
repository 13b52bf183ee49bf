// SPDX-License-Identifier: Apache-2.0
/// @file
/// A node of a run that tools can look into: it reports events to a trace and shows its state.
///
/// Invariant: Looking changes nothing. A traced run has the digest of an untraced one.
/// Threads:   The run's.
/// Tests:     tests/lab/run_observer_test.cc
#pragma once

#include <string>

#include "base/endpoint.h"
#include "base/trace.h"
#include "lab/trace/snapshot.h"

namespace tributary::engine {
class PfeCore;
}

namespace tributary::lab {

class InspectedNode {
 public:
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// The UDP address at which workers reach the node.
  [[nodiscard]] virtual const Endpoint& address() const = 0;

  /// Reports every later event inside the node to `sink`. @return false if the lab does not model
  /// the node's inside.
  virtual bool set_trace(TraceSink& sink) = 0;
  /// Shows the node's state at this moment; without tables if its inside is not modelled.
  [[nodiscard]] virtual NodeSnapshot snapshot(const SnapshotRequest& request) = 0;
  /// Returns the modelled PFE that runs the node's packet program; null: there is none.
  [[nodiscard]] virtual const engine::PfeCore* pfe() const { return nullptr; }

 protected:
  ~InspectedNode() = default;
};

}  // namespace tributary::lab
