// SPDX-License-Identifier: Apache-2.0
#include "engine/model/dispatch.h"

#include "base/assert.h"

namespace tributary::engine {

AvailabilityDispatch::AvailabilityDispatch(const Config& config)
    : config_(config),
      words_((config.ppe_count + kBitsPerWord - 1) / kBitsPerWord),
      busy_(config.ppe_count),
      ppes_with_(size_t{config.threads_each + 1} * words_),
      count_with_(config.threads_each + 1) {
  TRIB_ASSERT(config.ppe_count > 0);
  TRIB_ASSERT(config.threads_each > 0 && config.threads_each <= kThreadsEachMax);
  for (uint32_t ppe = 0; ppe < config.ppe_count; ppe++) {
    ppes_with_[ppe / kBitsPerWord] |= uint64_t{1} << (ppe % kBitsPerWord);
  }
  count_with_[0] = config.ppe_count;
}

void AvailabilityDispatch::move(uint32_t ppe, uint32_t from_load, uint32_t to_load) {
  const uint64_t bit = uint64_t{1} << (ppe % kBitsPerWord);
  ppes_with_[size_t{from_load} * words_ + ppe / kBitsPerWord] &= ~bit;
  ppes_with_[size_t{to_load} * words_ + ppe / kBitsPerWord] |= bit;
  count_with_[from_load]--;
  count_with_[to_load]++;
}

std::optional<uint32_t> AvailabilityDispatch::next_with(uint32_t load, uint32_t from) const {
  if (count_with_[load] == 0) return std::nullopt;
  const uint64_t* set = &ppes_with_[size_t{load} * words_];
  const uint32_t first_word = from / kBitsPerWord;
  // The loop visits the first word twice: first its bits from `from` on, at the end those below it.
  uint64_t in_range = ~uint64_t{0} << (from % kBitsPerWord);
  for (uint32_t i = 0; i <= words_; i++) {
    const uint32_t word = (first_word + i) % words_;
    if ((set[word] & in_range) != 0) {
      return word * kBitsPerWord + static_cast<uint32_t>(std::countr_zero(set[word] & in_range));
    }
    in_range = ~uint64_t{0};
  }
  return std::nullopt;
}

std::optional<PpeThread> AvailabilityDispatch::start() {
  for (uint32_t load = 0; load < config_.threads_each; load++) {
    const auto ppe = next_with(load, next_ppe_);
    if (!ppe) continue;
    const auto thread = static_cast<uint32_t>(std::countr_one(busy_[*ppe]));
    busy_[*ppe] |= uint64_t{1} << thread;
    move(*ppe, load, load + 1);
    next_ppe_ = (*ppe + 1) % config_.ppe_count;
    busy_count_++;
    return PpeThread{*ppe, thread};
  }
  return std::nullopt;
}

void AvailabilityDispatch::finish(PpeThread thread) {
  TRIB_ASSERT(thread.ppe < config_.ppe_count && thread.thread < config_.threads_each);
  const uint64_t bit = uint64_t{1} << thread.thread;
  TRIB_ASSERT((busy_[thread.ppe] & bit) != 0);
  const uint32_t load_before = load(thread.ppe);
  busy_[thread.ppe] &= ~bit;
  move(thread.ppe, load_before, load_before - 1);
  busy_count_--;
}

}  // namespace tributary::engine
