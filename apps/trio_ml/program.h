// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Trio-ML packet program (Trio paper §4, Figure 10): one thread for each packet.
///
/// Model:    contribution.h has the steps. The sequence stands here twice, once for each kind of
///           machine: process_suspending() is a coroutine that waits for each reply;
///           process_in_place() is a plain function for a machine whose replies are there at once.
///           A coroutine keeps its variables in memory, which doubles the cost of a small packet.
/// Source:   Trio paper §4, §5; docs/aggregation-protocol.md covers loss and sessions, which the
///           paper leaves open. docs/architecture.md follows one contribution through the code.
/// Tests:    tests/apps/trio_ml/program_test.cc (live), interleaving_test.cc (suspending machine)
#pragma once

#include "apps/trio_ml/asynchronous/asynchronous.h"
#include "apps/trio_ml/contribution.h"
#include "apps/trio_ml/recording.h"

namespace tributary::trio_ml {

/// Serves a message that is not a contribution of a source: a control message, or an answer of the
/// upper aggregator.
template <microcode::Machine M>
microcode::Subroutine<void, M> serve_other(M& m, Shard& shard, Job& job, const MessageHead& message,
                                           const Arrival& arrival) {
  if (is_from_upstream(job, message, arrival.source)) {
    co_await take_from_upstream(m, shard, job, arrival);
  } else {
    co_await serve_control(m, shard, job, arrival);
  }
}

/// Runs the thread for one packet on a machine that suspends threads.
template <microcode::Machine M>
microcode::Thread process_suspending(M& m, Shard& shard) {
  ContributionThread<M> thread(m, shard);
  Verdict verdict = thread.parse();
  if (verdict.is_refused()) co_return thread.refuse_packet(thread.refusal(verdict));

  co_await thread.find_job();
  verdict = thread.check_job();
  if (verdict.is_refused()) co_return thread.refuse_packet(thread.refusal(verdict));
  if (thread.is_other()) {
    co_await serve_other(m, shard, thread.job(), thread.message(), thread.arrival());
    co_return;
  }
  verdict = thread.check_message();
  if (verdict.is_refused()) co_return thread.refuse_packet(thread.refusal(verdict));
  if (thread.is_push()) {
    serve_push(m, shard, thread.job(), thread.message(), thread.arrival());
    co_return;
  }

  co_await thread.find_block();
  if (thread.is_block_absent()) {
    thread.prepare_block();
    do {
      co_await thread.insert_block();
    } while (thread.try_free_buffers());
    thread.take_inserted();
  }
  verdict = thread.check_block();
  if (verdict.is_refused()) co_return thread.refuse_packet(thread.refusal(verdict));

  co_await thread.admit_source();
  verdict = thread.check_admission();
  if (verdict.is_refused()) co_return thread.refuse_packet(thread.refusal(verdict));
  thread.note_admission();

  co_await thread.add_gradients();
  thread.count_contribution();

  co_await thread.settle_block();
  if (!thread.is_sum_final()) co_return;
  thread.end_aging();
  co_await emit_block(m, shard, thread.job(), thread.block());
}

namespace detail {

// On a machine that serves in place, the rare paths are calls, so that the usual path stays small.
// They parse the packet again: a caller that kept their arguments would run out of registers.

template <microcode::Machine M>
microcode::Thread run_other(M& m, Shard& shard, Job& job, const MessageHead& message,
                            const Arrival& arrival) {
  co_await serve_other(m, shard, job, message, arrival);
}
template <microcode::Machine M>
[[gnu::noinline, gnu::cold]] void serve_other_in_place(M& m, Shard& shard, Job& job) {
  ContributionThread<M> thread(m, shard);
  static_cast<void>(thread.parse());
  run_other(m, shard, job, thread.message(), thread.arrival());
}
template <microcode::Machine M>
[[gnu::noinline]] void serve_push_in_place(M& m, Shard& shard, Job& job) {
  ContributionThread<M> thread(m, shard);
  static_cast<void>(thread.parse());
  serve_push(m, shard, job, thread.message(), thread.arrival());
}
template <microcode::Machine M>
[[gnu::noinline, gnu::cold]] void refuse_in_place(M& m, Shard& shard, Refusal refusal) {
  ContributionThread<M> thread(m, shard);
  static_cast<void>(thread.parse());
  record_refusal(shard, refusal.why, refusal.job, thread.message().header, m.now());
  thread.refuse_packet(refusal);
}

/// Runs the steps from find_block() on. @pre The message is decoded and checked, or known.
template <microcode::Machine M>
void aggregate_in_place(M& m, Shard& shard, ContributionThread<M>& thread) {
  static_cast<void>(thread.find_block());
  if (thread.is_block_absent()) {
    thread.prepare_block();
    do {
      static_cast<void>(thread.insert_block());
    } while (thread.try_free_buffers());
    thread.take_inserted();
  }
  if (const Verdict verdict = thread.check_block(); verdict.is_refused()) [[unlikely]]
    return refuse_in_place(m, shard, thread.refusal(verdict));

  static_cast<void>(thread.admit_source());
  if (const Verdict verdict = thread.check_admission(); verdict.is_refused()) [[unlikely]]
    return refuse_in_place(m, shard, thread.refusal(verdict));
  thread.note_admission();

  static_cast<void>(thread.add_gradients());
  thread.count_contribution();

  static_cast<void>(thread.settle_block());
  record_arrival(shard, thread.job(), thread.message().header, m.now());
  if (!thread.is_sum_final()) return;
  thread.end_aging();
  emit_in_place(m, shard, thread.job(), thread.block());
}

/// Runs the thread of a packet whose head is not known: control messages, frames, and the first
/// contribution of a tensor.
/// flatten: inlines every step, as LiveCore::process() does for known heads.
template <microcode::Machine M>
[[gnu::noinline, gnu::flatten]] void process_unknown_in_place(M& m, Shard& shard) {
  ContributionThread<M> thread(m, shard);
  if (const Verdict verdict = thread.parse(); verdict.is_refused()) [[unlikely]]
    return refuse_in_place(m, shard, thread.refusal(verdict));

  static_cast<void>(thread.find_job());
  if (const Verdict verdict = thread.check_job(); verdict.is_refused()) [[unlikely]]
    return refuse_in_place(m, shard, thread.refusal(verdict));
  if (thread.is_other()) [[unlikely]]
    return serve_other_in_place(m, shard, thread.job());
  if (const Verdict verdict = thread.check_message(); verdict.is_refused()) [[unlikely]]
    return refuse_in_place(m, shard, thread.refusal(verdict));
  if (thread.is_push()) return serve_push_in_place(m, shard, thread.job());

  aggregate_in_place(m, shard, thread);
}

}  // namespace detail

/// Runs the thread for one packet on a machine whose replies are there at once.
/// LiveCore::process() inlines all of it (gnu::flatten), so that the thread's state stays in
/// registers.
template <microcode::Machine M>
void process_in_place(M& m, Shard& shard) {
  ContributionThread<M> thread(m, shard);
  // One copy for each kind of known head: constants take the place of header fields.
  switch (thread.match_known_head()) {
    case KnownHead::Kind::kPlain:
      static_cast<void>(thread.read_known(/*extended=*/false));
      return detail::aggregate_in_place(m, shard, thread);
    case KnownHead::Kind::kExtended:
      if (const Verdict verdict = thread.read_known(/*extended=*/true); verdict.is_refused())
          [[unlikely]]
        return detail::refuse_in_place(m, shard, thread.refusal(verdict));
      return detail::aggregate_in_place(m, shard, thread);
    case KnownHead::Kind::kNone:
      if (thread.is_ignored_forgery()) [[unlikely]]
        return thread.ignore_forgery();
      return detail::process_unknown_in_place(m, shard);
  }
}

/// Runs the thread for one packet.
template <microcode::Machine M>
void process_packet(M& m, Shard& shard) {
  if constexpr (M::kSuspends) {
    process_suspending(m, shard);
  } else {
    process_in_place(m, shard);
  }
}

}  // namespace tributary::trio_ml
