// SPDX-License-Identifier: Apache-2.0
/// @file
/// The k largest flows by bytes.
///
/// Model:   Exact, because every flow has a record: no sketch, no sampling. A flow that ends and
///          begins again counts with the larger of its lives.
/// Threads: Owned by one core.
/// Memory:  k entries, taken in the constructor.
/// Tests:   tests/apps/telemetry/heavy_hitters_test.cc
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "apps/flow_key.h"
#include "memory/rmw.h"

namespace tributary::telemetry {

class HeavyHitters {
 public:
  struct Entry {
    apps::FlowKey key;
    memory::PacketByteCounter total;
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  /// @param count k; may be 0.
  explicit HeavyHitters(uint32_t count) : count_(count) { entries_.reserve(count); }

  /// Records the total of a flow so far. Costs O(k).
  void note(const apps::FlowKey& key, const memory::PacketByteCounter& total) {
    if (count_ == 0) return;
    const auto known = std::ranges::find(entries_, key, &Entry::key);
    if (known != entries_.end()) {
      if (known->total.bytes < total.bytes) known->total = total;
      return;
    }
    if (entries_.size() < count_) {
      entries_.push_back({key, total});
      return;
    }
    const auto smallest = std::ranges::min_element(
        entries_, {}, [](const Entry& entry) { return entry.total.bytes; });
    if (smallest->total.bytes < total.bytes) *smallest = {key, total};
  }

  /// Returns the flows, the largest first; equal ones in the order of their keys. Allocates.
  [[nodiscard]] std::vector<Entry> sorted() const {
    std::vector<Entry> all = entries_;
    std::ranges::sort(all, [](const Entry& a, const Entry& b) {
      return a.total.bytes != b.total.bytes ? a.total.bytes > b.total.bytes : a.key < b.key;
    });
    return all;
  }

 private:
  uint32_t count_;
  std::vector<Entry> entries_;
};

}  // namespace tributary::telemetry
