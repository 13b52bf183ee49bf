// SPDX-License-Identifier: Apache-2.0
/// @file
/// The report of culprits: their sources, times and reasons. Like SCFD's
/// `show ddos-protection protocols culprit-flows`.
///
/// Shapes:  A ring of the latest culprits. When it is full, the oldest entry is replaced.
/// Units:   Times of the machine's clock; rates in packets per second.
/// Threads: Owned by the guard's core; read between bursts.
/// Memory:  Taken in the constructor.
/// Tests:   tests/apps/guard/report_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "apps/guard/config.h"
#include "apps/guard/flow_tracker.h"
#include "base/time.h"

namespace tributary::guard {

/// One flow that became a culprit.
struct Culprit {
  Level level = Level::kSource;
  PacketKind kind = PacketKind::kOther;
  Action action = Action::kDrop;
  Address source{};          ///< The prefix; all zero at Level::kDestination.
  uint32_t source_bits = 0;  ///< Prefix length over the 16-byte address; 0 at Level::kDestination.
  Address destination{};
  uint32_t pps_allowed = 0;
  uint64_t pps_max = 0;      ///< The highest rate of a timer period.
  uint64_t dropped = 0;      ///< Packets dropped at this level, or that would be in a dry run.
  bool dry_run = false;      ///< All packets were forwarded.
  Instant above_since = {};  ///< First above its bandwidth.
  Instant above_last = {};   ///< Last above its bandwidth.
  Instant detected_at = {};
  Instant ended_at = Instant::never();
  Change end = Change::kNone;  ///< kRecovered or kTimedOut after ended_at.
};

/// Returns one line: "tcp_syn from anywhere to 198.18.0.1: 200000 packets/s, allowed 20000; …".
/// @param start The times in the line count from here.
[[nodiscard]] std::string to_text(const Culprit& culprit, Instant start = Instant());
/// Returns "12 packets dropped", or, after a dry run, "12 packets would be dropped".
[[nodiscard]] std::string drops_text(const Culprit& culprit);
/// Return the culprit's sources, as in "192.0.2.0/24" or "anywhere", and its destination.
[[nodiscard]] std::string source_text(const Culprit& culprit);
[[nodiscard]] std::string destination_text(const Culprit& culprit);

class Report {
 public:
  using Observer = std::function<void(const Culprit& culprit)>;

  explicit Report(uint32_t capacity) : entries_(capacity) {}

  /// The observer sees each entry when it is added, also one that later entries replace.
  void observe(Observer observer) { observer_ = std::move(observer); }

  /// Adds an entry. @return its number, for update() and close().
  uint64_t add(const Culprit& culprit) {
    entries_[added_ % entries_.size()] = culprit;
    if (observer_) observer_(culprit);
    return added_++;
  }
  /// Copies a culprit's rates and counts to its entry, unless the entry has been replaced.
  void update(uint64_t number, const FlowTracker& tracker) {
    if (is_replaced(number)) return;
    Culprit& entry = entries_[number % entries_.size()];
    entry.pps_max = tracker.pps_max();
    entry.dropped = tracker.dropped();
    entry.above_last = tracker.above_last();
  }
  /// Records the end of a culprit.
  void close(uint64_t number, Change end, Instant now) {
    if (is_replaced(number)) return;
    entries_[number % entries_.size()].end = end;
    entries_[number % entries_.size()].ended_at = now;
  }

  /// Returns the entries by time of detection. Allocates; for readers, not for the packet path.
  [[nodiscard]] std::vector<Culprit> culprits() const;
  /// Returns how many entries were added. Their numbers count from 0.
  [[nodiscard]] uint64_t added() const { return added_; }
  /// Returns an entry; null if it has been replaced. @pre number < added().
  [[nodiscard]] const Culprit* entry(uint64_t number) const {
    return is_replaced(number) ? nullptr : &entries_[number % entries_.size()];
  }
  /// Returns the entries that were replaced by later ones.
  [[nodiscard]] uint64_t replaced() const {
    return added_ > entries_.size() ? added_ - entries_.size() : 0;
  }

 private:
  [[nodiscard]] bool is_replaced(uint64_t number) const { return number < replaced(); }

  std::vector<Culprit> entries_;  ///< Shape [capacity]; entry n lies at n modulo capacity.
  uint64_t added_ = 0;
  Observer observer_;
};

}  // namespace tributary::guard
