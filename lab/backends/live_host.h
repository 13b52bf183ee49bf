// SPDX-License-Identifier: Apache-2.0
/// @file
/// A server process on the live engine, in virtual time: one core's loop, with any program. The
/// code also serves real packets; only the clock and the wire are simulated.
///
/// Model:   Processing takes no time: the node tests whether a protocol is right, not its speed.
///          The core reads a datagram within kReadWithin of its arrival, and later arrivals up to
///          then in the same burst, as a busy core does. The receive buffer is bounded.
/// Life:    stop() ends the process; start() begins another one with empty memory. While pause()
///          keeps it from running, datagrams wait.
/// Clock:   step_clock() moves the process's clock ahead, as for a resumed virtual machine. The
///          clock is monotonic.
/// Tests:   tests/lab/backends/live_node_test.cc
#pragma once

#include <memory>
#include <span>

#include "engine/port.h"
#include "lab/backends/aggregator_node.h"

namespace tributary::lab {

class LiveHost : public AggregatorNode, private EventTarget {
 public:
  /// Watches the datagrams that the process reads.
  class Watch {
   public:
    /// Tells whether to read a datagram in a burst of its own. The burst begins right after.
    virtual bool is_apart(LiveHost& host, const net::Packet& packet) = 0;
    /// Called after each round with the burst that it has read.
    virtual void on_burst(LiveHost& host, std::span<const net::PacketRef> burst) = 0;

   protected:
    ~Watch() = default;
  };

  ~LiveHost() override;

  /// @param watch Null for none.
  void set_watch(Watch* watch) { watch_ = watch; }

  void stop();
  void start();
  void pause(Duration length);
  void step_clock(Duration ahead);

  [[nodiscard]] bool runs() const { return process_ != nullptr; }
  /// Datagrams lost in the full receive buffer, or because no process ran.
  [[nodiscard]] uint64_t lost() const { return lost_; }
  [[nodiscard]] AggregatorResult result(Duration elapsed) const override;

 protected:
  /// The state that a process loses when it ends.
  class Process {
   public:
    virtual ~Process() = default;
    /// Executes one round of the core's loop.
    virtual void run_once(Instant now) = 0;
    /// Returns the time of the next round if no datagram arrives.
    [[nodiscard]] virtual Instant next_due() = 0;
  };

  LiveHost(net::Network& network, const AggregatorSpec& spec);

  /// @param queue The core's input and output; outlives the process.
  virtual Result<std::unique_ptr<Process>> make_process(engine::PortQueue& queue, Instant now) = 0;
  /// Called after each round.
  virtual void on_round() {}

  /// Begins the first process, for a derived create().
  [[nodiscard]] Result<void> begin_process();
  /// Returns null while no process runs.
  [[nodiscard]] Process* process() const { return process_.get(); }

 private:
  class Queue;

  void aggregate(net::PacketRef packet) override;
  void on_event(uint64_t argument) override;
  /// Schedules a round at `at`, unless an earlier one is scheduled.
  void schedule(Instant at);
  [[nodiscard]] Instant local_now() { return core().now() + clock_ahead_; }

  std::unique_ptr<Queue> queue_;  ///< Declared before process_, which uses it.
  std::unique_ptr<Process> process_;
  Watch* watch_ = nullptr;
  Instant wake_at_ = Instant::never();  ///< The valid wake-up; others are stale.
  Instant paused_until_;
  Duration clock_ahead_;
  uint64_t lost_ = 0;
  uint64_t packets_ = 0;  ///< Taken by all processes.
};

}  // namespace tributary::lab
