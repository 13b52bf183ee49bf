// SPDX-License-Identifier: Apache-2.0
/// @file
/// Bugs planted on purpose, so that the fault campaign can show that it would find them.
///
/// Model:   At each place one line asks TRIB_MUTANT(kName). In the product that is the constant
///          false, and the compiler leaves nothing of it. In the program `tributary-mutants`, which
///          is built from the same sources with TRIBUTARY_MUTANTS defined, it asks whether this is
///          the one bug that was chosen.
/// Rules:   Each is a real bug: some run gives a wrong sum, a wrong answer, a wait without end or a
///          leak. A guard behind which another one stands is no mutant by itself.
/// Threads: `chosen` is set before the runs begin.
/// Tests:   tests/lab/faults/CMakeLists.txt (catches_*); `tributary lab faults --mutants`
#pragma once

#include <cstdint>

namespace tributary {

// X(name, what is wrong)
#define TRIB_MUTANT_LIST(X)                                                                \
  /* apps/trio_ml/records.h, program.h: a contribution's way into its block. */            \
  X(kAdmitTwice, "a source's second copy is admitted again")                               \
  X(kAdmitLate, "a contribution is let into a block that is closing")                      \
  X(kCompleteOneShort, "a block counts as complete with one source missing")               \
  X(kSourceCountedTwice, "a contribution counts for two ranks in src_cnt")                 \
  X(kExponentOfLast, "the last exponent wins, not the largest")                            \
  X(kFlagsForgotten, "overflow and infinities are not merged into the result")             \
  X(kDegradedForgotten, "a lower aggregator's degraded mark is lost")                      \
  X(kDuplicateSettles, "a duplicate settles once more")                                    \
  X(kBufferNotCleared, "a block's first contribution is added to what lay in the buffer")  \
  X(kNoMembershipCheck, "a contribution's session and key are not looked at")              \
  X(kNoTensorCheck, "a contribution's tensor is not compared with its block's")            \
  X(kNoScaleCheck, "a contribution's scale is not compared with its block's")              \
  X(kRanksNotMerged, "the masks of lower aggregators are not merged")                      \
  X(kLowerCountsOne, "a lower aggregator's sum counts as one rank")                        \
  X(kEmptySumSent, "lanes are sent before they are turned to network byte order")          \
  /* apps/trio_ml/aging.*, memory/ref_bits.h, timers/: stragglers. */                      \
  X(kReferenceLost, "only a block's first contribution keeps it young")                    \
  X(kAgedOneScanEarly, "a block ends at the first scan, whatever its flag says")           \
  X(kAgedTooLate, "a block has to be idle for two timeouts")                               \
  X(kNeverAges, "no block ever ages out")                                                  \
  X(kLastPlaceUnscanned, "each timer thread leaves out the last place of its part")        \
  X(kPermanentTooSoon, "a source that has contributed is called permanent all the same")   \
  X(kPermanentForEver, "a permanent straggler's return is not noticed")                    \
  /* apps/trio_ml/block_window.cc: places, results, buffers. */                            \
  X(kStaleResult, "any result kept at the place answers for the block")                    \
  X(kResultsForgotten, "a new block at the place forgets the results kept there")          \
  X(kBufferLeaked, "a result that is pushed out keeps its buffer")                         \
  X(kBlockCountLeaked, "a degraded block is not taken off the count of those in progress") \
  X(kThawTooSoon, "a buffer is free while its last send is still to leave")                \
  /* apps/trio_ml/control.h, session.cc, job.cc: sessions. */                              \
  X(kHaveWithoutMask, "an answer says that everybody has contributed")                     \
  X(kProbeUnanswered, "a probe for a complete block is not answered")                      \
  X(kPastCacheSilent, "a source that lags past the cache is not told")                     \
  X(kOldBlocksKept, "a new session goes on with the blocks of the old one")                \
  X(kKeyForAnySource, "every source has the same key")                                     \
  X(kNonceIgnored, "a restarted worker is taken for its predecessor")                      \
  X(kStartsWithoutLast, "a session starts before the last source has joined")              \
  X(kWelcomeOnce, "a welcome that was lost is not repeated")                               \
  X(kGoneStaysGone, "who has left a session counts as gone in the next one")               \
  X(kHeardForgotten, "a member's messages do not keep it alive")                           \
  X(kSessionNeverEnds, "a session does not end by silence")                                \
  /* apps/trio_ml/upstream.h, emit.cc: trees. */                                           \
  X(kPartialNotRepeated, "a partial sum is sent up once only")                             \
  X(kRankBaseIgnored, "sources of a lower aggregator are named from rank 0 on")            \
  X(kUpperResultAdded, "the upper result is added to the partial sum")                     \
  X(kUpperCountLost, "the upper result's src_cnt and ranks are not taken over")            \
  /* host/worker_*.cc: the worker. */                                                      \
  X(kWindowPlusOne, "a worker sends one position more than its window")                    \
  X(kResultTakenTwice, "a second copy of a result is taken again")                         \
  X(kHaveAfterResult, "an old answer makes a worker send its sum as its contribution")     \
  X(kForeignSessionResult, "a result of another session is taken")                         \
  X(kResultUnchecked, "a result is not compared with the tensor that it is for")           \
  X(kMeanOfWorld, "a mean is divided by all ranks, whoever was in it")                     \
  X(kDegradedUnsaid, "a degraded block is not reported")                                   \
  X(kExponentNotAwaited, "gradients are sent before their exponent is agreed")             \
  X(kExponentDropped, "an exponent of a repaired block is not taken over")                 \
  X(kNeverOverdue, "an overdue position is not asked about")                               \
  X(kDeadlineIgnored, "a worker waits for ever")                                           \
  X(kOnlyFirstTold, "of several collectives only the first one is told of the end")        \
  X(kNoKeepAlive, "an idle worker does not say that it is alive")                          \
  X(kOverflowUnseen, "values are checked as if there was one rank")

// The same for SwitchML: the program of its switch, and its worker.
#define TRIB_SWITCHML_MUTANT_LIST(X)                                               \
  /* apps/switchml/slots.h */                                                      \
  X(kAddedAgain, "a worker's second copy is added again")                          \
  X(kChunkUnchecked, "a packet is added to whatever chunk its slot holds")         \
  X(kResultNotKept, "a result is not sent again to who has lost it")               \
  X(kSumOneShort, "a sum counts as complete with one worker missing")              \
  X(kSumBeforeAdded, "a sum is final when its last contribution is let in")        \
  X(kPortIgnored, "a worker that was started again finds its predecessor's slots") \
  /* apps/switchml/program.h */                                                    \
  X(kSetNotCleared, "a slot's new sum begins with what lay in its buffer")         \
  /* host/switchml_protocol.cc */                                                  \
  X(kResultOfAnother, "a worker takes any result of the slot that it waits for")   \
  X(kNeverSentAgain, "a packet that was lost is not sent again")

enum class Mutant : uint32_t {
  kNone,
#define TRIB_MUTANT_NAME(name, what) name,
  TRIB_MUTANT_LIST(TRIB_MUTANT_NAME) TRIB_SWITCHML_MUTANT_LIST(TRIB_MUTANT_NAME)
#undef TRIB_MUTANT_NAME
};

/// A planted bug, for people.
struct MutantText {
  Mutant mutant;
  const char* name;
  const char* what;
  bool switchml;  ///< In SwitchML; else in Trio-ML.
};
inline constexpr MutantText kMutants[] = {
#define TRIB_MUTANT_TEXT(name, what) {Mutant::name, #name, what, false},
    TRIB_MUTANT_LIST(TRIB_MUTANT_TEXT)
#undef TRIB_MUTANT_TEXT
#define TRIB_MUTANT_TEXT(name, what) {Mutant::name, #name, what, true},
        TRIB_SWITCHML_MUTANT_LIST(TRIB_MUTANT_TEXT)
#undef TRIB_MUTANT_TEXT
};

}  // namespace tributary

#ifdef TRIBUTARY_MUTANTS
namespace tributary {
/// The bug that this process has.
inline Mutant chosen_mutant = Mutant::kNone;
}  // namespace tributary
#define TRIB_MUTANT(name) (::tributary::chosen_mutant == ::tributary::Mutant::name)
#else
#define TRIB_MUTANT(name) (static_cast<void>(::tributary::Mutant::name), false)
#endif
