// SPDX-License-Identifier: Apache-2.0
/// @file
/// Numbers for IP addresses, from 0 and without gaps, so that tables by address can be small
/// arrays. All switches of a network share one book. It stays in the cache, where a hash table in
/// each of 36 switches does not.
///
/// Threads: One.
/// Memory:  24 bytes a place, at most half of them used.
/// Tests:   tests/net/routing_test.cc
#pragma once

#include <cstdint>
#include <vector>

#include "base/endpoint.h"

namespace tributary::net {

class AddressBook {
 public:
  static constexpr uint32_t kUnknown = UINT32_MAX;

  AddressBook();

  /// Returns the number of `endpoint`'s address, without its UDP port. Numbers a new address.
  uint32_t add(const Endpoint& endpoint);
  /// Returns the number of `endpoint`'s address, or kUnknown if it has none.
  [[nodiscard]] uint32_t find(const Endpoint& endpoint) const;
  [[nodiscard]] uint32_t size() const { return size_; }

 private:
  struct Place {
    uint64_t high = 0;  ///< The address, as two words.
    uint64_t low = 0;
    uint32_t number = kUnknown;
  };

  [[nodiscard]] uint64_t place_of(uint64_t high, uint64_t low) const;

  std::vector<Place> places_;  ///< Open addressing; a power of two.
  uint32_t size_ = 0;
};

}  // namespace tributary::net
