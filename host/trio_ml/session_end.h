// SPDX-License-Identifier: Apache-2.0
/// @file
/// The end of a worker's session: recognises the reasons for it, keeps the first one, and schedules
/// the leaves to the aggregator.
///
/// Model:   Leaves are not acknowledged, and peers wait for a worker whose leave is lost as
///          long as for a silent one. Five are sent: at once, then 1, 2, 4 and 8 ms apart. An
///          aggregator with a full socket drops two in a row as easily as one. Assumed.
/// Units:   Positions of the stream.
/// Threads: Owned by one thread.
/// Errors:  An EndReason if the session has to end; the owner passes it to end().
/// Memory:  Refers to the configuration, which must live longer.
/// Tests:   tests/host/trio_ml/session_end_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "host/trio_ml/session_join.h"
#include "host/worker_config.h"
#include "host/worker_errors.h"
#include "wire/trio_ml.h"

namespace tributary::host {

class SessionEnd {
 public:
  /// The oldest position in flight.
  struct Oldest {
    uint64_t position;
    Instant first_sent_at;
  };

  /// @param config  Must live longer than this object.
  explicit SessionEnd(const CommunicatorConfig& config) : config_(config) {}

  // --- The reason, and the leaves ---

  [[nodiscard]] bool ended() const { return ended_; }
  /// The reason for the end; kOk while the session runs.
  [[nodiscard]] Status status() const { return reason_.status; }
  [[nodiscard]] const std::string& text() const { return reason_.text; }
  [[nodiscard]] uint32_t lost_aggregator() const { return reason_.lost_aggregator; }
  /// Ends the session. @param sends_leaves Not to an aggregator that refused the join, because it
  /// knows nothing of this worker. One whose join is pending is told. @pre !ended()
  void end(EndReason reason, bool sends_leaves);

  [[nodiscard]] bool leave_due(Instant now) const { return leaves_left_ > 0 && now >= leave_at_; }
  void on_leave_sent(Instant now);
  /// Returns when the next leave is due; never after the last one.
  [[nodiscard]] Instant next_leave() const {
    return leaves_left_ > 0 ? leave_at_ : Instant::never();
  }

  // --- The deadline ---

  /// Records the sources whose contributions to a position the aggregator has.
  /// @param base          The oldest position in flight.
  /// @param upstream      They are complete, and the aggregator waits for an upper aggregator.
  /// @param receive_only  This rank contributes nothing to the position, so it is not missing
  ///                      there.
  void note_have(uint64_t position, uint64_t base, const wire::SourceMask& sources, bool upstream,
                 bool receive_only = false);
  /// Records that an upper aggregator does not answer the one below it.
  void note_upper_silent(const wire::ControlBody& notice, Instant now);
  /// Returns the reason why the oldest position waits, as an end would state it.
  [[nodiscard]] EndReason waits_for(const Oldest& oldest, Duration silent_for,
                                    Duration silent_after, const SessionTerms& terms,
                                    Instant now) const;
  /// Returns the ranks of this worker's aggregator that the oldest position lacks; empty: unknown.
  [[nodiscard]] SourceSet missing_at(uint64_t position, const SessionTerms& terms) const;
  /// Returns the reason for the end if the oldest position has waited longer than the deadline: the
  /// aggregator or an upper one if it is silent, else the ranks that it misses.
  [[nodiscard]] std::optional<EndReason> check_deadline(const Oldest& oldest, Instant last_heard_at,
                                                        const SessionTerms& terms,
                                                        Instant now) const;
  [[nodiscard]] Instant deadline_of(Instant first_sent_at) const;

  // --- Notices, and sums of another tensor ---

  /// @param position  The position in flight that the notice names, if it still waits.
  /// @param oldest    The oldest position in flight, if there is one.
  [[nodiscard]] std::optional<EndReason> on_notice(const wire::Message& notice,
                                                   std::optional<uint64_t> position,
                                                   std::optional<uint64_t> oldest,
                                                   const SessionTerms& terms) const;
  /// Handles a sum that was made without this rank, of another tensor than this rank's. One packet
  /// may have been damaged on its way, so the session ends if the answer to a later probe says the
  /// same.
  /// @param ours     This rank's terms.
  /// @param sent_at  The time of the position's last packet.
  [[nodiscard]] std::optional<EndReason> on_other_tensor(uint64_t position,
                                                         const wire::Message& sum,
                                                         const wire::TensorTerms& ours,
                                                         Instant sent_at, Instant now);

 private:
  static constexpr uint64_t kNone = UINT64_MAX;
  /// The last kHave that the text of the deadline can use.
  struct Have {
    uint64_t position = kNone;
    wire::SourceMask sources{};  ///< With this rank's own, if it contributes nothing.
    bool upstream = false;
    bool receive_only = false;
  };
  /// The last notice about an upper aggregator.
  struct UpperSilence {
    Endpoint upper{};
    Duration silent_for{};
    Instant heard_at;
  };
  /// The last sum of another tensor.
  struct OtherTensor {
    uint64_t position = kNone;
    wire::TensorTerms terms;
    uint32_t grad_cnt = 0;
    Instant first_heard_at;
  };

  const CommunicatorConfig& config_;
  bool ended_ = false;
  EndReason reason_;
  uint32_t leaves_left_ = 0;
  Instant leave_at_;  ///< The first one is due at once.
  Have have_;
  UpperSilence upper_;
  OtherTensor other_tensor_;
};

}  // namespace tributary::host
