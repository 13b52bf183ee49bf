// SPDX-License-Identifier: Apache-2.0
/// @file
/// One thread of a rank: drives a worker's protocol over a port of its own.
///
/// Model:   A round reads the clock once, submits new parts, receives packets and sends packets.
///          A round without packets sleeps until a packet, a submission or the next deadline. On
///          slow links, a round with packets may take a nap (host/nap_rule.h).
/// Threads: Any thread may call submit(), leave(), fail(), snapshot() and progress(). The channel's
///          thread calls the owner and holds no lock then. The owner may hold a lock of its own
///          around its calls.
/// Errors:  The protocol's status and text, in Snapshot.
/// Memory:  A part stays in place until on_done() names it.
/// Tests:   tests/host/communicator_test.cc, tests/host/communicator_threads_test.cc
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/port.h"
#include "host/nap_rule.h"
#include "host/send_gate.h"
#include "host/tensor_parts.h"
#include "host/tensor_protocol.h"
#include "host/yield_rule.h"

namespace tributary::host {

class Channel {
 public:
  using Part = TensorPart;

  /// A snapshot of the protocol, for other threads.
  struct Snapshot {
    TensorProtocol::Phase phase = TensorProtocol::Phase::kJoining;
    Status status = Status::kOk;
    std::string text;
    uint32_t lost_aggregator = 0;  ///< See TensorProtocol::lost_aggregator().
    uint32_t window = 0;
    uint32_t gradients = 0;
    uint32_t narrow_gradients = 0;
    uint32_t job_window = 0;  ///< See TensorProtocol::job_window().
    uint32_t channels = 1;
    Duration straggler_timeout;
    CommunicatorCounters counters;
    SourceSet permanent_stragglers{};            ///< See TensorProtocol::permanent_stragglers().
    wire::Reason refusal = wire::Reason::kNone;  ///< See TensorProtocol::refusal().
    std::vector<Aggregator> redirection;         ///< See TensorProtocol::redirection().
  };

  class Owner {
   public:
    Owner() = default;
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    virtual ~Owner() = default;
    /// The protocol has joined or ended. on_phase(kEnded) is called before any on_done() with parts
    /// that failed for it.
    virtual void on_phase(Channel& channel) = 0;
    /// These parts are done, well or not. The owner may free them.
    virtual void on_done(std::span<Part* const> parts) = 0;
    /// The gate has opened for priorities less urgent than this one.
    virtual void on_gate_open(uint32_t /*priority*/) {}
  };

  /// The channel's place at the gate that the channels of a rank share.
  struct Urgency {
    Urgency() {}
    Urgency(SendGate* shared, uint32_t number) : gate(shared), priority(number) {}
    SendGate* gate = nullptr;  ///< Outlives the channel; null: there is one priority only.
    uint32_t priority = 0;
  };

  /// @param owner Outlives the channel.
  Channel(std::unique_ptr<TensorProtocol> protocol, std::unique_ptr<engine::Port> port,
          Owner& owner, Urgency urgency = Urgency());
  /// Calls leave() and waits for the thread.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Starts the thread. Call it once.
  void start();
  /// Queues a part. @return false if the protocol has ended; the part was not queued.
  [[nodiscard]] bool submit(Part& part);
  /// Wakes the thread, so that it takes the submitted parts.
  void wake() { queue_.wake(); }
  /// Ends the protocol, with good-byes to the aggregator. Returns at once.
  void leave();
  /// Ends the protocol with this status, unless it has ended. Returns at once.
  /// @param lost_aggregator See TensorProtocol::fail().
  void fail(Status status, const std::string& text, uint32_t lost_aggregator);
  /// Waits for the thread, which ends with the protocol.
  void join();

  [[nodiscard]] Snapshot snapshot() const;
  /// Returns how far this rank and the others are. Relaxed, because it is a hint: no other data
  /// depends on it. Written before on_done() of the parts it includes.
  [[nodiscard]] Progress progress() const {
    return {.submitted = progress_submitted_.load(std::memory_order_relaxed),
            .heard = progress_heard_.load(std::memory_order_relaxed)};
  }

 private:
  void loop();
  void take_requests(Instant now);
  uint32_t receive(Instant now);
  uint32_t receive_from(engine::PortQueue& from, Instant now);
  void check_refusals(Instant now);
  void open_group();
  void sleep(Instant now);
  void nap(Instant now);
  uint32_t send(Instant now);
  void tell_gate();
  void notify_owner();
  void publish_progress();
  [[nodiscard]] Snapshot make_snapshot() const;

  const std::unique_ptr<engine::Port> port_;
  engine::PortQueue& queue_;
  Owner& owner_;
  const Urgency urgency_;

  // The thread's own.
  const std::unique_ptr<TensorProtocol> protocol_;
  bool group_is_open_ = false;                ///< Requested; once is enough.
  std::unique_ptr<engine::Port> group_port_;  ///< Null without a group.
  uint64_t peer_refused_ = 0;                 ///< As the protocol knows it.
  std::vector<Part*> in_work_;
  bool at_gate_ = false;  ///< Counted at the gate, because it has new packets.
  Instant busy_at_;       ///< Time of the last packet, either way.
  bool waits_ = false;    ///< The last round had no packet.
  YieldRule yield_rule_;
  NapRule nap_rule_;
  std::vector<Part*> taken_;  ///< Swapped with submitted_.
  TensorProtocol::Phase reported_phase_ = TensorProtocol::Phase::kJoining;
  std::array<engine::Packet, engine::kBurstPackets> burst_{};
  std::array<engine::TxPacket, engine::kBurstPackets> sending_{};
  const uint32_t packet_bytes_;
  std::vector<std::byte> send_bytes_;  ///< Shape [kBurstPackets][packet_bytes_].

  // Under the mutex.
  struct Failure {
    Status status;
    std::string text;
    uint32_t lost_aggregator;
  };
  mutable std::mutex mutex_;
  std::vector<Part*> submitted_;
  bool leave_requested_ = false;
  std::optional<Failure> requested_failure_;
  bool takes_no_more_ = false;
  Snapshot snapshot_;

  std::atomic<uint64_t> progress_submitted_{0};
  std::atomic<uint64_t> progress_heard_{0};

  std::thread thread_;
};

}  // namespace tributary::host
