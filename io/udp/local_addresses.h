// SPDX-License-Identifier: Apache-2.0
/// @file
/// The local addresses at which packets have arrived at a port on a wildcard address. Their indexes
/// travel in Endpoint::via, so that a reply leaves from the address that its request reached.
///
/// Shapes:  Index 0 stands for no address; others count up from 1 and never change.
/// Threads: Any thread may call; finding takes no lock.
/// Errors:  A full table gives index 0. Only addresses of this machine ever enter it.
/// Memory:  kAddressesMax endpoints, part of the object.
/// Tests:   tests/io/udp/local_addresses_test.cc
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/endpoint.h"

namespace tributary::io {

class LocalAddresses {
 public:
  /// Most addresses of one machine that a port tells apart. Assumed.
  static constexpr uint32_t kAddressesMax = 64;

  /// Returns the address's index, adding it if it is new; 0 if the table is full.
  /// @param address Port 0; scope_id only for an IPv6 link-local address.
  [[nodiscard]] uint16_t index_of(const Endpoint& address);

  /// Returns the address with this index; null for 0 and for an index that was never given.
  [[nodiscard]] const Endpoint* find(uint16_t index) const {
    // Acquire: see index_of().
    if (index == 0 || index > count_.load(std::memory_order_acquire)) return nullptr;
    return &addresses_[index - 1];
  }

 private:
  [[nodiscard]] uint16_t search(const Endpoint& address, uint32_t count) const;

  std::mutex adding_;
  std::atomic<uint32_t> count_{0};
  std::array<Endpoint, kAddressesMax> addresses_;  ///< The first count_ of them never change.
};

}  // namespace tributary::io
