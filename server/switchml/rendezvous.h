// SPDX-License-Identifier: Apache-2.0
/// @file
/// Where the workers of a SwitchML job meet before they send: the published control plane's
/// Broadcast and Barrier, without its network.
///
/// Model:   Neither call names a session. A client begins with Broadcast (its root says the
/// session's
///          number), so that call forms a group of num_workers ranks, and the connection over which
///          a rank called it tells its barriers from those of other jobs. A barrier from a
///          connection of no group meets the others of the same num_workers, as in the published
///          controller.
/// Bounds:  At most kGroupsMax groups and kWorkersMax ranks each; nobody waits longer than the
///          deadline; a caller that goes away is taken back.
/// Known:   Two jobs of the same size that form at the same time on one control port cannot be told
///          apart: a rank that comes twice from one machine is taken for its job started again, and
///          those that waited with the first are told so. Give each job a control port of its own.
/// Threads: None of its own; the caller keeps it to one at a time.
/// Errors:  An Answer with `error`; the text says who is missing.
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
  /// Groups that may form or be known at once. Assumed: far more jobs than start in a deadline.
  static constexpr uint32_t kGroupsMax = 32;

  using Ticket = uint64_t;  ///< A call that waits.
  enum class Error : uint8_t { kNone, kInvalid, kTooMany, kDeadline, kAborted };
  struct Answer {
    Ticket ticket = 0;
    Error error = Error::kNone;
    std::string text;    ///< Of an error.
    uint64_t value = 0;  ///< Of a broadcast.
  };
  struct Broadcast {
    uint64_t value = 0;
    uint32_t rank = 0;
    uint32_t num_workers = 0;
    uint32_t root = 0;
  };

  explicit Rendezvous(Duration deadline) : deadline_(deadline) {}

  /// @param peer The caller's connection, as "host:port".
  /// @return the call's ticket; its answer is in take_answers(), now or later.
  Ticket broadcast(const std::string& peer, const Broadcast& request, Instant now);
  Ticket barrier(const std::string& peer, uint32_t num_workers, Instant now);
  /// The caller has gone.
  void cancel(Ticket ticket);
  /// Those who have waited too long are told.
  void on_time(Instant now);
  /// When on_time() has to be called again.
  [[nodiscard]] Instant next_deadline() const;
  /// Answers since the last call.
  [[nodiscard]] std::vector<Answer> take_answers();

 private:
  struct Waiting {
    std::vector<Ticket> tickets;
    Instant since;  ///< When the first of them came.
  };
  struct Group {
    uint32_t num_workers = 0;
    uint32_t root = 0;
    std::vector<std::string> peers;  ///< By rank; empty: has not come.
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
  std::deque<Group> groups_;               ///< Oldest first.
  std::vector<Waiting> barriers_without_;  ///< Of no group; index is num_workers.
  std::vector<Answer> answers_;
};

}  // namespace tributary::server
