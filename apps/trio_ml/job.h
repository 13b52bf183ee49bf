// SPDX-License-Identifier: Apache-2.0
/// @file
/// One job on one core: its record, window, sources and timers.
///
/// Threads: A Job belongs to one shard. Shards share only the job's Session.
/// Memory:  The window takes its memory when the job is added; the packet path allocates nothing.
/// Source:  Trio paper §4, §5.
/// Tests:   tests/apps/trio_ml/
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "apps/trio_ml/asynchronous/parameter_store.h"
#include "apps/trio_ml/block_window.h"
#include "apps/trio_ml/config.h"
#include "apps/trio_ml/hash_tables.h"
#include "apps/trio_ml/known_head.h"
#include "apps/trio_ml/records.h"
#include "apps/trio_ml/session/member_report.h"
#include "apps/trio_ml/session/reply_budget.h"
#include "apps/trio_ml/session/session.h"
#include "auth/session_seal.h"
#include "memory/idle_pages.h"
#include "memory/ref_bits.h"
#include "recorder/writer.h"
#include "timers/periodic_timers.h"
#include "wire/trio_ml.h"

namespace tributary::trio_ml {

/// The state of one source on one core.
struct alignas(64) SourceState {
  Endpoint address;           ///< Sender address of its last message; not set: unknown.
  bool contributed = false;   ///< True if it has, since the infrequent timer's last visit.
  bool missed_block = false;  ///< A block has aged out without it since then.
  uint32_t shared_tick = 0;   ///< contribution_tick() of the last note to the other cores.
  KnownHead known_head;       ///< Head of its last contribution to a sum.
};
static_assert(sizeof(SourceState) == 64, "a contribution reads one cache line of its source");

/// A disagreement about a block's tensor: the terms of the block and of a contribution to it.
struct Mismatch {
  wire::TensorTerms expected{};  ///< Terms of the block's first contribution.
  SourceMask ranks{};            ///< Ranks that have contributed to the block.
  wire::TensorTerms given{};     ///< Terms of the contribution that differs.
  SourceMask given_by{};         ///< Its ranks.
};

/// A source's last join, if it was not accepted. For people to read. A join that was refused for
/// kAuthentication proves neither its secret nor its address, so anybody may have sent it.
struct RefusedJoin {
  /// kNone: the last join was accepted, or there was none. kPlainClients: the join was refused, or
  /// waits because plain packets use the job.
  wire::Reason reason = wire::Reason::kNone;
  Instant at{};
  Endpoint from{};
};

/// Time that a job keeps its memory after a session, so that a session that follows at once finds
/// it. A session on returned memory takes a page fault for each 4 KiB that it uses. Assumed: a
/// program that runs workers in a loop starts the next ones within this time.
inline constexpr Duration kIdleMemoryAfter = milliseconds(2000);
/// Pause between two slices, so that a core serves its other jobs in between.
inline constexpr Duration kIdleMemoryPause = milliseconds(1);

/// One job on one core.
class Job {
 public:
  /// @param lane The core's number; each core has sequence numbers of its own.
  Job(const JobConfig& job_config, Session& job_session, BlockWindow job_window,
      std::unique_ptr<ParameterStore> job_parameters, uint32_t lane, Instant start);

  JobConfig config;  ///< Only set_timeout() and set_silence() change it.
  Session& session;
  BlockWindow window;
  std::unique_ptr<ParameterStore> parameters;  ///< Null unless the job is asynchronous.
  memory::RefBits ref_bits;             ///< For each place: in progress, recently contributed to.
  timers::PeriodicTimers aging;         ///< Frequent: finds blocks that have aged out (§5).
  timers::PeriodicTimers straggling;    ///< Infrequent: finds permanent stragglers (§5).
  timers::PeriodicTimers housekeeping;  ///< Ends dead sessions, sends keep-alives to the upstream.
  auth::AggregatorEnd end;              ///< Seals and opens messages of this job's sources.
  auth::MemberEnd upward_end;           ///< Seals and opens messages of the upper aggregator.
  JobRecord record;
  std::vector<MemberReport> reports;       ///< Shape [config.sources]; empty but on shard 0.
  std::vector<RefusedJoin> refused_joins;  ///< Shape [config.sources]; empty but on shard 0.
  SourceMask silent{};                     ///< Shard 0: members whose silence was noted.
  std::optional<Mismatch> mismatch;        ///< The first one of the adopted session.
  uint64_t blocks_begun = 0;               ///< Count at the frequent timer's last visit.
  std::vector<SourceState> sources;        ///< Shape [config.sources].
  std::vector<Endpoint> destinations;      ///< Receive results: the known addresses, or the group.
  std::vector<recorder::BlockRun>
      arrivals;                        ///< Shape [config.sources]: blocks that it contributed to.
  recorder::BlockRun completions;      ///< Blocks with all contributions.
  std::optional<wire::Reason> ending;  ///< The reason that members are told for the job's end.
  std::unique_ptr<BlockTable> table;   ///< Null: no machine prices hash operations.

  /// Switches to the session that shard 0 started. A change of session discards all blocks.
  void adopt(uint32_t session_number) {
    if (session_number != adopted_) [[unlikely]]
      start_over(session_number);
  }
  [[nodiscard]] uint32_t adopted() const { return adopted_; }
  /// Returns the memory of a session that has ended to the operating system, from kIdleMemoryAfter
  /// on: one slice, if it is due. Does nothing while plain packets use the job.
  /// @pre No session runs, and all packets sent from the job's buffers before this burst have left.
  void return_idle_memory(Instant now);
  /// Returns the earliest time at which return_idle_memory() has work to do.
  [[nodiscard]] Instant idle_memory_due() const { return idle_memory_due_; }
  /// Returns the key of a source in the adopted session. @pre A session is adopted.
  [[nodiscard]] uint64_t key_of(uint32_t source) const { return keys_[source]; }
  /// Returns the key in the aggregator's messages of the adopted session.
  [[nodiscard]] uint64_t result_key() const { return result_key_; }
  /// Takes a token for the answer to a question, a duplicate or a late contribution of a member.
  /// @return false if none is left: the source gets no answer.
  [[nodiscard]] bool take_reply_token(uint32_t source, Instant now) {
    return budgets_[source].take(now);
  }
  /// Changes the timeout of straggler mitigation. A block in progress ends one to two of the new
  /// timeouts after its last contribution or this call, whichever is later.
  void set_timeout(Duration timeout, Instant now);
  /// Changes the effect of silence. A source that is excluded stays so until it contributes.
  void set_silence(Silence silence) { config.silence = silence; }
  /// Forgets a source: its address, and in a session its key, so that its messages are refused
  /// until the session ends. With mitigation, new blocks do not wait for it unless ends_at_leave().
  /// @param new_key A key that nobody knows.
  void evict(uint32_t source, uint64_t new_key);
  /// Sends nothing more to the address of a source, until its next message.
  void forget_address(uint32_t source);
  /// Keeps the outcome of a join. One that anybody may have sent replaces no other refusal.
  /// @param refusal kNone: it was accepted.
  void keep_join_outcome(uint32_t source, wire::Reason refusal, const Endpoint& from, Instant now) {
    if (source >= refused_joins.size()) return;
    const wire::Reason kept = refused_joins[source].reason;
    const bool is_genuine = kept != wire::Reason::kNone && kept != wire::Reason::kAuthentication;
    if (refusal == wire::Reason::kAuthentication && is_genuine) return;
    refused_joins[source] = {refusal, now, from};
  }
  /// Records the address that a source sends from.
  /// @return false if the source is pinned to another address.
  [[nodiscard]] bool locate(uint32_t source, const Endpoint& from) {
    return sources[source].address == from || relocate(source, from);
  }

 private:
  void start_over(uint32_t session_number);
  [[nodiscard]] bool relocate(uint32_t source, Endpoint from);
  void rebuild_destinations();

  uint32_t adopted_ = 0;
  std::vector<uint64_t> keys_;  ///< Shape [config.sources].
  uint64_t result_key_ = 0;
  std::vector<ReplyBudget> budgets_;  ///< Shape [config.sources].
  memory::IdlePages idle_pages_;      ///< Memory of the session that has ended.
  Instant idle_memory_due_ = Instant::never();
};

/// Returns the terms of a new block, taken from the first message about it.
[[nodiscard]] inline BlockTerms terms_of(const Job& job, const wire::MessageHead& message) {
  return {.tensor_elements = message.extension.tensor_elements,
          .scale_bits = message.extension.scale_bits,
          .grad_cnt = message.header.grad_cnt,
          .format = message.extension.format,
          .extended = message.header.extended,
          .expected = job.record.active_mask};
}

/// Returns the request of a hash operation on a block of the job. @param M The machine that gets
/// it.
template <class M>
[[nodiscard]] microcode::Xtxn block_table_request(microcode::XtxnKind kind, const Job& job,
                                                  uint32_t block_id) {
  if constexpr (M::kSuspends) {
    if (job.table != nullptr) return job.table->request(kind, block_id);
  }
  return {kind, &job.record, memory::kHashBucketBytes};
}

/// Tells whether the session has changed since the job's window had this epoch. Only on a machine
/// that suspends threads can that happen between two steps of a thread.
template <class M>
[[nodiscard]] bool session_changed(const Job& job, uint32_t epoch) {
  return M::kSuspends && job.window.epoch() != epoch;
}

/// Records in the job's table that the block at a place has a record from now on. Part of a
/// service.
template <class M>
void note_record(Job& job, uint32_t place, uint32_t block_id) {
  if constexpr (M::kSuspends) {
    if (job.table != nullptr) job.table->insert(place, block_id);
  }
}

/// Excludes a block whose sum is final from the timers' scans. Without effect in a job that has an
/// upper aggregator: its block keeps aging, so that it can be superseded if no answer arrives.
inline void stop_aging(Job& job, const BlockRecord& block) {
  if (!job.config.upstream.is_set()) job.ref_bits.clear_live(job.window.place_of(block));
}

}  // namespace tributary::trio_ml
