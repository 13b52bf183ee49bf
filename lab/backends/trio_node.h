// SPDX-License-Identifier: Apache-2.0
/// @file
/// A modelled PFE with Trio-ML on the virtual network. Several of them, joined by cables, form a
/// chassis or a tree. Each is configured as a live aggregator.
///
/// Model:   engine/model/pfe.h, with the generation, fidelity and overrides of PfeSettings.
/// Threads: One.
/// Errors:  create() returns those of the machine's parameters and of Shard::add_job().
/// Tests:   tests/lab/backends/trio_node_test.cc, tests/lab/run_test.cc
#pragma once

#include <memory>
#include <vector>

#include "apps/trio_ml/app.h"
#include "engine/model/pfe.h"
#include "lab/backends/aggregator_node.h"
#include "lab/inspect/trio_words.h"

namespace tributary::lab {

/// Returns the machine of these settings, for trains of `train` packets. Refuses unknown parameters
/// and bad values.
[[nodiscard]] Result<engine::Parameters> parameters_of(const PfeSettings& settings, uint32_t train);

class TrioNode final : public AggregatorNode, private engine::PfeSink {
 public:
  static Result<std::unique_ptr<TrioNode>> create(net::Network& network,
                                                  const AggregatorSpec& spec);
  ~TrioNode() override;

  [[nodiscard]] engine::Report report() const { return pfe_->report(); }
  [[nodiscard]] trio_ml::Shard& shard() { return shard_; }
  [[nodiscard]] AggregatorResult result(Duration elapsed) const override;
  bool set_trace(TraceSink& sink) override;
  [[nodiscard]] NodeSnapshot snapshot(const SnapshotRequest& request) override;
  [[nodiscard]] const engine::PfeCore* pfe() const override { return pfe_.get(); }

 private:
  TrioNode(net::Network& network, const AggregatorSpec& spec, memory::SharedMemory memory);

  /// Returns the memory of all channels of all jobs.
  [[nodiscard]] static uint64_t job_bytes(const AggregatorSpec& spec);

  void aggregate(net::PacketRef packet) override;
  void send(std::span<const std::byte> stored, uint32_t size_bytes,
            std::span<const Endpoint> destinations) override;

  /// Adds a job's channels, whose sessions have the seeds from `seed` on.
  [[nodiscard]] Result<void> add_job(const trio_ml::JobConfig& job, uint64_t seed);

  memory::SharedMemory memory_;
  std::vector<std::unique_ptr<trio_ml::Session>> sessions_;  ///< By job and channel.
  trio_ml::Shard shard_;
  const TrioWords words_{shard_};
  /// Made after the job, because it arms the job's timers.
  std::unique_ptr<engine::Pfe<trio_ml::App>> pfe_;
};

}  // namespace tributary::lab
