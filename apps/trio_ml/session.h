// SPDX-License-Identifier: Apache-2.0
/// @file
/// Who works on a job right now: the control plane that lets workers join, leave, die and come back
/// without anything stale reaching a sum.
///
/// Model:   A session is one run of a job by one set of worker processes. It starts when every
/// source
///          has joined and ends when every member has left or fallen silent. Contributions name
///          their session; those of another are refused. A job without a session takes plain
///          Trio-ML packets instead (Trio paper Figure 8).
///
///            no session --- all joined --> running --- all left or silent --> no session
///
///          A worker that starts anew has a new nonce, so it is never mistaken for its predecessor.
/// Threads: The messages are handled by shard 0 alone. What other shards need is atomic: they read
///          `session` and the members' state, and write when they last heard a source.
/// Errors:  A message that cannot be served is answered with its Reason.
/// Tests:   tests/apps/trio_ml/session_test.cc
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "apps/trio_ml/config.h"
#include "apps/trio_ml/records.h"
#include "base/prng.h"
#include "wire/trio_ml.h"

namespace tributary::trio_ml {

/// A worker that was not heard of for so long is gone. Workers send something every second.
/// Assumed: three lost keep-alives in a row are not chance.
inline constexpr Duration kSilentAfter = milliseconds(3500);
/// last_heard is written at most so often, so that cores do not fight over its cache line.
inline constexpr Duration kHeardEvery = milliseconds(100);
/// A join message to the upper aggregator is repeated at most so often.
inline constexpr Duration kUpstreamJoinEvery = milliseconds(50);

class Session {
 public:
  /// @param nonce_seed Makes session numbers; must differ between two starts of a server.
  Session(const JobConfig& config, uint64_t nonce_seed);

  // --- Any shard ---

  /// 0: none, the job takes plain packets.
  [[nodiscard]] uint32_t number() const { return number_.load(std::memory_order_acquire); }
  /// The key that `source` must put into each message of the running session.
  [[nodiscard]] uint32_t key_of(uint32_t source) const;
  void heard(uint32_t source, Instant now);
  /// Whether the member has said good-bye or was replaced by a new worker.
  [[nodiscard]] bool has_left(uint32_t source) const {
    return left_[source].load(std::memory_order_relaxed);  // Relaxed: a hint for an answer.
  }
  /// has_left(), or silent for kSilentAfter.
  [[nodiscard]] bool is_gone(uint32_t source, Instant now) const;
  /// Whether every member was heard of in this session, first at least `length` ago, or is gone.
  /// Until then nobody is a straggler: a member that is not heard of may still wait for a welcome
  /// that was lost.
  [[nodiscard]] bool all_present_for(Duration length, Instant now) const;
  /// The ranks that a source stands for: one, or all below a lower aggregator.
  [[nodiscard]] SourceMask ranks_of(uint32_t source) const;
  /// The session and key this aggregator uses toward the upper one; 0: none.
  [[nodiscard]] uint32_t upstream_number() const {
    return upstream_number_.load(std::memory_order_acquire);
  }
  [[nodiscard]] uint32_t upstream_key() const {
    return upstream_key_.load(std::memory_order_relaxed);
  }

  // --- Shard 0 only ---

  /// What a join led to. `reply` goes to the one who asked.
  struct JoinAnswer {
    wire::MessageType reply = wire::MessageType::kPending;
    wire::ControlBody body;
    bool started = false;        ///< A session began: welcome every member.
    bool join_upstream = false;  ///< Send upstream_join() to the upper aggregator.
  };
  [[nodiscard]] JoinAnswer join(const wire::Message& message, const Endpoint& from, Instant now);
  /// The message and address that welcome member `source`.
  [[nodiscard]] wire::ControlBody welcome_body(uint32_t source) const;
  [[nodiscard]] const Endpoint& address_of(uint32_t source) const {
    return members_[source].address;
  }
  /// @return whether this ended the session.
  bool leave(uint32_t source);
  /// A worker that gave its join up, known by its nonce.
  enum class Withdrawal : uint8_t { kUnknown, kPending, kMember };
  /// Its pending join counts no more. A member's good-bye is leave()'s to take.
  Withdrawal withdraw(uint32_t source, uint32_t nonce);
  /// Ends the session when nobody is left. @return whether it did.
  bool expire(Instant now);
  /// Ends the session now: the upper aggregator has lost it.
  void end();

  /// The least that any pending worker asks for; 0: nobody asks.
  [[nodiscard]] uint32_t least_pending_window() const;
  [[nodiscard]] uint32_t least_pending_gradients_max() const;
  [[nodiscard]] uint8_t least_pending_channels() const;
  /// All ranks below this aggregator, once all sources have asked to join.
  [[nodiscard]] SourceMask ranks_below() const;

  /// Nonce of this aggregator's join toward the upper one.
  [[nodiscard]] uint32_t upstream_nonce() const { return upstream_nonce_; }
  /// The upper aggregator's answer; starts the session here. @return whether it did.
  bool upstream_welcome(const wire::Message& message, Instant now);
  /// The upper aggregator refuses this job; joins are answered with its reason for kSilentAfter,
  /// then it is asked again.
  void upstream_refused(const wire::ControlBody& body, Instant now) {
    upstream_refusal_ = body;
    upstream_refused_at_ = now;
  }

 private:
  struct Member {
    uint32_t nonce = 0;                  ///< Of the running session's worker.
    uint32_t pending_nonce = 0;          ///< Of the worker that waits for the next one; 0: none.
    Instant pending_at;                  ///< When it last asked.
    uint32_t pending_window = 0;         ///< What it asked for; 0: whatever is allowed.
    uint32_t pending_gradients_max = 0;  ///< Likewise.
    uint8_t pending_channels = 0;        ///< 0: one.
    Endpoint address;                    ///< Where it asked from.
  };

  [[nodiscard]] JoinAnswer answer_join(const wire::Message& message, const Endpoint& from,
                                       Instant now);
  [[nodiscard]] JoinAnswer refusal(wire::Reason reason, uint32_t value) const;
  [[nodiscard]] JoinAnswer pending(wire::Reason reason, Instant now) const;
  [[nodiscard]] bool is_pending(uint32_t source, Instant now) const;
  [[nodiscard]] bool all_pending(Instant now) const;
  [[nodiscard]] bool nobody_left(Instant now) const;
  void start(Instant now);

  const JobConfig config_;
  const uint64_t secret_;
  Prng numbers_;

  std::atomic<uint32_t> number_{0};
  std::atomic<uint32_t> upstream_number_{0};
  std::atomic<uint32_t> upstream_key_{0};
  std::array<std::atomic<int64_t>, wire::kSourcesMax> heard_ticks_{};
  std::array<std::atomic<bool>, wire::kSourcesMax> left_{};
  /// When a member was first heard of; kNotHeard before.
  std::array<std::atomic<int64_t>, wire::kSourcesMax> first_heard_ticks_{};

  /// Below aggregators: the ranks of each source, as it said in its join. Relaxed: names for texts.
  std::array<std::array<std::atomic<uint64_t>, SourceMask{}.size()>, wire::kSourcesMax> ranks_{};

  std::array<Member, wire::kSourcesMax> members_{};
  /// The least that any member asked for, so that all have the same; 0: nobody asked for less.
  uint32_t agreed_window_ = 0;
  uint32_t agreed_gradients_max_ = 0;
  uint32_t agreed_channels_ = 1;
  uint32_t upstream_nonce_ = 0;
  uint32_t upstream_window_ = 0;  ///< What the upper aggregator allows; 0: no limit known.
  uint32_t upstream_gradients_max_ = 0;
  uint32_t upstream_channels_ = wire::kChannelsMax;  ///< What the upper aggregator allows.
  Instant upstream_asked_at_;
  wire::ControlBody upstream_refusal_;
  Instant upstream_refused_at_;
};

}  // namespace tributary::trio_ml
