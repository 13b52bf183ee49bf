// SPDX-License-Identifier: Apache-2.0
/// @file
/// Everything a packet can cause, by name. One Packet/Byte Counter each, per shard; the names are
/// what `tributary serve --json` reports.
#pragma once

#include <array>
#include <cstdint>

#include "apps/counting.h"
#include "memory/rmw.h"

namespace tributary::trio_ml {

enum class Outcome : uint8_t {
  // What was done.
  kAggregated,      ///< A contribution was added.
  kBlockCompleted,  ///< Every source waited for had contributed.
  kBlockDegraded,   ///< The block aged out: a partial result was sent.
  kResultSent,      ///< One for each destination.
  kSentUpstream,    ///< Partial sums sent to the upper aggregator, repeats included.
  kUpstreamResult,  ///< Results taken from the upper aggregator.
  kDuplicate,       ///< Contribution that its block holds already; nothing changed.
  kLate,            ///< Contribution after completion; answered with the result.
  kProbe,
  kHaveSent,  ///< Answers "contribution is here, the block is not complete".
  kJoin,
  kWelcome,
  kLeave,
  kKeepAlive,
  kSessionStarted,
  kSessionEnded,
  kNoticeSent,
  kBlockSuperseded,  ///< An abandoned block made room for a newer one.
  kSourceTemporary,  ///< Times a source was missing from a block that aged out.
  kSourcePermanent,  ///< Times a source was declared a permanent straggler.
  kSourceReturned,
  // Why a packet was refused. No other effect.
  kNotIp,
  kBadIpHeader,  ///< Lengths or version that do not fit the frame.
  kIpOptions,
  kFragment,
  kNotUdp,
  kWrongPort,
  kTruncated,  ///< Shorter than its headers.
  kLengthBelowGradCnt,
  kLengthAboveGradCnt,
  kBadExtension,
  kNoGradients,  ///< grad_cnt 0 without a reason for it.
  kUnknownJob,
  kSourceOutsideJob,
  kTooManyGradients,  ///< Above block_grad_max.
  kGradCntDiffers,    ///< From the block's first contribution.
  kTensorDiffers,     ///< Length, type or scale differs from the block's first contribution.
  kStaleGeneration,
  kFutureGeneration,
  kPastCache,       ///< Older than the results still kept.
  kWindowExceeded,  ///< Its place of the window is taken by an older block in progress.
  kForeignAddress,  ///< pin=on and not the source's first address.
  kWrongSession,
  kSessionRequired,  ///< Plain Trio-ML packet for a job that has a session.
  kWrongKey,
  kNotExpectedHere,  ///< A message only aggregators send, or not from the upper aggregator.
  kNoBuffer,         ///< All aggregation buffers are in use.
  kCount,
};
inline constexpr uint32_t kOutcomeCount = static_cast<uint32_t>(Outcome::kCount);
/// The reason of a drop that has no counter of its own.
inline constexpr uint32_t kUncounted = kOutcomeCount;

/// The counter's name, as in "stale_generation".
[[nodiscard]] const char* to_string(Outcome outcome);

/// The result of a check of a packet.
using Verdict = apps::Verdict<Outcome>;
inline constexpr Verdict kAccepted{};

using Counters = std::array<memory::PacketByteCounter, kOutcomeCount>;

}  // namespace tributary::trio_ml
