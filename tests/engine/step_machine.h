// SPDX-License-Identifier: Apache-2.0
/// @file
/// The smallest suspending machine. It holds many PPE threads at once. Before every step a seeded
/// generator chooses which thread runs or which external transaction is served next. A program that
/// is right on this machine under many seeds does not depend on the order of its XTXNs.
///
/// Checks:  The process stops when a program asks for a packet it does not have, ends a packet
///          twice, reads past it, drops an issued XTXN, changes a payload that it has sent and
///          not released, or touches more in an instruction than its budget allows.
/// Threads: One; a "thread" here is a PPE's.
/// Memory:  For tests: it allocates freely.
/// Tests:   tests/engine/step_machine_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/endpoint.h"
#include "base/prng.h"
#include "base/time.h"
#include "engine/model/packet_buffer.h"
#include "engine/packet.h"
#include "microcode/access_meter.h"
#include "microcode/machine.h"
#include "microcode/metered_head.h"

namespace tributary::testing {

/// Every XTXN suspends its thread unless it is issued first and awaited later. Requests of one
/// thread to one target are served in the order of their issue, all others in any order
/// (microcode/machine.h). Time stands still unless set_now() moves it. Nothing has a cost in time.
///
/// accumulate() is the paper's chunk loop (§4): it takes the part in the head, then reads the tail
/// 64 bytes at a time. Each read and each addition is a request. finish_lanes() works in chunks of
/// 256 bytes.
class StepMachine {
 public:
  static constexpr bool kSuspends = true;

  struct Config {
    uint64_t seed = 0;
    uint32_t thread_count = 256;
    uint32_t packet_bytes_max = 32768;
  };

  /// A copy of a message that a program has sent.
  struct Sent {
    std::vector<std::byte> bytes;
    std::vector<Endpoint> destinations;
    bool small = false;  ///< Sent by send_small().
  };

  explicit StepMachine(const Config& config);
  ~StepMachine();

  // --- For tests ---------------------------------------------------------------------------------

  /// Starts the packet's thread by calling `body(machine)`. The thread does not run yet.
  /// @pre has_free_thread() and the packet fits.
  template <class F>
  void start(std::span<const std::byte> packet, const Endpoint& source, F&& body,
             engine::PacketLayer layer = engine::PacketLayer::kUdpPayload) {
    begin_start(packet, source, layer);
    body(*this);
    end_start();
  }
  /// Calls `body(machine)`, which may start any number of threads without a packet.
  template <class F>
  void start_timer(F&& body) {
    begin_start();
    body(*this);
    end_start();
  }

  /// Does one random step: a thread runs until it waits or ends, or one request is served.
  /// @return false if there was nothing to do, because every thread has ended.
  bool step();
  /// Steps until every thread has ended, then checks that no sent payload has changed.
  void run();

  void set_now(Instant now) { now_ = now; }
  [[nodiscard]] bool has_free_thread() const { return !free_.empty(); }
  [[nodiscard]] uint32_t threads_active() const {
    return static_cast<uint32_t>(threads_.size() - free_.size());
  }

  [[nodiscard]] const std::vector<Sent>& sent() const { return sent_; }
  /// Returns the sent messages and clears the list. The payloads are still checked for changes.
  [[nodiscard]] std::vector<Sent> take_sent() { return std::exchange(sent_, {}); }
  /// Returns the packets as the program forwarded them.
  [[nodiscard]] const std::vector<std::vector<std::byte>>& forwarded() const { return forwarded_; }
  [[nodiscard]] uint64_t dropped(uint32_t reason) const;
  /// Returns the number of packets whose thread ended without forwarding or dropping them.
  [[nodiscard]] uint64_t consumed() const { return consumed_; }

  [[nodiscard]] uint64_t instructions(const std::string& name) const;
  [[nodiscard]] uint64_t instructions_total() const { return instructions_total_; }
  [[nodiscard]] uint64_t xtxns(microcode::XtxnKind kind) const {
    return xtxns_[static_cast<size_t>(kind)];
  }
  /// Returns the deepest subroutine nesting of any thread so far.
  [[nodiscard]] uint32_t call_depth_max() const { return call_depth_max_; }
  [[nodiscard]] uint32_t threads_active_max() const { return threads_active_max_; }

  // --- For programs: microcode::Machine ----------------------------------------------------------

  class Request;
  template <class F>
  class Reply;
  class AccumulateLoop;
  class FinishLoop;

  [[nodiscard]] microcode::FramePool& frame_pool() { return frames_; }
  [[nodiscard]] microcode::ThreadControl& thread_control();
  [[nodiscard]] microcode::AccessMeter& access_meter() { return meter_; }
  using Place = std::source_location;
  void instruction(const microcode::Instruction& mark, const Place& place = Place::current());
  [[nodiscard]] Instant now() const { return now_; }
  /// Returns the time at which start() was called.
  [[nodiscard]] Instant arrived_at() const { return current().arrived_at; }

  [[nodiscard]] microcode::MeteredHead head(const Place& place = Place::current()) const;
  void write_head(uint32_t offset_bytes, std::span<const std::byte> bytes,
                  const Place& place = Place::current());
  void push_head(std::span<const std::byte> bytes, const Place& place = Place::current());
  void pop_head(uint32_t count, const Place& place = Place::current());
  [[nodiscard]] uint32_t packet_size() const;
  [[nodiscard]] bool arrived_as_frame() const;
  [[nodiscard]] const Endpoint& source() const;

  template <class F>
  auto issue(microcode::Xtxn xtxn, F&& service, const Place& place = Place::current()) {
    begin_xtxn(xtxn, place);
    return Reply<std::decay_t<F>>(*this, xtxn, std::forward<F>(service));
  }
  template <class F>
  void post(microcode::Xtxn xtxn, F&& service, const Place& place = Place::current()) {
    begin_xtxn(xtxn, place);
    add_post(xtxn, std::function<void()>(std::forward<F>(service)));
  }
  using ReadTail = engine::TailRead<engine::PacketBuffer>;
  using WriteTail = engine::TailWrite<engine::PacketBuffer>;
  [[nodiscard]] Reply<ReadTail> read_tail(uint32_t offset_bytes, std::span<std::byte> to,
                                          const Place& place = Place::current());
  [[nodiscard]] Reply<WriteTail> write_tail(uint32_t offset_bytes, std::span<const std::byte> bytes,
                                            const Place& place = Place::current());
  AccumulateLoop accumulate(int32_t* lanes, uint32_t offset_bytes, uint32_t count,
                            microcode::Accumulate how,
                            microcode::LaneWidth width = microcode::LaneWidth::k32);
  FinishLoop finish_lanes(int32_t* lanes, uint32_t count, microcode::ResultLanes result = {});

  void send(std::span<const std::byte> payload, std::span<const Endpoint> destinations);
  void send_small(std::span<const std::byte> payload, const Endpoint& destination);
  [[nodiscard]] static bool is_send_crowded() { return false; }
  void release_payload(std::span<const std::byte> payload);
  void forward(const Place& place = Place::current());
  void drop(uint32_t reason, const Place& place = Place::current());

 private:
  /// One PPE thread.
  struct ThreadState {
    microcode::ThreadControl control;
    uint64_t number = 0;  ///< Counts all started threads; 0: free.
    engine::PacketHandle packet;
    /// Local memory: the head is loaded behind the headroom.
    std::array<std::byte, engine::kHeadroomBytes + engine::kHeadBytes> lmem;
    uint32_t head_first = 0;
    uint32_t head_bytes = 0;
    [[nodiscard]] std::byte* head() { return lmem.data() + head_first; }
    /// Local memory of a leaf loop: gradients fetched but not added yet.
    std::array<std::byte, engine::kHeadroomBytes + engine::kHeadBytes + microcode::kTailChunkBytes>
        chunk;
    bool in_leaf_loop = false;
    bool packet_ended = false;
    uint64_t steps = 0;  ///< Instructions and XTXNs.
    engine::PacketLayer layer = engine::PacketLayer::kUdpPayload;
    Endpoint source;
    Instant arrived_at;
    microcode::AccessMeter::Position position;
  };
  struct InFlight {
    const std::byte* payload;
    std::vector<std::byte> as_sent;
  };
  class Post;

  void begin_start(std::span<const std::byte> packet, const Endpoint& source,
                   engine::PacketLayer layer);
  void begin_start();
  void end_start();
  ThreadState& take_thread();
  void run_thread(ThreadState& thread);
  void end_thread(ThreadState& thread);
  void serve(size_t pick);
  void enqueue(Request& request);
  void wait_for(Request& request);
  void add_post(microcode::Xtxn xtxn, std::function<void()> service);
  void check_in_flight() const;
  void begin_xtxn(const microcode::Xtxn& xtxn, const Place& place);
  void end_packet(const Place& place);
  [[nodiscard]] const ThreadState& current() const;

  engine::PacketBuffer packets_;
  microcode::FramePool frames_;
  std::vector<std::unique_ptr<ThreadState>> threads_;
  std::vector<ThreadState*> free_;
  std::vector<ThreadState*> runnable_;
  std::vector<Request*> pending_;  ///< In order of issue.
  std::vector<std::unique_ptr<Post>> posts_;
  ThreadState* current_ = nullptr;
  bool starting_ = false;
  Prng prng_;
  Instant now_;
  uint64_t thread_numbers_ = 0;

  std::vector<Sent> sent_;
  std::vector<InFlight> in_flight_;
  std::vector<std::vector<std::byte>> forwarded_;
  std::map<uint32_t, uint64_t> dropped_;
  uint64_t consumed_ = 0;
  std::map<std::string, uint64_t> instructions_;
  uint64_t instructions_total_ = 0;
  mutable microcode::AccessMeter meter_;
  std::array<uint64_t, microcode::kXtxnKindCount> xtxns_{};
  uint32_t call_depth_max_ = 0;
  uint32_t threads_active_max_ = 0;
};

/// An XTXN in progress. It lies where its issuer keeps it and never moves.
class StepMachine::Request {
 public:
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  [[nodiscard]] bool await_ready() noexcept {
    is_joined_ = true;
    return served_;
  }
  void await_suspend(std::coroutine_handle<>) { machine_.wait_for(*this); }

 protected:
  Request(StepMachine& machine, microcode::Xtxn xtxn)
      : machine_(machine),
        xtxn_(xtxn),
        thread_(machine.current_),
        thread_number_(machine.current().number) {}
  virtual ~Request() { TRIB_REQUIRE(served_ && is_joined_, microcode::rule::kAwait); }

  /// Serves one visit to the target. @return true if it was the last; else xtxn_ is the next one.
  virtual bool serve() = 0;
  void enqueue() { machine_.enqueue(*this); }

  StepMachine& machine_;
  microcode::Xtxn xtxn_;
  ThreadState* thread_;
  bool served_ = false;

 private:
  friend class StepMachine;
  const uint64_t thread_number_;
  bool awaited_ = false;    ///< The thread waits for it.
  bool is_joined_ = false;  ///< The thread has asked for its reply, or the machine for its end.
};

/// The result of issue(). co_await it for the value that `F` returned at the target.
template <class F>
class [[nodiscard]] StepMachine::Reply final : public Request {
 public:
  using Value = std::invoke_result_t<F&>;

  template <class Service>
  Reply(StepMachine& machine, microcode::Xtxn xtxn, Service&& service)
      : Request(machine, xtxn), service_(std::forward<Service>(service)) {
    enqueue();
  }

  Value await_resume() {
    TRIB_ASSERT(served_);
    if constexpr (!std::is_void_v<Value>) return std::move(*value_);
  }

 private:
  struct Nothing {};

  bool serve() override {
    if constexpr (std::is_void_v<Value>) {
      microcode::run_service(service_);
    } else {
      value_.emplace(microcode::run_service(service_));
    }
    return true;
  }

  F service_;
  std::optional<std::conditional_t<std::is_void_v<Value>, Nothing, Value>> value_;
};

inline auto StepMachine::read_tail(uint32_t offset_bytes, std::span<std::byte> to,
                                   const Place& place) -> Reply<ReadTail> {
  TRIB_REQUIRE_AT(arrived_as_frame() && to.size() <= microcode::kTailChunkBytes,
                  microcode::rule::kReadTail, place);
  const ReadTail read{&packets_, current().packet, offset_bytes, to};
  return issue(read.request(), read, place);
}
inline auto StepMachine::write_tail(uint32_t offset_bytes, std::span<const std::byte> bytes,
                                    const Place& place) -> Reply<WriteTail> {
  TRIB_REQUIRE_AT(!current().packet_ended, microcode::rule::kEndOnce, place);
  TRIB_REQUIRE_AT(arrived_as_frame() && bytes.size() <= microcode::kTailChunkBytes &&
                      uint64_t{current().head_bytes} + offset_bytes + bytes.size() <= packet_size(),
                  microcode::rule::kWriteTail, place);
  const WriteTail write{&packets_, current().packet, offset_bytes, bytes};
  return issue(write.request(), write, place);
}

/// The paper's aggregation loop: the payload in the head first, then the tail, 64 bytes at a time.
class [[nodiscard]] StepMachine::AccumulateLoop final : public Request {
 public:
  AccumulateLoop(StepMachine& machine, int32_t* lanes, uint32_t offset_bytes, uint32_t count,
                 microcode::Accumulate how, microcode::LaneWidth width);
  ~AccumulateLoop() override { thread_->in_leaf_loop = false; }
  static void await_resume() {}

 private:
  bool serve() override;
  void add_chunk();
  void read_chunk();
  void plan_next();

  int32_t* lanes_;
  uint32_t lanes_left_;
  uint32_t tail_offset_bytes_ = 0;
  uint32_t chunk_bytes_ = 0;  ///< Bytes in the thread's chunk; up to 3 of an incomplete gradient.
  const microcode::Accumulate how_;
  const uint32_t gradient_bytes_;
};

/// The paper's result loop, 256 bytes at a time.
class [[nodiscard]] StepMachine::FinishLoop final : public Request {
 public:
  FinishLoop(StepMachine& machine, int32_t* lanes, uint32_t count, microcode::ResultLanes result);
  static void await_resume() {}

 private:
  bool serve() override;

  int32_t* lanes_;
  std::byte* to_;
  uint32_t lanes_left_;
  const microcode::ResultLanes result_;
};

static_assert(microcode::Machine<StepMachine>);

}  // namespace tributary::testing
