// SPDX-License-Identifier: Apache-2.0
/// @file
/// The live engine in virtual time: one core of it with Trio-ML on board, as an aggregator of the
/// virtual network. The code is the one that serves real packets; only the clock and the wire are
/// pretended.
///
/// Model:   Processing takes no time: what this node is for is whether the protocol is right, not
///          how fast it is. A datagram is read within kReadWithin of its arrival; what arrives
///          meanwhile is read in the same burst, as on a busy core. The receive buffer is bounded.
/// Life:    stop() ends the process, start() begins another one with empty memory and other
///          session numbers. pause() keeps it from running; datagrams wait.
/// Clock:   step_clock() puts the process's clock ahead, as a resumed virtual machine sees it. It
///          never goes back: the clock is monotonic.
/// Threads: One.
/// Errors:  create() returns what the jobs' configuration is refused for.
/// Tests:   tests/lab/faults/live_node_test.cc
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "apps/trio_ml/app.h"
#include "base/prng.h"
#include "engine/live/live_core.h"
#include "engine/port.h"
#include "lab/cluster/aggregator_node.h"
#include "memory/shared_memory.h"

namespace tributary::lab {

class LiveNode final : public AggregatorNode, private EventTarget {
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

  void stop();
  void start();
  void pause(Duration length);
  void step_clock(Duration ahead);
  /// Null: nobody.
  void set_observer(Observer* observer) { observer_ = observer; }

  [[nodiscard]] bool runs() const { return process_ != nullptr; }
  /// @pre A process runs.
  [[nodiscard]] trio_ml::Shard& shard();
  [[nodiscard]] const trio_ml::Shard& shard() const;
  /// Datagrams lost in the full receive buffer, or because no process ran.
  [[nodiscard]] uint64_t lost() const { return lost_; }
  [[nodiscard]] AggregatorResult result(Duration elapsed) const override;

 private:
  struct Process;
  LiveNode(net::Network& network, const AggregatorSpec& spec, std::vector<trio_ml::JobConfig> jobs);

  void aggregate(net::PacketRef packet) override;
  void on_event(uint64_t argument) override;
  [[nodiscard]] Result<void> begin_process();
  /// Asks to run at `at`, or earlier if that was asked before.
  void schedule(Instant at);
  [[nodiscard]] Instant local_now() { return core().now() + clock_ahead_; }

  const std::vector<trio_ml::JobConfig> jobs_;
  Prng seeds_;
  std::unique_ptr<Process> process_;
  Observer* observer_ = nullptr;
  Instant wake_at_ = Instant::never();  ///< The one wake-up that counts.
  Instant paused_until_;
  Duration clock_ahead_;
  uint64_t lost_ = 0;
  uint64_t packets_ = 0;  ///< Taken by all processes.
};

}  // namespace tributary::lab
