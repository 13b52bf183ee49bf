// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program's counters by name, for comparison in tests.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tributary::apps {

/// The counters that are not zero, by name.
using Counts = std::map<std::string, uint64_t>;

/// Returns the packets of each outcome.
/// @param counters A program's counters, indexed by its Outcome.
template <class Outcome, class Counters>
[[nodiscard]] Counts counts_of(const Counters& counters) {
  Counts counts;
  for (uint32_t i = 0; i < counters.size(); i++) {
    if (counters[i].packets > 0) counts[to_string(static_cast<Outcome>(i))] = counters[i].packets;
  }
  return counts;
}

/// Returns the differences of `now` from `before`.
[[nodiscard]] inline Counts counted_between(const Counts& before, Counts now) {
  for (const auto& [name, packets] : before) {
    now[name] -= packets;
    if (now[name] == 0) now.erase(name);
  }
  return now;
}

}  // namespace tributary::apps
