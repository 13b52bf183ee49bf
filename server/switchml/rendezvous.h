// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where the workers of a SwitchML job meet before they send: the published control plane's
/// Broadcast and Barrier, without its network. docs/switchml.md explains how calls are grouped.
///
/// Model:   A broadcast forms a group of num_workers ranks. The group identifies its ranks, and so
///          its barriers, by their connections.
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
  /// Forgets a call whose caller has disconnected.
  void cancel(Ticket ticket);
  /// Answers every call whose deadline has passed with an error.
  void on_time(Instant now);
  /// Returns the time of the next on_time() call.
  [[nodiscard]] Instant next_deadline() const;
  /// Returns the answers since the last call.
  [[nodiscard]] std::vector<Answer> take_answers();

 private:
  struct Waiting {
    std::vector<Ticket> tickets;
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
  };

  void answer(Ticket ticket, Error error, std::string text, uint64_t value = 0);
  void answer_all(Waiting& waiting, Error error, const std::string& text, uint64_t value = 0);
  void add(Waiting& waiting, Ticket ticket, Instant now) const;
  [[nodiscard]] Group* group_for(const std::string& peer, const Broadcast& request, Instant now);
  void drop_superseded(const std::string& peer, const Broadcast& request);
  void arrive(Waiting& barrier, uint32_t num_workers, Ticket ticket, Instant now);

  const Duration deadline_;
  Ticket tickets_ = 0;
  std::deque<Group> groups_;                 ///< Oldest first.
  std::vector<Waiting> ungrouped_barriers_;  ///< Outside groups; index is num_workers.
  std::vector<Answer> answers_;
};

}  // namespace tributary::server
