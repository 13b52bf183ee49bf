// SPDX-License-Identifier: Apache-2.0
#include "engine/model/dispatch.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"

namespace tributary::engine {

AvailabilityDispatch::AvailabilityDispatch(const Config& config)
    : config_(config),
      words_((config.ppe_count + kBitsPerWord - 1) / kBitsPerWord),
      busy_(config.ppe_count),
      load_(config.ppe_count),
      ppes_with_(size_t{config.threads_each + 1} * words_),
      count_with_(config.threads_each + 1) {
  TRIB_ASSERT(config.ppe_count > 0);
  TRIB_ASSERT(config.threads_each > 0 && config.threads_each <= kThreadsEachMax);
  for (uint32_t ppe = 0; ppe < config.ppe_count; ppe++) {
    ppes_with_[ppe / kBitsPerWord] |= uint64_t{1} << (ppe % kBitsPerWord);
  }
  count_with_[0] = config.ppe_count;
}

uint32_t AvailabilityDispatch::next_with(uint32_t load, uint32_t from) const {
  const uint64_t* set = &ppes_with_[size_t{load} * words_];
  // The loop may visit the first word twice: first its bits from `from` on, then all of it.
  uint64_t in_range = ~uint64_t{0} << (from % kBitsPerWord);
  for (uint32_t word = from / kBitsPerWord;; word = word + 1 == words_ ? 0 : word + 1) {
    const uint64_t found = set[word] & in_range;
    if (found != 0) return word * kBitsPerWord + static_cast<uint32_t>(std::countr_zero(found));
    in_range = ~uint64_t{0};
  }
}

uint32_t AvailabilityDispatch::start_in_word(uint32_t count, std::vector<PpeThread>& to) {
  const uint32_t load = lowest_load_;
  const uint32_t first = next_with(load, next_ppe_);
  const uint32_t word = first / kBitsPerWord;
  uint64_t& set = ppes_with_[size_t{load} * words_ + word];
  const uint64_t in_range = set & ~uint64_t{0} << (first % kBitsPerWord);
  uint64_t left = in_range;
  uint32_t taken = 0;
  for (; left != 0 && taken < count; left &= left - 1) {
    const uint32_t ppe = word * kBitsPerWord + static_cast<uint32_t>(std::countr_zero(left));
    const auto thread = static_cast<uint32_t>(std::countr_one(busy_[ppe]));
    busy_[ppe] |= uint64_t{1} << thread;
    load_[ppe] = load + 1;
    to.push_back({ppe, thread});
    taken++;
  }
  const uint64_t moved = in_range & ~left;
  set &= ~moved;
  ppes_with_[size_t{load + 1} * words_ + word] |= moved;
  count_with_[load] -= taken;
  count_with_[load + 1] += taken;
  while (count_with_[lowest_load_] == 0) lowest_load_++;
  next_ppe_ = to.back().ppe + 1 == config_.ppe_count ? 0 : to.back().ppe + 1;
  busy_count_ += taken;
  return taken;
}

void AvailabilityDispatch::start(uint32_t count, std::vector<PpeThread>& to) {
  while (count > 0) {
    TRIB_ASSERT(lowest_load_ < config_.threads_each);
    count -= start_in_word(count, to);
  }
}

std::optional<PpeThread> AvailabilityDispatch::start() {
  if (lowest_load_ == config_.threads_each) return std::nullopt;
  started_.clear();
  start(1, started_);
  return started_.front();
}

void AvailabilityDispatch::finish(std::span<const PpeThread> threads) {
  while (!threads.empty()) threads = threads.subspan(finish_in_word(threads));
}

size_t AvailabilityDispatch::finish_in_word(std::span<const PpeThread> threads) {
  TRIB_ASSERT(threads.front().ppe < config_.ppe_count);
  const uint32_t word = threads.front().ppe / kBitsPerWord;
  const uint32_t load_before = load(threads.front().ppe);
  uint64_t moved = 0;
  uint32_t given = 0;
  for (const PpeThread& thread : threads) {
    TRIB_ASSERT(thread.ppe < config_.ppe_count && thread.thread < config_.threads_each);
    // A PPE that has given a thread already has another load.
    if (thread.ppe / kBitsPerWord != word || load_[thread.ppe] != load_before) break;
    const uint64_t bit = uint64_t{1} << thread.thread;
    TRIB_ASSERT((busy_[thread.ppe] & bit) != 0);
    busy_[thread.ppe] &= ~bit;
    load_[thread.ppe] = load_before - 1;
    moved |= uint64_t{1} << (thread.ppe % kBitsPerWord);
    given++;
  }
  uint64_t* const sets = &ppes_with_[size_t{load_before} * words_ + word];
  *sets &= ~moved;
  *(sets - words_) |= moved;
  count_with_[load_before] -= given;
  count_with_[load_before - 1] += given;
  lowest_load_ = std::min(lowest_load_, load_before - 1);
  busy_count_ -= given;
  return given;
}

}  // namespace tributary::engine
