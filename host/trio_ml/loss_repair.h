// SPDX-License-Identifier: Apache-2.0
/// @file
/// Loss repair of a worker: decides which positions of the window it has to ask about, and when.
///
/// Model:   A position without a result is probed after an adaptive timeout, or at once if a packet
///          sent at least three packets later has its answer (more, where answers overtake each
///          other). docs/aggregation-protocol.md §5 draws the states and gives the reasons.
/// Units:   Positions of the stream; the window is base <= position < next.
/// Threads: Owned by one thread.
/// Errors:  None. Positions outside the window are a bug of the caller.
/// Memory:  One slot for each window position, allocated by open().
/// Source:  SwitchML §4.5, ATP §3.5 (out-of-sequence results), RFC 8985 (RACK).
/// Tests:   tests/host/trio_ml/loss_repair_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/time.h"
#include "host/trio_ml/rtt_estimator.h"
#include "wire/trio_ml.h"

namespace tributary::host {

class LossRepair {
 public:
  struct Config {
    uint32_t window = 1;           ///< Positions in flight, at most.
    bool enabled = true;           ///< False: never asks.
    Duration straggler_timeout{};  ///< 0: no mitigation.
  };
  /// A position to ask about.
  struct Request {
    uint64_t position;
    bool data_wanted;  ///< True: send the contribution. False: send a probe.
  };

  /// The answer to a probe about the rest of its run.
  struct RunAnswer {
    uint32_t probe;          ///< The number that on_probe_sent() returned.
    wire::RunMask present;   ///< Bit i: the aggregator needs no contribution i positions later.
    wire::RunMask complete;  ///< Bit i: the aggregator has the result i positions later.
  };

  explicit LossRepair(Instant now);

  /// Allocates the slots. Called once, when the window is known.
  void open(const Config& config);

  // --- Packets sent ---

  /// Begins a position that was never sent. Its slot must be free.
  void begin(uint64_t position);
  void on_contribution_sent(uint64_t position, Instant now);
  /// @param about_run  The probe asks about the rest of the run, too.
  /// @return the probe's number, which its answer repeats.
  uint32_t on_probe_sent(uint64_t position, bool about_run, Instant now);

  // --- Packets received ---

  /// Records that the aggregator is alive. If it was silent since the last probe, overdue positions
  /// are due one timeout from `now`.
  void on_heard(Instant now);
  /// Records the result of a position, takes a round-trip sample if the result is unambiguous, and
  /// queues the positions that it overtook.
  void on_result(uint64_t position, Instant now);
  /// Records a kHave about one position.
  /// @param lost  The aggregator lacks this worker's contribution.
  void on_have(uint64_t position, bool lost, Instant now);
  /// Records a kHave that is also about the rest of the run. Queues the contributions that the
  /// aggregator lacks and the results that were lost, as far as their packets were sent at least
  /// three packets before the probe.
  /// @param next  The end of the window.
  void on_have_run(uint64_t position, bool lost, const RunAnswer& answer, uint64_t next,
                   Instant now);

  // --- Time ---

  /// Queues the overdue positions of the window [base, next).
  void scan(uint64_t base, uint64_t next, Instant now);
  /// Makes the next scan due in at most one timeout.
  void scan_within_timeout(Instant now);
  [[nodiscard]] Instant next_scan() const { return scan_at_; }

  /// Returns true if take_request() may have something to return.
  [[nodiscard]] bool has_requests() const { return !queue_.empty(); }
  /// Removes and returns the first queued position of [base, next) that still has no result.
  [[nodiscard]] std::optional<Request> take_request(uint64_t base, uint64_t next);
  /// Empties the queue.
  void clear() { queue_.clear(); }

  /// Returns the number of packets sent for the position, at most 255. A kHave sets it to 2.
  [[nodiscard]] uint32_t attempts(uint64_t position) const { return slot_of(position).attempts; }
  /// Returns when the position's last packet was sent.
  [[nodiscard]] Instant sent_at(uint64_t position) const { return slot_of(position).sent_at; }
  /// Returns when the last packet came from the aggregator.
  [[nodiscard]] Instant last_heard_at() const { return last_heard_at_; }

 private:
  enum class State : uint8_t {
    kFree,  ///< Not sent, or its result has come.
    kSent,  ///< The aggregator is not known to have the contribution.
    kHeld,  ///< The aggregator has the contribution and waits for a peer.
  };
  /// The event that a position waits for. A result comes when the last peer has contributed; the
  /// answer to a probe comes at once.
  enum class Wait : uint8_t { kNothing, kResult, kAnswer };
  static constexpr uint32_t kWaits = 3;
  static constexpr uint64_t kNone = UINT64_MAX;

  struct Slot {
    Instant sent_at;
    uint64_t sent_order = 0;      ///< Number of its last packet among all packets sent.
    uint64_t data_order = kNone;  ///< Number of its last contribution.
    uint64_t wait_order = 0;      ///< Number of the first packet sent after its wait began.
    uint64_t before = kNone;      ///< Neighbours in its wait list.
    uint64_t after = kNone;
    State state = State::kFree;
    Wait wait = Wait::kNothing;
    uint8_t attempts = 0;
    bool queued = false;       ///< In queue_.
    bool data_wanted = false;  ///< The aggregator lacks the contribution.
    bool overtaken = false;    ///< Asked about because an answer has overtaken it.
  };
  /// Positions in the order in which their waits began.
  struct WaitList {
    uint64_t first = kNone;
    uint64_t last = kNone;
  };

  /// The last probe about a run of positions, until its position has a result.
  struct RunProbe {
    uint64_t position = kNone;
    uint64_t order = 0;
    Instant sent_at;
  };

  [[nodiscard]] Slot& slot_of(uint64_t position) { return slots_[position & slot_mask_]; }
  [[nodiscard]] const Slot& slot_of(uint64_t position) const {
    return slots_[position & slot_mask_];
  }
  void forget_probe(uint64_t position);
  [[nodiscard]] const RunProbe* covering_probe(uint64_t position) const;
  void queue(uint64_t position);
  uint64_t count_packet(uint64_t position, Wait wait, Instant now);
  void scan_run(uint64_t base, uint64_t next, Instant now);
  void take_have(uint64_t position, bool lost, Instant now);
  void take_answer(uint64_t position, uint64_t order, bool present, bool complete);
  void retransmit(uint64_t position);
  void note_reordering(uint64_t position);
  void begin_wait(uint64_t position, Wait wait);
  void end_wait(uint64_t position);
  void queue_overtaken(Wait wait, uint64_t by, uint64_t order);
  void sample_answer(Duration time);
  void learn_from_answer(uint64_t position, bool lost, Instant now);
  [[nodiscard]] Instant overdue_at(uint64_t position) const;

  Config config_;
  uint64_t slot_mask_ = 0;
  std::vector<Slot> slots_;  ///< Shape [power of two, at least the window].
  uint64_t run_mask_ = 0;
  std::vector<RunProbe> runs_;  ///< Shape [power of two, at least the runs that a window touches].
  std::deque<uint64_t> queue_;  ///< Positions to ask about; at most one entry for each slot.
  std::array<WaitList, kWaits> waits_;  ///< By Wait; the list of kNothing is empty.
  uint64_t next_order_ = 0;             ///< Number of the next packet sent for a position.
  uint64_t result_below_ = 0;           ///< One past the highest position with a result.
  uint64_t overtaken_by_;               ///< Packets by which an answer overtakes a lost one.
  /// The number of positions of a run that a scan may probe while no result has overtaken them.
  uint32_t ask_at_once_ = 1;

  RttEstimator rtt_;
  Duration answer_time_min_;  ///< Shortest time to an answer; 0 before the first answer.
  Instant scan_at_ = Instant::never();
  Instant last_heard_at_;  ///< Last packet from the aggregator.
  Instant asked_at_;       ///< Last probe.
  uint32_t probes_since_heard_ = 0;
};

}  // namespace tributary::host
