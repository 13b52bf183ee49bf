// SPDX-License-Identifier: Apache-2.0
/// @file
/// Selects the events of a trace that a user asked for.
///
/// Model:   An event is selected if it meets every condition that is set. A packet's first events
///          at a node (its arrival or its headers) state its job, block, slot, port and source; the
///          packet's later events inherit them.
/// Units:   Virtual time; packets as numbered at their node.
/// Threads: One object, one thread.
/// Memory:  Attributes are kept for the newest kPacketsKnown packets of each node.
/// Tests:   tests/lab/trace/trace_filter_test.cc
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/trace.h"

namespace tributary::lab {

struct TraceFilter {
  std::string node;  ///< Empty: all.
  std::optional<uint64_t> packet;
  std::optional<uint64_t> job;
  std::optional<uint64_t> block;
  std::optional<uint64_t> slot;
  std::optional<uint64_t> port;
  std::optional<uint64_t> source;
  Instant from;
  Instant to = Instant::never();  ///< Inclusive.
  std::set<TraceKind> kinds;      ///< Empty: all.
};

/// Parses a list such as "arrive,table". Refuses an unknown kind with the list of kinds.
[[nodiscard]] Result<std::set<TraceKind>> parse_trace_kinds(const std::string& text);

class TraceSelector {
 public:
  /// Far more than a node processes at once (a packet buffer's worth).
  static constexpr size_t kPacketsKnown = size_t{1} << 17;

  explicit TraceSelector(TraceFilter filter);

  /// Returns whether the event is selected. Call it for every event in order: it also records the
  /// attributes of unselected events.
  [[nodiscard]] bool wants(const TraceEvent& event);
  [[nodiscard]] const TraceFilter& filter() const { return filter_; }
  /// Returns, for each requested job, block, slot, port and source, the range of values seen:
  /// "block=99 was asked for, there were 0 to 47; ".
  [[nodiscard]] std::string values_seen_text() const;

 private:
  /// The name of an attribute and the requested value.
  struct Condition {
    std::string name;
    uint64_t value;
    uint64_t seen_min = UINT64_MAX;
    uint64_t seen_max = 0;
  };
  /// Values by condition; nothing for an unknown attribute.
  using About = std::vector<std::optional<uint64_t>>;

  void learn(const TraceEvent& event);
  [[nodiscard]] bool is_about(const TraceEvent& event, size_t condition) const;

  const TraceFilter filter_;
  std::vector<Condition> conditions_;
  std::map<std::string, std::map<uint64_t, About>> about_;  ///< By node, then packet.
};

}  // namespace tributary::lab
