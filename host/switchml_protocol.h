// SPDX-License-Identifier: Apache-2.0
/// @file
/// SwitchML's worker (SwitchML paper, Algorithm 4) as a sans-I/O state machine, on the wire format
/// of its published code (wire/switchml.h).
///
/// Model:   Tensors form one stream of blocks, numbered on and on: position p lies in slot p mod
///          pool, in set (p / pool) mod 2, and its number is the packet id. A slot's next packet is
///          sent when the result of the one before is there, whatever the other slots do; so there
///          are `pool` packets in flight, of as many tensors as it takes. What is not answered
///          within the time-out is sent again as it was. The switch answers nothing else: a packet
///          that waits for another worker and one that was lost look alike.
/// Floats:  With kBlockExponent a tensor has min(pool, blocks) more positions: position p carries
///          the elements of block p - lead and, in the first exponent, the exponent of block p
///          (§4.6). The second exponent, which the published client leaves at 0, says that a rank's
///          value does not fit (1) or is not finite (2): the switch takes the largest, so every
///          rank ends with the same status.
/// Partial: A switch that times out (SwitchmlConfig::switch_times_out) closes a slot whose workers
///          stay away. A result then says how many came, not which: the Outcome's range has
///          `contributors`, and a mean is over them. A slot's set keeps one result, so a rank that
///          comes later is told where the others are, and goes on there. What lies between has no
///          sum for it: a range without contributors, elements that stay as they are, and
///          kDesynchronised for the transfer; the stream goes on. A block's exponent would be
///          agreed without the ranks that are late, so kBlockExponent is refused.
/// Shapes:  Every packet has `elements` elements; a tensor's last one is filled up with zeros.
/// Threads: Owned by one thread.
/// Errors:  A Transfer ends with a Status and a text. Tensors of 16-bit floats are refused. After
///          `deadline` without a result everything ends, with the switch's name. Packets that are
///          not a result of the session are counted by reason (SwitchmlRefusals).
/// Memory:  A slot for each packet in flight; per transfer two bytes a block for exponents.
/// Needs:   Links that keep their order (docs/tofino.md), and workers that submit the same tensors
///          in the same order.
/// Tests:   tests/host/switchml_protocol_test.cc, switchml_walk_test.cc,
///          switchml_timeout_worker_test.cc,
///          tests/lab/backends/tofino_node_test.cc
#pragma once

#include <deque>
#include <memory>

#include "host/switchml_config.h"
#include "host/tensor_protocol.h"
#include "wire/switchml.h"

namespace tributary::host {

/// Why packets changed nothing.
struct SwitchmlRefusals {
  uint64_t not_switchml = 0;    ///< Too short, or another message type or size code.
  uint64_t wrong_elements = 0;  ///< Of the other packet size.
  uint64_t wrong_size = 0;      ///< Longer or shorter than its size code says.
  uint64_t slot_outside_pool = 0;
  uint64_t not_outstanding = 0;  ///< A result that is here already, or one of the other set.
  uint64_t other_packet = 0;     ///< Of the slot and set that wait, but not of this packet.
  uint64_t other_job = 0;        ///< The same with a job's number: ranks submit differently.
  uint64_t degraded = 0;         ///< Without all workers, from a switch that is not to time out.
};

class SwitchmlProtocol final : public TensorProtocol {
 public:
  /// @pre check(config) is good.
  explicit SwitchmlProtocol(const SwitchmlConfig& config);

  void submit(Transfer& transfer, Instant now) override;
  /// SwitchML has no good-bye: nothing is sent.
  void leave(Instant now) override;
  void fail(Status status, std::string text) override { end(status, std::move(text)); }

  [[nodiscard]] bool hears(const Endpoint& from) const override { return from == config_.server; }
  std::optional<Duration> on_packet(const Incoming& packet, Instant now) override;
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
  /// An all-reduce on its way.
  struct Job {
    Transfer* transfer;
    uint64_t position_first;
    uint64_t blocks;
    uint64_t lead;  ///< Positions before the first elements (kBlockExponent).
    uint64_t positions_left;
    uint8_t number;
    std::vector<int16_t> exponents;  ///< Agreed, by block, or kUnknown.
    uint64_t blocks_lost = 0;        ///< Summed without this rank, and overwritten.
  };
  static constexpr int16_t kUnknown = INT16_MIN;

  enum class SlotState : uint8_t {
    kIdle,    ///< Waits for a tensor, or for an exponent.
    kQueued,  ///< In ready_.
    kSent,
  };
  struct Slot {
    uint64_t position = 0;  ///< That it holds, or the next one that it will.
    Job* job = nullptr;     ///< While not idle.
    /// Results of its positions below are nowhere any more: the others have gone on.
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
  /// Notes how far the others are, from any answer of a switch that times out.
  /// @return whether that is all it says.
  bool note_phase(const wire::SwitchmlHead& head);
  void pass_over_lost(Slot& slot);
  void note_degraded(Job& job, uint64_t block, uint32_t contributors);
  void take_result(Slot& slot, const wire::SwitchmlHead& head, std::span<const std::byte> lanes);
  void finish(Job& job);
  [[nodiscard]] Outgoing write(Slot& slot, std::span<std::byte> out, Instant now);
  void write_elements(const Job& job, uint64_t block, wire::SwitchmlHead& head,
                      std::byte* lanes) const;
  /// @param contributors Whose sum it is, for means.
  void read_elements(const Job& job, uint64_t block, const std::byte* lanes,
                     uint32_t contributors) const;
  [[nodiscard]] Duration timeout_of(const Slot& slot) const;
  void note_timeout();
  void scan(Instant now);
  void give_up(const Slot& slot, Instant now);
  void end(Status status, std::string text);

  const SwitchmlConfig config_;
  Phase phase_ = Phase::kRunning;  ///< Sessions are set up outside: there is nothing to join.
  Status status_ = Status::kOk;
  std::string status_text_;

  // The stream.
  std::vector<Slot> slots_;  ///< Shape [pool].
  uint64_t end_ = 0;         ///< One past the last tensor's last position.
  uint64_t heard_ = 0;       ///< One past the highest position of which a result is known to be.
  uint8_t next_job_number_ = 0;
  std::deque<std::unique_ptr<Job>> jobs_;  ///< Not yet done, in order of positions.
  std::deque<uint32_t> ready_;             ///< Slots to send for the first time.
  std::deque<uint32_t> repairs_;           ///< Slots to send again.

  // Time.
  Duration timeout_;
  uint32_t timeouts_ = 0;       ///< Since timeout_ was doubled.
  uint64_t patient_below_ = 0;  ///< Positions below wait longer; see SwitchmlConfig.
  Instant scan_at_ = Instant::never();
  Instant give_up_at_ = Instant::never();  ///< Not later than the first deadline.
  Instant heard_at_;

  CommunicatorCounters counters_;
  SwitchmlRefusals refusals_;
};

}  // namespace tributary::host
