// SPDX-License-Identifier: Apache-2.0
/// @file
/// One live core over a replayed load: the whole engine without packet I/O.
///
/// Model:   The server's engine: port, dispatch, aggregation program with all jobs of the load,
///          counters, results. Each core has its own shard, memory and queue; cores share sessions
///          and mailboxes.
/// Threads: One thread calls run().
/// Tests:   tests/bench/engine_bench_test.cc, tests/bench/parts_bench_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apps/trio_ml/app.h"
#include "bench/replay_load.h"
#include "engine/live/live_core.h"
#include "memory/shared_memory.h"

namespace tributary::bench {

/// The sessions that the cores of one benchmark share, one for each job.
class ReplaySessions {
 public:
  explicit ReplaySessions(const ReplayShape& shape);
  [[nodiscard]] const trio_ml::JobConfig& config(uint32_t job) const { return configs_[job]; }
  [[nodiscard]] trio_ml::Session& session(uint32_t job) { return *sessions_[job]; }
  [[nodiscard]] uint32_t job_count() const { return static_cast<uint32_t>(configs_.size()); }

 private:
  std::vector<trio_ml::JobConfig> configs_;
  std::vector<std::unique_ptr<trio_ml::Session>> sessions_;
};

class ReplayEngine {
 public:
  /// One core that owns every block.
  explicit ReplayEngine(const ReplayLoad& load);
  /// Core load.shape().owner of load.shape().owner_count; both must outlive the engine.
  ReplayEngine(const ReplayLoad& load, ReplaySessions& sessions,
               std::span<const std::unique_ptr<engine::Mailbox>> mailboxes);

  /// Runs a generation.
  /// @return the checksum over its results.
  uint64_t run(uint16_t gen_id);
  [[nodiscard]] uint64_t results() const { return queue_.results(); }

 private:
  trio_ml::App add_jobs(ReplaySessions& sessions);

  std::unique_ptr<ReplaySessions> own_sessions_;  ///< For a single core only.
  ReplayQueue queue_;
  memory::SharedMemory memory_;
  trio_ml::Shard shard_;
  engine::LiveCore<trio_ml::App> core_;
};

}  // namespace tributary::bench
