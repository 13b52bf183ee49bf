// SPDX-License-Identifier: Apache-2.0
/// @file
/// Trio-ML on the live engine, in virtual time (lab/backends/live_host.h).
///
/// Life:    A restarted process has new session numbers.
/// Threads: One.
/// Errors:  create() refuses a job's bad configuration, with the reason.
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
  /// Called after each round of the core's loop.
  class Observer {
   public:
    virtual void on_round(LiveNode& node) = 0;

   protected:
    ~Observer() = default;
  };

  /// Makes the node with a running process. @param more_jobs Jobs besides spec.job, which has one
  /// for each of its channels.
  static Result<std::unique_ptr<LiveNode>> create(
      net::Network& network, const AggregatorSpec& spec,
      const std::vector<trio_ml::JobConfig>& more_jobs = {});
  ~LiveNode() override;

  /// @param observer Null for none.
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
