// SPDX-License-Identifier: Apache-2.0
/// @file
/// Numbers for IP addresses, from 0 and without gaps, so that whoever looks up many things by
/// address can keep them in small arrays. One book serves all switches of a network: it stays in
/// the cache, where a hash table in each of 36 switches does not.
///
/// Threads: One.
/// Memory:  24 bytes a place, at most half of them taken.
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

  /// The number of `endpoint`'s address (its UDP port does not matter); a new one if it has none.
  uint32_t add(const Endpoint& endpoint);
  /// Likewise; kUnknown if it has none.
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
