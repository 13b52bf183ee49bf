// SPDX-License-Identifier: Apache-2.0
#include "recorder/writer.h"

namespace tributary::recorder {
namespace {

constexpr uint64_t name_of(uint16_t job, uint16_t rank, uint32_t block) {
  return uint64_t{job} << 48 | uint64_t{rank} << 32 | block;
}

}  // namespace

void Writer::begin(BlockRun& run, Kind kind, uint32_t job, uint32_t rank, uint32_t block,
                   Instant now) {
  if (run_count_ > 0 && now - oldest_at_ > kRunAgeMax) flush();
  if (run.kind_ != Kind::kNone) {
    end(run);
  } else {
    if (run_count_ == runs_.size()) flush();
    if (run_count_ == 0) oldest_at_ = now;
    runs_[run_count_++] = &run;
  }
  run.next_ = uint64_t{block} + 1;
  run.first_ = block;
  run.kind_ = kind;
  run.job_ = static_cast<uint16_t>(job);
  run.rank_ = static_cast<uint16_t>(rank);
  run.at_ = now;
  // Relaxed, here and below: this thread is the only writer, and a reader expects torn values.
  Begun& begun = begun_[static_cast<uint32_t>(kind)];
  begun.at_ticks.store(now.since_start().ticks(), std::memory_order_relaxed);
  begun.name.store(name_of(run.job_, run.rank_, block), std::memory_order_relaxed);
}

void Writer::end(BlockRun& run) {
  const auto put = [&](uint64_t first, uint64_t count) {
    ring_.put(to_words({.at_ns = in_nanoseconds(run.at_.since_start()),
                        .kind = run.kind_,
                        .job = run.job_,
                        .rank = run.rank_,
                        .block = static_cast<uint32_t>(first),
                        .count = static_cast<uint32_t>(count)}));
  };
  uint64_t first = run.first_;
  // A timeout may end a whole window within one burst.
  for (; run.next_ - first > kRunBlocksMax; first += kRunBlocksMax) put(first, kRunBlocksMax);
  put(first, run.next_ - first);
  begun_[static_cast<uint32_t>(run.kind_)].name.store(kNoName, std::memory_order_relaxed);
  run = BlockRun();
}

void Writer::flush() {
  for (uint32_t i = 0; i < run_count_; i++) end(*runs_[i]);
  run_count_ = 0;
}

Event Writer::begun_run(Kind kind) const {
  const Begun& begun = begun_[static_cast<uint32_t>(kind)];
  const uint64_t name = begun.name.load(std::memory_order_relaxed);
  const auto at = Duration::from_ticks(begun.at_ticks.load(std::memory_order_relaxed));
  if (name == kNoName) return {};
  return {.at_ns = in_nanoseconds(at),
          .kind = kind,
          .job = static_cast<uint16_t>(name >> 48),
          .rank = static_cast<uint16_t>(name >> 32),
          .open = true,
          .block = static_cast<uint32_t>(name),
          .count = 1};
}

}  // namespace tributary::recorder
