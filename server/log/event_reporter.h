// SPDX-License-Identifier: Apache-2.0
/// @file
/// Turns events of the cores, and changes between two snapshots, into lines of the log.
///
/// Model:   Events name the state changes that a core decides. A comparison of snapshots finds the
///          rest: ranks that keep others waiting, a directory's plans, and packets refused or
///          dropped.
/// Threads: One.
/// Tests:   tests/server/log/event_reporter_test.cc
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/trio_ml/event.h"
#include "server/log/log.h"
#include "server/observed_server.h"
#include "server/snapshot.h"

namespace tributary::server {

/// A rank that keeps others waiting this long is logged. Assumed: longer than the differences
/// between healthy ranks, and than kSilenceShown, so that the line knows whether the rank is
/// silent.
inline constexpr Duration kWaitLogged = milliseconds(1'700);

class EventReporter {
 public:
  /// @param log Must outlive this object.
  explicit EventReporter(Log& log) : log_(log) {}

  /// Writes the line of an event.
  void report(const trio_ml::Event& event);
  /// Writes the changes since the previous call. The first call writes plans only.
  void compare(const Snapshot& snapshot);
  /// Asks for a snapshot and compares it, if the log's level takes such lines. Otherwise the next
  /// comparison writes no counts: they would be older than its period.
  void compare_if_logged(ObservedServer& server);
  /// Writes that a drained job has gone.
  void report_drained(uint32_t job);
  /// Writes the number of events lost since the previous call, if any.
  void report_lost(uint64_t events_lost);

 private:
  using Counts = std::map<std::string, uint64_t>;
  /// Job, index of the source, and its ranks: those of a lower aggregator may change.
  using Source = std::tuple<uint32_t, uint32_t, std::vector<uint32_t>>;

  /// Place and id of a session of SwitchML: those of --session have no id.
  using Session = std::pair<uint32_t, uint64_t>;

  void compare_counts(const char* event, const Counts& counts, Counts& before);
  void compare_waits(const Snapshot& snapshot);
  void compare_sessions(const Snapshot& snapshot);
  void compare_plans(const Snapshot& snapshot);

  Log& log_;
  bool has_snapshot_ = false;
  Counts refused_;
  Counts dropped_;
  std::map<Source, Instant> waits_;  ///< When the wait was first seen.
  std::set<Source> waits_logged_;
  std::map<Session, uint64_t> session_workers_;  ///< Registered workers.
  std::map<uint32_t, uint64_t> plans_;           ///< Last plan logged for each job of a directory.
  uint64_t resets_ = 0;
  uint64_t events_lost_ = 0;
};

/// Returns the fields that name ranks: `rank` for one, `ranks` such as "0-3,7" for several, none
/// for an empty list. @param ranks Ascending.
[[nodiscard]] LogFields rank_fields(const std::vector<uint32_t>& ranks);

}  // namespace tributary::server
