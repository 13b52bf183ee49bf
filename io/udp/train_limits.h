// SPDX-License-Identifier: Apache-2.0
/// @file
/// The destinations to which the kernel has refused a train, each with the largest segment that may
/// still go as a train. A destination behind a small MTU does not slow down the others.
///
/// Model:   A cache with one place for each hash of an address; a newer entry replaces an older
///          one. A lost or expired entry costs one refused train, whose packets are sent singly.
///          Ports share an entry, because they share a route.
/// Units:   Bytes of UDP payload in a segment; 0: no trains at all.
/// Threads: Owned by the queue's thread.
/// Memory:  kPlaces entries, part of the object.
/// Tests:   tests/io/udp/train_limits_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/endpoint.h"
#include "base/time.h"

namespace tributary::io {

class TrainLimits {
 public:
  static constexpr uint32_t kPlaces = 256;
  /// Lifetime of an entry. Routes and MTUs change, and a new attempt costs one refused train.
  /// Assumed; Linux keeps a learned path MTU for ten minutes.
  static constexpr Duration kLifetime = seconds(60);

  /// Returns true if no train was ever refused: then there is no need to call of().
  [[nodiscard]] bool empty() const { return empty_; }

  /// Returns the largest segment for trains to this destination.
  [[nodiscard]] uint32_t of(const Endpoint& destination, Instant now) const {
    const Entry& entry = entries_[place_of(destination)];
    const bool applies = now < entry.until && is_same_address(entry.destination, destination);
    return applies ? entry.segment_bytes_max : UINT32_MAX;
  }

  /// Records that trains with segments above `segment_bytes_max` are refused.
  void lower(const Endpoint& destination, uint32_t segment_bytes_max, Instant now) {
    empty_ = false;
    entries_[place_of(destination)] = {
        destination, std::min(of(destination, now), segment_bytes_max), now + kLifetime};
  }

 private:
  struct Entry {
    Endpoint destination;
    uint32_t segment_bytes_max = 0;
    Instant until;  ///< An entry that was never set has expired.
  };

  static bool is_same_address(const Endpoint& a, const Endpoint& b) {
    return a.address == b.address && a.scope_id == b.scope_id;
  }
  static uint32_t place_of(const Endpoint& destination) {
    std::array<uint64_t, 2> words;
    std::memcpy(words.data(), destination.address.data(), sizeof words);
    // The golden ratio times 2^64; its product spreads every bit over the upper byte.
    constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;
    return static_cast<uint32_t>(((words[0] * kSpread) ^ words[1]) * kSpread >> 56);
  }

  bool empty_ = true;
  std::array<Entry, kPlaces> entries_;
};
static_assert(TrainLimits::kPlaces == 1U << 8, "place_of() gives a byte");

}  // namespace tributary::io
