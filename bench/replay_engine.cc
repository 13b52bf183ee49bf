// SPDX-License-Identifier: Apache-2.0
#include "bench/replay_engine.h"

#include "auth/keys.h"
#include "base/assert.h"

namespace tributary::bench {
namespace {

/// Room for the alignment of allocations.
constexpr uint64_t kMemorySlackBytes = 1U << 20;

memory::SharedMemory make_memory(const ReplaySessions& sessions, uint32_t shard_count) {
  uint64_t size_bytes = kMemorySlackBytes;
  for (uint32_t job = 0; job < sessions.job_count(); job++) {
    size_bytes += 2 * trio_ml::memory_bytes(sessions.config(job), shard_count);
  }
  auto memory = memory::SharedMemory::create(
      {.sram_size_bytes = 0, .dram_size_bytes = size_bytes, .huge_pages = true});
  TRIB_ASSERT(memory.has_value());
  return *std::move(memory);
}

}  // namespace

ReplaySessions::ReplaySessions(const ReplayShape& shape) {
  for (uint32_t job = 1; job <= shape.jobs; job++) {
    trio_ml::JobConfig config;
    config.id = static_cast<uint8_t>(job);
    config.sources = shape.sources;
    config.block_cnt_max = shape.window;
    config.block_grad_max = shape.gradients;
    configs_.push_back(config);
    sessions_.push_back(std::make_unique<trio_ml::Session>(config, auth::key_of_seed(job)));
  }
}

ReplayEngine::ReplayEngine(const ReplayLoad& load)
    : own_sessions_(std::make_unique<ReplaySessions>(load.shape())),
      queue_(load),
      memory_(make_memory(*own_sessions_, 1)),
      shard_(0, 1, wire::kTrioMlPort, memory_),
      core_(0, queue_, add_jobs(*own_sessions_), {}) {}

ReplayEngine::ReplayEngine(const ReplayLoad& load, ReplaySessions& sessions,
                           std::span<const std::unique_ptr<engine::Mailbox>> mailboxes)
    : queue_(load),
      memory_(make_memory(sessions, load.shape().owner_count)),
      shard_(load.shape().owner, load.shape().owner_count, wire::kTrioMlPort, memory_),
      core_(load.shape().owner, queue_, add_jobs(sessions), mailboxes) {}

uint64_t ReplayEngine::run(uint16_t gen_id) {
  queue_.rewind(gen_id);
  queue_.clear_checksum();
  while (!queue_.done()) core_.run_once(Instant(milliseconds(1)));
  return queue_.checksum();
}

trio_ml::App ReplayEngine::add_jobs(ReplaySessions& sessions) {
  for (uint32_t job = 0; job < sessions.job_count(); job++) {
    const auto added = shard_.add_job(sessions.config(job), sessions.session(job), Instant());
    TRIB_ASSERT(added.has_value());
  }
  return trio_ml::App(shard_);
}

}  // namespace tributary::bench
