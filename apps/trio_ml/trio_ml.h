// SPDX-License-Identifier: Apache-2.0
/// @file
/// Trio-ML's state on one core: the jobs' records, windows, timers and counters. The packet
/// programs over it are in program.h (contributions, results), control.h (sessions) and aging.h
/// (timers).
///
/// Threads: A Shard belongs to one core. Between cores only Session is shared.
/// Memory:  Taken from SharedMemory when a job is added; nothing on the packet path.
/// Errors:  add_job() returns one line naming the job and what is allowed. What packets cause is in
///          counters().
/// Source:  Trio paper §4, §5.
/// Tests:   tests/apps/trio_ml/
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apps/trio_ml/block_window.h"
#include "apps/trio_ml/config.h"
#include "apps/trio_ml/counters.h"
#include "apps/trio_ml/known_head.h"
#include "apps/trio_ml/records.h"
#include "apps/trio_ml/session.h"
#include "memory/ref_bits.h"
#include "memory/shared_memory.h"
#include "timers/periodic_timers.h"

namespace tributary::trio_ml {

/// What a shard knows of one source.
struct alignas(64) SourceState {
  Endpoint address;            ///< Where it last sent from; not set: unknown.
  bool contributed = false;    ///< Since the infrequent timer's last visit.
  uint32_t missed_blocks = 0;  ///< Aged out without it, since then.
  KnownHead known_head;        ///< Of its contributions.
};
static_assert(sizeof(SourceState) == 64, "a contribution looks at one cache line of its source");

/// One job on one core.
class Job {
 public:
  Job(const JobConfig& job_config, Session& job_session, BlockWindow job_window, Instant start);

  const JobConfig config;
  Session& session;
  BlockWindow window;
  memory::RefBits ref_bits;             ///< One for each place: in progress, contributed to lately.
  timers::PeriodicTimers aging;         ///< Frequent: finds blocks that have aged (§5).
  timers::PeriodicTimers straggling;    ///< Infrequent: finds permanent stragglers (§5).
  timers::PeriodicTimers housekeeping;  ///< Ends dead sessions, tells above that this one lives.
  JobRecord record;
  std::vector<SourceState> sources;    ///< Shape [config.sources].
  std::vector<Endpoint> destinations;  ///< Addresses known, or the group: where results go.

  /// Takes over the session that other shards agreed on: forgets blocks of the previous one.
  void adopt(uint32_t session_number) {
    if (session_number != adopted_) [[unlikely]]
      start_over(session_number);
  }
  [[nodiscard]] uint32_t adopted() const { return adopted_; }
  /// The key of a source in the adopted session.
  [[nodiscard]] uint32_t key_of(uint32_t source) const { return keys_[source]; }
  /// Notes where a source sends from. @return false if it is pinned elsewhere.
  [[nodiscard]] bool locate(uint32_t source, const Endpoint& from) {
    return sources[source].address == from || relocate(source, from);
  }

 private:
  void start_over(uint32_t session_number);
  [[nodiscard]] bool relocate(uint32_t source, Endpoint from);
  void rebuild_destinations();

  uint32_t adopted_ = 0;
  std::vector<uint32_t> keys_;  ///< Shape [config.sources].
};

/// A block's sum is final: timers leave it alone. One that waits for the upper aggregator keeps
/// growing older, so that it can be superseded should no answer ever come.
inline void stop_aging(Job& job, const BlockRecord& block) {
  if (!job.config.upstream.is_set()) job.ref_bits.clear_live(job.window.place_of(block));
}

class Shard {
 public:
  /// @param index This core's number, below shard_count (a power of two).
  Shard(uint32_t index, uint32_t shard_count, uint16_t udp_port, memory::SharedMemory& memory)
      : index_(index), shard_count_(shard_count), udp_port_(udp_port), memory_(memory) {}

  /// Makes room for a job. Its session is shared by all shards and must outlive them.
  Result<void> add_job(const JobConfig& config, Session& session, Instant start);

  /// The job, or null.
  [[nodiscard]] Job* job(uint8_t id) { return jobs_[id].get(); }
  [[nodiscard]] std::span<Job* const> jobs() const { return in_order_; }

  /// The core that owns a packet about this block; control messages belong to core 0.
  [[nodiscard]] uint32_t index() const { return index_; }
  [[nodiscard]] uint32_t shard_count() const { return shard_count_; }
  [[nodiscard]] uint16_t udp_port() const { return udp_port_; }

  [[nodiscard]] Counters& counters() { return counters_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

  /// Called by the engine before a burst: what was sent before has left.
  void begin_burst();
  /// The earliest time at which a timer thread of any job is due.
  [[nodiscard]] Instant next_due() const;
  /// No timer thread of any job has anything to do before this, whether it would find a block or
  /// not: one look instead of three for each job after every burst.
  [[nodiscard]] Instant timers_due() const { return timers_due_; }
  /// The timers have been run.
  void note_timers();

 private:
  /// When shard 0 has to look after the job's session; never on other shards.
  [[nodiscard]] Instant housekeeping_due(const Job& job) const;

  const uint32_t index_;
  const uint32_t shard_count_;
  const uint16_t udp_port_;
  memory::SharedMemory& memory_;
  std::array<std::unique_ptr<Job>, wire::kJobsMax> jobs_;
  std::vector<Job*> in_order_;
  Instant timers_due_;
  Counters counters_{};
};

}  // namespace tributary::trio_ml
