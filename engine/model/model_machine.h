// SPDX-License-Identifier: Apache-2.0
/// @file
/// The machine that runs packet programs in virtual time: PPE threads whose instructions take time
/// and whose XTXNs wait for the crossbar, the banks and the memory behind them. See docs/model.md.
///
/// Threads: One; a "thread" here is a PPE's.
/// Errors:  A broken program is a bug, as in tests/engine/step_machine.h: it ends a packet twice,
///          reads past it, abandons an issued XTXN or awaits it in another thread.
/// Memory:  Grows to the peak number of threads, then stays (exact: one object for each post).
/// Tests:   tests/engine/model/model_machine_test.cc, tests/engine/model/aggregation_test.cc
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <source_location>
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
#include "microcode/access_meter.h"
#include "microcode/machine.h"
#include "microcode/metered_head.h"

namespace tributary::engine {

/// The owner of the threads. It gives them packets and PPEs, and takes the packets that they send.
class ThreadKeeper {
 public:
  /// Returns a thread for a timer that starts at the present time. It is not on a PPE yet.
  virtual ModelThread& new_timer_thread() = 0;
  /// Called when the thread waits for a reply.
  virtual void thread_paused(ModelThread& thread) = 0;
  /// Called when the thread's last instruction ends.
  virtual void thread_ended(ModelThread& thread) = 0;

 protected:
  ~ThreadKeeper() = default;
};

/// Counts the programs' decisions. A packet of train k counts k times.
struct ModelMachineCounters {
  uint64_t forwarded = 0;
  uint64_t dropped = 0;
  uint64_t sent = 0;
  uint64_t sent_no_room = 0;   ///< Not sent: the packet buffer was full.
  uint64_t sent_too_long = 0;  ///< Not sent: longer than packet_bytes_max.
};

/// Each thread has its own clock: instruction() advances it, and an XTXN is issued at it.
///
/// - `exact`: an issued XTXN is an event. At its time the target serves it (runs the service) and
///   takes the bank's time, in order of arrival. The reply is another event.
/// - `burst`: both happen when the thread issues the XTXN, and the reply is the only event.
/// Both serve every service whole, so both are interleavings that microcode/machine.h allows.
/// A sent payload is copied into the packet buffer, so the program may change it at once.
///
/// Elided payloads: a packet larger than its stored bytes is added without touching a lane. Its
/// thread touches no lane and stores only the first kHeadBytes bytes of each payload that it sends.
/// Until some payload has been added, this holds for all other threads, too. Times stay the same.
/// One machine may receive packets with and without payload, but one block may not.
class ModelMachine {
 public:
  static constexpr bool kSuspends = true;

  ModelMachine(EventCore& core, const Parameters& parameters, const memory::SharedMemory& memory,
               ThreadKeeper& keeper);
  ~ModelMachine();

  // --- For the engine ----------------------------------------------------------------------------

  /// Starts a packet's thread by calling `body`. @pre thread.has_packet.
  template <class F>
  void start_packet(ModelThread& thread, F&& body) {
    begin_start(&thread);
    body();
    end_start(&thread);
  }
  /// Calls `body`, which may start threads without a packet. The keeper supplies each ModelThread.
  template <class F>
  void start_timers(F&& body) {
    begin_start(nullptr);
    body();
    end_start(nullptr);
  }
  /// Executes the instructions for the headers that a port has removed.
  void parse_headers(ModelThread& thread);
  /// Executes the instructions of the egress pass.
  void pass_egress(ModelThread& thread);
  /// Runs the thread until it waits or ends. @pre it has its PPE.
  void run(ModelThread& thread);

  /// Writes the threads' later steps to `trace`. @param words Must outlive the machine.
  void set_trace(const Tracer& trace, const TraceWords& words) {
    trace_ = trace;
    words_ = &words;
  }

  [[nodiscard]] PacketStore& packets() { return packets_; }
  void set_elided() { elided_ = true; }
  /// Returns the number of threads whose hash deletion has freed memory from which others may still
  /// send: the reply is on its way.
  [[nodiscard]] uint32_t deletes_answered() const { return deletes_answered_; }
  [[nodiscard]] const MemoryTiming& memory_timing() const { return timing_; }
  /// Returns the number of reservations, of banks and of issue slots, beyond the ledgers' reach.
  [[nodiscard]] uint64_t overflow_count() const;
  [[nodiscard]] const ModelMachineCounters& counters() const { return counters_; }

  /// Returns the measured instructions, and the code without a price.
  [[nodiscard]] const microcode::AccessMeter& accesses() const { return *meter_; }
  struct LoopCounters {
    uint64_t add_instructions = 0;
    uint64_t gradients = 0;
    uint64_t finish_instructions = 0;
  };
  [[nodiscard]] const LoopCounters& loops() const { return loops_; }
  /// Counts requests by XtxnKind. A turn of the payload loop is one kAdd32.
  using XtxnCounts = std::array<uint64_t, microcode::kXtxnKindCount>;
  [[nodiscard]] const XtxnCounts& xtxns() const { return xtxns_; }

  // --- For programs: microcode::Machine ----------------------------------------------------------

  template <class F>
  class Reply;
  template <class F>
  class Post;
  class AccumulateLoop;
  class FinishLoop;

  using Place = std::source_location;  ///< The program's line; AccessMeter names it.

  [[nodiscard]] microcode::FramePool& frame_pool();
  [[nodiscard]] microcode::ThreadControl& thread_control();
  [[nodiscard]] microcode::AccessMeter& access_meter() { return *meter_; }
  void instruction(const microcode::Instruction& mark, const Place& place = Place::current());
  /// Returns when the current instruction began.
  [[nodiscard]] Instant now() const { return instruction_at_; }
  [[nodiscard]] Instant arrived_at() const { return packet().arrived_at; }

  [[nodiscard]] microcode::MeteredHead head(const Place& place = Place::current()) const;
  void write_head(uint32_t offset_bytes, std::span<const std::byte> bytes,
                  const Place& place = Place::current());
  void push_head(std::span<const std::byte> bytes, const Place& place = Place::current());
  void pop_head(uint32_t count, const Place& place = Place::current());
  [[nodiscard]] uint32_t packet_size() const { return packet().size_bytes; }
  [[nodiscard]] bool arrived_as_frame() const { return packet().layer == PacketLayer::kFrame; }
  [[nodiscard]] const Endpoint& source() const { return packet().source; }

  template <class F>
  auto issue(const microcode::Xtxn& xtxn, F&& service, const Place& place = Place::current()) {
    begin_xtxn(xtxn, place);
    return Reply<std::decay_t<F>>(*this, xtxn, std::forward<F>(service));
  }
  template <class F>
  void post(const microcode::Xtxn& xtxn, F&& service, const Place& place = Place::current());
  using ReadTail = TailRead<PacketStore>;
  using WriteTail = TailWrite<PacketStore>;
  [[nodiscard]] Reply<ReadTail> read_tail(uint32_t offset_bytes, std::span<std::byte> to,
                                          const Place& place = Place::current());
  [[nodiscard]] Reply<WriteTail> write_tail(uint32_t offset_bytes, std::span<const std::byte> bytes,
                                            const Place& place = Place::current());
  [[nodiscard]] AccumulateLoop accumulate(int32_t* lanes, uint32_t offset_bytes, uint32_t count,
                                          microcode::Accumulate how,
                                          microcode::LaneWidth width = microcode::LaneWidth::k32);
  [[nodiscard]] FinishLoop finish_lanes(int32_t* lanes, uint32_t count,
                                        microcode::ResultLanes result = {});

  void send(std::span<const std::byte> payload, std::span<const Endpoint> destinations);
  void send_small(std::span<const std::byte> payload, const Endpoint& destination);
  [[nodiscard]] static bool is_send_crowded() { return false; }
  void release_payload(std::span<const std::byte>) {}  // send() has copied it.
  void forward(const Place& place = Place::current());
  void drop(uint32_t reason, const Place& place = Place::current());

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
  void begin_xtxn(const microcode::Xtxn& xtxn, const Place& place);
  void end_packet(const Place& place);
  [[nodiscard]] OutgoingPacket* add_outgoing(std::span<const std::byte> payload, bool whole);
  /// Returns whether the sums that the thread handles can hold values.
  [[nodiscard]] bool has_values(const ModelThread& thread) const;

  /// Returns when `count` instructions that a thread begins at `at` are done.
  [[nodiscard]] Instant run_instructions(ModelThread& thread, Instant at, uint32_t count) {
    thread.instructions += count;
    const Instant done_at = at + instruction_time_ * count;
    if (issue_slots_.empty()) [[likely]]
      return done_at;
    return std::max(done_at, issue(thread, at, count));
  }
  /// Returns when the PPEs of a thread have had issue slots for `count` instructions.
  [[nodiscard]] Instant issue(const ModelThread& thread, Instant at, uint32_t count);
  /// Times a request and records its cost.
  template <class Access>
  [[nodiscard]] MemoryReply price(ModelThread& thread, Access&& access);
  [[nodiscard]] MemoryReply price(ModelThread& thread, const microcode::Xtxn& xtxn, Instant at);
  [[nodiscard]] MemoryReply price(ModelThread& thread, memory::RmwKind kind, const void* target,
                                  uint32_t size_bytes, Instant at);
  // Called only if trace_ is on.
  void trace_instruction(const microcode::Instruction& mark) const;
  void trace_request(const ModelThread& thread, const RequestView& request, bool wants_reply) const;
  void trace_drop(uint32_t reason) const;
  /// Books the wait like account() and writes it to the trace.
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
  std::vector<SlotLedger> issue_slots_;  ///< Shape [ppe_count]; empty if never short.
  std::vector<std::unique_ptr<microcode::FramePool>> frames_;
  ResumeEvent resume_{*this};
  RequestEvent request_{*this};
  std::vector<std::unique_ptr<ModelRequest>> posts_;  ///< Exact only: posts in progress.

  ModelThread* current_ = nullptr;
  bool starting_ = false;
  Instant instruction_at_;
  bool elided_ = false;      ///< A packet without its payload has arrived.
  bool lanes_seen_ = false;  ///< A payload has been added.
  uint32_t deletes_answered_ = 0;

  Tracer trace_;
  const TraceWords* words_ = nullptr;  ///< Set when trace_ is on.

  ModelMachineCounters counters_;
  const std::unique_ptr<microcode::AccessMeter> meter_ = std::make_unique<microcode::AccessMeter>();
  LoopCounters loops_;
  XtxnCounts xtxns_{};
};

/// An XTXN in progress. It lies where its issuer keeps it and never moves.
class ModelRequest {
 public:
  ModelRequest(const ModelRequest&) = delete;
  ModelRequest& operator=(const ModelRequest&) = delete;
  virtual ~ModelRequest() { TRIB_REQUIRE(complete_ && is_awaited_, microcode::rule::kAwait); }

  /// Returns whether the reply has come by the thread's own clock. Ends the thread's instruction.
  [[nodiscard]] bool await_ready() noexcept {
    is_awaited_ = true;
    thread_.position.reply = view().what;
    machine_.meter_->await(thread_.position);
    return complete_ && done_at_ <= thread_.local_at;
  }
  void await_suspend(std::coroutine_handle<>) { machine_.wait_for(*this); }

  /// Describes the request for people.
  [[nodiscard]] virtual RequestView view() const = 0;

 protected:
  ModelRequest(ModelMachine& machine, microcode::XtxnKind kind);

  /// Does the step that is due at `at`: at the issue, or at the previous next_at_. Sets next_at_.
  /// @return true if next_at_ is the time of the reply, false if it is the time of the next step.
  virtual bool advance(Instant at) = 0;
  /// Books the thread's wait from `since` to `until` under its causes.
  virtual void account(Instant since, Instant until) = 0;

  /// Burst: serves the request at once, and a long loop in parts. Exact: makes it an event.
  void submit();
  void mark_as_post() { is_post_ = is_awaited_ = true; }
  void complete_empty() { complete_ = true, done_at_ = thread_.local_at; }

  ModelMachine& machine_;
  ModelThread& thread_;
  Instant next_at_;

  // For loops: access to parts of the machine.
  void count_add() {
    machine_.xtxns_[static_cast<uint32_t>(microcode::XtxnKind::kAdd32)] += thread_.packet.train;
  }
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
  /// Burst: a loop runs this many steps ahead before others get their turn. A larger number means
  /// fewer events, but later threads find more of the banks' time taken; see docs/model.md.
  static constexpr uint32_t kStepsAhead = 32;

  /// Burst: advances until the reply is due or kStepsAhead are done. @return true if it is due.
  [[nodiscard]] bool advance_far();

  bool is_post_ = false;
  bool is_awaited_ = false;  ///< Or a post.
  bool answered_ = false;    ///< advance() has returned true; the reply is on its way.
  bool complete_ = false;
  Instant done_at_;
};

/// The result of issue(). co_await it for the value that `F` returned at the target.
template <class F>
class [[nodiscard]] ModelMachine::Reply final : public ModelRequest {
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
      microcode::run_service(service_);
    } else {
      value_.emplace(microcode::run_service(service_));
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

inline auto ModelMachine::read_tail(uint32_t offset_bytes, std::span<std::byte> to,
                                    const Place& place) -> Reply<ReadTail> {
  TRIB_REQUIRE_AT(arrived_as_frame() && to.size() <= microcode::kTailChunkBytes,
                  microcode::rule::kReadTail, place);
  const ReadTail read{&packets_, packet().stored, offset_bytes, to};
  return issue(read.request(), read, place);
}
inline auto ModelMachine::write_tail(uint32_t offset_bytes, std::span<const std::byte> bytes,
                                     const Place& place) -> Reply<WriteTail> {
  TRIB_REQUIRE_AT(!current().packet_ended, microcode::rule::kEndOnce, place);
  TRIB_REQUIRE_AT(arrived_as_frame() && bytes.size() <= microcode::kTailChunkBytes &&
                      uint64_t{head(place).size()} + offset_bytes + bytes.size() <= packet_size(),
                  microcode::rule::kWriteTail, place);
  const WriteTail write{&packets_, packet().stored, offset_bytes, bytes};
  return issue(write.request(), write, place);
}

/// A request without a reply. Exact only; burst serves it at once.
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
    microcode::run_service(service_);
    return true;
  }
  void account(Instant, Instant) override {}

  const microcode::Xtxn xtxn_;
  F service_;
};

template <class F>
void ModelMachine::post(const microcode::Xtxn& xtxn, F&& service, const Place& place) {
  begin_xtxn(xtxn, place);
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
    microcode::run_service(service);
  }
}

/// The paper's aggregation loop (§4): the payload in the head first, then the tail, 64 bytes at a
/// time. Gradients that do not fill 64 bytes of the buffer stay in local memory for the next turn.
class [[nodiscard]] ModelMachine::AccumulateLoop final : public ModelRequest {
 public:
  AccumulateLoop(ModelMachine& machine, int32_t* lanes, uint32_t offset_bytes, uint32_t count,
                 microcode::Accumulate how, microcode::LaneWidth width);
  static void await_resume() {}
  [[nodiscard]] RequestView view() const override { return {"add loop", lanes_, left_count_ * 4}; }

 private:
  bool advance(Instant at) override;
  void account(Instant since, Instant until) override;
  /// Fetches the next gradients into local memory and executes the loop's instructions for them.
  void load(Instant at);
  /// Adds them: makes the request and changes the lanes.
  void add(Instant at);
  void add_values();

  int32_t* lanes_;
  const std::byte* payload_;  ///< Null if elided.
  memory::Address address_;   ///< The next lane.
  uint32_t bank_;             ///< The bank that serves `address_`.
  uint32_t left_count_;
  uint32_t loaded_bytes_ = 0;  ///< In local memory, not added yet.
  uint32_t piece_count_ = 0;   ///< Gradients to add next; 0: load some.
  const microcode::Accumulate how_;
  const uint8_t gradient_bytes_;  ///< On the wire.
  LatencyParts spent_;
};

/// The paper's result loop (§4), 256 bytes at a time.
class [[nodiscard]] ModelMachine::FinishLoop final : public ModelRequest {
 public:
  FinishLoop(ModelMachine& machine, int32_t* lanes, uint32_t count, microcode::ResultLanes result);
  static void await_resume() {}
  [[nodiscard]] RequestView view() const override {
    return {"result loop", lanes_, left_count_ * 4};
  }

 private:
  bool advance(Instant at) override;
  void account(Instant since, Instant until) override;

  int32_t* lanes_;
  std::byte* to_;  ///< The next byte of the payload, at `lanes_` or before it.
  uint32_t left_count_;
  bool reading_ = false;
  const microcode::ResultLanes result_;
  const bool has_values_;
  LatencyParts spent_;
};

static_assert(microcode::Machine<ModelMachine>);

}  // namespace tributary::engine
