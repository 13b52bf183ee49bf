// SPDX-License-Identifier: Apache-2.0
/// @file
/// Bugs planted on purpose, so that the fault campaign can show that it detects them.
///
/// Model:   Each planted bug is one line that tests TRIB_MUTANT(kName). In the product that is the
///          constant false, and the compiler removes it. The program `tributary-mutants` is built
///          from the same sources with TRIBUTARY_MUTANTS defined; there the macro is true for the
///          one chosen bug.
/// Rules:   Each is a real bug: some run gives a wrong sum, a wrong reply, an endless wait or a
///          leak. Do not remove a redundant check: the second check would hide the bug.
/// Threads: Set `chosen_mutant` before the runs begin.
/// Tests:   tests/lab/faults/CMakeLists.txt (catches_*); `tributary lab faults --mutants`
#pragma once

#include <cstdint>

namespace tributary {

// X(name, the bug)
#define TRIB_MUTANT_LIST(X)                                                                 \
  /* apps/trio_ml/records.h, program.h: a contribution's path into its block. */            \
  X(kAdmitTwice, "a source's second copy is admitted too")                                  \
  X(kAdmitLate, "a contribution is admitted to a block that is closing")                    \
  X(kCompleteOneShort, "a block counts as complete with one source missing")                \
  X(kSourceCountedTwice, "a contribution counts as two ranks in src_cnt")                   \
  X(kExponentOfLast, "the last exponent wins, not the largest")                             \
  X(kFlagsForgotten, "overflow and not-finite flags are not merged into the result")        \
  X(kDegradedForgotten, "a lower aggregator's degraded mark is lost")                       \
  X(kDuplicateSettles, "a duplicate settles its contribution a second time")                \
  X(kBufferNotCleared, "a block's first contribution is added to the buffer's old content") \
  X(kNoMembershipCheck, "a contribution's session and key are not checked")                 \
  X(kNoTensorCheck, "a contribution's tensor is not compared with its block's")             \
  X(kNoScaleCheck, "a contribution's scale is not compared with its block's")               \
  X(kRanksNotMerged, "the masks of lower aggregators are not merged")                       \
  X(kLowerCountsOne, "a lower aggregator's sum counts as one rank")                         \
  X(kEmptySumSent, "lanes are sent before their conversion to network byte order")          \
  /* apps/trio_ml/aging.*, memory/ref_bits.h, timers/: stragglers. */                       \
  X(kReferenceLost, "only a block's first contribution sets its REF flag")                  \
  X(kAgedOneScanEarly, "a block ages out at its first scan, whatever its flag")             \
  X(kAgedTooLate, "a block ages out only after two idle timeouts")                          \
  X(kNeverAges, "no block ever ages out")                                                   \
  X(kLastPlaceUnscanned, "each timer thread skips the last place of its part")              \
  X(kPermanentTooSoon, "a source that has contributed is declared permanent")               \
  X(kPermanentForEver, "a permanent straggler's return goes unnoticed")                     \
  /* apps/trio_ml/block_window.cc: places, results, buffers. */                             \
  X(kStaleResult, "any result cached at the place answers for the block")                   \
  X(kResultsForgotten, "a new block at the place drops the results cached there")           \
  X(kBufferLeaked, "an evicted result keeps its buffer")                                    \
  X(kBlockCountLeaked, "a degraded block stays in the count of blocks in progress")         \
  X(kThawTooSoon, "a buffer is freed before its last send has left")                        \
  /* apps/trio_ml/session/control.h, session.cc, job.cc: sessions. */                       \
  X(kHaveWithoutMask, "a kHave reply says that all sources have contributed")               \
  X(kProbeUnanswered, "a probe for a complete block gets no reply")                         \
  X(kPastCacheSilent, "a source that lags past the result cache gets no notice")            \
  X(kOldBlocksKept, "a new session continues with the old session's blocks")                \
  X(kKeyForAnySource, "every source has the same key")                                      \
  X(kNonceIgnored, "a restarted worker is mistaken for its predecessor")                    \
  X(kCookieUnchecked, "a join needs no cookie")                                             \
  X(kSilenceUntold, "survivors of a killed rank are not told")                              \
  X(kStartsUnconfirmed, "a session starts with joins of workers that may have ended")       \
  X(kStartsWithoutLast, "a session starts before the last source has joined")               \
  X(kOldJoinServed, "a replayed join counts")                                               \
  X(kPlainInSession, "plain packets are added while a session runs")                        \
  X(kWelcomeOnce, "a lost welcome is not repeated")                                         \
  X(kGoneStaysGone, "a member that left one session counts as gone in the next")            \
  X(kHeardForgotten, "a member's messages do not keep it alive")                            \
  X(kSessionNeverEnds, "silence does not end a session")                                    \
  /* apps/trio_ml/upstream.h, emit.cc: trees. */                                            \
  X(kPartialNotRepeated, "a partial sum is never retransmitted upward")                     \
  X(kRankBaseIgnored, "sources of a lower aggregator are numbered from rank 0")             \
  X(kUpperResultAdded, "the upper result is added to the partial sum")                      \
  X(kUpperKeyUnchecked, "a message with the upper aggregator's address needs no key")       \
  X(kUpperCountLost, "the upper result's src_cnt and ranks are dropped")                    \
  /* apps/trio_ml/emit.cc, host/trio_ml/worker_protocol.cc: results that one rank owns. */  \
  X(kOwnerGetsReceipt, "the rank after the owner gets the gradients in its place")          \
  X(kReceiptWithSum, "every rank gets the gradients of a sum that one rank owns")           \
  X(kOwnerByRankBase, "an owner's rank counts from the first rank of its aggregator")       \
  X(kOthersSumTaken, "a rank takes a sum that another rank owns if it gets gradients")      \
  X(kReceiptIgnored, "a rank waits for gradients that another rank owns")                   \
  /* auth/seal.cc */                                                                        \
  X(kSealUnchecked, "a MAC that does not fit is accepted")                                  \
  X(kReplayAccepted, "a sequence number may come twice")                                    \
  /* host/worker_*.cc: the worker. */                                                       \
  X(kResetUnchecked, "a reset with any key ends a worker")                                  \
  X(kUnsealedBelieved, "a refusal without a seal ends a join at once")                      \
  X(kWindowPlusOne, "a worker sends one position beyond its window")                        \
  X(kResultTakenTwice, "a second copy of a result is accepted")                             \
  X(kHaveAfterResult, "an old kHave makes a worker send its sum as its contribution")       \
  X(kForeignSessionResult, "a result of another session is accepted")                       \
  X(kResultUnchecked, "a result is not compared with its tensor")                           \
  X(kMeanOfWorld, "a mean is divided by the number of all ranks")                           \
  X(kDegradedUnsaid, "a degraded block is not reported")                                    \
  X(kImpreciseUnsaid, "a block that lost precision is not reported")                        \
  X(kExponentNotAwaited, "gradients are sent before their exponent is agreed")              \
  X(kExponentDropped, "the exponent of a repaired block is lost")                           \
  X(kNeverOverdue, "an overdue position is not probed")                                     \
  X(kDeadlineIgnored, "a worker waits without a deadline")                                  \
  X(kOnlyFirstTold, "when a session ends, only the first of several collectives learns it") \
  X(kNoKeepAlive, "an idle worker sends no keep-alive")                                     \
  X(kOverflowUnseen, "values are checked as if there were one rank")

// Bugs of SwitchML: its switch program and its worker.
#define TRIB_SWITCHML_MUTANT_LIST(X)                                          \
  /* apps/switchml/slots.h */                                                 \
  X(kAddedAgain, "a worker's second copy is added too")                       \
  X(kChunkUnchecked, "a packet is added to whichever chunk its slot holds")   \
  X(kResultNotKept, "a lost result is not sent a second time")                \
  X(kSumOneShort, "a sum counts as complete with one worker missing")         \
  X(kSumBeforeAdded, "a sum is final when its last contribution is admitted") \
  X(kPortIgnored, "a restarted worker gets its predecessor's slots")          \
  /* apps/switchml/program.h */                                               \
  X(kSetNotCleared, "a slot's new sum starts from its buffer's old content")  \
  /* host/switchml/switchml_protocol.cc */                                    \
  X(kResultOfAnother, "a worker accepts any result of the slot it waits for") \
  X(kNeverSentAgain, "a lost packet is not retransmitted")

// Bugs of sharded jobs.
#define TRIB_SHARDED_MUTANT_LIST(X)                                                        \
  /* host/group_state.cc, tensor_parts.cc: a rank's channels. */                           \
  X(kLossUntold, "a rank that has lost an aggregator does not name it to the others")      \
  X(kOthersGoOn, "a rank that has lost an aggregator stays in its other sessions")         \
  X(kPartUnshifted, "degraded blocks of a tensor's later parts are reported at its start") \
  /* apps/trio_ml/session/session.cc */                                                    \
  X(kListUnchecked, "the lists of the ranks are not compared")                             \
  X(kLossForgotten, "an aggregator forgets which aggregator a rank has lost")

enum class Mutant : uint32_t {
  kNone,
#define TRIB_MUTANT_NAME(name, bug) name,
  TRIB_MUTANT_LIST(TRIB_MUTANT_NAME) TRIB_SWITCHML_MUTANT_LIST(TRIB_MUTANT_NAME)
      TRIB_SHARDED_MUTANT_LIST(TRIB_MUTANT_NAME)
#undef TRIB_MUTANT_NAME
};

/// Describes a planted bug for people.
struct MutantText {
  Mutant mutant;
  const char* name;
  const char* bug;
  /// The runs that show it.
  enum class Runs : uint8_t { kTrioMl, kSwitchml, kSharded } runs;
};
inline constexpr MutantText kMutants[] = {
#define TRIB_MUTANT_TEXT(name, bug) {Mutant::name, #name, bug, MutantText::Runs::kTrioMl},
    TRIB_MUTANT_LIST(TRIB_MUTANT_TEXT)
#undef TRIB_MUTANT_TEXT
#define TRIB_MUTANT_TEXT(name, bug) {Mutant::name, #name, bug, MutantText::Runs::kSwitchml},
        TRIB_SWITCHML_MUTANT_LIST(TRIB_MUTANT_TEXT)
#undef TRIB_MUTANT_TEXT
#define TRIB_MUTANT_TEXT(name, bug) {Mutant::name, #name, bug, MutantText::Runs::kSharded},
            TRIB_SHARDED_MUTANT_LIST(TRIB_MUTANT_TEXT)
#undef TRIB_MUTANT_TEXT
};

}  // namespace tributary

#ifdef TRIBUTARY_MUTANTS
namespace tributary {
/// The bug of this process.
inline Mutant chosen_mutant = Mutant::kNone;
}  // namespace tributary
#define TRIB_MUTANT(name) (::tributary::chosen_mutant == ::tributary::Mutant::name)
#else
#define TRIB_MUTANT(name) (static_cast<void>(::tributary::Mutant::name), false)
#endif
