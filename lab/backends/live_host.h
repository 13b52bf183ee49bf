// SPDX-License-Identifier: Apache-2.0
/// @file
/// A server process on the live engine, in virtual time: one core's loop, whatever its program. The
/// code is the one that serves real packets; only the clock and the wire are pretended.
///
/// Model:   Processing takes no time: what this node is for is whether a protocol is right, not how
///          fast it is. A datagram is read within kReadWithin of its arrival; what arrives
///          meanwhile is read in the same burst, as on a busy core. The receive buffer is bounded.
/// Life:    stop() ends the process, start() begins another one with empty memory. pause() keeps it
///          from running; datagrams wait.
/// Clock:   step_clock() puts the process's clock ahead, as a resumed virtual machine sees it. It
///          never goes back: the clock is monotonic.
/// Threads: One.
/// Tests:   tests/lab/backends/live_node_test.cc
#pragma once

#include <memory>

#include "engine/port.h"
#include "lab/backends/aggregator_node.h"

namespace tributary::lab {

class LiveHost : public AggregatorNode, private EventTarget {
 public:
  ~LiveHost() override;

  void stop();
  void start();
  void pause(Duration length);
  void step_clock(Duration ahead);

  [[nodiscard]] bool runs() const { return process_ != nullptr; }
  /// Datagrams lost in the full receive buffer, or because no process ran.
  [[nodiscard]] uint64_t lost() const { return lost_; }
  [[nodiscard]] AggregatorResult result(Duration elapsed) const override;

 protected:
  /// All that is lost when a process ends.
  class Process {
   public:
    virtual ~Process() = default;
    /// A round of the core's loop.
    virtual void run_once(Instant now) = 0;
    /// When it has to run again though nothing comes.
    [[nodiscard]] virtual Instant next_due() = 0;
  };

  LiveHost(net::Network& network, const AggregatorSpec& spec);

  /// @param queue What its core reads from and writes to; outlives it.
  virtual Result<std::unique_ptr<Process>> make_process(engine::PortQueue& queue, Instant now) = 0;
  /// Called after each round.
  virtual void on_round() {}

  /// For a maker's create(): the first process.
  [[nodiscard]] Result<void> begin_process();
  /// Null while none runs.
  [[nodiscard]] Process* process() const { return process_.get(); }

 private:
  class Queue;

  void aggregate(net::PacketRef packet) override;
  void on_event(uint64_t argument) override;
  /// Asks to run at `at`, or earlier if that was asked before.
  void schedule(Instant at);
  [[nodiscard]] Instant local_now() { return core().now() + clock_ahead_; }

  std::unique_ptr<Queue> queue_;  ///< Of the process; before it, since it uses it.
  std::unique_ptr<Process> process_;
  Instant wake_at_ = Instant::never();  ///< The one wake-up that counts.
  Instant paused_until_;
  Duration clock_ahead_;
  uint64_t lost_ = 0;
  uint64_t packets_ = 0;  ///< Taken by all processes.
};

}  // namespace tributary::lab
