// SPDX-License-Identifier: Apache-2.0
/// @file
/// Trio-ML's state on one core: its jobs and counters. The programs that work on it are program.h
/// (contributions, results), control.h (sessions) and aging.h (timers).
///
/// Threads: A Shard belongs to one core. Cores share only Session.
/// Memory:  Taken from SharedMemory when a job is made, and returned when it ends; the packet path
///          allocates nothing.
/// Errors:  add_job() returns one line that names the job and the allowed values. counters() has
///          everything that packets cause.
/// Source:  Trio paper §4, §5.
/// Tests:   tests/apps/trio_ml/
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apps/trio_ml/config.h"
#include "apps/trio_ml/counters.h"
#include "apps/trio_ml/event.h"
#include "apps/trio_ml/job.h"
#include "apps/trio_ml/session/reply_budget.h"
#include "apps/trio_ml/session/session.h"
#include "memory/shared_memory.h"
#include "recorder/writer.h"

namespace tributary::trio_ml {

class Shard {
 public:
  /// @param index This core's number, below shard_count (a power of two).
  Shard(uint32_t index, uint32_t shard_count, uint16_t udp_port, memory::SharedMemory& memory)
      : index_(index), shard_count_(shard_count), udp_port_(udp_port), memory_(memory) {
    in_order_.reserve(wire::kJobsMax);  // So that insert() never allocates.
  }

  /// Places the hash tables of the jobs, and those of the blocks of jobs made from now on, in
  /// shared memory, for a machine that prices hash operations. @return an Error if too little is
  /// left.
  /// @pre The shard has no job.
  Result<void> place_hash_tables();

  /// Adds a job and takes its memory. All shards share the session, which must outlive the job.
  Result<void> add_job(const JobConfig& config, Session& session, Instant start);

  /// Makes a job for insert(), and takes its memory. Changes nothing in the shard, so that any
  /// thread may call it that may allocate shared memory.
  [[nodiscard]] Result<std::unique_ptr<Job>> make_job(const JobConfig& config, Session& session,
                                                      Instant start) const;
  /// Adds a job. Allocates nothing. @pre The shard has no job with this id.
  void insert(std::unique_ptr<Job> job);
  /// Removes a job. The caller destroys it, which returns its memory. @return null: there is none.
  /// @pre All packets that were sent from its buffers have left.
  [[nodiscard]] std::unique_ptr<Job> remove(uint8_t id);
  /// Changes the timeout of a job's straggler mitigation. @pre The job exists.
  void set_timeout(uint8_t id, Duration timeout, Instant now);
  /// Changes the effect of a silent member of a job. @pre The job exists.
  void set_silence(uint8_t id, Silence silence) { jobs_[id]->set_silence(silence); }

  /// Returns the job, or null.
  [[nodiscard]] Job* job(uint8_t id) { return jobs_[id].get(); }
  [[nodiscard]] std::span<Job* const> jobs() const { return in_order_; }
  /// Returns the hash table of the jobs; null before place_hash_tables().
  [[nodiscard]] const JobTable* job_table() const { return job_table_.get(); }

  /// This core's number.
  [[nodiscard]] uint32_t index() const { return index_; }
  [[nodiscard]] uint32_t shard_count() const { return shard_count_; }
  [[nodiscard]] uint16_t udp_port() const { return udp_port_; }

  [[nodiscard]] Counters& counters() { return counters_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

  /// Notes events in this ring from now on; null: notes none.
  void log_to(EventRing* events) { events_ = events; }
  /// Records packets and events with this writer from now on; null: records none. The writer must
  /// outlive the shard or the next call, and be used by nobody else until then.
  void record_to(recorder::Writer* recorder);
  /// Puts all runs of blocks into the recording.
  void end_runs() {
    if (recorder_ != nullptr) recorder_->flush();
  }
  /// Returns the writer for recording.h; null: there is none.
  [[nodiscard]] recorder::Writer* record_writer() const { return recorder_; }
  /// Takes a token for the record of a refused packet. @return false if none is left.
  [[nodiscard]] bool take_refusal_token(Instant now) { return refusal_records_.take(now); }

  /// Notes an event of a job; job, ranks and address come from the arguments. Off the packet path.
  /// @param source The event's source; kSourcesMax: it is about the whole job.
  [[gnu::noinline, gnu::cold]] void note(const Job& job, uint32_t source, Event event);
  /// Notes an event that no job is known for.
  [[gnu::noinline, gnu::cold]] void note(const Event& event);

  /// Takes a token for a reply to a sender that is not a member. @return false if none is left.
  [[nodiscard]] bool take_stranger_token(Instant now) { return strangers_.take(now); }
  /// Tells whether take_stranger_token() would find none, without taking one.
  [[nodiscard]] bool must_ignore_strangers(Instant now) const { return strangers_.is_spent(now); }

  /// Frees cooling buffers. The engine calls it before a burst, when all earlier packets have left.
  void begin_burst();
  /// Returns the earliest time at which a timer thread of any job has work to do.
  [[nodiscard]] Instant next_due() const;
  /// Returns the earliest time at which any timer thread is due, even one that would find no block
  /// in progress. Saves three comparisons for each job after every burst.
  [[nodiscard]] Instant timers_due() const { return timers_due_; }
  /// Updates timers_due() after the timers have run.
  void note_timers();

 private:
  /// Returns the time at which shard 0 next checks the job's session; never on other shards.
  [[nodiscard]] Instant housekeeping_due(const Job& job) const;

  const uint32_t index_;
  const uint32_t shard_count_;
  const uint16_t udp_port_;
  memory::SharedMemory& memory_;
  std::array<std::unique_ptr<Job>, wire::kJobsMax> jobs_;
  std::vector<Job*> in_order_;
  Instant timers_due_;
  /// Replies to strangers. Assumed: enough for all members of a server that restarted, and too few
  /// to slow down the members' packets.
  ReplyBudget strangers_{/*burst=*/256, /*per_ms=*/4};
  Counters counters_{};
  std::unique_ptr<JobTable> job_table_;
  EventRing* events_ = nullptr;  ///< Null: nobody reads events.
  recorder::Writer* recorder_ = nullptr;
  /// Refused packets in the recorder. Assumed: enough to see a pattern, and so few that a flood of
  /// strangers needs seconds to overwrite the members' events.
  ReplyBudget refusal_records_{/*burst=*/1024, /*per_ms=*/4};
  /// Events that strangers can cause. Assumed: enough for all ranks of a job to join at once, and
  /// too few to fill the ring within the reader's pause of 0.1 s.
  ReplyBudget stranger_events_{/*burst=*/512, /*per_ms=*/1};
};

/// Returns the request of a look-up of a job. @param M The machine that gets it.
template <class M>
[[nodiscard]] microcode::Xtxn job_table_request(const Shard& shard, uint8_t job_id) {
  if constexpr (M::kSuspends) {
    if (const JobTable* const jobs = shard.job_table()) return jobs->look_up(job_id);
  }
  return {microcode::XtxnKind::kHashLookup, &shard, memory::kHashBucketBytes};
}

}  // namespace tributary::trio_ml
