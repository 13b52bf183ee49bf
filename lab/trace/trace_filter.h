// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which events of a trace somebody wants to see.
///
/// Model:   An event is wanted if it meets every condition that is set. What a packet is about
///          (job, block, slot, port, source) is said by its first events at a node, its arrival or
///          its headers; later events of that packet count as being about the same.
/// Units:   Virtual time; packets as numbered at their node.
/// Threads: One object, one thread.
/// Memory:  What packets are about is kept for the newest kPacketsKnown of each node.
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

/// "arrive,table" as a set. Refuses what is none, with a list of what there is.
[[nodiscard]] Result<std::set<TraceKind>> parse_trace_kinds(const std::string& text);

class TraceSelector {
 public:
  /// Packets of a node that are in work at once are far fewer (a packet buffer's worth).
  static constexpr size_t kPacketsKnown = size_t{1} << 17;

  explicit TraceSelector(TraceFilter filter);

  /// Asked for every event, in their order: it learns from those that are not wanted, too.
  [[nodiscard]] bool wants(const TraceEvent& event);
  [[nodiscard]] const TraceFilter& filter() const { return filter_; }
  /// For each of job, block, slot, port and source that is asked for: which values packets had.
  /// "block=99 was asked for, there were 0 to 47; ".
  [[nodiscard]] std::string values_seen_text() const;

 private:
  /// A name that can be filtered by, and the wanted value.
  struct Condition {
    std::string name;
    uint64_t value;
    uint64_t seen_min = UINT64_MAX;
    uint64_t seen_max = 0;
  };
  /// Values by condition; nothing where the packet has not said.
  using About = std::vector<std::optional<uint64_t>>;

  void learn(const TraceEvent& event);
  [[nodiscard]] bool is_about(const TraceEvent& event, size_t condition) const;

  const TraceFilter filter_;
  std::vector<Condition> conditions_;
  std::map<std::string, std::map<uint64_t, About>> about_;  ///< By node, then packet.
};

}  // namespace tributary::lab
