// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker's side of Trio-ML as a sans-I/O state machine: packets and time in, packets and
/// deadlines out. UDP sockets or DPDK drive it live, a virtual network in tests and experiments; it
/// is the same code.
///
/// Model:   Tensors form one stream of blocks, numbered on and on: position = block_id (mod 2^32).
///          At most `window` positions are on their way; position p+window is sent after p's
///          result. A position without a result is sent again after an adaptive time-out, at once
///          when later results overtake it. An aggregator that holds the contribution says so
///          (kHave); from then on only a short probe is repeated.
/// Shapes:  Positions hold `gradients` elements, a tensor's last one the rest. With kBlockExponent
/// a
///          tensor has min(window, blocks) more positions: position p carries the gradients of
///          block p - lead and the exponent of block p (SwitchML §4.6: exponents travel one window
///          ahead).
/// Threads: Owned by one thread.
/// Errors:  A Transfer ends with a Status and a text; see host/communicator.h. Packets that are
///          malformed, foreign or of another session are counted and change nothing.
/// Memory:  A slot for each window position; per transfer one byte a block for exponents.
/// Source:  Trio paper §4, §5; loss repair: SwitchML §4.5, ATP §3.5 (out-of-sequence results).
/// Tests:   tests/host/worker_protocol_test.cc, tests/lab/faults/
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "host/communicator.h"
#include "host/rtt_estimator.h"
#include "microcode/trio_ml_wire.h"

namespace tributary::host {

/// One all-reduce on its way through the protocol. The owner keeps it alive until `done`.
struct Transfer {
  // Set by the owner.
  std::span<float> floats;      ///< Either this …
  std::span<int32_t> integers;  ///< … or this …
  HalfTensor halves;            ///< … or this, with kBlockExponent …
  /// … or this: so many elements of int32 that are nowhere. Positions, heads, sizes and results are
  /// those of `integers`, but no lane is read or written, so that experiments at scale need no
  /// tensors: next_packet() writes the head alone, though the size it returns counts the lanes too,
  /// and on_packet() takes a span of that size of which only the head has to be there.
  uint64_t elided_elements = 0;
  /// Takes the sum that the other ranks have made and adds nothing to it: the way of a rank that is
  /// behind and would be late anyway. Its tensor is only written. A block that the others have not
  /// begun waits for them, so this is for blocks below results_heard().
  bool receive_only = false;
  ReduceOp op = ReduceOp::kSum;
  microcode::ElementFormat format = microcode::ElementFormat::kInt32;
  float scale = 1.0F;  ///< For kFixedScale.

  // Set by the protocol.
  bool done = false;
  Outcome outcome;

  [[nodiscard]] uint64_t element_count() const {
    return floats.size() + integers.size() + halves.bits.size() + elided_elements;
  }

 private:
  friend class WorkerProtocol;
  uint64_t position_first_ = 0;
  uint64_t lead_ = 0;  ///< Positions before the first gradients (kBlockExponent).
  uint64_t positions_left_ = 0;
  uint16_t gen_id_ = 0;
  std::vector<int8_t> exponents_;  ///< Agreed, by block (kBlockExponent).
};

class WorkerProtocol {
 public:
  enum class Phase : uint8_t { kJoining, kRunning, kEnded };

  /// Starts to join. @param nonce Not 0; new for each process.
  WorkerProtocol(const CommunicatorConfig& config, uint32_t nonce, Instant now);

  /// Queues a transfer. If the protocol has ended, it is done at once with that status.
  void submit(Transfer& transfer, Instant now);
  /// Says good-bye in the next packets; what is on its way ends with kClosed.
  void leave(Instant now);
  /// The driver cannot go on: ends everything with this status.
  void fail(Status status, std::string text) { end(status, std::move(text)); }

  void on_packet(std::span<const std::byte> payload, Instant now);
  /// Time passes: what is overdue is queued again, deadlines are checked.
  void on_time(Instant now);
  /// Writes the next packet to send. @param out At least packet_bytes_max().
  /// @return its size, 0 when there is nothing to send now.
  [[nodiscard]] uint32_t next_packet(std::span<std::byte> out, Instant now);
  /// When on_time() has to be called again.
  [[nodiscard]] Instant next_deadline() const;

  [[nodiscard]] Phase phase() const { return phase_; }
  /// Why the protocol has ended.
  [[nodiscard]] Status status() const { return status_; }
  [[nodiscard]] const std::string& status_text() const { return status_text_; }
  [[nodiscard]] bool idle() const { return transfers_.empty(); }
  /// The session that it has joined; 0: none yet.
  [[nodiscard]] uint32_t session() const { return session_; }
  [[nodiscard]] uint32_t nonce() const { return nonce_; }
  /// Multicast group of the results; not set: unicast.
  [[nodiscard]] const Endpoint& group() const { return group_; }
  [[nodiscard]] uint32_t window() const { return window_; }
  [[nodiscard]] uint32_t gradients() const { return config_.gradients; }
  /// 0: no mitigation.
  [[nodiscard]] Duration straggler_timeout() const { return straggler_timeout_; }
  [[nodiscard]] uint32_t packet_bytes_max() const;
  [[nodiscard]] const CommunicatorCounters& counters() const { return counters_; }
  /// How far this rank's stream and the others' have come.
  [[nodiscard]] Progress progress() const { return {.submitted = end_, .heard = heard_below_}; }

 private:
  /// A worker that sends nothing else says so often that it is alive (Session's kSilentAfter is
  /// more than three of these).
  static constexpr Duration kKeepAliveEvery = milliseconds(1000);

  enum class SlotState : uint8_t { kFree, kSent, kHeld, kDone };
  /// One position of the window.
  struct Slot {
    Transfer* transfer = nullptr;
    Instant first_sent_at;
    Instant sent_at;
    SlotState state = SlotState::kFree;
    uint8_t attempts = 0;
    bool queued = false;       ///< In repairs_.
    bool data_wanted = false;  ///< The aggregator has said that it lacks the contribution.
  };

  // worker_protocol.cc: the stream of positions.
  void start_transfer(Transfer& transfer, Instant now);
  [[nodiscard]] Slot& slot_of(uint64_t position) { return slots_[position % slots_.size()]; }
  /// The outstanding position that a block_id names; false if none.
  [[nodiscard]] bool position_of(uint32_t block_id, uint64_t& position) const;
  [[nodiscard]] Transfer* transfer_at(uint64_t position);
  [[nodiscard]] bool can_send_new();
  void queue_repair(uint64_t position);
  void repair_overtaken(uint64_t position);
  void take_result(uint64_t position, const microcode::Message& message,
                   std::span<const std::byte> lanes, Instant now);
  void advance_base();
  void scan_overdue(Instant now);
  void check_deadline(Instant now);
  [[nodiscard]] Duration repair_after(uint64_t position) const;
  uint32_t write_repair(std::span<std::byte> out, Instant now);
  uint32_t ask_about(uint64_t position, std::span<std::byte> out, Instant now);
  void note_heard(uint32_t block_id);
  [[nodiscard]] std::string missing_text(Instant now) const;
  void end(Status status, std::string text);

  // worker_packets.cc: packets to and from bytes.
  /// The floats of a block; those of halves lie in wide_ until the next call.
  [[nodiscard]] std::span<const float> floats_of(const Transfer& transfer, uint64_t block);
  uint32_t write_contribution(uint64_t position, std::span<std::byte> out, Instant now);
  uint32_t write_control(microcode::MessageType type, uint64_t position, std::span<std::byte> out);
  void write_gradients(Transfer& transfer, uint64_t block, microcode::Message& message,
                       std::byte* lanes);
  void read_gradients(Transfer& transfer, uint64_t block, const microcode::Message& message,
                      const std::byte* lanes);
  void on_join_reply(const microcode::Message& message, Instant now);
  void on_result(const microcode::Message& message, std::span<const std::byte> payload,
                 Instant now);
  void on_have(const microcode::Message& message, Instant now);
  void on_notice(const microcode::Message& message);
  [[nodiscard]] uint32_t lane_count(const Transfer& transfer, uint64_t position) const;

  CommunicatorConfig config_;
  const uint32_t nonce_;
  Phase phase_ = Phase::kJoining;
  Status status_ = Status::kOk;
  std::string status_text_;

  // Joining.
  Instant started_at_;
  Instant join_at_;  ///< When to ask (again).
  microcode::Reason pending_reason_ = microcode::Reason::kNone;
  SourceSet joined_{};  ///< Who has joined, as last heard.

  // Agreed at the join.
  uint32_t session_ = 0;
  uint32_t key_ = 0;
  uint32_t window_ = 1;
  Duration straggler_timeout_;  ///< 0: no mitigation.
  uint32_t rank_base_ = 0;      ///< Rank of the aggregator's source 0.
  uint32_t sources_ = 1;        ///< Of the aggregator that this worker talks to.
  Endpoint group_;

  // The stream. base_ <= positions on their way < next_ <= end_.
  std::vector<Slot> slots_;  ///< Shape [window].
  uint64_t base_ = 0;
  uint64_t next_ = 0;
  uint64_t end_ = 0;              ///< One past the last transfer's last position.
  uint64_t overtaken_below_ = 0;  ///< Positions below were looked at by repair_overtaken().
  uint64_t result_below_ = 0;     ///< One past the highest position with a result.
  uint64_t heard_below_ = 0;      ///< The same of results that came before they were asked for.
  uint16_t next_gen_id_ = 0;
  std::deque<Transfer*> transfers_;  ///< Not yet done, in order of positions.
  std::deque<uint64_t> repairs_;     ///< To be asked about; at most one entry a slot.
  std::vector<float> wide_;          ///< Shape [gradients].

  // Time.
  RttEstimator rtt_;
  Instant scan_at_ = Instant::never();
  Instant heard_at_;  ///< Last packet from the aggregator.
  Instant sent_at_;   ///< Last packet to it.
  Instant asked_at_;  ///< Last question to it.
  SourceSet have_{};  ///< Who has contributed to position have_position_.
  uint64_t have_position_ = UINT64_MAX;
  bool have_upstream_ = false;
  uint32_t leaves_due_ = 0;  ///< Good-byes still to send.

  CommunicatorCounters counters_;
};

}  // namespace tributary::host
