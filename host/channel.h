// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker's protocol with a port of its own, driven by a ChannelThread.
///
/// Model:   A round submits new parts, receives packets and sends packets.
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
#include <vector>

#include "engine/port.h"
#include "host/nap_policy.h"
#include "host/send_gate.h"
#include "host/tensor_parts.h"
#include "host/tensor_protocol.h"
#include "io/wait_set.h"

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

  /// Packets of a round.
  struct Round {
    uint32_t received = 0;
    uint32_t sent = 0;
    [[nodiscard]] bool is_busy() const { return received + sent > 0; }
    /// Returns true if the round may have left packets behind.
    [[nodiscard]] bool is_full() const {
      return received >= engine::kBurstPackets || sent >= engine::kBurstPackets;
    }
  };

  /// @param owner Outlives the channel.
  Channel(std::unique_ptr<TensorProtocol> protocol, std::unique_ptr<engine::Port> port,
          Owner& owner, Urgency urgency = Urgency());
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  /// @pre No thread drives the channel.
  ~Channel() = default;

  // --- Any thread ---

  /// Queues a part. @return false if the protocol has ended; the part was not queued.
  [[nodiscard]] bool submit(Part& part);
  /// Wakes the thread, so that it takes the submitted parts.
  void wake() { queue_.wake(); }
  /// Ends the protocol, with leaves to the aggregator. Returns at once.
  void leave();
  /// Ends the protocol with this status, unless it has ended. Returns at once.
  /// @param lost_aggregator See TensorProtocol::fail().
  void fail(Status status, const std::string& text, uint32_t lost_aggregator);
  [[nodiscard]] Snapshot snapshot() const;
  /// Returns how far this rank and the others are. Relaxed, because it is a hint: no other data
  /// depends on it. Written before on_done() of the parts it includes.
  [[nodiscard]] Progress progress() const {
    return {.submitted = progress_submitted_.load(std::memory_order_relaxed),
            .heard = progress_heard_.load(std::memory_order_relaxed)};
  }
  /// Returns true if the port can wait together with those of other channels.
  [[nodiscard]] bool can_share_thread() const { return queue_.wait_source() != nullptr; }

  // --- The channel's thread ---

  /// Does the work of this moment. Receives packets unless a wait has found none.
  Round run_round(Instant now);
  /// Returns true after the last leave: the thread calls finish() and no round after it.
  [[nodiscard]] bool has_ended() const { return has_ended_; }
  /// Fails the parts that nobody will take.
  void finish();
  /// Returns true if parts are in work.
  [[nodiscard]] bool is_working() const { return !protocol_->idle(); }
  /// Returns the time of the next round. After the last leave it comes at once, and sends nothing.
  [[nodiscard]] Instant next_deadline() const {
    return is_ending_ ? Instant() : protocol_->next_deadline();
  }
  /// Returns how long results may stay unread at no cost in time, after a round with packets. See
  /// host/nap_policy.h.
  [[nodiscard]] Duration nap(Instant now);
  /// Adds the channel's queues to a wait. The next round receives packets if one of them is ready.
  /// @pre can_share_thread()
  void add_to(io::WaitSet& waits);
  /// Lets the next round receive packets.
  void expect_packets() { expects_packets_ = true; }
  /// Waits for the channel alone.
  void wait(Duration at_most);

 private:
  void take_requests(Instant now);
  uint32_t receive(Instant now);
  uint32_t receive_from(engine::PortQueue& from, Instant now);
  void check_refusals(Instant now);
  void open_group();
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
  bool at_gate_ = false;         ///< Counted at the gate, because it has new packets.
  bool expects_packets_ = true;  ///< The next round receives.
  bool is_ending_ = false;       ///< The last leave was sent in the latest round.
  bool has_ended_ = false;
  NapPolicy nap_policy_;
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
};

}  // namespace tributary::host
