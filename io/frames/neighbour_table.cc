// SPDX-License-Identifier: Apache-2.0
#include "io/frames/neighbour_table.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "io/frames/link_inspect.h"

namespace tributary::io {

size_t AddressHash::operator()(const Endpoint& endpoint) const {
  uint64_t low;
  uint64_t high;
  std::memcpy(&low, endpoint.address.data(), sizeof low);
  std::memcpy(&high, endpoint.address.data() + sizeof low, sizeof high);
  // Two odd constants spread neighbouring addresses over the upper bits, which the result uses.
  const uint64_t mixed = (high ^ low * 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
  return mixed ^ mixed >> 32;
}

bool AddressEqual::operator()(const Endpoint& a, const Endpoint& b) const {
  return same_address(a, b);
}

NeighbourTable::NeighbourTable(uint32_t entries_max) : entries_max_(entries_max) {
  TRIB_ASSERT(entries_max > 0);
  neighbours_.reserve(entries_max);
  order_.reserve(entries_max);
  questions_.reserve(kQuestionsMax);
}

void NeighbourTable::learn(const Endpoint& address, const Hop& hop, Instant now) {
  const std::lock_guard lock(mutex_);
  learn_locked(address, hop, now);
}

void NeighbourTable::learn_locked(const Endpoint& address, const Hop& hop, Instant now) {
  const auto found = neighbours_.find(address);
  if (found != neighbours_.end()) {
    Neighbour& known = found->second;
    if (known.pinned && known.hop.mac != hop.mac) return;
    // Queues read the clock at different times.
    known.last_heard_at = std::max(known.last_heard_at, now);
    if (known.hop == hop) return;
    known.hop = hop;
  } else {
    if (order_.size() < entries_max_) {
      order_.push_back(address);
    } else {
      neighbours_.erase(order_[next_]);
      order_[next_] = address;
      next_ = (next_ + 1) % entries_max_;
    }
    neighbours_.emplace(address, Neighbour{.hop = hop, .last_heard_at = now});
  }
  version_.fetch_add(1, std::memory_order_release);
}

void NeighbourTable::leave_ring(const Endpoint& address) {
  // Sorts the ring by age, oldest first.
  std::rotate(order_.begin(), order_.begin() + next_, order_.end());
  next_ = 0;
  std::erase_if(order_, [&](const Endpoint& known) { return same_address(known, address); });
}

void NeighbourTable::forget(const Endpoint& address) {
  const std::lock_guard lock(mutex_);
  const auto found = neighbours_.find(address);
  if (found == neighbours_.end() || found->second.pinned) return;
  neighbours_.erase(found);
  leave_ring(address);
  version_.fetch_add(1, std::memory_order_release);
}

bool NeighbourTable::pin(const Endpoint& address, const MacAddress& mac) {
  const std::lock_guard lock(mutex_);
  Neighbour& neighbour = neighbours_[address];
  if (!neighbour.pinned) {
    leave_ring(address);
    if (pinned_count_ == kPinnedMax) {
      neighbours_.erase(address);
      return false;
    }
    pinned_count_++;
  }
  neighbour.pinned = true;
  neighbour.hop.mac = mac;
  version_.fetch_add(1, std::memory_order_release);
  return true;
}

void NeighbourTable::unpin(const Endpoint& address) {
  const std::lock_guard lock(mutex_);
  const auto found = neighbours_.find(address);
  if (found == neighbours_.end() || !found->second.pinned) return;
  neighbours_.erase(found);
  pinned_count_--;
  version_.fetch_add(1, std::memory_order_release);
}

std::optional<Neighbour> NeighbourTable::find(const Endpoint& address) const {
  const std::lock_guard lock(mutex_);
  const auto found = neighbours_.find(address);
  if (found == neighbours_.end()) return std::nullopt;
  return found->second;
}

uint32_t NeighbourTable::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(neighbours_.size());
}

bool NeighbourTable::open_question(const Endpoint& address) {
  const std::lock_guard lock(mutex_);
  if (questions_.size() == kQuestionsMax) return false;
  for (const Endpoint& open : questions_) {
    if (same_address(open, address)) return false;
  }
  questions_.push_back(address);
  return true;
}

void NeighbourTable::close_question(const Endpoint& address) {
  const std::lock_guard lock(mutex_);
  std::erase_if(questions_, [&](const Endpoint& open) { return same_address(open, address); });
}

bool NeighbourTable::take_answer(const Endpoint& address, const Hop& hop, Instant now) {
  const std::lock_guard lock(mutex_);
  const auto closed =
      std::erase_if(questions_, [&](const Endpoint& open) { return same_address(open, address); });
  if (closed == 0) return false;
  learn_locked(address, hop, now);
  return true;
}

NeighbourCache::NeighbourCache(NeighbourTable& table) : table_(table), slots_(kSlots) {}

NeighbourCache::Slot& NeighbourCache::slot_of(const Endpoint& address) {
  return slots_[AddressHash{}(address) % kSlots];
}

void NeighbourCache::learn(const Endpoint& address, const Hop& hop, Instant now) {
  const Slot& slot = slot_of(address);
  if (slot.version == table_.version() && now < slot.confirm_again_at && slot.hop == hop &&
      same_address(slot.address, address)) {
    return;
  }
  table_.learn(address, hop, now);
  static_cast<void>(find(address, now));  // Copies the entry into the cache.
}

std::optional<NeighbourCache::CachedHop> NeighbourCache::find(const Endpoint& address,
                                                              Instant now) {
  const uint64_t version = table_.version();
  Slot& slot = slot_of(address);
  if (slot.version == version && now < slot.valid_until && same_address(slot.address, address)) {
    return CachedHop{.hop = slot.hop};
  }
  const auto known = table_.find(address);
  if (!known) return std::nullopt;
  const bool is_stale = known->is_stale(now);
  slot = {.address = address,
          .hop = known->hop,
          .version = version,
          .valid_until = is_stale ? now + kStaleReportEvery : known->last_heard_at + kReachableFor,
          .confirm_again_at = known->last_heard_at + kConfirmEvery};
  // A change of the version ends the validity of a pinned entry.
  if (known->pinned) slot.valid_until = slot.confirm_again_at = Instant::never();
  return CachedHop{.hop = known->hop, .is_stale = is_stale};
}

}  // namespace tributary::io
