// SPDX-License-Identifier: Apache-2.0
/// @file
/// One thread of a rank: drives a worker's protocol over a port of its own.
///
/// Model:   A round reads the clock once, takes what was submitted, hands packets to the protocol
///          and takes those that it has to send; without any it sleeps until a packet, a
///          submission, or the protocol's next deadline.
/// Threads: submit(), leave(), fail(), shown() and progress() from any thread; the rest is its own
///          thread's. Its owner is told in that thread, which holds no lock then. An owner may hold
///          a lock of its own around calls from any thread.
/// Errors:  The protocol's: see Shown.
/// Memory:  A part stays where it is until the owner is told that it is done.
/// Tests:   tests/host/communicator_test.cc, communicator_threads_test.cc
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
#include "host/tensor_protocol.h"

namespace tributary::host {

class Channel {
 public:
  /// What a channel does of an all-reduce.
  struct Part {
    uint64_t number = 0;  ///< The owner's, of the all-reduce.
    uint64_t element_first = 0;
    Transfer transfer;
  };

  /// What the thread shows to others.
  struct Shown {
    TensorProtocol::Phase phase = TensorProtocol::Phase::kJoining;
    Status status = Status::kOk;
    std::string text;
    uint32_t window = 0;
    uint32_t gradients = 0;
    uint32_t channels = 1;
    Duration straggler_timeout;
    CommunicatorCounters counters;
  };

  class Owner {
   public:
    Owner() = default;
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    virtual ~Owner() = default;
    /// The protocol has joined or ended. Of its end the owner hears before that of parts.
    virtual void on_phase(Channel& channel) = 0;
    /// These are done, well or not; from now on they are the owner's again.
    virtual void on_done(std::span<Part* const> parts) = 0;
  };

  /// @param owner Outlives the channel.
  Channel(std::unique_ptr<TensorProtocol> protocol, std::unique_ptr<engine::Port> port,
          Owner& owner);
  /// leave()s and ends the thread.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Starts the thread. Once.
  void start();
  /// @return false: the protocol has ended, and the part was not taken.
  [[nodiscard]] bool submit(Part& part);
  /// The thread looks for what was submitted.
  void wake() { queue_.wake(); }
  /// Says good-bye, after which the protocol has ended. Returns at once.
  void leave();
  /// Ends with this status, unless it has ended already. Returns at once.
  void fail(Status status, const std::string& text);
  /// Waits for the thread, which ends with the protocol.
  void join();

  [[nodiscard]] Shown shown() const;
  /// Relaxed: a hint of how far others are. Written before the end of a part is told.
  [[nodiscard]] Progress progress() const {
    return {.submitted = progress_submitted_.load(std::memory_order_relaxed),
            .heard = progress_heard_.load(std::memory_order_relaxed)};
  }

 private:
  void loop();
  void take_orders(Instant now);
  bool receive(Instant now);
  bool receive_from(engine::PortQueue& from, Instant now);
  void open_group();
  void sleep(Instant now);
  bool send(Instant now);
  void tell_owner();
  void show_progress();
  [[nodiscard]] Shown what_it_shows() const;

  const std::unique_ptr<engine::Port> port_;
  engine::PortQueue& queue_;
  Owner& owner_;

  // The thread's own.
  const std::unique_ptr<TensorProtocol> protocol_;
  bool group_is_open_ = false;                ///< Asked for; once is enough.
  std::unique_ptr<engine::Port> group_port_;  ///< Null without a group.
  std::vector<Part*> in_work_;
  Instant busy_at_;           ///< When a packet last came or went.
  Duration last_gap_;         ///< Before the packet that came last.
  std::vector<Part*> taken_;  ///< Swapped with submitted_.
  TensorProtocol::Phase phase_told_ = TensorProtocol::Phase::kJoining;
  std::array<engine::Packet, engine::kBurstPackets> burst_{};
  std::array<engine::TxPacket, engine::kBurstPackets> sending_{};
  const uint32_t packet_bytes_;
  std::vector<std::byte> send_bytes_;  ///< Shape [kBurstPackets][packet_bytes_].

  // Under the mutex.
  struct Failure {
    Status status;
    std::string text;
  };
  mutable std::mutex mutex_;
  std::vector<Part*> submitted_;
  bool leave_wanted_ = false;
  std::optional<Failure> failure_wanted_;
  bool takes_no_more_ = false;
  Shown shown_;

  std::atomic<uint64_t> progress_submitted_{0};
  std::atomic<uint64_t> progress_heard_{0};

  std::thread thread_;
};

}  // namespace tributary::host
