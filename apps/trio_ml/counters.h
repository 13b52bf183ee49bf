// SPDX-License-Identifier: Apache-2.0
/// @file
/// The outcomes of packets, by name. Each shard has one Packet/Byte Counter for each outcome.
/// `tributary serve --json` reports them under these names.
///
/// Tests:   tests/apps/trio_ml/refusal_test.cc
#pragma once

#include <array>
#include <cstdint>

#include "apps/counting.h"
#include "memory/rmw.h"

namespace tributary::trio_ml {

enum class Outcome : uint8_t {
  // Packets served and sent, and events.
  kAggregated,      ///< A contribution was added.
  kBlockCompleted,  ///< Every source of the job had contributed.
  kBlockDegraded,   ///< A source is missing: the block aged out, or did not wait for that source.
  kResultSent,      ///< Counts each destination.
  kReceiptSent,     ///< Likewise: results without gradients, to ranks that do not own them.
  kSentUpstream,    ///< Partial sums sent to the upper aggregator, repeats included.
  kUpstreamResult,  ///< Results taken from the upper aggregator.
  kDuplicate,       ///< The block already holds the contribution.
  kLate,            ///< Contribution after completion; answered with the result.
  kProbe,
  kHaveSent,  ///< Answers that the contribution is here and the block incomplete.
  kJoin,
  kWelcome,
  kLeave,
  kKeepAlive,
  kReport,  ///< Workers' own counts.
  kSessionStarted,
  kSessionEnded,
  kNoticeSent,
  kCookieSent,       ///< Answers to joins that did not prove their address.
  kResetSent,        ///< Answers to messages with the key of no member.
  kSourceQuota,      ///< A member's question beyond its budget of replies; not answered.
  kReplyWithheld,    ///< Replies to strangers beyond the budget, or larger than their packet.
  kBlockSuperseded,  ///< A newer block took the place of an abandoned one.
  kSourceTemporary,  ///< Times a source was missing from a block that aged out.
  kSourcePermanent,  ///< Times a source was declared a permanent straggler.
  kSourceReturned,
  kSilenceWaited,      ///< Times a member was silent for silent_ms and the others wait for it.
  kSilenceExcluded,    ///< Likewise, and the others go on without it.
  kSilenceEnded,       ///< Likewise, and those that wait for it end.
  kParameterOverflow,  ///< Pushes after which a stored parameter did not fit its lane.
  // Reasons to refuse a packet. A refused packet has no other effect.
  kNotIp,
  kBadIpHeader,  ///< Lengths or version contradict the frame.
  kIpOptions,
  kFragment,
  kNotUdp,
  kWrongPort,
  kTruncated,  ///< Shorter than its headers.
  kLengthBelowGradCnt,
  kLengthAboveGradCnt,
  kBadExtension,
  kNoGradients,  ///< grad_cnt is 0 but the format requires gradients.
  kUnknownJob,
  kSourceOutsideJob,
  kTooManyGradients,  ///< Above block_grad_max.
  kGradCntDiffers,    ///< Differs from the block's first contribution.
  kTensorDiffers,     ///< Length, type or scale differs from the first contribution.
  kNotParameters,     ///< Asynchronous job: not the job's parameters; see Reason::kNotParameters.
  kStaleGeneration,
  kFutureGeneration,
  kPastCache,       ///< Older than the kept results.
  kWindowExceeded,  ///< An older block in progress holds its place.
  kForeignAddress,  ///< pin=on and not from the source's first address.
  /// A member's message for a job without a session, or a packet that a machine suspended while its
  /// session ended.
  kWrongSession,
  kSessionRequired,      ///< Plain Trio-ML packet for a job that has a session, or only sessions.
  kWrongKey,             ///< Not the key of its source in the running session.
  kWrongAuthentication,  ///< Not sealed in the job's mode, or by another secret (a join).
  kBadSeal,              ///< The MAC is not that of the message: forged or damaged.
  kReplayed,             ///< A message with this sequence number came before, or it is too old.
  kNotExpectedHere,      ///< Only aggregators send this type, or only shard 0 serves it.
  kNoBuffer,             ///< All aggregation buffers are in use.
  kCount,
};
inline constexpr uint32_t kOutcomeCount = static_cast<uint32_t>(Outcome::kCount);
/// Marks a drop that has no counter of its own.
inline constexpr uint32_t kUncounted = kOutcomeCount;

/// Returns true for a reason to refuse a packet, and false for an event.
[[nodiscard]] constexpr bool is_refusal(Outcome outcome) { return outcome >= Outcome::kNotIp; }

/// Returns the counter's name, as in "stale_generation".
[[nodiscard]] const char* to_string(Outcome outcome);

/// The result of a check of a packet.
using Verdict = apps::Verdict<Outcome>;
inline constexpr Verdict kAccepted{};

using Counters = std::array<memory::PacketByteCounter, kOutcomeCount>;

}  // namespace tributary::trio_ml
