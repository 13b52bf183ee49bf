// SPDX-License-Identifier: Apache-2.0
/// @file
/// The session of a job: one run of the job by one set of worker processes.
///
/// Model:   A session starts when every source has joined and has then confirmed its join, so that
///          none starts with a process that has died. It ends when every member has left or, unless
///          silence=wait, fallen silent. Every message carries a key of its session
///          (docs/security.md). Without one a job takes plain packets (Trio paper Figure 8).
/// Threads: Shard 0 alone serves the messages. Other shards read the session number and the
///          members' state, and write the time of a source's last message; these are atomic.
/// Errors:  A message that cannot be served is answered with its Reason.
/// Tests:   tests/apps/trio_ml/session/session_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "apps/trio_ml/config.h"
#include "apps/trio_ml/records.h"
#include "apps/trio_ml/session/aggregator_table.h"
#include "apps/trio_ml/session/reply_budget.h"
#include "apps/trio_ml/session/upstream_watch.h"
#include "auth/cookie.h"
#include "auth/keys.h"
#include "auth/session_seal.h"
#include "wire/trio_ml.h"

namespace tributary::trio_ml {

using wire::kSilentAfter;
/// A join that is not repeated for this long has ended. Workers repeat it every 50 ms. Assumed: the
/// loss of ten in a row is not chance.
inline constexpr Duration kJoinFreshFor = milliseconds(500);
/// Lists of aggregators that differ for this long are refused. A shorter difference is normal: a
/// directory redirects ranks one after another. Assumed: a redirection takes some round trips.
inline constexpr Duration kListsSettleWithin = milliseconds(500);
/// Shortest time between two writes of a source's last-heard time, so that cores do not contend for
/// its cache line.
inline constexpr Duration kHeardPeriod = milliseconds(100);
/// Unit of the time of a source's last contribution that cores share: a core writes it at most once
/// in this time, so that cores do not contend for its cache line.
inline constexpr uint32_t kContributionTickBits = 30;
inline constexpr Duration kContributionTick =
    Duration::from_ticks(int64_t{1} << kContributionTickBits);
static_assert(in_milliseconds(kContributionTick) == 10);
/// Returns the number of the unit that a time is in, modulo 2^32.
[[nodiscard]] inline uint32_t contribution_tick(Instant now) {
  return static_cast<uint32_t>(now.since_start().ticks() >> kContributionTickBits);
}
/// Shortest time between two joins to the upper aggregator.
inline constexpr Duration kUpstreamJoinEvery = milliseconds(50);

class Session {
 public:
  /// @param root All keys of the job's sessions derive from it. Live: auth::random_key(), new for
  ///             each start of a server.
  Session(const JobConfig& config, const auth::Key256& root);

  // --- Any shard ---

  [[nodiscard]] const JobConfig& config() const { return config_; }
  /// Returns the number of the running session; 0: none, and the job takes plain packets. Counts
  /// the job's sessions.
  [[nodiscard]] uint32_t number() const { return number_.load(std::memory_order_acquire); }
  /// Returns the key that `source` must put into each message of session `number`.
  [[nodiscard]] uint64_t key_of(uint32_t source, uint32_t number) const;
  /// Tells whether this aggregator, or its process before a restart, may have issued the key to a
  /// source. With authentication a key has 32 bits that only the holders of the secret can compute
  /// for this aggregator; without, any key passes.
  [[nodiscard]] bool may_have_issued(uint64_t key) const;
  /// Returns the key in each message of the aggregator in session `number`.
  [[nodiscard]] uint64_t result_key(uint32_t number) const;
  /// Records that the source sent a message.
  void heard(uint32_t source, Instant now);
  /// Returns the time of a member's last message, at most kHeardPeriod too early. Before its first
  /// message of the session it is the session's start.
  [[nodiscard]] Instant heard_at(uint32_t source) const {
    // Relaxed: a rough time for people to read.
    return Instant(Duration::from_ticks(heard_ticks_[source].load(std::memory_order_relaxed)));
  }
  /// Records that the source has contributed to a block of some core.
  void note_contribution(uint32_t source, Instant now) {
    // Relaxed: see heard().
    contributed_ticks_[source].store(now.since_start().ticks(), std::memory_order_relaxed);
  }
  /// Returns the time of the source's last contribution to a block of any core, at most
  /// kContributionTick too early. Before the first one of a session it is the session's start.
  [[nodiscard]] Instant contributed_at(uint32_t source) const {
    return Instant(
        Duration::from_ticks(contributed_ticks_[source].load(std::memory_order_relaxed)));
  }
  /// Records that a core treats the source as a permanent straggler of session `number`.
  /// @return whether it is the first core, which announces it.
  [[nodiscard]] bool note_permanent(uint32_t source, uint32_t number) {
    // Relaxed: it decides only who announces.
    const uint64_t mark = uint64_t{number} + 1;
    return permanent_[source].exchange(mark, std::memory_order_relaxed) != mark;
  }
  /// Records that such a source has contributed. @return whether the caller announces it.
  [[nodiscard]] bool note_return(uint32_t source, uint32_t number) {
    uint64_t mark = uint64_t{number} + 1;
    return permanent_[source].compare_exchange_strong(mark, 0, std::memory_order_relaxed);
  }
  /// Tells whether the member has left, or a new worker has replaced it.
  [[nodiscard]] bool has_left(uint32_t source) const {
    return left_[source].load(std::memory_order_relaxed);  // Relaxed: a hint for an answer.
  }
  /// Returns the aggregator that a member has lost, as its leave says.
  [[nodiscard]] uint32_t lost_aggregator(uint32_t source) const {
    return lost_aggregators_[source].load(
        std::memory_order_relaxed);  // Relaxed: used in error texts only.
  }
  /// Tells whether the member has left, or was silent for JobConfig::silent_after.
  [[nodiscard]] bool is_gone(uint32_t source, Instant now) const;
  /// Returns an aggregator that a member of this session, or of the last one, has lost; 0: none.
  [[nodiscard]] uint32_t any_lost_aggregator() const;
  /// Tells whether the member has not left, but is gone by its silence.
  [[nodiscard]] bool is_silent(uint32_t source, Instant now) const {
    return !has_left(source) && is_gone(source, now);
  }
  /// Tells whether a session runs and one of its members is left. Any thread may ask.
  [[nodiscard]] bool is_in_use(Instant now) const;
  /// Tells whether plain packets used the job lately. Any thread may ask.
  [[nodiscard]] bool has_plain_clients(Instant now) const;
  /// Tells whether every member either sent its first message of this session at least `length`
  /// ago, or is gone. Until then no source is a straggler: a member that has sent nothing may still
  /// wait for a welcome that was lost.
  [[nodiscard]] bool all_present_for(Duration length, Instant now) const;
  /// Records that a worker asks for a place that another one holds. @return whether it is news.
  [[nodiscard]] bool note_taken(uint32_t source, uint64_t nonce) {
    return std::exchange(members_[source].taken_nonce, nonce) != nonce;
  }
  /// Returns the ranks of a source: one, or all ranks below a lower aggregator.
  [[nodiscard]] SourceMask ranks_of(uint32_t source) const;
  /// Tells whether a source takes receipts in place of results that another rank owns.
  [[nodiscard]] bool takes_receipts(uint32_t source) const {
    return takes_receipts_[source].load(std::memory_order_relaxed);
  }
  /// Returns the salt of session `number`.
  [[nodiscard]] auth::Salt salt(uint32_t number) const;
  /// Returns the salt of this aggregator's session at the upper one.
  [[nodiscard]] auth::Salt upstream_salt() const {
    return {upstream_salt_high_.load(std::memory_order_relaxed),
            upstream_salt_low_.load(std::memory_order_relaxed)};
  }
  /// Returns this aggregator's key in its session at the upper one; 0: there is none.
  [[nodiscard]] uint64_t upstream_key() const {
    return upstream_key_.load(std::memory_order_acquire);
  }
  /// Returns the key in the upper aggregator's messages of that session.
  [[nodiscard]] uint64_t upstream_result_key() const {
    return upstream_result_key_.load(std::memory_order_relaxed);
  }
  /// Returns the watch over the upper aggregator's answers.
  [[nodiscard]] UpstreamWatch& upstream_watch() { return upstream_watch_; }
  [[nodiscard]] const UpstreamWatch& upstream_watch() const { return upstream_watch_; }
  /// Records that plain packets use the job.
  void heard_plain(Instant now) {
    // Relaxed: a rough time that is compared with seconds.
    plain_ticks_.store(now.since_start().ticks(), std::memory_order_relaxed);
  }

  // --- A control thread ---

  /// Publishes the aggregators of a job with a directory, for the next joins.
  void set_aggregators(std::shared_ptr<const AggregatorTable> table) {
    const std::lock_guard lock(table_mutex_);
    table_ = std::move(table);
  }

  // --- Shard 0 only ---

  /// The answer to a join. `reply` goes to the sender of the join.
  struct JoinAnswer {
    wire::MessageType reply = wire::MessageType::kPending;
    wire::ControlBody body;
    bool started = false;         ///< A session has started: welcome every member.
    bool to_all_pending = false;  ///< `reply` goes to every pending worker.
    bool join_upstream = false;   ///< Send upstream_join() to the upper aggregator.
  };
  /// Serves a join whose cookie is good.
  [[nodiscard]] JoinAnswer join(const wire::Message& message, const Endpoint& from, Instant now);
  /// Returns the body and the destination of the welcome for member `source`.
  [[nodiscard]] wire::ControlBody welcome_body(uint32_t source) const;
  /// Records the sequence number of a sealed join whose cookie is good. @return false if the join
  /// is a replay: the worker has sent this number or a later one before.
  [[nodiscard]] bool note_join_sequence(uint32_t source, uint64_t nonce, uint64_t sequence);
  /// Returns the nonce with which a member joined.
  [[nodiscard]] uint64_t nonce_of(uint32_t source) const { return members_[source].nonce; }
  [[nodiscard]] const Endpoint& address_of(uint32_t source) const {
    return members_[source].address;
  }
  /// Removes a member. @return whether this ended the session.
  /// @param lost_aggregator See wire::ExtensionFields::tensor_elements.
  bool leave(uint32_t source, uint32_t lost_aggregator = 0);
  /// Tells whether a key was the source's in the last session that has ended. Copies of its
  /// worker's leave arrive later, perhaps in the next session.
  [[nodiscard]] bool was_member(uint32_t source, uint64_t key) const;
  /// The state of a worker that withdraws its join, found by its nonce.
  enum class Withdrawal : uint8_t { kUnknown, kPending, kMember };
  /// Cancels a pending join. For kMember the caller must call leave().
  Withdrawal withdraw(uint32_t source, uint64_t nonce);
  /// Removes a worker at an operator's request: a member, or one that waits for a session. Further
  /// joins of an evicted member are treated as a newcomer's.
  /// For kMember the caller must call leave().
  [[nodiscard]] Withdrawal evict(uint32_t source, Instant now);
  /// Returns a key for Job::evict(), which nobody knows.
  [[nodiscard]] uint64_t key_of_evicted(uint32_t source) const;
  /// Stops new sessions: refuses every join except repeats by members.
  void drain() { draining_ = true; }
  /// Changes the timeout that the welcomes of further sessions state.
  void set_timeout(Duration timeout) { config_.timeout = timeout; }
  void set_silence(Silence silence) { config_.silence = silence; }
  /// Ends the session if all members are gone. With silence=wait a silent member keeps it until the
  /// member leaves or a newcomer replaces it. @return whether the session ended.
  bool expire(Instant now);
  /// Ends the session at once, because the upper aggregator has lost it.
  void end();

  /// Returns the terms to ask the upper aggregator for: the minimum of this job's limits and of the
  /// pending workers' requests.
  [[nodiscard]] wire::ControlBody upstream_request() const;
  /// Tells whether a worker waits for a session, and returns its nonce; 0: none waits.
  [[nodiscard]] uint64_t pending_nonce(uint32_t source, Instant now) const {
    return is_fresh(source, now) ? members_[source].pending_nonce : 0;
  }
  /// Returns the cookies of this job's joins.
  [[nodiscard]] const auth::CookieJar& cookies() const { return cookies_; }
  /// Returns the generation of a source's cookies, for CookieOwner. A new one begins with each
  /// process that the session forgets, so that the old joins of that process do not count.
  [[nodiscard]] uint32_t cookie_generation(uint32_t source) const {
    return source < config_.sources ? members_[source].past_forgotten() : 0;
  }
  /// Returns all ranks below this aggregator. @pre All sources have sent a join.
  [[nodiscard]] SourceMask ranks_below() const;

  /// Returns the nonce of this aggregator's join to the upper one.
  [[nodiscard]] uint64_t upstream_nonce() const { return upstream_nonce_; }
  /// Tells whether to repeat the join to the upper aggregator at once, in answer to its cookie or
  /// its question: if all sources still wait, and a few times in a row only.
  [[nodiscard]] bool may_answer_upstream(Instant now) {
    return number() == 0 && all_pending(now) && all_confirmed() && upstream_answers_.take(now);
  }
  /// Tells whether sources wait for a session of the upper aggregator, which must then be asked.
  [[nodiscard]] bool waits_for_upstream(Instant now) const {
    return number() == 0 && upstream_asked_at_ > Instant() &&
           now - upstream_asked_at_ <= kJoinFreshFor;
  }
  /// Returns the upper aggregator's reason to refuse this one; kNone: it has not refused lately.
  [[nodiscard]] wire::Reason upstream_refusal(Instant now) const {
    return now - upstream_refused_at_ <= kSilentAfter ? upstream_refusal_.reason
                                                      : wire::Reason::kNone;
  }
  /// Takes the cookie for this aggregator's join.
  void upstream_cookie(uint64_t cookie) { upstream_cookie_ = cookie; }
  /// Records that the upper aggregator sealed a reply with this one's secret.
  void note_sealed_upstream_reply() { upstream_reply_sealed_ = true; }
  /// Tells whether to believe the upper aggregator's refusal without a seal. Anybody who reads the
  /// traffic can forge one, so this aggregator first waits for a sealed reply.
  [[nodiscard]] bool believes_unsealed_upstream(Instant now) const {
    return !upstream_reply_sealed_ && now - upstream_first_asked_at_ >= wire::kUnsealedAfter;
  }
  /// Takes the upper aggregator's welcome and starts the session here. @return whether it did.
  bool upstream_welcome(const wire::Message& message, Instant now);
  /// Takes the upper aggregator's refusal. Joins are refused for the same reason for kSilentAfter;
  /// after that, a join with another nonce is sent to the upper aggregator.
  void upstream_refused(const wire::ControlBody& body, Instant now);

 private:
  /// A worker that sends joins, and the sequence number of its last sealed one.
  struct Joiner {
    uint64_t nonce = 0;
    uint64_t sequence = 0;
  };
  struct Member {
    uint64_t nonce = 0;          ///< The running session's worker.
    uint64_t pending_nonce = 0;  ///< The worker that waits for the next session; 0: none.
    Instant pending_at;          ///< Time of its last join.
    Joiner holder;               ///< The last worker that held the place, pending or as a member.
    Joiner candidate;            ///< The last other worker that sent a sealed join.
    uint64_t taken_nonce = 0;    ///< The last worker that note_taken() was told of.
    /// Earlier holders and candidates. Their old joins do not count while their cookies are valid.
    static constexpr uint32_t kPastMax = 8;
    std::array<Joiner, kPastMax> past{};
    uint32_t past_count = 0;             ///< With those that were forgotten.
    bool confirmed = false;              ///< It has joined since all sources were pending.
    uint32_t pending_window = 0;         ///< Requested; 0: no limit.
    uint32_t pending_gradients_max = 0;  ///< Requested; 0: no limit.
    uint32_t pending_narrow_max = 0;     ///< See ControlBody::narrow_max.
    uint8_t pending_channels = 0;        ///< Requested; 0: one.
    uint64_t pending_list = 0;           ///< Digest of its list of aggregators.
    wire::ParameterShare pending_share;  ///< For an asynchronous job; follows from the list.
    bool list_refused = false;           ///< The lists differed; this worker is to end.
    Endpoint address;                    ///< Sender address of its last join.

    [[nodiscard]] uint32_t past_forgotten() const {
      return past_count - std::min(past_count, kPastMax);
    }
  };

  [[nodiscard]] JoinAnswer refusal(wire::Reason reason, uint32_t value) const;
  [[nodiscard]] JoinAnswer pending(wire::Reason reason, Instant now) const;
  [[nodiscard]] bool is_fresh(uint32_t source, Instant now) const;
  [[nodiscard]] bool is_pending(uint32_t source, Instant now) const;
  /// Returns a rank that another pending lower aggregator serves, too; nothing: there is none.
  [[nodiscard]] std::optional<uint32_t> overlapping_rank(uint32_t source, const SourceMask& ranks,
                                                         Instant now) const;
  /// Returns the answer to a join that does not fit the job, whoever sends it.
  [[nodiscard]] std::optional<JoinAnswer> refusal_of(uint32_t source,
                                                     const wire::ControlBody& request,
                                                     Instant now) const;
  /// Gives the place to the sender of a join and keeps its request until the session starts.
  void store_request(Member& member, const wire::Message& message, const Endpoint& from,
                     Instant now);
  [[nodiscard]] bool all_pending(Instant now) const;
  [[nodiscard]] bool all_confirmed() const;
  [[nodiscard]] bool nobody_left(Instant now) const;
  [[nodiscard]] bool all_have_left() const;
  /// Makes the worker with this nonce the holder of the place.
  static void take_place(Member& member, uint64_t nonce);
  static void remember_past(Member& member, const Joiner& joiner);
  [[nodiscard]] JoinAnswer start_or_wait(uint32_t source, Instant now);
  [[nodiscard]] JoinAnswer ask_upstream(Instant now);
  [[nodiscard]] uint32_t least_pending_window() const;
  [[nodiscard]] uint32_t least_pending_gradients_max() const;
  /// Returns the most gradients of a packet, whatever the sources request.
  [[nodiscard]] uint32_t gradients_limit() const;
  [[nodiscard]] uint32_t narrow_max_below() const;
  [[nodiscard]] uint8_t least_pending_channels() const;
  [[nodiscard]] bool all_take_receipts() const;
  /// Returns the directory's answer to a worker with another list than the directory's.
  [[nodiscard]] std::optional<JoinAnswer> redirect(const wire::ControlBody& request,
                                                   Instant now) const;
  /// Compares the lists of aggregators. @return the answer if they differ: the worker waits, or,
  /// after kListsSettleWithin, all workers are refused.
  /// @pre All sources are pending and confirmed.
  [[nodiscard]] std::optional<JoinAnswer> refuse_other_list(Instant now);
  [[nodiscard]] uint64_t next_upstream_nonce();
  void start(Instant now);

  [[nodiscard]] uint32_t tag_of_key(uint32_t upper_half) const;

  JobConfig config_;  ///< Only set_timeout() and set_silence() change it.

  const auth::Key256 root_;
  std::optional<auth::Key128> issuing_;  ///< Makes tags; only with authentication.
  const auth::CookieJar cookies_;

  std::atomic<uint32_t> number_{0};
  std::atomic<uint64_t> upstream_key_{0};
  std::atomic<uint64_t> upstream_result_key_{0};
  std::atomic<uint64_t> upstream_salt_high_{0};
  std::atomic<uint64_t> upstream_salt_low_{0};
  std::atomic<int64_t> plain_ticks_{INT64_MIN};  ///< Time of the last plain traffic.
  std::array<std::atomic<int64_t>, wire::kSourcesMax> heard_ticks_{};
  std::array<std::atomic<int64_t>, wire::kSourcesMax> contributed_ticks_{};
  /// Number of the session, plus one, in which a core has announced the source as a permanent
  /// straggler; 0: none has.
  std::array<std::atomic<uint64_t>, wire::kSourcesMax> permanent_{};
  std::array<std::atomic<bool>, wire::kSourcesMax> left_{};
  std::array<std::atomic<uint32_t>, wire::kSourcesMax> lost_aggregators_{};
  /// Time of a member's first message; kNotHeard before it.
  std::array<std::atomic<int64_t>, wire::kSourcesMax> first_heard_ticks_{};

  /// Jobs of aggregators: the ranks of each source, from its join. Relaxed: used in messages only.
  std::array<std::array<std::atomic<uint64_t>, SourceMask{}.size()>, wire::kSourcesMax> ranks_{};

  /// From each source's join. Relaxed: the source joins before it sends anything else.
  std::array<std::atomic<bool>, wire::kSourcesMax> takes_receipts_{};

  std::array<Member, wire::kSourcesMax> members_{};
  /// The smallest value that a member requested, so that all have the same; 0: none requested one.
  uint32_t agreed_window_ = 0;
  uint32_t agreed_gradients_max_ = 0;
  uint32_t agreed_narrow_max_ = 0;  ///< 16-bit gradients that each lower aggregator can take.
  uint32_t agreed_channels_ = 1;
  wire::ParameterShare agreed_share_;
  uint32_t sessions_started_ = 0;
  bool draining_ = false;        ///< No further session starts.
  bool confirming_ = false;      ///< All sources are pending; each must repeat its join.
  uint32_t upstream_joins_ = 0;  ///< Numbers the nonces of this aggregator's joins.
  uint64_t upstream_nonce_ = 0;
  uint64_t upstream_cookie_ = 0;
  uint32_t upstream_window_ = 0;  ///< The upper aggregator's limit; 0: none known.
  uint32_t upstream_gradients_max_ = 0;
  uint32_t upstream_narrow_max_ = 0;
  uint32_t upstream_channels_ = wire::kChannelsMax;  ///< The upper aggregator's limit.
  Instant upstream_asked_at_;
  UpstreamWatch upstream_watch_;
  Instant upstream_first_asked_at_ = Instant::never();  ///< Since the last session.
  bool upstream_reply_sealed_ = false;                  ///< Since the last session.
  /// Assumed: a join needs two answers, so twice as many suffice.
  ReplyBudget upstream_answers_{/*burst=*/4, /*per_ms=*/1};
  mutable std::mutex table_mutex_;                ///< Taken at joins only.
  std::shared_ptr<const AggregatorTable> table_;  ///< Null: not known yet.
  uint32_t other_list_ = 0;                       ///< A rank whose list differed, for refusals.
  /// Since when the present joins have had different lists; never: their lists are alike.
  Instant lists_differ_since_ = Instant::never();
  wire::ControlBody upstream_refusal_;
  Instant upstream_refused_at_;
};

}  // namespace tributary::trio_ml
