// SPDX-License-Identifier: Apache-2.0
/// @file
/// The meeting of a SwitchML job's workers before they send: the published control plane's
/// Broadcast and Barrier, without its network. docs/switchml.md explains how calls are grouped.
///
/// Model:   A broadcast forms a group of num_workers ranks, identified by their connections. If a
///          rank leaves or is refused after that, its group fails: all others get the reason.
/// Bounds:  At most kGroupsMax groups of at most kWorkersMax ranks. Waits end at the deadline.
/// Known:   Two jobs of one size must not form on one control port at the same time.
/// Threads: None of its own; the caller serialises calls.
/// Errors:  An Answer with `error`; the text names the missing ranks.
/// Source:  p4lang/p4app-switchML, commit b5c74a0: protos/switchml.proto and its client.
/// Tests:   tests/server/switchml/rendezvous_test.cc
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/time.h"

namespace tributary::server {

class Rendezvous {
 public:
  /// Most groups known at once. Assumed: far more jobs than start within a deadline.
  static constexpr uint32_t kGroupsMax = 32;

  using Ticket = uint64_t;  ///< Identifies a waiting call.
  enum class Error : uint8_t { kNone, kInvalid, kTooMany, kDeadline, kAborted };
  struct Answer {
    Ticket ticket = 0;
    Error error = Error::kNone;
    std::string text;    ///< Set if `error` is.
    uint64_t value = 0;  ///< The broadcast value.
  };
  struct Broadcast {
    uint64_t value = 0;
    uint32_t rank = 0;
    uint32_t num_workers = 0;
    uint32_t root = 0;
  };

  explicit Rendezvous(Duration deadline) : deadline_(deadline) {}

  /// Starts a broadcast call; its answer appears in take_answers(), at once or later.
  /// @param peer The caller's connection, as "host:port".
  /// @return the call's ticket.
  Ticket broadcast(const std::string& peer, const Broadcast& request, Instant now);
  /// Starts a barrier call, with the same contract. A connection that belongs to no group meets
  /// other such connections with the same num_workers, as in the published controller.
  Ticket barrier(const std::string& peer, uint32_t num_workers, Instant now);
  /// Withdraws a call whose caller has disconnected. In a broadcast, the rank leaves its group, and
  /// its next process may take the place. In a barrier, the rank is part of a session that cannot
  /// become complete, so its group fails.
  void cancel(Ticket ticket);
  /// Answers all waiting calls of this connection's group, and its later barriers, with kAborted
  /// and this text. Does nothing if the connection is in no group.
  void fail(const std::string& peer, const std::string& text);
  /// Answers every call whose deadline has passed with an error.
  void on_time(Instant now);
  /// Returns the time of the next on_time() call.
  [[nodiscard]] Instant next_deadline() const;
  /// Returns the answers since the last call.
  [[nodiscard]] std::vector<Answer> take_answers();

 private:
  struct Call {
    Ticket ticket = 0;
    uint32_t rank = 0;  ///< In its group; unused outside groups.
  };
  struct Waiting {
    std::vector<Call> calls;
    Instant since;  ///< When the first of them arrived.
  };
  struct Group {
    uint32_t num_workers = 0;
    uint32_t root = 0;
    std::vector<std::string> peers;  ///< By rank; empty if it has not arrived.
    bool has_value = false;
    uint64_t value = 0;
    Waiting broadcast;
    Waiting barrier;
    Instant touched_at;
    std::string failure;  ///< Reason why the group cannot start; empty while it can.
  };

  void answer(Ticket ticket, Error error, std::string text, uint64_t value = 0);
  void answer_all(Waiting& waiting, Error error, const std::string& text, uint64_t value = 0);
  static void add(Waiting& waiting, const Call& call, Instant now);
  [[nodiscard]] Group* group_of(const std::string& peer);
  void fail(Group& group, const std::string& text);
  void end_late_calls(Group& group, Instant now);
  void end_late_barrier(Waiting& barrier, uint32_t num_workers, Instant now);
  [[nodiscard]] bool is_late(const Waiting& waiting, Instant now) const;
  [[nodiscard]] Group* group_for(const std::string& peer, const Broadcast& request, Instant now);
  void drop_superseded(const std::string& peer, const Broadcast& request);
  void arrive(Waiting& barrier, uint32_t num_workers, const Call& call, Instant now);

  const Duration deadline_;
  Ticket tickets_ = 0;
  std::deque<Group> groups_;                 ///< Oldest first.
  std::vector<Waiting> ungrouped_barriers_;  ///< Outside groups; index is num_workers.
  std::vector<Answer> answers_;
};

}  // namespace tributary::server
