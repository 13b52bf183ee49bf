// SPDX-License-Identifier: Apache-2.0
/// @file
/// The machine that packet programs run on in virtual time: PPE threads whose instructions take
/// time and whose XTXNs wait for the crossbar, the banks and the memory behind them.
///
/// Model:   A thread has a clock of its own: instruction() moves it on, and an XTXN is issued at
/// it.
///          In `exact` an issued XTXN is an event: at its time the target serves it (runs the
///          service) and its bank's time is taken, in order of arrival; another event is the reply.
///          In `burst` both happen as the thread issues it, and a reply is the only event.
///          accumulate() is the paper's loop (§4): 64 bytes of tail, instructions, an add request
///          for each 64 bytes of the buffer; finish_lanes() the one over 256 bytes of result. A
///          burst runs a whole loop ahead, its requests reserving the banks' time.
///          Every service is served whole, so both are interleavings that microcode/machine.h
///          allows.
/// Elided:  A packet that is larger than its stored bytes is added without touching a lane. While
/// no
///          payload has been added at all, no lane is touched anywhere, and results are stored as
///          their first kHeadBytes bytes; times stay the same. Packets with and without payload may
///          come to one machine, but not to one block.
/// Sent:    A payload is copied when it is sent (into the packet buffer, as the result loop does in
///          Trio), so it may change at once.
/// Threads: One; a "thread" here is a PPE's.
/// Errors:  As tests/engine/step_machine.h: a program that ends a packet twice, reads past it,
/// gives
///          an issued XTXN up or waits for it in another thread is a bug.
/// Memory:  Grows to the most threads at once; then nothing (exact: one object for each post).
/// Tests:   tests/engine/model/model_machine_test.cc, leaf_loop_test.cc
#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/event_core.h"
#include "base/trace.h"
#include "engine/model/memory_timing.h"
#include "engine/model/model_thread.h"
#include "engine/model/packet_store.h"
#include "engine/model/parameters.h"
#include "engine/model/slot_ledger.h"
#include "engine/model/trace_words.h"
#include "microcode/machine.h"

namespace tributary::engine {

/// Who looks after threads: gives them packets and PPEs, and takes what they send.
class ThreadKeeper {
 public:
  /// A thread for a timer that starts now; not on a PPE yet.
  virtual ModelThread& new_timer_thread() = 0;
  /// The thread waits for a reply.
  virtual void thread_paused(ModelThread& thread) = 0;
  /// The thread's last instruction has ended, now.
  virtual void thread_ended(ModelThread& thread) = 0;

 protected:
  ~ThreadKeeper() = default;
};

/// What programs did, in packets that count k times in trains of k.
struct ModelMachineCounters {
  uint64_t forwarded = 0;
  uint64_t dropped = 0;
  uint64_t sent = 0;
  uint64_t sent_no_room = 0;   ///< Not sent: the packet buffer was full.
  uint64_t sent_too_long = 0;  ///< Not sent: longer than packet_bytes_max.
};

class ModelMachine {
 public:
  static constexpr bool kSuspends = true;

  ModelMachine(EventCore& core, const Parameters& parameters, const memory::SharedMemory& memory,
               ThreadKeeper& keeper);
  ~ModelMachine();

  // --- For the engine ----------------------------------------------------------------------------

  /// `body` starts the thread of a packet. @pre thread.has_packet.
  template <class F>
  void start_packet(ModelThread& thread, F&& body) {
    begin_start(&thread);
    body();
    end_start(&thread);
  }
  /// `body` starts any number of threads without a packet; each asks the keeper for a ModelThread.
  template <class F>
  void start_timers(F&& body) {
    begin_start(nullptr);
    body();
    end_start(nullptr);
  }
  /// Executes the instructions for the headers that a port has taken off.
  void parse_headers(ModelThread& thread);
  /// Runs the thread from now on, until it waits or ends. @pre it has its PPE.
  void run(ModelThread& thread);

  /// From now on it tells what threads do. @param words Must outlive the machine.
  void set_trace(const Tracer& trace, const TraceWords& words) {
    trace_ = trace;
    words_ = &words;
  }

  [[nodiscard]] PacketStore& packets() { return packets_; }
  [[nodiscard]] bool elided() const { return elided_; }
  void set_elided() { elided_ = true; }
  /// Whether sums may hold something.
  [[nodiscard]] bool has_lanes() const { return !elided_ || lanes_seen_; }
  /// Threads that have freed something others may still send from (a hash deletion's reply is on
  /// its way to them).
  [[nodiscard]] uint32_t deletes_answered() const { return deletes_answered_; }
  [[nodiscard]] const MemoryTiming& memory_timing() const { return timing_; }
  [[nodiscard]] const ModelMachineCounters& counters() const { return counters_; }

  struct MarkCount {
    const char* name;
    uint64_t executed;
  };
  /// Instructions by mark, in order of first use.
  [[nodiscard]] const std::vector<MarkCount>& marks() const { return marks_; }
  struct LoopCounters {
    uint64_t add_instructions = 0;
    uint64_t gradients = 0;
    uint64_t finish_instructions = 0;
  };
  [[nodiscard]] const LoopCounters& loops() const { return loops_; }

  // --- For programs: microcode::Machine ----------------------------------------------------------

  template <class F>
  class Reply;
  template <class F>
  class Post;
  class AccumulateLoop;
  class FinishLoop;

  [[nodiscard]] microcode::FramePool& frame_pool();
  [[nodiscard]] microcode::ThreadControl& thread_control();
  void instruction(const microcode::Instruction& mark);
  /// When the present instruction began.
  [[nodiscard]] Instant now() const { return instruction_at_; }

  [[nodiscard]] microcode::PacketHead head() const;
  [[nodiscard]] uint32_t packet_size() const { return packet().size_bytes; }
  [[nodiscard]] bool arrived_as_frame() const { return packet().layer == PacketLayer::kFrame; }
  [[nodiscard]] const Endpoint& source() const { return packet().source; }

  template <class F>
  auto issue(const microcode::Xtxn& xtxn, F&& service) {
    return Reply<std::decay_t<F>>(*this, xtxn, std::forward<F>(service));
  }
  template <class F>
  void post(const microcode::Xtxn& xtxn, F&& service);
  [[nodiscard]] AccumulateLoop accumulate(int32_t* lanes, uint32_t offset_bytes, uint32_t count,
                                          microcode::Accumulate how);
  [[nodiscard]] FinishLoop finish_lanes(int32_t* lanes, uint32_t count);

  void send(std::span<const std::byte> payload, std::span<const Endpoint> destinations);
  void send_small(std::span<const std::byte> payload, const Endpoint& destination);
  void release_payload(std::span<const std::byte>) {}  // Payloads are copied when they are sent.
  void forward();
  void drop(uint32_t reason);

 private:
  friend class ModelRequest;

  struct ResumeEvent final : EventTarget {
    explicit ResumeEvent(ModelMachine& owner) : machine(owner) {}
    void on_event(uint64_t argument) override;
    ModelMachine& machine;
  };
  struct RequestEvent final : EventTarget {
    explicit RequestEvent(ModelMachine& owner) : machine(owner) {}
    void on_event(uint64_t argument) override;
    ModelMachine& machine;
  };

  void begin_start(ModelThread* thread);
  void end_start(const ModelThread* thread);
  [[nodiscard]] ModelThread& current() const {
    TRIB_ASSERT(current_ != nullptr);
    return *current_;
  }
  [[nodiscard]] const ArrivedPacket& packet() const {
    TRIB_ASSERT(current().has_packet);
    return current_->packet;
  }
  void end_packet();
  [[nodiscard]] OutgoingPacket* add_outgoing(std::span<const std::byte> payload, bool whole);

  /// When `count` instructions are done that a thread begins at `at`.
  [[nodiscard]] Instant run_instructions(ModelThread& thread, Instant at, uint32_t count) {
    thread.instructions += count;
    const Instant done_at = at + instruction_time_ * count;
    if (issue_slots_.empty()) [[likely]]
      return done_at;
    return std::max(done_at, issue(thread, at, count));
  }
  /// When the PPEs of a thread have had issue slots for `count` instructions.
  [[nodiscard]] Instant issue(const ModelThread& thread, Instant at, uint32_t count);
  /// Prices a request and notes what it took.
  template <class Access>
  [[nodiscard]] MemoryReply price(ModelThread& thread, Access&& access);
  [[nodiscard]] MemoryReply price(ModelThread& thread, const microcode::Xtxn& xtxn, Instant at);
  [[nodiscard]] MemoryReply price(ModelThread& thread, memory::RmwKind kind, const void* target,
                                  uint32_t size_bytes, Instant at);
  // What a trace is told; trace_ is on.
  void trace_instruction(const microcode::Instruction& mark) const;
  void trace_request(const ModelThread& thread, const RequestView& request, bool wants_reply) const;
  void trace_drop(uint32_t reason) const;
  /// Books the wait as account() does.
  void account_with_trace(ModelThread& thread, Instant until) const;

  void wait_for(ModelRequest& request);
  void on_request(ModelRequest& request);
  void schedule(Instant at, EventTarget& target, const void* argument);

  EventCore& core_;
  const Parameters parameters_;
  ThreadKeeper& keeper_;
  const bool exact_;
  const Duration instruction_time_;
  MemoryTiming timing_;
  PacketStore packets_;
  std::vector<SlotLedger> issue_slots_;  ///< Shape [ppe_count]; empty where PPEs are never short.
  std::vector<std::unique_ptr<microcode::FramePool>> frames_;
  ResumeEvent resume_{*this};
  RequestEvent request_{*this};
  std::vector<std::unique_ptr<ModelRequest>> posts_;  ///< Exact: on their way.

  ModelThread* current_ = nullptr;
  bool starting_ = false;
  Instant instruction_at_;
  bool elided_ = false;      ///< A packet without its payload has come.
  bool lanes_seen_ = false;  ///< A payload has been added.
  uint32_t deletes_answered_ = 0;

  Tracer trace_;
  const TraceWords* words_ = nullptr;  ///< Set when trace_ is on.

  ModelMachineCounters counters_;
  std::vector<MarkCount> marks_;
  LoopCounters loops_;
};

/// An XTXN on its way. It lies where its issuer keeps it and never moves.
class ModelRequest {
 public:
  ModelRequest(const ModelRequest&) = delete;
  ModelRequest& operator=(const ModelRequest&) = delete;
  virtual ~ModelRequest() { TRIB_ASSERT(complete_); }  // Issued and given up: that is post().

  /// Ready when the reply has come by the thread's own clock.
  [[nodiscard]] bool await_ready() const noexcept {
    return complete_ && done_at_ <= thread_.local_at;
  }
  void await_suspend(std::coroutine_handle<>) { machine_.wait_for(*this); }

  /// For people.
  [[nodiscard]] virtual RequestView view() const = 0;

 protected:
  ModelRequest(ModelMachine& machine, microcode::XtxnKind kind);

  /// What is due at `at`, where next_at() last said, or at the issue.
  /// @return whether next_at() is now when the reply is there; else it is when to call again.
  virtual bool advance(Instant at) = 0;
  /// The thread has waited for this from `since` to `until`; what was it for?
  virtual void account(Instant since, Instant until) = 0;

  /// Burst: serves the request at once, a long loop in parts. Exact: makes it an event. The derived
  /// class calls it when it is ready to advance().
  void submit();
  void mark_as_post() { is_post_ = true; }
  void complete_empty() { complete_ = true, done_at_ = thread_.local_at; }

  ModelMachine& machine_;
  ModelThread& thread_;
  Instant next_at_;

  /// For loops: their parts of the machine.
  [[nodiscard]] const Parameters& parameters() const { return machine_.parameters_; }
  [[nodiscard]] ModelMachine::LoopCounters& loop_counters() { return machine_.loops_; }
  [[nodiscard]] MemoryTiming& timing() { return machine_.timing_; }
  [[nodiscard]] Instant run_instructions(Instant at, uint32_t count) {
    return machine_.run_instructions(thread_, at, count);
  }
  [[nodiscard]] MemoryReply price(const microcode::Xtxn& xtxn, Instant at) {
    return machine_.price(thread_, xtxn, at);
  }
  [[nodiscard]] MemoryReply price(memory::RmwKind kind, const void* target, uint32_t size_bytes,
                                  Instant at) {
    return machine_.price(thread_, kind, target, size_bytes, at);
  }

 private:
  friend class ModelMachine;
  /// Burst: a loop runs so many steps ahead before others get their turn. The further, the fewer
  /// events, and the more a thread that starts later finds the banks taken; see docs/model.md.
  static constexpr uint32_t kStepsAhead = 32;

  /// Burst: advances until the reply is there or kStepsAhead are done. @return which.
  [[nodiscard]] bool advance_far();

  bool is_post_ = false;
  bool answered_ = false;  ///< advance() has said so; the reply is on its way.
  bool complete_ = false;
  Instant done_at_;
};

/// What issue() returns: co_await it for what `F` returned at the target.
template <class F>
class ModelMachine::Reply final : public ModelRequest {
 public:
  using Value = std::invoke_result_t<F&>;

  template <class Service>
  Reply(ModelMachine& machine, const microcode::Xtxn& xtxn, Service&& service)
      : ModelRequest(machine, xtxn.kind), xtxn_(xtxn), service_(std::forward<Service>(service)) {
    submit();
  }
  Value await_resume() {
    if constexpr (!std::is_void_v<Value>) return std::move(*value_);
  }
  [[nodiscard]] RequestView view() const override {
    return {to_string(xtxn_.kind), xtxn_.target, xtxn_.size_bytes};
  }

 private:
  struct Nothing {};

  bool advance(Instant at) override {
    reply_ = price(xtxn_, at);
    next_at_ = reply_.done_at;
    if constexpr (std::is_void_v<Value>) {
      service_();
    } else {
      value_.emplace(service_());
    }
    return true;
  }
  void account(Instant since, Instant until) override {
    const Duration queued = std::min(until - since, reply_.queued);
    thread_.parts[LatencyPart::kBankQueue] += queued;
    thread_.parts[reply_.part] += until - since - queued;
  }

  const microcode::Xtxn xtxn_;
  F service_;
  MemoryReply reply_{};
  std::optional<std::conditional_t<std::is_void_v<Value>, Nothing, Value>> value_;
};

/// A request that wants no reply; exact only, where it is served later.
template <class F>
class ModelMachine::Post final : public ModelRequest {
 public:
  template <class Service>
  Post(ModelMachine& machine, const microcode::Xtxn& xtxn, Service&& service)
      : ModelRequest(machine, xtxn.kind), xtxn_(xtxn), service_(std::forward<Service>(service)) {
    mark_as_post();
    submit();
  }
  [[nodiscard]] RequestView view() const override {
    return {to_string(xtxn_.kind), xtxn_.target, xtxn_.size_bytes};
  }

 private:
  bool advance(Instant at) override {
    next_at_ = price(xtxn_, at).done_at;
    service_();
    return true;
  }
  void account(Instant, Instant) override {}

  const microcode::Xtxn xtxn_;
  F service_;
};

template <class F>
void ModelMachine::post(const microcode::Xtxn& xtxn, F&& service) {
  ModelThread& thread = current();
  const Duration stall = timing_.backpressure(xtxn.target, thread.local_at);
  thread.parts[LatencyPart::kBankQueue] += stall;
  thread.local_at = thread.local_at + stall;
  if (exact_) {
    posts_.push_back(
        std::make_unique<Post<std::decay_t<F>>>(*this, xtxn, std::forward<F>(service)));
  } else {
    if (trace_.on()) [[unlikely]] {
      trace_request(thread, {to_string(xtxn.kind), xtxn.target, xtxn.size_bytes}, false);
    }
    (void)price(thread, xtxn, thread.local_at);
    service();
  }
}

/// The paper's aggregation loop (§4): first what the head holds, then the tail, 64 bytes at a time.
/// What does not fill 64 bytes of the buffer stays in local memory for the next turn.
class ModelMachine::AccumulateLoop final : public ModelRequest {
 public:
  AccumulateLoop(ModelMachine& machine, int32_t* lanes, uint32_t offset_bytes, uint32_t count,
                 microcode::Accumulate how);
  static void await_resume() {}
  [[nodiscard]] RequestView view() const override { return {"add loop", lanes_, left_count_ * 4}; }

 private:
  bool advance(Instant at) override;
  void account(Instant since, Instant until) override;
  /// Brings the next gradients into local memory and executes the loop's instructions for them.
  void load(Instant at);
  /// Adds them: the request, and what it does to the lanes.
  void add(Instant at);
  void add_values();

  int32_t* lanes_;
  const std::byte* payload_;  ///< Null where it is elided.
  memory::Address address_;   ///< Of the next lane,
  uint32_t bank_;             ///< … and which bank has it.
  uint32_t left_count_;
  uint32_t loaded_bytes_ = 0;  ///< In local memory, not added yet.
  uint32_t piece_count_ = 0;   ///< Gradients to be added next; 0: load some.
  const microcode::Accumulate how_;
  LatencyParts spent_;
};

/// The paper's result loop (§4), 256 bytes at a time.
class ModelMachine::FinishLoop final : public ModelRequest {
 public:
  FinishLoop(ModelMachine& machine, int32_t* lanes, uint32_t count);
  static void await_resume() {}
  [[nodiscard]] RequestView view() const override {
    return {"result loop", lanes_, left_count_ * 4};
  }

 private:
  bool advance(Instant at) override;
  void account(Instant since, Instant until) override;

  int32_t* lanes_;
  uint32_t left_count_;
  bool reading_ = false;
  LatencyParts spent_;
};

static_assert(microcode::Machine<ModelMachine>);

}  // namespace tributary::engine
