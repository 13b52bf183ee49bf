// SPDX-License-Identifier: Apache-2.0
/// @file
/// Trio-ML on the live engine, in virtual time (lab/backends/live_host.h).
///
/// Life:    A process that is started again has other session numbers.
/// Threads: One.
/// Errors:  create() returns what the jobs' configuration is refused for.
/// Tests:   tests/lab/backends/live_node_test.cc
#pragma once

#include <memory>
#include <vector>

#include "apps/trio_ml/app.h"
#include "base/prng.h"
#include "engine/live/live_core.h"
#include "lab/backends/live_host.h"
#include "memory/shared_memory.h"

namespace tributary::lab {

class LiveNode final : public LiveHost {
 public:
  /// Told after each round of the core's loop.
  class Observer {
   public:
    virtual void on_round(LiveNode& node) = 0;

   protected:
    ~Observer() = default;
  };

  /// Makes the node with a process that runs. @param more_jobs Besides spec.job.
  static Result<std::unique_ptr<LiveNode>> create(
      net::Network& network, const AggregatorSpec& spec,
      const std::vector<trio_ml::JobConfig>& more_jobs = {});
  ~LiveNode() override;

  /// Null: nobody.
  void set_observer(Observer* observer) { observer_ = observer; }

  /// @pre A process runs.
  [[nodiscard]] trio_ml::Shard& shard();
  [[nodiscard]] const trio_ml::Shard& shard() const;

 private:
  struct TrioMl;
  LiveNode(net::Network& network, const AggregatorSpec& spec, std::vector<trio_ml::JobConfig> jobs);

  Result<std::unique_ptr<Process>> make_process(engine::PortQueue& queue, Instant now) override;
  void on_round() override;

  const std::vector<trio_ml::JobConfig> jobs_;
  Prng seeds_;
  Observer* observer_ = nullptr;
};

}  // namespace tributary::lab
