// SPDX-License-Identifier: Apache-2.0
/// @file
/// One modelled packet forwarding engine (PFE): packets in, the program's packets out, in virtual
/// time, with the same program as live (Trio paper §2.1).
///
///   arrive() -> packet buffer --ingress latency--> dispatch -> PPE thread -> crossbar -> RMW banks
///                                                                 |
///                                           sink.send() <- reorder engine
///
/// Model:   A packet waits in the packet buffer until as many threads are free as it stands for
///          packets (its train); they go to the PPEs with the fewest threads at work. Timer threads
///          need a free thread like any other and get the next one. What a packet's thread sends
///          leaves when all earlier packets of its flow (its source address) are done; what a
///          timer's thread sends, when it pauses or ends.
/// Trains:  A packet of train k takes k threads, and the PPEs' and banks' time of k packets; its
///          latency is that of one packet and what it has to wait.
/// Units:   Virtual time. Sizes are of UDP payloads, or of frames.
/// Threads: One. The sink may call arrive().
/// Errors:  A full packet buffer and a packet too long for it are dropped and counted. A train
/// above
///          the number of threads, or a program that is none, is a bug.
/// Memory:  The packet buffer's address space is taken in the constructor and costs nothing until
///          packets wait; threads grow to the most at once.
/// Life:    Events name this object: it must not go while the core still runs. There always is one
///          more event while the program has timers.
/// Tests:   tests/engine/model/pfe_test.cc, trace_test.cc, and others in that folder
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/endpoint.h"
#include "base/event_core.h"
#include "engine/model/dispatch.h"
#include "engine/model/meter.h"
#include "engine/model/model_machine.h"
#include "engine/model/parameters.h"
#include "engine/model/pfe_view.h"
#include "engine/model/reorder.h"
#include "engine/model/report.h"
#include "memory/shared_memory.h"

namespace tributary::engine {

/// Where a PFE's packets leave. `stored` is the payload, or its beginning where payloads are
/// elided; it is valid during the call. `size_bytes` is the whole payload.
class PfeSink {
 public:
  virtual void send(std::span<const std::byte> stored, uint32_t size_bytes,
                    std::span<const Endpoint> destinations) = 0;
  /// A packet that the program lets pass, as it came. Here: out of the port it came in by.
  virtual void forward(std::span<const std::byte> stored, uint32_t size_bytes,
                       const Endpoint& source) {
    send(stored, size_bytes, std::span<const Endpoint>(&source, 1));
  }

 protected:
  ~PfeSink() = default;
};

/// All of a PFE but its program.
class PfeCore : private ThreadKeeper {
 public:
  PfeCore(const PfeCore&) = delete;
  PfeCore& operator=(const PfeCore&) = delete;

  /// A packet's last bit has arrived, now.
  /// @param stored     The packet, or its beginning where the rest is elided: at least the headers
  ///                   that the program reads.
  /// @param size_bytes Its whole size, at least stored.size().
  /// @param train      Equal packets that it stands for, 1 to Parameters::thread_count().
  void arrive(std::span<const std::byte> stored, uint32_t size_bytes, const Endpoint& source,
              uint32_t train = 1, PacketLayer layer = PacketLayer::kUdpPayload);

  [[nodiscard]] Report report() const;
  /// Starts measuring anew: what is counted, added up or put into bins begins at 0, now.
  void reset_report();

  /// From now on it tells `trace` what it does. @param words Must outlive the machine.
  void set_trace(const Tracer& trace, const TraceWords& words);
  /// Its inside at `at`, in the program's words; looking changes nothing.
  /// @pre No event lies between now and then.
  [[nodiscard]] PfeView view(Instant at, const TraceWords& words) const;

  [[nodiscard]] const Parameters& parameters() const { return parameters_; }
  /// Packets inside, waiting or in work.
  [[nodiscard]] uint32_t packets_inside() const { return reorder_.inside_count(); }

 protected:
  /// @pre check(parameters).
  PfeCore(EventCore& core, const Parameters& parameters, memory::SharedMemory& memory,
          PfeSink& sink);
  ~PfeCore() = default;

  // What the program does; called with the machine ready for it.
  virtual void program_begin_burst() = 0;
  virtual void program_process() = 0;
  virtual void program_run_timers(Instant now) = 0;
  [[nodiscard]] virtual Instant program_next_due() const = 0;

  /// To be called once, when the program is there.
  void arm_timers();

  ModelMachine machine_;

 private:
  struct IngressEvent final : EventTarget {
    explicit IngressEvent(PfeCore& owner) : pfe(owner) {}
    void on_event(uint64_t) override;
    PfeCore& pfe;
  };
  struct TimerEvent final : EventTarget {
    explicit TimerEvent(PfeCore& owner) : pfe(owner) {}
    void on_event(uint64_t) override;
    PfeCore& pfe;
  };
  ModelThread& new_timer_thread() override;
  void thread_paused(ModelThread& thread) override;
  void thread_ended(ModelThread& thread) override;

  [[nodiscard]] ModelThread& take_thread(bool has_packet);
  void free_thread(ModelThread& thread);
  /// Gives waiting timers and packets to free threads.
  void dispatch();
  void start_timer(ModelThread& thread);
  void start_packet();
  void take_ppe_threads(ModelThread& thread, uint32_t count);
  void give_ppe_threads(ModelThread& thread);
  /// The packet's thread has ended and its turn has come: what it made leaves.
  void leave(ModelThread& thread);
  void send_outbox(ModelThread& thread);
  void run_due_timers();
  // What a trace is told; trace_ is on.
  void trace_arrival(const ArrivedPacket& packet, std::span<const std::byte> stored) const;
  void trace_refusal(uint64_t number, const char* why) const;
  void trace_start(const ModelThread& thread) const;
  void trace_end(const ModelThread& thread, bool held) const;
  void trace_departure(const ModelThread& thread, std::span<const std::byte> stored,
                       uint32_t size_bytes, std::span<const Endpoint> destinations) const;
  [[nodiscard]] static ThreadView view_of(const ModelThread& thread, const TraceWords& words);

  void note_span(const ModelThread& thread);
  void fill_counts(Report& report) const;
  void fill_instructions(Report& report) const;
  void fill_resources(Report& report) const;

  EventCore& core_;
  const Parameters parameters_;
  PfeSink& sink_;
  AvailabilityDispatch dispatch_;
  ReorderEngine reorder_;
  IngressEvent ingress_event_{*this};
  TimerEvent timer_event_{*this};

  std::deque<ArrivedPacket> waiting_;  ///< In order of arrival.
  uint64_t ready_count_ = 0;           ///< Of those, how many have passed the ingress.
  std::deque<ModelThread*> timers_waiting_;
  std::vector<std::unique_ptr<ModelThread>> threads_;  ///< All ever made, by number.
  std::vector<uint32_t> free_;                         ///< Numbers of those not in use.
  std::vector<uint32_t> leaving_;                      ///< Scratch of thread_ended().
  uint64_t arrival_count_ = 0;                         ///< Never starts anew: it names packets.
  Tracer trace_;
  const TraceWords* words_ = nullptr;  ///< Set when trace_ is on.
  bool dispatching_ = false;
  Instant timers_armed_at_ = Instant::never();

  // Measured since `measured_from_`.
  Instant measured_from_;
  Report counted_;  ///< Counts of this object; the rest is filled in by report().
  LatencyHistogram latency_;
  LatencyHistogram adding_;
  OccupancySeries threads_used_;
  OccupancySeries issue_used_;
  OccupancySeries banks_used_;
  OccupancySeries crossbar_used_;
  Instant active_since_;
  Duration active_;
  /// Where the machine's counters stood.
  struct Mark {
    ModelMachineCounters machine;
    MemoryTiming::Counters memory;
    ModelMachine::LoopCounters loops;
    std::vector<Duration> bank_busy;
    std::vector<uint64_t> marks;
    uint64_t held = 0;
  };
  [[nodiscard]] Mark mark_now() const;
  Mark mark_;
};

/// A PFE with its program `P`: as for the live core, begin_burst(), process(m), run_timers(m, now),
/// next_due().
template <class P>
class Pfe final : public PfeCore {
 public:
  Pfe(EventCore& core, const Parameters& parameters, memory::SharedMemory& memory, P program,
      PfeSink& sink)
      : PfeCore(core, parameters, memory, sink), program_(std::move(program)) {
    arm_timers();
  }

  [[nodiscard]] P& program() { return program_; }

 private:
  void program_begin_burst() override { program_.begin_burst(); }
  void program_process() override { program_.process(machine_); }
  void program_run_timers(Instant now) override { program_.run_timers(machine_, now); }
  [[nodiscard]] Instant program_next_due() const override { return program_.next_due(); }

  P program_;
};

}  // namespace tributary::engine
