// SPDX-License-Identifier: Apache-2.0
/// @file
/// A trace that is kept, and how it is written: for people packet by packet or in order of time,
/// for programs as JSON lines.
///
/// Units:   Times in nanoseconds: absolute at a packet's head and in JSON, relative to that below.
/// Threads: One object, one thread.
/// Memory:  At most `limit` events; the rest is counted.
/// Tests:   tests/lab/trace/trace_log_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/trace.h"
#include "lab/trace/trace_filter.h"

namespace tributary::lab {

class TraceLog final : public TraceSink {
 public:
  TraceLog(TraceFilter filter, size_t limit) : selector_(std::move(filter)), limit_(limit) {}

  void on_event(const TraceEvent& event) override;

  /// The first `limit` wanted events, as they came.
  [[nodiscard]] const std::vector<TraceEvent>& events() const { return events_; }
  /// Wanted events that are not among them.
  [[nodiscard]] uint64_t more_count() const { return more_count_; }
  [[nodiscard]] const TraceSelector& selector() const { return selector_; }
  /// Wanted or not.
  [[nodiscard]] uint64_t seen_count() const { return seen_count_; }

 private:
  TraceSelector selector_;
  const size_t limit_;
  std::vector<TraceEvent> events_;
  uint64_t more_count_ = 0;
  uint64_t seen_count_ = 0;
};

/// A packet's events below its name and its first event's time, packet after packet; events of no
/// packet (a timer's thread, a link) likewise by their thread or alone. Ends with what the kinds
/// that occur mean, and "… N more" if there are.
[[nodiscard]] std::string trace_text(const TraceLog& log);
/// One line an event, in order of time.
[[nodiscard]] std::string trace_text_by_time(const TraceLog& log);
/// An event as one line, time first, without a newline.
[[nodiscard]] std::string event_line(const TraceEvent& event);
/// One object a line, in order of time: at_ns, node, packet, kind, what, fields. The last line has
/// "more", the number of events left out.
[[nodiscard]] std::string trace_json_lines(const TraceLog& log);

}  // namespace tributary::lab
