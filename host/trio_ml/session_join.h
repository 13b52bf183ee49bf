// SPDX-License-Identifier: Apache-2.0
/// @file
/// The join of a worker: repeats its request until the aggregator welcomes or refuses it, and keeps
/// the terms of the session.
///
/// Model:   A request every 50 ms, and one at once if the aggregator sends a cookie or asks to
///          confirm. kPending says that the aggregator waits for other ranks. The welcome sets the
///          terms, each at most as large as the worker asked for. A directory answers each request
///          with an entry of another list.
/// Threads: Owned by one thread.
/// Errors:  An EndReason if the worker is refused, or if its deadline passes.
/// Source:  docs/aggregation-protocol.md §4, docs/wire-format.md.
/// Tests:   tests/host/trio_ml/session_join_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "auth/session_seal.h"
#include "base/endpoint.h"
#include "base/time.h"
#include "host/worker_config.h"
#include "host/worker_errors.h"
#include "wire/trio_ml.h"

namespace tributary::host {

/// The terms that worker and aggregator agreed on.
struct SessionTerms {
  uint64_t key = 0;               ///< In every message of this worker.
  uint64_t result_key = 0;        ///< In every message of the aggregator; names the session.
  uint32_t gradients = 1;         ///< Elements of a block.
  uint32_t narrow_gradients = 0;  ///< `gradients` with 16-bit gradients; 0: not supported.
  uint32_t window = 1;            ///< Positions in flight, at most.
  uint32_t job_window = 0;        ///< The aggregator's configuration; 0: not told.
  uint32_t channels = 1;          ///< Sessions of each rank.
  uint32_t server_ports = 1;      ///< The aggregator's UDP ports; a power of two.
  Duration straggler_timeout{};   ///< 0: no mitigation.
  uint32_t rank_base = 0;         ///< Rank of the aggregator's source 0.
  uint32_t sources = 1;           ///< Sources of this worker's aggregator.
  bool reports = false;           ///< The aggregator takes this worker's counts.
  bool names_receiver = false;    ///< Results of an asynchronous job name their receiver.
  auth::Salt salt;                ///< Makes the session's MAC keys.
  Endpoint group;                 ///< Multicast group of the results; not set: unicast.
};

/// A join that takes longer names the missing peer. Assumed: ranks of one launch start within a
/// second. A refusal without a seal is believed before that, so that a notice does not hide it.
inline constexpr Duration kNoticeAfter = wire::kUnsealedAfter + milliseconds(200);
inline constexpr Duration kNoticeEvery = seconds(10);

class SessionJoin {
 public:
  /// The effect of the aggregator's reply.
  enum class Reply : uint8_t { kWaits, kWelcomed, kRefused, kRedirected };

  /// The first request is due at once.
  /// @param config    Must live longer than this object; its `source` must be set.
  /// @param began_at  The start of the deadline. A later channel's is that of the rank's first one.
  SessionJoin(const CommunicatorConfig& config, Instant began_at);

  [[nodiscard]] bool joined() const { return joined_; }
  /// The terms. Before the welcome: no session, a window of 1, and the worker's own wishes.
  [[nodiscard]] const SessionTerms& terms() const { return terms_; }

  /// Returns the reason of the refusal; kNone: not refused.
  [[nodiscard]] wire::Reason refusal() const { return refusal_; }
  /// Tells whether the aggregator refused the join, so that it knows nothing of this worker.
  [[nodiscard]] bool is_refused() const { return refused_ || !redirection_.empty(); }
  /// Returns the directory's list of aggregators. Complete after Reply::kRedirected.
  [[nodiscard]] const std::vector<Aggregator>& redirection() const { return redirection_; }

  [[nodiscard]] bool request_due(Instant now) const { return !joined_ && now >= request_at_; }
  /// Returns the body of a request. The next one is due 50 ms later, or at
  /// trigger_request().
  [[nodiscard]] wire::ControlBody take_request(Instant now);

  /// Records that the aggregator sealed a reply with this worker's secret.
  void vouch() { vouched_ = true; }
  /// Tells whether to believe a refusal without a seal. Anybody who reads the traffic can forge
  /// one, so the worker first waits for a sealed reply to its requests.
  [[nodiscard]] bool believes_unsealed(Instant now) const {
    return !vouched_ && asked_at_ && now - *asked_at_ >= wire::kUnsealedAfter;
  }

  /// Records that the aggregator's address sends messages of another version of the protocol.
  void note_other_version(uint8_t version) { other_version_ = version; }
  /// Handles a reply to this worker's join. @pre !joined()
  /// A refusal of too many gradients lowers them and asks again if the configuration allows that.
  /// One that does not lower them answers an earlier request, and is ignored.
  Reply on_reply(const wire::Message& message, Instant now);

  /// Returns the reason for the end if the deadline has passed. @pre !joined()
  [[nodiscard]] std::optional<EndReason> check_deadline(Instant now) const;
  /// Returns a sentence that names the ranks or the aggregator that the join waits for,
  /// kNoticeAfter after its start and then every kNoticeEvery; nothing at other times.
  /// @pre !joined()
  [[nodiscard]] std::optional<std::string> take_notice(Instant now);
  /// Returns when the next request or the deadline is due. @pre !joined()
  [[nodiscard]] Instant next_deadline() const;

 private:
  /// The last kPending.
  struct Pending {
    wire::Reason reason = wire::Reason::kNone;  ///< kNone: the aggregator has not answered.
    wire::SourceMask joined{};                  ///< The sources that have joined.
    uint32_t sources = 1;
    uint32_t rank_base = 0;
    Endpoint upper{};       ///< The upper aggregator that the join waits for; not set: none.
    Duration silent_for{};  ///< With Reason::kUpstreamSilent.
  };

  /// Requests between two periodic ones, at most. Bounds the traffic if the aggregator answers
  /// every request with another cookie.
  static constexpr uint32_t kTriggeredRequestsMax = 4;

  [[nodiscard]] std::string absent_ranks() const;
  /// Returns the ranks or the aggregator that the join waits for, as the reason for its end.
  [[nodiscard]] EndReason waits_for(Duration waited) const;
  void accept(const wire::Message& welcome);
  Reply on_other_list(const wire::ControlBody& body, Instant now);
  void trigger_request(Instant now);

  const CommunicatorConfig& config_;
  const Instant started_at_;
  std::optional<Instant> asked_at_;  ///< Time of the first request.
  Instant request_at_;
  Instant period_at_;                ///< When the next periodic request is due.
  uint32_t triggered_requests_ = 0;  ///< Requests since the last periodic one.
  uint64_t cookie_ = 0;              ///< Proves this worker's address; 0: none yet.
  Pending pending_;
  wire::SourceMask came_{};  ///< The sources that joined at some time while this worker waited.
  std::optional<uint8_t> other_version_;  ///< Version of messages that this worker cannot read.
  std::vector<Aggregator> redirection_;   ///< Entries of the list with this digest, so far.
  uint64_t redirection_digest_ = 0;
  bool refused_ = false;
  wire::Reason refusal_ = wire::Reason::kNone;
  bool vouched_ = false;
  bool joined_ = false;
  std::optional<Instant> notice_at_;  ///< Not set before the first question.
  SessionTerms terms_;
};

}  // namespace tributary::host
