// SPDX-License-Identifier: Apache-2.0
/// @file
/// A modelled PFE with SwitchML's microcode (apps/switchml) on the virtual network.
///
/// Model:   engine/model/pfe.h, with the generation, fidelity and overrides of PfeSettings.
///          One session, its workers by address. A result leaves once for each worker, to the port
///          that its own contribution came from.
/// Threads: One.
/// Errors:  create() returns those of the machine's parameters and of switchml::Shard. The result
///          counts the packets that the program refuses, by reason.
/// Tests:   tests/lab/backends/switchml_trio_node_test.cc, tests/lab/faults/switchml_faults_test.cc
#pragma once

#include <memory>
#include <span>
#include <string>

#include "apps/switchml/app.h"
#include "engine/model/pfe.h"
#include "lab/backends/aggregator_node.h"

namespace tributary::lab {

class SwitchmlTrioNode final : public AggregatorNode, private engine::PfeSink {
 public:
  static Result<std::unique_ptr<SwitchmlTrioNode>> create(net::Network& network,
                                                          const AggregatorSpec& spec);
  ~SwitchmlTrioNode() override;

  /// Begins a new session, as rank 0's UdpSession call does. @pre No packet is inside.
  [[nodiscard]] Result<void> begin_session();
  [[nodiscard]] const switchml::Shard& shard() const { return *shard_; }
  [[nodiscard]] AggregatorResult result(Duration elapsed) const override;
  bool set_trace(TraceSink& sink) override;
  [[nodiscard]] NodeSnapshot snapshot(const SnapshotRequest& request) override;
  [[nodiscard]] const engine::PfeCore* pfe() const override { return pfe_.get(); }

 private:
  /// SwitchML's messages and drop reasons in words.
  class Words final : public engine::TraceWords {
   public:
    [[nodiscard]] engine::TraceWord message(std::span<const std::byte> stored,
                                            uint32_t size_bytes) const override;
    [[nodiscard]] engine::TraceWord target(const void* target) const override;
    [[nodiscard]] std::string drop_reason(uint32_t reason) const override;
  };

  SwitchmlTrioNode(net::Network& network, const AggregatorSpec& spec, memory::SharedMemory memory);

  void aggregate(net::PacketRef packet) override;
  void send(std::span<const std::byte> stored, uint32_t size_bytes,
            std::span<const Endpoint> destinations) override;

  memory::SharedMemory memory_;
  std::unique_ptr<switchml::Shard> shard_;
  const Words words_;
  std::unique_ptr<engine::Pfe<switchml::App>> pfe_;
};

}  // namespace tributary::lab
