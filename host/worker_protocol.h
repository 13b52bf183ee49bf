// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker's side of Trio-ML as a sans-I/O state machine: packets and time in, packets and
/// deadlines out. UDP sockets or DPDK drive it live, a virtual network in tests and experiments; it
/// is the same code.
///
/// Model:   Tensors form one stream of blocks, numbered on and on: position = block_id (mod 2^32).
///          At most `window` positions are on their way; position p+window is sent after p's
///          result. A position without a result is asked about after an adaptive time-out, at once
///          when something that was sent later has its answer. An aggregator that holds the
///          contribution says so (kHave); from then on only a short probe is repeated.
///          What no result has overtaken may be late rather than lost: a whole window is, when the
///          aggregator or a peer gets no core for a while, and to ask about all of it would bring
///          each of its results twice. So the oldest of them is asked about, and twice as many
///          after each answer that finds a loss, until results come by themselves again.
/// Shapes:  Positions hold `gradients` elements, a tensor's last one the rest. With kBlockExponent
///          a tensor has min(window, blocks) more positions: position p carries the gradients of
///          block p - lead and the exponent of block p (SwitchML §4.6: exponents travel one window
///          ahead).
/// Threads: Owned by one thread.
/// Errors:  A Transfer ends with a Status and a text; see host/communicator.h. Packets that are
///          malformed, foreign or of another session are counted and change nothing.
/// Memory:  A slot for each window position; per transfer one byte a block for exponents.
/// Source:  Trio paper §4, §5; loss repair: SwitchML §4.5, ATP §3.5 (out-of-sequence results),
///          RFC 8985 (RACK: what was sent later has its answer).
/// Tests:   tests/host/worker_protocol_test.cc, tests/lab/faults/
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "host/communicator.h"
#include "host/rtt_estimator.h"
#include "host/tensor_protocol.h"
#include "wire/trio_ml.h"

namespace tributary::host {

class WorkerProtocol final : public TensorProtocol {
 public:
  /// Starts to join. @param nonce Not 0; new for each process.
  WorkerProtocol(const CommunicatorConfig& config, uint32_t nonce, Instant now);

  void submit(Transfer& transfer, Instant now) override;
  /// Says good-bye in the next packet and some later ones: until next_deadline() is never.
  void leave(Instant now) override;
  void fail(Status status, std::string text) override { end(status, std::move(text)); }

  [[nodiscard]] bool hears(const Endpoint& from) const override { return from == config_.server; }
  std::optional<Duration> on_packet(const Incoming& packet, Instant now) override {
    // Of an elided packet only the head exists, and only that is read.
    return on_packet({packet.stored.data(), packet.size_bytes}, now);
  }
  std::optional<Duration> on_packet(std::span<const std::byte> payload, Instant now);
  void on_time(Instant now) override;
  [[nodiscard]] Outgoing next_packet(std::span<std::byte> out, Instant now) override;
  [[nodiscard]] Instant next_deadline() const override;

  [[nodiscard]] Phase phase() const override { return phase_; }
  [[nodiscard]] Status status() const override { return status_; }
  [[nodiscard]] const std::string& status_text() const override { return status_text_; }
  [[nodiscard]] bool idle() const override { return transfers_.empty(); }
  [[nodiscard]] const CommunicatorCounters& counters() const override { return counters_; }

  [[nodiscard]] uint32_t packet_bytes_max() const override;
  [[nodiscard]] uint32_t gradients() const override { return config_.gradients; }
  [[nodiscard]] uint32_t window() const override { return window_; }
  [[nodiscard]] uint32_t channels() const override { return config_.threads; }
  [[nodiscard]] Duration straggler_timeout() const override { return straggler_timeout_; }
  [[nodiscard]] const Endpoint& group() const override { return group_; }
  [[nodiscard]] uint32_t session() const override { return session_; }
  [[nodiscard]] Progress progress() const override {
    return {.submitted = end_, .heard = results_heard_};
  }
  [[nodiscard]] uint32_t nonce() const { return nonce_; }

 private:
  /// A worker that sends nothing else says so often that it is alive (Session's kSilentAfter is
  /// more than three of these).
  static constexpr Duration kKeepAliveEvery = milliseconds(1000);

  enum class SlotState : uint8_t { kFree, kSent, kHeld, kDone };
  /// What a position waits for. A result comes when the last peer has contributed, an answer to a
  /// question at once.
  enum class Wait : uint8_t { kNothing, kResult, kAnswer };
  static constexpr uint64_t kNone = UINT64_MAX;
  /// One position of the window.
  struct Slot {
    Transfer* transfer = nullptr;
    Instant first_sent_at;
    Instant sent_at;
    SlotState state = SlotState::kFree;
    uint8_t attempts = 0;
    Wait wait = Wait::kNothing;
    uint64_t sent_order = 0;  ///< Of its last packet among all packets sent.
    uint64_t wait_order = 0;  ///< The first packet that was sent after its wait began.
    uint64_t before = kNone;  ///< Positions that began the same wait before and after it.
    uint64_t after = kNone;
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
  /// The position waits from now on; what it waited for before is forgotten.
  void begin_wait(uint64_t position, Wait wait);
  void end_wait(uint64_t position);
  /// What has waited since before position `by`, which has its answer now, was sent, is lost.
  void repair_overtaken(Wait wait, uint64_t by);
  /// @return how long ago its contribution was first sent.
  Duration take_result(uint64_t position, const wire::Message& message,
                       std::span<const std::byte> lanes, Instant now);
  void advance_base();
  void scan_overdue(Instant now);
  /// So long it took from a packet to its only possible answer.
  void sample_answer(Duration time);
  /// A question about a position has its answer. Of those that no result has overtaken the next
  /// scan may ask about twice as many if something was lost; if not, they wait for a peer, too.
  void learn_from_answer(uint64_t position, bool lost, Instant now);
  void check_deadline(Instant now);
  [[nodiscard]] Duration repair_after(uint64_t position) const;
  Outgoing write_repair(std::span<std::byte> out, Instant now);
  [[nodiscard]] std::string missing_text(Instant now) const;
  void end(Status status, std::string text);

  // worker_packets.cc: packets to and from bytes.
  /// The floats of a block; those of halves lie in wide_ until the next call.
  [[nodiscard]] std::span<const float> floats_of(const Transfer& transfer, uint64_t block);
  Outgoing write_contribution(uint64_t position, std::span<std::byte> out, Instant now);
  Outgoing write_control(wire::MessageType type, uint64_t position, std::span<std::byte> out);
  [[nodiscard]] Endpoint server_for(uint32_t block_id) const;
  void write_gradients(Transfer& transfer, uint64_t block, wire::Message& message,
                       std::byte* lanes);
  void read_gradients(Transfer& transfer, uint64_t block, const wire::Message& message,
                      const std::byte* lanes);
  void on_join_reply(const wire::Message& message, Instant now);
  std::optional<Duration> on_result(const wire::Message& message,
                                    std::span<const std::byte> payload, Instant now);
  void hear_result(uint32_t block_id);
  void note_unlike_the_others(uint64_t position, const wire::Message& sum, Instant now);
  void on_have(const wire::Message& message, Instant now);
  /// The ranks that a notice is about.
  [[nodiscard]] std::string subject_of(const wire::ControlBody& notice) const;
  void on_notice(const wire::Message& message);
  [[nodiscard]] uint32_t lane_count(const Transfer& transfer, uint64_t position) const;

  CommunicatorConfig config_;
  const uint32_t nonce_;
  Phase phase_ = Phase::kJoining;
  Status status_ = Status::kOk;
  std::string status_text_;

  // Joining.
  Instant started_at_;
  Instant join_at_;  ///< When to ask (again).
  wire::Reason pending_reason_ = wire::Reason::kNone;
  SourceSet joined_{};  ///< Who has joined, as last heard.

  // Agreed at the join.
  uint32_t session_ = 0;
  uint32_t key_ = 0;
  uint32_t window_ = 1;
  uint32_t server_ports_ = 1;   ///< From config_.server's on; a power of two.
  Duration straggler_timeout_;  ///< 0: no mitigation.
  uint32_t rank_base_ = 0;      ///< Rank of the aggregator's source 0.
  uint32_t sources_ = 1;        ///< Of the aggregator that this worker talks to.
  Endpoint group_;

  // The stream. base_ <= positions on their way < next_ <= end_.
  std::vector<Slot> slots_;  ///< Shape [window].
  uint64_t base_ = 0;
  uint64_t next_ = 0;
  uint64_t end_ = 0;            ///< One past the last transfer's last position.
  uint64_t result_below_ = 0;   ///< One past the highest position with a result.
  uint64_t results_heard_ = 0;  ///< The same of all results, sent for or not.
  /// Positions that no later result has overtaken and that are asked about before an answer comes.
  uint32_t ask_at_once_ = 1;
  Outgoing ask_about(uint64_t position, std::span<std::byte> out, Instant now);
  /// Positions by the order in which their waits began.
  struct WaitList {
    uint64_t first = kNone;
    uint64_t last = kNone;
  };
  std::array<WaitList, 3> waits_;  ///< By Wait; that of kNothing is empty.
  uint64_t next_order_ = 0;        ///< Of the next packet to be sent for a position.
  uint16_t next_gen_id_ = 0;
  std::deque<Transfer*> transfers_;  ///< Not yet done, in order of positions.
  std::deque<uint64_t> repairs_;     ///< To be asked about; at most one entry a slot.
  std::vector<float> wide_;          ///< Shape [gradients].

  // Time.
  RttEstimator rtt_;
  Duration answer_time_min_;  ///< What comes sooner is no answer; 0 before the first one.
  Instant scan_at_ = Instant::never();
  Instant heard_at_;  ///< Last packet from the aggregator.
  Instant sent_at_;   ///< Last packet to it.
  Instant asked_at_;  ///< Last question to it.
  /// The last sum without this rank that is of another tensor.
  struct UnlikeSum {
    uint64_t position = UINT64_MAX;
    wire::TensorTerms terms;
    uint32_t grad_cnt = 0;
    Instant heard_at;
  } unlike_;
  SourceSet have_{};  ///< Who has contributed to position have_position_.
  uint64_t have_position_ = UINT64_MAX;
  bool have_upstream_ = false;
  uint32_t leaves_due_ = 0;  ///< Good-byes still to send.
  Instant leave_at_;         ///< When the next one is due; the first one is at once.

  CommunicatorCounters counters_;
};

}  // namespace tributary::host
