// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML's worker (SwitchML paper, Algorithm 4) as a sans-I/O state machine, on the wire format
/// of its published code (wire/switchml.h).
///
/// Model:   Position p of the stream uses slot p mod pool, set (p / pool) mod 2, and packet id p. A
///          slot sends its next packet when the previous one has its result. A packet without a
///          result is retransmitted after the timeout. docs/tofino.md has exponents and timeouts.
/// Errors:  A Transfer ends with a Status and a text. Refused packets are counted by reason.
/// Memory:  One slot for each packet in flight; two bytes a block for a transfer's exponents.
/// Needs:   Links that keep their order, and workers that submit the same tensors in one order.
/// Tests:   tests/host/switchml/
#pragma once

#include <deque>
#include <memory>

#include "host/refusal_watch.h"
#include "host/switchml/switchml_config.h"
#include "host/tensor_protocol.h"
#include "wire/switchml.h"

namespace tributary::host {

/// Packets that were refused, by reason.
struct SwitchmlRefusals {
  uint64_t not_switchml = 0;    ///< Too short, or another message type or size code.
  uint64_t wrong_elements = 0;  ///< A packet with the other number of elements.
  uint64_t wrong_size = 0;      ///< Longer or shorter than its size code says.
  uint64_t slot_outside_pool = 0;
  uint64_t not_outstanding = 0;  ///< A result that has come before, or one of the other set.
  uint64_t other_packet = 0;     ///< The slot and set wait, but for another packet id.
  uint64_t other_job = 0;        ///< Another job number: the ranks submit different tensors.
  uint64_t degraded = 0;         ///< Without all workers, though this switch has no timeouts.
};

class SwitchmlProtocol final : public TensorProtocol {
 public:
  /// @pre check(config) succeeded.
  explicit SwitchmlProtocol(const SwitchmlConfig& config);

  void submit(Transfer& transfer, Instant now) override;
  /// Ends all transfers. Sends nothing, because SwitchML has no leave.
  void leave(Instant now) override;
  void fail(Status status, std::string text, uint32_t) override { end(status, std::move(text)); }

  [[nodiscard]] bool accepts_from(const Endpoint& from) const override {
    return from.is_same_peer(config_.server);
  }
  std::optional<Duration> on_packet(const Incoming& packet, Instant now) override;
  void on_refused(Instant now) override;
  void on_time(Instant now) override;
  [[nodiscard]] Outgoing next_packet(std::span<std::byte> out, Instant now) override;
  [[nodiscard]] Instant next_deadline() const override;

  [[nodiscard]] Phase phase() const override { return phase_; }
  [[nodiscard]] Status status() const override { return status_; }
  [[nodiscard]] const std::string& status_text() const override { return status_text_; }
  [[nodiscard]] bool idle() const override { return jobs_.empty(); }
  [[nodiscard]] const CommunicatorCounters& counters() const override { return counters_; }
  [[nodiscard]] const SwitchmlRefusals& refusals() const { return refusals_; }

  [[nodiscard]] uint32_t packet_bytes_max() const override {
    return wire::switchml_bytes(config_.elements);
  }
  [[nodiscard]] uint32_t gradients() const override { return config_.elements; }
  [[nodiscard]] uint32_t window() const override { return config_.pool; }
  [[nodiscard]] Progress progress() const override { return {.submitted = end_, .heard = heard_}; }

 private:
  /// An all-reduce in flight.
  struct Job {
    Transfer* transfer;
    uint64_t position_first;
    uint64_t blocks;
    uint64_t lead;  ///< Positions before the first elements (kBlockExponent).
    uint64_t positions_left;
    uint8_t number;
    std::vector<int16_t> exponents;  ///< By block, as agreed, or kUnknown.
    uint64_t blocks_lost = 0;        ///< Blocks whose results are gone from the switch.
  };
  static constexpr int16_t kUnknown = INT16_MIN;

  enum class SlotState : uint8_t {
    kIdle,    ///< Waits for a tensor, or for an exponent.
    kQueued,  ///< In ready_.
    kSent,
  };
  struct Slot {
    uint64_t position = 0;  ///< The position in the slot, or the slot's next one.
    Job* job = nullptr;     ///< Null if idle.
    /// The switch has overwritten the results of the slot's positions below this one, because the
    /// other workers continued.
    uint64_t lost_below = 0;
    Instant first_sent_at;
    Instant sent_at;
    SlotState state = SlotState::kIdle;
    bool repair_queued = false;
  };

  [[nodiscard]] Slot& slot_of(uint64_t position) { return slots_[position % slots_.size()]; }
  [[nodiscard]] bool set_of(uint64_t position) const { return position / slots_.size() % 2 != 0; }
  [[nodiscard]] Job& job_at(uint64_t position);
  [[nodiscard]] uint64_t blocks_of(const Transfer& transfer) const;
  [[nodiscard]] const char* refusal_of(const Transfer& transfer) const;
  void begin(Transfer& transfer);
  /// Queues a position if it exists, its slot waits for it, and its exponent is known.
  void try_queue(uint64_t position);
  [[nodiscard]] Slot* outstanding_slot(const wire::SwitchmlHead& head, const Incoming& packet);
  void refuse(uint64_t& reason);
  [[nodiscard]] uint32_t packet_id_of(uint64_t position) const;
  /// Records the others' progress from any answer of a switch with timeouts.
  /// @return true if the answer carries nothing else.
  bool note_phase(const wire::SwitchmlHead& head);
  void skip_lost_positions(Slot& slot);
  void note_degraded(Job& job, uint64_t block, uint32_t contributors);
  void take_result(Slot& slot, const wire::SwitchmlHead& head, std::span<const std::byte> lanes);
  void finish(Job& job);
  /// @param again  Whether the position was sent before.
  [[nodiscard]] Outgoing write(Slot& slot, bool again, std::span<std::byte> out, Instant now);
  void write_elements(const Job& job, uint64_t block, wire::SwitchmlHead& head, std::byte* lanes,
                      Underflow* underflow) const;
  /// @param contributors The number of ranks in the sum, for means.
  void read_elements(const Job& job, uint64_t block, const std::byte* lanes,
                     uint32_t contributors) const;
  [[nodiscard]] Duration timeout_of(const Slot& slot) const;
  void note_timeout();
  void scan(Instant now);
  void end_by_deadline(const Slot& slot, Instant now);
  void end(Status status, std::string text);

  const SwitchmlConfig config_;
  Phase phase_ = Phase::kRunning;  ///< There is no join: sessions are set up outside.
  Status status_ = Status::kOk;
  std::string status_text_;

  // The stream.
  std::vector<Slot> slots_;  ///< Shape [pool].
  uint64_t end_ = 0;         ///< One past the last tensor's last position.
  uint64_t heard_ = 0;       ///< One past the highest position known to have a result.
  uint8_t next_job_number_ = 0;
  std::deque<std::unique_ptr<Job>> jobs_;  ///< Not yet done, in order of positions.
  std::deque<uint32_t> ready_;             ///< Slots to send for the first time.
  std::deque<uint32_t> repairs_;           ///< Slots to send again.

  // Time.
  Duration timeout_;
  uint32_t timeouts_ = 0;       ///< Timeouts since timeout_ was doubled.
  uint64_t patient_below_ = 0;  ///< Positions below have longer timeouts; see SwitchmlConfig.
  Instant scan_at_ = Instant::never();
  Instant earliest_deadline_ = Instant::never();  ///< Not later than the first deadline.
  Instant last_heard_at_;
  RefusalWatch refused_;

  CommunicatorCounters counters_;
  SwitchmlRefusals refusals_;
};

}  // namespace tributary::host
