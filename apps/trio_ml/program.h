// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Trio-ML packet program (Trio paper §4, Figure 10): one thread for each packet.
///
///   locate the message -> check it -> look its block up -> create or join it -> add the gradients
///   -> if that made the sum final: make the result and send it
///
/// Model:    The steps are in contribution.h. A machine that suspends runs them as a coroutine; the
///           live machine, whose replies are there at once, as a plain function: a coroutine's
///           frame keeps every variable in memory, which is half of what a small packet costs.
/// Source:   Trio paper §4, §5; what it leaves open (loss, sessions) is argued in
///           docs/aggregation-protocol.md.
/// Tests:    tests/apps/trio_ml/program_test.cc (live), interleaving_test.cc (suspending machine)
#pragma once

#include "apps/trio_ml/contribution.h"

namespace tributary::trio_ml {

/// Everything but a contribution of a source: control messages, and what comes from above.
template <microcode::Machine M>
microcode::Subroutine<void, M> serve_other(M& m, Shard& shard, Job& job, const MessageHead& message,
                                           const Arrival& arrival) {
  if (is_from_upstream(job, message, arrival.source)) {
    co_await take_from_upstream(m, shard, job, arrival);
  } else {
    co_await serve_control(m, shard, job, arrival);
  }
}

// The steps in the order of a packet's way: where the thread is, what it issues, what follows the
// reply. Only forward, but for insert_block, which is tried again when a buffer has become free.
#define TRIB_CONTRIBUTION_STEPS(STEP)                 \
  STEP(kFindJob, find_job, job_found)                 \
  STEP(kFindBlock, find_block, block_found)           \
  STEP(kInsertBlock, insert_block, block_inserted)    \
  STEP(kAdmit, admit_source, source_admitted)         \
  STEP(kAddGradients, add_gradients, gradients_added) \
  STEP(kSettle, settle_block, block_settled)

namespace detail {

/// The thread on a machine that suspends.
template <microcode::Machine M>
microcode::Thread run_as_thread(M& m, Shard& shard) {
  ContributionThread<M> thread(m, shard);
  Step next = thread.begin();
#define TRIB_STEP(step, issue, then) \
  while (next == Step::step) {       \
    co_await thread.issue();         \
    next = thread.then();            \
  }
  TRIB_CONTRIBUTION_STEPS(TRIB_STEP)
#undef TRIB_STEP
  if (next == Step::kRefused) thread.answer(thread.refusal());
  if (next == Step::kEmit) co_await emit_block(m, shard, thread.job(), thread.block());
  if (next == Step::kOther) {
    co_await serve_other(m, shard, thread.job(), thread.message(), thread.arrival());
  }
}

/// The rest of a thread that turned out not to be a contribution's.
template <microcode::Machine M>
microcode::Thread run_other(M& m, Shard& shard, Job& job, const MessageHead& message,
                            const Arrival& arrival) {
  co_await serve_other(m, shard, job, message, arrival);
}

/// What a thread in place does not do itself, since it seldom happens. The packet is parsed anew:
/// had the thread to keep all that is wanted here, it would run out of registers.
template <microcode::Machine M>
[[gnu::noinline, gnu::cold]] void serve_other_in_place(M& m, Shard& shard, Job& job) {
  ContributionThread<M> thread(m, shard);
  static_cast<void>(thread.begin());
  run_other(m, shard, job, thread.message(), thread.arrival());
}
template <microcode::Machine M>
[[gnu::noinline, gnu::cold]] void answer_in_place(M& m, Shard& shard,
                                                  typename ContributionThread<M>::Refusal refusal) {
  ContributionThread<M> thread(m, shard);
  static_cast<void>(thread.begin());
  thread.answer(refusal);
}

/// The steps from `next` on, where every reply is there at once.
template <microcode::Machine M>
[[gnu::always_inline]] inline void run_steps_in_place(M& m, Shard& shard,
                                                      ContributionThread<M>& thread, Step next) {
#define TRIB_STEP(step, issue, then)   \
  while (next == Step::step) {         \
    static_cast<void>(thread.issue()); \
    next = thread.then();              \
  }
  TRIB_CONTRIBUTION_STEPS(TRIB_STEP)
#undef TRIB_STEP
  if (next == Step::kEmit) emit_in_place(m, shard, thread.job(), thread.block());
  if (next == Step::kOther) [[unlikely]]
    serve_other_in_place(m, shard, thread.job());
  if (next == Step::kRefused) [[unlikely]]
    answer_in_place(m, shard, thread.refusal());
}

/// The thread of a packet that is not like the one before.
template <microcode::Machine M>
[[gnu::noinline]] void run_in_place(M& m, Shard& shard) {
  ContributionThread<M> thread(m, shard);
  run_steps_in_place(m, shard, thread, thread.begin());
}

/// The thread of a packet of which is known what it is, but for its block. Apart for each kind:
/// with constants in place of header fields not much is left.
template <microcode::Machine M, bool kExtended>
[[gnu::always_inline]] inline void run_known_in_place(M& m, Shard& shard,
                                                      ContributionThread<M>& thread) {
  run_steps_in_place(m, shard, thread, thread.begin_known(kExtended));
}

}  // namespace detail

#undef TRIB_CONTRIBUTION_STEPS

/// The thread for one packet.
template <microcode::Machine M>
[[gnu::always_inline]] inline void process_packet(M& m, Shard& shard) {
  if constexpr (M::kSuspends) {
    detail::run_as_thread(m, shard);
  } else {
    ContributionThread<M> thread(m, shard);
    switch (thread.look_known()) {
      case KnownHead::Kind::kPlain:
        return detail::run_known_in_place<M, false>(m, shard, thread);
      case KnownHead::Kind::kExtended:
        return detail::run_known_in_place<M, true>(m, shard, thread);
      case KnownHead::Kind::kNone:
        return detail::run_in_place(m, shard);
    }
  }
}

}  // namespace tributary::trio_ml
