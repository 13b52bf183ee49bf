// SPDX-License-Identifier: Apache-2.0
/// @file
/// The timer programs (Trio paper §5). Frequent threads end blocks that have aged out. An
/// infrequent thread finds permanent stragglers. Another thread checks the session.
///
/// Bounds:  A block whose last contribution was at t ends in (t + timeout, t + 2 * timeout]. It is
///          degraded if a source is missing. Retransmissions do not touch REF; otherwise impatient
///          sources would keep a straggler's block alive for ever. In a new session blocks age only
///          after every member has been present for a timeout (Session::all_present_for).
/// Tests:   tests/apps/trio_ml/aging_test.cc
#pragma once

#include <array>

#include "apps/trio_ml/emit.h"
#include "apps/trio_ml/session/control.h"
#include "apps/trio_ml/shard.h"
#include "base/mutant.h"
#include "microcode/machine.h"

namespace tributary::trio_ml {

/// Records that one scan transaction visits: one word of REF flags.
inline constexpr uint32_t kRecordsPerScan = 64;

inline constexpr microcode::Instruction kScanRecords{"scan_records",
                                                     {.register_reads = 2, .register_writes = 2}};
inline constexpr microcode::Instruction kJudgeSource{"judge_source",
                                                     {.register_reads = 4, .register_writes = 1}};

/// The places of blocks that a scan closed; at most one word of REF flags.
struct IdlePlaces {
  std::array<uint32_t, kRecordsPerScan> place;
  uint32_t count = 0;
};

/// Tests and clears the REF flags of places [begin, end). With mitigation, closes idle blocks in
/// the same transaction.
/// @param idle Gets the places of the blocks that the caller must emit.
void scan_places(Job& job, uint32_t begin, uint32_t end, Instant now, IdlePlaces& idle);

/// Records the sources that are missing from a block that has aged out.
/// @return the number of missing sources.
uint32_t note_missing(Shard& shard, Job& job, const BlockRecord& block, Instant now);

/// Records that plain packets use the job, if blocks have been in progress since the last visit.
inline void note_plain_clients(Job& job, Instant now) {
  const uint64_t begun = job.record.block_total_cnt + job.record.block_curr_cnt;
  if (job.adopted() == 0 && begun != job.blocks_begun) job.session.heard_plain(now);
  job.blocks_begun = begun;
}

/// Returns the request of a scan of the REF flags of places [begin, end), at most a word of them.
[[nodiscard]] inline microcode::Xtxn scan_request(const Job& job, uint32_t begin, uint32_t end) {
  const void* const flags =
      job.table == nullptr ? static_cast<const void*>(&job.record) : job.table->ref_flag_of(begin);
  return {microcode::XtxnKind::kHashScan, flags, (end - begin) * memory::kRefFlagBytes};
}

/// Makes a source a permanent straggler on this core: new blocks do not wait for it until it
/// contributes. The first core announces it.
template <microcode::Machine M>
void stop_waiting_for(M& m, Shard& shard, Job& job, uint32_t source) {
  exclude(job.record.active_mask, source);
  if (!job.session.note_permanent(source, job.adopted())) return;
  count(m, shard, Outcome::kSourcePermanent);
  shard.note(job, source, {.kind = EventKind::kPermanent, .at = m.now()});
  if (job.adopted() == 0) return;
  Message about;
  about.header.src_id = static_cast<uint8_t>(source);
  Message notice = control_message(job, about, MessageType::kNotice);
  notice.body.reason = Reason::kSourcePermanent;
  notice.body.mask = job.session.ranks_of(source);
  notify_all(m, shard, job, notice);
}

/// With silence=exclude, stops waiting for the silent members. Each shard does so for itself.
template <microcode::Machine M>
void exclude_silent(M& m, Shard& shard, Job& job) {
  if (!job.config.excludes_silent() || job.adopted() == 0) return;
  for (uint32_t source = 0; source < job.config.sources; source++) {
    if (!contains(job.record.active_mask, source)) continue;
    if (job.session.is_silent(source, m.now())) stop_waiting_for(m, shard, job, source);
  }
}

/// Runs a frequent timer thread: visits its slice of the places and ends idle blocks. One notice
/// for a scan is enough to end the members that wait for one that has left.
template <microcode::Machine M>
microcode::Thread age_blocks(M& m, Shard& shard, Job& job, timers::TimerSlice slice) {
  if (slice.begin == 0) exclude_silent(m, shard, job);
  for (uint32_t begin = slice.begin; begin < slice.end; begin += kRecordsPerScan) {
    const uint32_t end = std::min(begin + kRecordsPerScan, slice.end);
    m.instruction(kScanRecords);
    IdlePlaces idle;
    co_await m.issue(scan_request(job, begin, end), [&job, begin, end, now = m.now(), &idle] {
      scan_places(job, begin, end, now, idle);
      return true;
    });
    bool told = false;
    for (uint32_t i = 0; i < idle.count; i++) {
      BlockRecord& block = job.window.at_place(idle.place[i]);
      const bool is_discarded = block.phase == BlockPhase::kDiscarded;
      if (!told && !is_discarded) told = tell_peer_left(m, shard, job, block);
      const uint32_t missing = is_discarded ? 0 : note_missing(shard, job, block, m.now());
      for (uint32_t k = 0; k < missing; k++) count(m, shard, Outcome::kSourceTemporary);
      co_await emit_block(m, shard, job, block);
    }
  }
}

/// Tells whether a source has contributed to no block of any core for a whole period, as far as the
/// other cores know.
[[nodiscard]] inline bool is_idle_elsewhere(const Shard& shard, const Job& job, uint32_t source,
                                            Instant now) {
  if (shard.shard_count() == 1) return true;
  // The shared time is up to a tick too early.
  return now - job.session.contributed_at(source) > job.config.permanent_after + kContributionTick;
}

/// Runs the infrequent timer thread. It declares a source a permanent straggler if a block of this
/// core aged out without it and it contributed to no block of any core for a whole period. New
/// blocks do not wait for a permanent straggler until it returns. Sends no more results to members
/// that have left, or that are excluded and silent: nothing may listen at their addresses. With
/// silence=end, new blocks wait for members that have left, also if they were permanent
/// stragglers, so that every member that starts a block gets the notice.
template <microcode::Machine M>
microcode::Thread judge_sources(M& m, Shard& shard, Job& job) {
  for (uint32_t source = 0; source < job.config.sources; source++) {
    m.instruction(kJudgeSource);
    const bool left = job.adopted() != 0 && job.session.has_left(source);
    const bool excluded = !contains(job.record.active_mask, source);
    if (left || (excluded && job.adopted() != 0 && job.session.is_silent(source, m.now()))) {
      job.forget_address(source);
    }
    if (left && job.config.ends_at_leave()) {
      include(job.record.active_mask, source);
      continue;
    }
    SourceState& state = job.sources[source];
    const bool idle = (!state.contributed && is_idle_elsewhere(shard, job, source, m.now())) ||
                      TRIB_MUTANT(kPermanentTooSoon);
    const bool permanent = job.config.mitigation && state.missed_block && idle &&
                           contains(job.record.active_mask, source);
    state.missed_block = false;
    state.contributed = false;
    if (!permanent) continue;
    stop_waiting_for(m, shard, job, source);
  }
  co_return;
}

/// Counts and notes each member that falls silent, with the effect, and each that is heard again.
template <microcode::Machine M>
void note_silence(M& m, Shard& shard, Job& job) {
  if (job.adopted() == 0) return;
  for (uint32_t source = 0; source < job.config.sources; source++) {
    const bool silent = job.session.is_silent(source, m.now());
    if (silent == contains(job.silent, source)) continue;
    if (!silent) {
      exclude(job.silent, source);
      if (!job.session.has_left(source)) {
        shard.note(job, source, {.kind = EventKind::kResumed, .at = m.now()});
      }
      continue;
    }
    include(job.silent, source);
    Event event{.kind = EventKind::kSilenceEnded, .at = m.now()};
    event.value = static_cast<uint32_t>(in_milliseconds(job.config.silent_after));
    Outcome outcome = Outcome::kSilenceEnded;
    if (job.config.on_silence() == Silence::kWait) {
      event.kind = EventKind::kSilenceWaited;
      outcome = Outcome::kSilenceWaited;
    } else if (job.config.on_silence() == Silence::kExclude) {
      event.kind = EventKind::kSilenceExcluded;
      outcome = Outcome::kSilenceExcluded;
    }
    count(m, shard, outcome);
    shard.note(job, source, event);
  }
}

/// With silence=end, tells the members which ranks have been silent for JobConfig::silent_after, so
/// that nobody waits for a process that has died.
template <microcode::Machine M>
void announce_silent_ranks(M& m, Shard& shard, Job& job) {
  if (job.adopted() == 0 || job.config.on_silence() != Silence::kEnd || TRIB_MUTANT(kSilenceUntold))
    return;
  Message notice = control_message(job, {}, MessageType::kNotice);
  notice.body.reason = Reason::kPeerSilent;
  notice.body.value = static_cast<uint32_t>(in_milliseconds(job.config.silent_after));
  uint32_t silent = 0;
  for (uint32_t source = 0; source < job.config.sources; source++) {
    if (!job.session.is_silent(source, m.now())) continue;
    const SourceMask ranks = job.session.ranks_of(source);
    for (uint32_t i = 0; i < ranks.size(); i++) notice.body.mask[i] |= ranks[i];
    notice.body.source = static_cast<uint8_t>(source);
    // A lower aggregator reports its silent ranks itself. If it is silent, it is at fault.
    if (job.config.sources_are_aggregators) notice.body.group = job.session.address_of(source);
    silent++;
  }
  if (silent == 0) return;
  if (silent > 1) notice.body.group = {};
  notify_all(m, shard, job, notice);
  if (job.session.upstream_key() == 0) return;
  Message upward = upstream_message(job, MessageType::kNotice);
  upward.body = notice.body;
  send_control(m, job, upward, job.config.upstream);
}

/// Repeats a question that the upper aggregator has not answered. Tells the members while it is
/// silent, and notes when that begins and ends.
template <microcode::Machine M>
void watch_upstream(M& m, Shard& shard, Job& job) {
  UpstreamWatch& watch = job.session.upstream_watch();
  const Instant now = m.now();
  const bool runs = job.session.upstream_key() != 0;
  if (!runs && !job.session.waits_for_upstream(now)) return watch.restart();
  if (const auto question = watch.question_to_repeat(now); question && runs) {
    MessageHead about;
    about.header.gen_id = question->gen_id;
    about.header.grad_cnt = question->grad_cnt;
    probe_upstream(m, job, about, question->block_id);
  }
  const Duration silent_for = watch.silent_for(now);
  const UpstreamWatch::Change change = watch.note_change(now);
  if (change != UpstreamWatch::Change::kNone) {
    const bool silent = change == UpstreamWatch::Change::kSilent;
    shard.note(job, wire::kSourcesMax,
               {.kind = silent ? EventKind::kUpstreamSilent : EventKind::kUpstreamHeard,
                .value = static_cast<uint32_t>(in_milliseconds(silent_for)),
                .at = now,
                .address = job.config.upstream});
  }
  if (!runs || !watch.is_silent(now)) return;
  Message notice = control_message(job, {}, MessageType::kNotice);
  notice.body.reason = Reason::kUpstreamSilent;
  notice.body.group = job.config.upstream;
  notice.body.timeout_us = silence_us(silent_for);
  notify_all(m, shard, job, notice);
}

/// Reports silent members, ends the job's session when Session::expire() says so, sends keep-alives
/// to the upper aggregator and watches its answers. Runs on shard 0 only, like everything that
/// changes a session.
template <microcode::Machine M>
microcode::Thread keep_session(M& m, Shard& shard, Job& job) {
  job.adopt(job.session.number());
  // Before the session ends: the log, the counters and the upper aggregator get each silence.
  note_silence(m, shard, job);
  announce_silent_ranks(m, shard, job);
  const Message leave_message = upstream_message(job, MessageType::kLeave);
  if (job.session.expire(m.now())) {
    end_upstream(m, shard, job, leave_message, Reason::kPeerSilent);
    job.adopt(job.session.number());
  }
  if (job.config.upstream.is_set()) watch_upstream(m, shard, job);
  // For the upper aggregator this aggregator is present when all its own members are.
  if (job.session.upstream_key() != 0 && job.session.all_present_for(Duration(), m.now())) {
    send_control(m, job, upstream_message(job, MessageType::kKeepAlive), job.config.upstream);
  }
  co_return;
}

}  // namespace tributary::trio_ml
