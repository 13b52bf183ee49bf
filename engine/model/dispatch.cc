// SPDX-License-Identifier: Apache-2.0
#include "engine/model/dispatch.h"

#include <tuple>

#include "base/assert.h"

namespace tributary::engine {
namespace {

constexpr uint32_t kBits = PpeGroup::kBits;

/// Returns the lowest `count` flags that are set, or all if there are fewer.
uint64_t first_of(uint64_t flags, uint32_t count) {
  uint64_t left = flags;
  for (uint32_t i = 0; i < count && left != 0; i++) left &= left - 1;
  return flags & ~left;
}

}  // namespace

AvailabilityDispatch::AvailabilityDispatch(const Config& config)
    : config_(config),
      plane_count_(static_cast<uint32_t>(std::bit_width(config.threads_each))),
      loads_((config.ppe_count + kBits - 1) / kBits),
      lowest_(loads_.size()),
      numbers_(config.ppe_count) {
  TRIB_ASSERT(config.ppe_count > 0);
  TRIB_ASSERT(config.threads_each > 0 && config.threads_each <= kThreadsEachMax);
}

uint32_t AvailabilityDispatch::load(uint32_t ppe) const {
  uint32_t load = 0;
  for (uint32_t plane = 0; plane < std::tuple_size_v<Planes>; plane++) {
    load |= static_cast<uint32_t>(loads_[ppe / kBits][plane] >> (ppe % kBits) & 1) << plane;
  }
  return load;
}

void AvailabilityDispatch::find_lowest() {
  const size_t words = lowest_.size();
  for (size_t word = 0; word < words; word++) lowest_[word] = ~uint64_t{0};
  const uint32_t in_last_word = (config_.ppe_count - 1) % kBits + 1;
  lowest_.back() >>= kBits - in_last_word;
  // From the highest bit of the loads on, a PPE without it is below all PPEs with it.
  for (uint32_t plane = plane_count_; plane-- > 0;) {
    uint64_t without = 0;
    for (size_t word = 0; word < words; word++) without |= lowest_[word] & ~loads_[word][plane];
    if (without == 0) continue;
    for (size_t word = 0; word < words; word++) lowest_[word] &= ~loads_[word][plane];
  }
  lowest_count_ = 0;
  for (size_t word = 0; word < words; word++) {
    lowest_count_ += static_cast<uint32_t>(std::popcount(lowest_[word]));
  }
}

PpeGroup AvailabilityDispatch::next_lowest() const {
  uint32_t word = next_ppe_ / kBits;
  // The loop may visit the first word twice: first its flags from next_ppe_ on, then all of them.
  uint64_t in_range = ~uint64_t{0} << (next_ppe_ % kBits);
  while ((lowest_[word] & in_range) == 0) {
    in_range = ~uint64_t{0};
    word = word + 1 == lowest_.size() ? 0 : word + 1;
  }
  return {word, lowest_[word] & in_range};
}

PpeGroup AvailabilityDispatch::start_group(uint32_t count) {
  if (lowest_count_ == 0) find_lowest();
  PpeGroup group = next_lowest();
  group.ppes = first_of(group.ppes, count);
  lowest_[group.word] &= ~group.ppes;
  lowest_count_ -= static_cast<uint32_t>(std::popcount(group.ppes));
  add_one(loads_[group.word], group.ppes);
  next_ppe_ = group.word * kBits + static_cast<uint32_t>(std::bit_width(group.ppes));
  if (next_ppe_ == config_.ppe_count) next_ppe_ = 0;
  return group;
}

void AvailabilityDispatch::start(uint32_t count, TakenThreads& to) {
  TRIB_ASSERT(to.empty() && count > 0);
  TRIB_ASSERT(count <= config_.ppe_count * config_.threads_each - busy_count_);
  for (uint32_t left = count; left > 0;) {
    to.groups.push_back(start_group(left));
    left -= static_cast<uint32_t>(std::popcount(to.groups.back().ppes));
  }
  const PpeGroup& first = to.groups.front();
  to.first.ppe = first.word * kBits + static_cast<uint32_t>(std::countr_zero(first.ppes));
  to.first.thread = take_number(to.first.ppe);
  to.count = count;
  busy_count_ += count;
}

void AvailabilityDispatch::finish(const TakenThreads& threads) {
  TRIB_ASSERT(threads.first.ppe < config_.ppe_count);
  const uint64_t number = uint64_t{1} << threads.first.thread;
  TRIB_ASSERT((numbers_[threads.first.ppe] & number) != 0);
  numbers_[threads.first.ppe] &= ~number;
  for (const PpeGroup& group : threads.groups) subtract_one(loads_[group.word], group.ppes);
  lowest_count_ = 0;
  busy_count_ -= threads.count;
}

uint32_t AvailabilityDispatch::take_number(uint32_t ppe) {
  const auto number = static_cast<uint32_t>(std::countr_one(numbers_[ppe]));
  TRIB_ASSERT(number < config_.threads_each);
  numbers_[ppe] |= uint64_t{1} << number;
  return number;
}

void AvailabilityDispatch::add_one(Planes& planes, uint64_t ppes) {
  uint64_t carry = ppes;
  for (uint64_t& plane : planes) {
    const uint64_t both = plane & carry;
    plane ^= carry;
    carry = both;
  }
  TRIB_ASSERT(carry == 0);
}

void AvailabilityDispatch::subtract_one(Planes& planes, uint64_t ppes) {
  uint64_t borrow = ppes;
  for (uint64_t& plane : planes) {
    const uint64_t lacking = borrow & ~plane;
    plane ^= borrow;
    borrow = lacking;
  }
  TRIB_ASSERT(borrow == 0);
}

}  // namespace tributary::engine
