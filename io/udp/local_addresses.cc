// SPDX-License-Identifier: Apache-2.0
#include "io/udp/local_addresses.h"

namespace tributary::io {

uint16_t LocalAddresses::index_of(const Endpoint& address) {
  const uint32_t known = count_.load(std::memory_order_acquire);
  const uint16_t found = search(address, known);
  if (found != 0 || known == kAddressesMax) return found;

  const std::lock_guard lock(adding_);
  const uint32_t count = count_.load(std::memory_order_relaxed);  // Only written under the lock.
  const uint16_t added_meanwhile = search(address, count);
  if (added_meanwhile != 0 || count == kAddressesMax) return added_meanwhile;
  addresses_[count] = address;
  // Release: a thread that reads the new count, here and in find(), also sees the address.
  count_.store(count + 1, std::memory_order_release);
  return static_cast<uint16_t>(count + 1);
}

/// Returns the index of `address` among the first `count`; 0 if it is not there.
uint16_t LocalAddresses::search(const Endpoint& address, uint32_t count) const {
  for (uint32_t i = 0; i < count; i++) {
    if (addresses_[i] == address) return static_cast<uint16_t>(i + 1);
  }
  return 0;
}

}  // namespace tributary::io
