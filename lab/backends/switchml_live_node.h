// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML's switch as a server on the live engine, in virtual time (lab/backends/live_host.h):
/// one core with one session, which knows its workers by their addresses.
///
/// Life:    A restarted process begins a new session, as a server that reads its configuration
///          does.
/// Threads: One.
/// Errors:  create() refuses a bad session, with the reason.
/// Tests:   tests/lab/faults/switchml_faults_test.cc
#pragma once

#include <memory>

#include "apps/switchml/app.h"
#include "lab/backends/live_host.h"

namespace tributary::lab {

class SwitchmlLiveNode final : public LiveHost {
 public:
  /// Makes the node with a running process. Workers are spec.workers, by rank.
  static Result<std::unique_ptr<SwitchmlLiveNode>> create(net::Network& network,
                                                          const AggregatorSpec& spec,
                                                          const switchml::SessionConfig& session);
  ~SwitchmlLiveNode() override;

  /// Begins a new session, as rank 0's UdpSession call does. No effect while no process runs.
  void begin_session();
  /// Returns null while no process runs.
  [[nodiscard]] const switchml::Shard* shard() const;

 private:
  struct Switchml;
  SwitchmlLiveNode(net::Network& network, const AggregatorSpec& spec,
                   const switchml::SessionConfig& session);

  Result<std::unique_ptr<Process>> make_process(engine::PortQueue& queue, Instant now) override;
  [[nodiscard]] Result<void> begin_session_on(switchml::Shard& shard) const;

  const switchml::SessionConfig session_;
};

}  // namespace tributary::lab
