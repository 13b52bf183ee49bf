// SPDX-License-Identifier: Apache-2.0
/// @file
/// One modelled packet forwarding engine (PFE): packets in, the program's packets out, in virtual
/// time, with the same program as live (Trio paper §2.1). See docs/model.md.
///
/// Units:   Virtual time. Sizes are of UDP payloads, or of frames.
/// Threads: One. The sink may call arrive().
/// Errors:  A packet that is too long or finds the buffer full is dropped and counted. A train, or
///          train_max, above the number of threads is a bug; so is a program that starts no thread.
/// Memory:  The packet buffer's address space is taken in the constructor; its pages cost nothing
///          until packets wait. Thread objects grow to the peak number in use.
/// Tests:   tests/engine/model/pfe_test.cc, tests/engine/model/pfe_trace_test.cc, and others there
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/endpoint.h"
#include "base/event_core.h"
#include "engine/model/dispatch.h"
#include "engine/model/egress.h"
#include "engine/model/meter.h"
#include "engine/model/model_machine.h"
#include "engine/model/parameters.h"
#include "engine/model/pfe_view.h"
#include "engine/model/reorder.h"
#include "engine/model/report.h"
#include "memory/shared_memory.h"

namespace tributary::engine {

/// Receives the packets that leave a PFE. `stored` is the payload, or its beginning if payloads are
/// elided; it is valid during the call. `size_bytes` is the size of the whole payload.
class PfeSink {
 public:
  virtual void send(std::span<const std::byte> stored, uint32_t size_bytes,
                    std::span<const Endpoint> destinations) = 0;
  /// Receives a packet that the program forwards. By default it leaves by its input port.
  /// @param number The packet's number: arrive() counts its calls from 1.
  virtual void forward(std::span<const std::byte> stored, uint32_t size_bytes,
                       const Endpoint& source, uint64_t /*number*/) {
    send(stored, size_bytes, std::span<const Endpoint>(&source, 1));
  }

 protected:
  ~PfeSink() = default;
};

/// A PFE without its program.
///
///   arrive() -> packet buffer --ingress latency--> dispatch -> PPE thread -> crossbar -> RMW banks
///                                                                 |
///                 sink.send() <- (port <- PPE thread <- fabric) <- reorder engine
///
/// The egress side, in brackets, exists if Parameters::models_egress().
///
/// A packet of train k waits in the packet buffer until k threads are free; they start on the PPEs
/// with the fewest threads at work. It takes the PPEs' and banks' time of k packets; its latency is
/// one packet's, including its waits. A timer's thread takes the next free thread, before packets
/// do; with trains it takes as many as the longest train, and the time of as many records.
///
/// Packets that a packet's thread sends leave when all earlier packets of its flow (its source
/// address) have ended. Packets that a timer's thread sends leave when it pauses or ends.
///
/// Events point to this object, so it must outlive the event core's run. While the program has
/// timers there is always one more event.
class PfeCore : private ThreadKeeper {
 public:
  PfeCore(const PfeCore&) = delete;
  PfeCore& operator=(const PfeCore&) = delete;

  /// Accepts a packet whose last bit arrives at the present time.
  /// @param stored     The packet, or its beginning if the rest is elided: at least the headers
  ///                   that the program reads.
  /// @param size_bytes Size of the whole packet, at least stored.size().
  /// @param train      Number of equal packets it stands for, 1 to Parameters::thread_count().
  void arrive(std::span<const std::byte> stored, uint32_t size_bytes, const Endpoint& source,
              uint32_t train = 1, PacketLayer layer = PacketLayer::kUdpPayload);

  [[nodiscard]] Report report() const;
  /// Restarts all measurements at 0 from the present time.
  void reset_report();

  /// Writes later steps to `trace`. @param words Must outlive the machine.
  void set_trace(const Tracer& trace, const TraceWords& words);
  /// Returns the machine's state at `at`, in the program's words, without changing anything.
  /// @pre No event lies between the present time and `at`.
  [[nodiscard]] PfeView view(Instant at, const TraceWords& words) const;

  [[nodiscard]] const Parameters& parameters() const { return parameters_; }
  /// Returns the use of each instruction since the start, and the code without a price.
  [[nodiscard]] const microcode::AccessMeter& accesses() const { return machine_.accesses(); }
  /// Packets inside: waiting, in work, held or on their way out.
  [[nodiscard]] uint32_t packets_inside() const {
    return reorder_.inside_count() + static_cast<uint32_t>(egress_.size());
  }
  /// Returns whether no packet is inside and no thread waits or runs.
  [[nodiscard]] bool is_idle() const {
    return packets_inside() == 0 && timers_waiting_.empty() && dispatch_.busy_count() == 0;
  }
  /// Starts no timer thread before `until`: for long gaps in which there is nothing to do. A
  /// program that is then late runs each of its timers once.
  void rest_timers(Instant until);
  /// Starts the thread that sends the program's final packets, if it has any, as LiveCore::stop().
  void stop();

 protected:
  /// @pre check(parameters).
  PfeCore(EventCore& core, const Parameters& parameters, memory::SharedMemory& memory,
          PfeSink& sink);
  ~PfeCore() = default;

  // The program's functions, called when the machine is ready for them.
  virtual void program_begin_burst() = 0;
  virtual void program_process() = 0;
  virtual void program_run_timers(Instant now) = 0;
  [[nodiscard]] virtual Instant program_next_due() const = 0;
  virtual void program_stop() = 0;

  /// Call it once, when the program exists.
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
  struct FabricEvent final : EventTarget {
    explicit FabricEvent(PfeCore& owner) : pfe(owner) {}
    void on_event(uint64_t) override;
    PfeCore& pfe;
  };
  struct EgressEvent final : EventTarget {
    explicit EgressEvent(PfeCore& owner) : pfe(owner) {}
    void on_event(uint64_t argument) override;
    PfeCore& pfe;
  };
  struct PortEvent final : EventTarget {
    explicit PortEvent(PfeCore& owner) : pfe(owner) {}
    void on_event(uint64_t) override;
    PfeCore& pfe;
  };
  ModelThread& new_timer_thread() override;
  void thread_paused(ModelThread& thread) override;
  void thread_ended(ModelThread& thread) override;

  [[nodiscard]] ModelThread& take_thread(bool has_packet);
  void free_thread(ModelThread& thread);
  /// Assigns free threads to waiting timers and packets.
  void dispatch();
  void start_timer(ModelThread& thread);
  void start_packet();
  void take_ppe_threads(ModelThread& thread, uint32_t count);
  void give_ppe_threads(ModelThread& thread);
  /// Sends the packets of a packet's thread that has ended and whose turn has come.
  void leave(ModelThread& thread);
  void forward_packet(const ModelThread& thread);
  void send_outbox(ModelThread& thread);
  // The egress side: pfe_egress.cc.
  void depart(EgressPacket packet);
  void start_egress();
  void end_egress(uint32_t thread_number);
  void leave_port();
  void run_due_timers();
  // Called only if trace_ is on.
  void trace_arrival(const ArrivedPacket& packet, std::span<const std::byte> stored) const;
  void trace_refusal(uint64_t number, const char* why) const;
  void trace_start(const ModelThread& thread) const;
  void trace_end(const ModelThread& thread, bool held) const;
  void trace_departure(const ModelThread& thread, std::span<const std::byte> stored,
                       uint32_t size_bytes, std::span<const Endpoint> destinations) const;
  [[nodiscard]] static ThreadView view_of(const ModelThread& thread, const TraceWords& words);

  /// Adds the thread's work to the resources. @param for_packet False: a timer started it.
  void note_span(const ModelThread& thread, bool for_packet);
  /// Adds the time since active_since_.
  void note_active(OccupancySeries& series) const;
  void fill_counts(Report& report) const;
  void fill_instructions(Report& report) const;
  /// @param active Time with a thread at work, up to now.
  void fill_resources(Report& report, OccupancySeries active) const;
  void fill_banks(Report& report) const;

  EventCore& core_;
  const Parameters parameters_;
  PfeSink& sink_;
  AvailabilityDispatch dispatch_;
  ReorderEngine reorder_;
  IngressEvent ingress_event_{*this};
  TimerEvent timer_event_{*this};

  std::deque<ArrivedPacket> waiting_;  ///< In order of arrival.
  uint64_t ready_count_ = 0;           ///< Packets in waiting_ that have passed the ingress.
  // Packets on their way out, in order. The first egress_sent_count_ are at the port or were, the
  // first egress_started_count_ have had a thread.
  struct EgressPass {
    uint32_t thread;
    uint64_t packet;  ///< Counts packets from the first that ever left.
  };
  const bool has_egress_;
  Carrier ports_in_;
  Carrier fabric_;
  Carrier ports_out_;
  FabricEvent fabric_event_{*this};
  EgressEvent egress_event_{*this};
  PortEvent port_event_{*this};
  std::deque<EgressPacket> egress_;
  std::vector<EgressPass> egress_threads_;  ///< In work.
  uint64_t egress_started_count_ = 0;
  uint64_t egress_sent_count_ = 0;
  uint64_t egress_ready_count_ = 0;  ///< Through the fabric, without a thread.
  uint64_t egress_left_count_ = 0;   ///< Packets that have left. Never reset.

  std::deque<ModelThread*> timers_waiting_;
  std::vector<std::unique_ptr<ModelThread>> threads_;  ///< All ever made, indexed by number.
  std::vector<uint32_t> free_;                         ///< Numbers of unused threads.
  std::vector<uint32_t> leaving_;                      ///< Scratch of thread_ended().
  uint64_t arrival_count_ = 0;                         ///< Never reset: it names packets.
  Tracer trace_;
  const TraceWords* words_ = nullptr;  ///< Set when trace_ is on.
  bool dispatching_ = false;
  Instant timers_armed_at_ = Instant::never();
  Instant timers_rest_until_;

  // Measured since `measured_from_`.
  Instant measured_from_;
  Report counted_;  ///< Counts of this object; report() fills in the rest.
  LatencyHistogram latency_;
  LatencyHistogram adding_;
  OccupancySeries threads_used_;
  OccupancySeries issue_used_;
  OccupancySeries banks_used_;
  OccupancySeries crossbar_used_;
  /// The part of the resources' work that timer threads had.
  struct TimerWork {
    Duration threads;
    Duration issue;
    Duration banks;
    Duration crossbar;
  };
  TimerWork timer_work_;  ///< Until stop().
  TimerWork stop_work_;   ///< From then on.
  bool is_stopping_ = false;
  std::vector<Duration> bank_timer_busy_at_stop_;  ///< Shape [bank_count]; empty until stop().
  Instant active_since_;
  OccupancySeries active_;  ///< Time with a thread at work, up to active_since_.
  /// The machine's counters at `measured_from_`.
  struct Mark {
    ModelMachineCounters machine;
    MemoryTiming::Counters memory;
    ModelMachine::LoopCounters loops;
    ModelMachine::XtxnCounts xtxns{};
    std::vector<Duration> bank_busy;
    std::vector<Duration> bank_timer_busy;
    std::vector<uint64_t> marks;
    uint64_t held = 0;
    uint64_t overflows = 0;
  };
  [[nodiscard]] Mark mark_now() const;
  Mark mark_;
};

/// A PFE with its program `P`, which has the functions that the live core calls: begin_burst(),
/// process(m), run_timers(m, now) and next_due().
template <class P>
class Pfe final : public PfeCore {
 public:
  Pfe(EventCore& core, const Parameters& parameters, memory::SharedMemory& memory, P program,
      PfeSink& sink)
      : PfeCore(core, parameters, memory, sink), program_(std::move(program)) {
    if constexpr (requires { P::kName; })
      machine_.access_meter().set_program(std::string(P::kName));
    arm_timers();
  }

  [[nodiscard]] P& program() { return program_; }

 private:
  void program_begin_burst() override { program_.begin_burst(); }
  void program_process() override { program_.process(machine_); }
  void program_run_timers(Instant now) override { program_.run_timers(machine_, now); }
  [[nodiscard]] Instant program_next_due() const override { return program_.next_due(); }
  void program_stop() override {
    if constexpr (requires { program_.stop(machine_); }) program_.stop(machine_);
  }

  P program_;
};

}  // namespace tributary::engine
