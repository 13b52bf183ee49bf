// SPDX-License-Identifier: Apache-2.0
/// @file
/// A recorded trace and its writers: text by packet, text by time, and JSON lines.
///
/// Units:   Nanoseconds: absolute at a packet's head and in JSON, relative to it below the head.
/// Threads: One object, one thread.
/// Memory:  At most `limit` events; further ones are counted.
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

  /// Returns the first `limit` selected events in order.
  [[nodiscard]] const std::vector<TraceEvent>& events() const { return events_; }
  /// Returns the number of selected events beyond the limit.
  [[nodiscard]] uint64_t more_count() const { return more_count_; }
  [[nodiscard]] const TraceSelector& selector() const { return selector_; }
  /// Returns the number of all events, selected or not.
  [[nodiscard]] uint64_t seen_count() const { return seen_count_; }

 private:
  TraceSelector selector_;
  const size_t limit_;
  std::vector<TraceEvent> events_;
  uint64_t more_count_ = 0;
  uint64_t seen_count_ = 0;
};

/// Returns the events grouped by packet, under the packet's name and the time of its first event.
/// Events without a packet (a timer's thread, a link) are grouped by thread or stand alone. The
/// text ends with the meaning of the kinds that occur, and "… N more" if events were left out.
[[nodiscard]] std::string trace_text(const TraceLog& log);
/// Returns one line per event in order of time.
[[nodiscard]] std::string trace_text_by_time(const TraceLog& log);
/// Returns an event as one line, time first, without a newline.
[[nodiscard]] std::string event_line(const TraceEvent& event);
/// Returns one object per line in order of time: at_ns, node, packet, kind, what, fields. The last
/// line has "more", the number of events left out.
[[nodiscard]] std::string trace_json_lines(const TraceLog& log);

}  // namespace tributary::lab
