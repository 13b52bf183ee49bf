// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tells whether the upper aggregator answers, and which aggregator above keeps a session from
/// starting. Workers, the log and `tributary who` name it.
///
/// Model:   The upper aggregator owes an answer from the first question that it has not answered. A
///          question is a join, a probe or a repeated partial sum. Any of its messages clears the
///          debt. Shard 0 repeats a question, so that one lost packet does not count as silence.
/// Threads: asked(), heard(), silent_for(), is_silent(): any shard. Everything else: shard 0.
/// Tests:   tests/apps/trio_ml/session/upstream_watch_test.cc, upstream_fault_test.cc
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/endpoint.h"
#include "base/time.h"
#include "wire/trio_ml.h"

namespace tributary::trio_ml {

/// An upper aggregator that owes an answer for this long is silent. Shard 0 sends a question every
/// half second. Assumed: three lost in a row are not chance.
inline constexpr Duration kUpstreamSilentAfter = milliseconds(1500);
/// A question without an answer for this long is repeated. Assumed: longer than a healthy answer.
inline constexpr Duration kUpstreamAnswersWithin = milliseconds(250);

class UpstreamWatch {
 public:
  /// The block that a question is about.
  struct Question {
    uint32_t block_id = 0;
    uint16_t gen_id = 0;
    uint16_t grad_cnt = 0;
  };
  enum class Change : uint8_t { kNone, kSilent, kHeard };

  // --- Any shard ---

  /// Records a question that the upper aggregator answers at once.
  void asked(const Question& question, Instant now) {
    if (owed_since_.load(std::memory_order_relaxed) != kNothing) return;
    question_.store(packed(question), std::memory_order_relaxed);
    // Release: pairs with the acquire in question_to_repeat(), which reads the question.
    owed_since_.store(now.since_start().ticks(), std::memory_order_release);
  }
  /// Records a message of the upper aggregator that carries the right key.
  void heard() {
    // Reads first: cores that take results must not contend for the line.
    if (owed_since_.load(std::memory_order_relaxed) != kNothing) {
      owed_since_.store(kNothing, std::memory_order_relaxed);
    }
  }
  /// Returns for how long it has owed an answer; 0: it owes none.
  [[nodiscard]] Duration silent_for(Instant now) const {
    const int64_t since = owed_since_.load(std::memory_order_relaxed);
    return since == kNothing ? Duration() : now - Instant(Duration::from_ticks(since));
  }
  [[nodiscard]] bool is_silent(Instant now) const {
    return silent_for(now) >= kUpstreamSilentAfter;
  }

  // --- Shard 0 ---

  /// Returns the question to repeat, if its answer is overdue.
  [[nodiscard]] std::optional<Question> question_to_repeat(Instant now) const;
  /// Forgets all debts, because the session has ended.
  void restart();
  /// Takes the upper aggregator's kPending.
  void take_pending(const wire::ControlBody& body);
  /// Completes a kPending for the sources: the reason, and the aggregator that it is about.
  /// @param upstream This aggregator's upper one.
  void describe(wire::ControlBody& pending, const Endpoint& upstream, Instant now) const;
  /// Returns whether the upper aggregator has fallen silent or was heard since the last call.
  [[nodiscard]] Change note_change(Instant now);

 private:
  static constexpr int64_t kNothing = INT64_MIN;

  [[nodiscard]] static constexpr uint64_t packed(const Question& question) {
    return uint64_t{question.block_id} << 32U | uint64_t{question.gen_id} << 16U |
           question.grad_cnt;
  }

  std::atomic<int64_t> owed_since_{kNothing};
  std::atomic<uint64_t> question_{0};
  /// Body of the upper aggregator's last kPending, if it waits for an aggregator above it.
  wire::ControlBody above_;
  bool silence_noted_ = false;
};

/// Returns a time of silence as the messages state it.
[[nodiscard]] uint32_t silence_us(Duration silent_for);

}  // namespace tributary::trio_ml
