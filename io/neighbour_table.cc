// SPDX-License-Identifier: Apache-2.0
#include "io/neighbour_table.h"

#include <cstring>

#include "base/assert.h"
#include "io/link_inspect.h"

namespace tributary::io {

size_t AddressHash::operator()(const Endpoint& endpoint) const {
  uint64_t low;
  uint64_t high;
  std::memcpy(&low, endpoint.address.data(), sizeof low);
  std::memcpy(&high, endpoint.address.data() + sizeof low, sizeof high);
  // Two odd constants spread neighbouring addresses over the upper bits, which are taken.
  const uint64_t mixed = (high ^ low * 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
  return mixed ^ mixed >> 32;
}

bool AddressEqual::operator()(const Endpoint& a, const Endpoint& b) const {
  return same_address(a, b);
}

NeighbourTable::NeighbourTable(uint32_t entries_max) : entries_max_(entries_max) {
  TRIB_ASSERT(entries_max > 0);
  hops_.reserve(entries_max);
  order_.reserve(entries_max);
}

void NeighbourTable::learn(const Endpoint& address, const Hop& hop) {
  const std::lock_guard lock(mutex_);
  const auto found = hops_.find(address);
  if (found != hops_.end()) {
    if (found->second == hop) return;
    found->second = hop;
  } else {
    if (order_.size() < entries_max_) {
      order_.push_back(address);
    } else {
      hops_.erase(order_[next_]);
      order_[next_] = address;
      next_ = (next_ + 1) % entries_max_;
    }
    hops_.emplace(address, hop);
  }
  version_.fetch_add(1, std::memory_order_release);
}

std::optional<Hop> NeighbourTable::find(const Endpoint& address) const {
  const std::lock_guard lock(mutex_);
  const auto found = hops_.find(address);
  if (found == hops_.end()) return std::nullopt;
  return found->second;
}

uint32_t NeighbourTable::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(hops_.size());
}

NeighbourCache::NeighbourCache(NeighbourTable& table) : table_(table), slots_(kSlots) {}

NeighbourCache::Slot& NeighbourCache::slot_of(const Endpoint& address) {
  return slots_[AddressHash{}(address) % kSlots];
}

void NeighbourCache::learn(const Endpoint& address, const Hop& hop) {
  const Slot& slot = slot_of(address);
  if (slot.version == table_.version() && slot.hop == hop && same_address(slot.address, address)) {
    return;
  }
  table_.learn(address, hop);
  static_cast<void>(find(address));  // Into the cache.
}

std::optional<Hop> NeighbourCache::find(const Endpoint& address) {
  const uint64_t version = table_.version();
  Slot& slot = slot_of(address);
  if (slot.version == version && same_address(slot.address, address)) return slot.hop;
  const auto found = table_.find(address);
  if (found) slot = {.address = address, .hop = *found, .version = version};
  return found;
}

}  // namespace tributary::io
