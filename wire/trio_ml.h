// SPDX-License-Identifier: Apache-2.0
/// @file
/// Trio-ML messages as values, and their bytes. The twelve-byte header is the paper's (Figure 8);
/// the extension and the control messages are this project's own. docs/wire-format.md describes
/// every byte.
///
/// Shapes:  header (12) [extension (20) [source mask (32)] [body (80)] [seal (16 or 24)]], then the
///          gradients (4 each, or 2).
/// Errors:  decode_message() returns the first error in the bytes and never reads past them.
/// Tests:   tests/wire/trio_ml_test.cc
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "auth/mode.h"
#include "base/endpoint.h"
#include "base/time.h"
#include "wire/headers.h"
#include "wire/parameter_share.h"

namespace tributary::wire {

/// The sources in a sum; bit s of word s/64 is source s (Trio paper Figures 17, 18).
using SourceMask = std::array<uint64_t, 4>;
inline constexpr uint32_t kSourcesMax = 256;
/// Most gradients of a packet: grad_cnt has 12 bits.
inline constexpr uint32_t kGradientsMax = TrioMlHeader::GradientCount::kMask;
/// Most jobs of an aggregator: job_id has 8 bits.
inline constexpr uint32_t kJobsMax = 256;
/// Most channels (threads of a rank) of a job. Assumed: a rank with more has cores to spare.
inline constexpr uint32_t kChannelsMax = 16;
/// Most UDP ports of an aggregator: one for each core.
inline constexpr uint32_t kServerPortsMax = 128;

/// Consecutive block_ids that one core owns before the next core's run. So a sender's combined
/// datagrams (up to 64; up to 44 of 1500 bytes) stay on one core.
inline constexpr uint32_t kBlocksPerRun = 128;

/// Blocks of a run; bit i of word i/64 is the i-th block from the one that the message names.
using RunMask = std::array<uint64_t, kBlocksPerRun / 64>;

/// Returns the number of blocks from this one to the end of its run.
[[nodiscard]] constexpr uint32_t blocks_to_run_end(uint64_t block) {
  return kBlocksPerRun - static_cast<uint32_t>(block % kBlocksPerRun);
}

/// Returns the core (shard) that owns a block. @pre shard_count is a power of two.
[[nodiscard]] constexpr uint32_t owner_of(uint32_t block_id, uint32_t shard_count) {
  return block_id / kBlocksPerRun & (shard_count - 1);
}

struct TrioMlFields {
  uint8_t job_id = 0;
  uint32_t block_id = 0;
  uint8_t age_op = 0;  ///< 1 in a result whose block has aged out; else 0.
  bool final = false;
  bool degraded = false;
  bool extended = false;
  uint8_t src_id = 0;
  uint8_t src_cnt = 0;  ///< In a result, 0 means 256.
  uint16_t gen_id = 0;
  uint16_t grad_cnt = 0;
};

enum class MessageType : uint8_t {
  kContribution = 0,
  kResult = 1,
  kProbe = 2,  ///< Source asks for the state of its contribution; no gradients.
  kHave = 3,   ///< Reply: these sources have contributed; the block is not complete.
  kJoin = 4,
  kWelcome = 5,
  kPending = 6,  ///< Join recorded; the mask shows which sources have joined so far.
  kRefusal = 7,
  kNotice = 8,
  kLeave = 9,
  kKeepAlive = 10,
  kCookie = 11,   ///< Reply to a join: the source must repeat it with this cookie.
  kReset = 12,    ///< Reply: the key belongs to no member of a session that runs.
  kReport = 13,   ///< A worker's own counts, for people. Also shows that it is alive.
  kReceipt = 14,  ///< A result without its gradients, because another rank owns it: result_owner().
};
inline constexpr uint8_t kMessageTypeLast = 14;
/// Tells whether members send messages of this type, apart from joins and leaves.
[[nodiscard]] constexpr bool is_of_member(MessageType type) {
  return type == MessageType::kContribution || type == MessageType::kProbe ||
         type == MessageType::kKeepAlive || type == MessageType::kReport;
}
[[nodiscard]] constexpr bool is_control(MessageType type) { return type >= MessageType::kProbe; }
/// Returns whether control messages of this type carry a body.
[[nodiscard]] constexpr bool has_body(MessageType type) {
  // The range includes kJoin.
  return (type >= MessageType::kHave && type <= MessageType::kNotice) ||
         type == MessageType::kCookie || type == MessageType::kReport;
}
/// Returns whether this is a reply to a join, which carries the join's nonce as its key.
[[nodiscard]] constexpr bool is_join_reply(MessageType type) {
  return type == MessageType::kCookie || type == MessageType::kWelcome ||
         type == MessageType::kPending || type == MessageType::kRefusal;
}

/// The meaning of the gradients; all sources of a block must agree.
enum class ElementFormat : uint8_t {
  kInt32 = 0,
  kFixedScale = 1,
  kBlockExponent = 2,
  kBlockExponent16 = 3,  ///< Gradients of 16 bits; results are divided by 2^result_shift().
};
inline constexpr uint8_t kElementFormatLast = 3;
[[nodiscard]] constexpr bool has_exponent(ElementFormat format) {
  return format == ElementFormat::kBlockExponent || format == ElementFormat::kBlockExponent16;
}
/// Returns the bytes of a gradient on the wire.
[[nodiscard]] constexpr uint32_t gradient_bytes(ElementFormat format) {
  return format == ElementFormat::kBlockExponent16 ? kGradientBytes / 2 : kGradientBytes;
}
/// Returns the power of two by which sums of 16-bit gradients are divided: the smallest one that is
/// not below the ranks of the job.
[[nodiscard]] constexpr uint32_t result_shift(uint32_t ranks) {
  return static_cast<uint32_t>(std::bit_width(std::max(ranks, 1U) - 1));
}
static_assert(result_shift(1) == 0 && result_shift(2) == 1 && result_shift(5) == 3 &&
              result_shift(256) == 8);

/// The reason for a kRefusal, kPending or kNotice.
enum class Reason : uint8_t {
  kNone = 0,
  kUnknownJob = 1,        ///< Refusal.
  kSourceOutsideJob = 2,  ///< Refusal; value: sources of the job.
  kWrongWorld = 3,        ///< Refusal; value: ranks of the job.
  kTooManyGradients = 4,  ///< Refusal; value: block_grad_max.
  kRankTaken = 5,         ///< Pending: another live worker has this rank.
  kSessionRunning = 6,    ///< Pending: the previous session has not ended.
  kWaitingForPeers = 7,   ///< Pending: the mask shows which ranks have joined.
  kSessionLost = 8,       ///< Notice down a tree: the upper aggregator does not know the session.
  kPastCache = 9,         ///< Notice: the result cache has dropped that block's result.
  /// Notice; source, mask: ranks that left while a block waits for them; value: the aggregator that
  /// they have lost, as in their kLeave.
  kPeerLeft = 10,
  kMismatch = 11,         ///< Notice; source, mask: their contribution differs from the block's.
  kSourcePermanent = 12,  ///< Notice; source, mask: permanent straggler; blocks do not wait for it.
  kSourceReturned = 13,   ///< Notice; source, mask: blocks wait for it as before.
  kWaitingForUpstream = 14,  ///< Pending: the upper aggregator has not started its session.
  kStaleGeneration = 15,     ///< Notice to a plain source; value: the newest generation seen.
  kFutureGeneration = 16,    ///< Notice to a plain source; value as above.
  kConfirm = 17,             ///< Pending: all sources have joined; each must repeat its join once.
  kPlainClients = 18,        ///< Pending: plain packets use the job. Refusal: it has no sessions.
  kPeerSilent = 19,      ///< Notice; source, mask: ranks that have sent nothing for kSilentAfter.
  kServerStopped = 20,   ///< Notice, refusal: the aggregator ends.
  kAuthentication = 21,  ///< Refusal; value: the job's mode. The worker's mode or secret differs.
  kListsDiffer = 22,     ///< Refusal; value: a rank whose list of aggregators differs.
  /// Refusal by a directory: entry `source` of the `sources` in its list of aggregators, with its
  /// address (`group`), its weight (`value`) and the list's digest (`key`).
  kOtherList = 23,
  kWaitingForAggregators = 24,  ///< Pending: the directory looks for the job's aggregators.
  /// Refusal; value 1: the job is asynchronous, but the worker did not ask for that; 0: the
  /// reverse.
  kOtherTraining = 25,
  kTooFewGradients = 26,  ///< Refusal; value: the fewest gradients of an asynchronous job's blocks.
  /// Notice; value: the job's parameters. The tensor is longer or shorter, has block exponents, or
  /// asks for a mean.
  kNotParameters = 27,
  kJobRemoved = 28,  ///< Notice, refusal: an operator removes the job, or lets it end.
  kEvicted = 29,     ///< Notice, refusal: an operator has removed this source.
  /// Pending, notice down a tree; group: an upper aggregator that does not answer the one below it;
  /// timeout: for how long.
  kUpstreamSilent = 30,
  /// Refusal of a join of another version of the extension. Its sender reads only the version.
  kOtherVersion = 31,
  kRanksOverlap = 32,  ///< Refusal; value: a rank that another lower aggregator serves, too.
};
inline constexpr uint8_t kReasonLast = 32;
/// Tells whether a kRefusal or kNotice with this reason is about an aggregator: its sender or, if
/// ControlBody::group is set, the one that it names.
[[nodiscard]] constexpr bool names_aggregator(MessageType type, Reason reason) {
  if (type == MessageType::kRefusal) return reason != Reason::kOtherList;
  return reason == Reason::kSessionLost || reason == Reason::kServerStopped ||
         reason == Reason::kJobRemoved || reason == Reason::kEvicted;
}
/// Returns the reason's name, as in "unknown_job".
[[nodiscard]] const char* to_string(Reason reason);

/// Most aggregators of a job. Assumed; each costs every rank a thread and a socket.
inline constexpr uint32_t kAggregatorsMax = 64;

/// A worker that sends nothing for this long is gone. Workers send a message every second. Assumed:
/// the loss of three keep-alives in a row is not chance.
inline constexpr Duration kSilentAfter = milliseconds(3500);

/// An end with a secret believes a refusal without a seal after this time without a sealed reply.
/// Assumed: the loss of twenty joins in a row, or of their replies, is not chance.
inline constexpr Duration kUnsealedAfter = milliseconds(1000);

inline constexpr uint8_t kExtensionVersion = 2;
inline constexpr uint32_t kExtensionBytes = 20;
inline constexpr uint32_t kSourceMaskBytes = 32;
inline constexpr uint32_t kControlBodyBytes = 80;
/// Most bytes before the gradients of a message without a seal.
inline constexpr uint32_t kUnsealedHeadBytesMax =
    TrioMlHeader::kBytes + kExtensionBytes + kSourceMaskBytes;
static_assert(kUnsealedHeadBytesMax == 64,
              "a result's head and its gradients share cache lines well");
/// Most bytes before the gradients, in the mode of a job.
[[nodiscard]] constexpr uint32_t head_bytes_max(auth::Mode mode) {
  return kUnsealedHeadBytesMax + auth::seal_bytes(mode);
}
inline constexpr uint32_t kMessageHeadBytesMax = head_bytes_max(auth::Mode::kFull);

/// Offset of the extension's flags in a message.
inline constexpr uint32_t kFlagsByte = TrioMlHeader::kBytes + 2;
/// Extension flags.
inline constexpr uint8_t kFlagRetransmission = 1 << 0;
inline constexpr uint8_t kFlagOverflow = 1 << 1;   ///< A value of some source did not fit.
inline constexpr uint8_t kFlagNotFinite = 1 << 2;  ///< Some source had an infinity or a NaN.
inline constexpr uint8_t kFlagSourceMask = 1 << 3;
inline constexpr uint8_t kFlagImprecise = 1 << 4;   ///< A value lost precision to the exponent.
inline constexpr uint8_t kFlagHeaderSeal = 1 << 5;  ///< The head ends with a seal (auth/seal.h).
inline constexpr uint8_t kFlagFullSeal = 1 << 6;    ///< Likewise, over the gradients too.
inline constexpr uint8_t kFlagsOfSeal = kFlagHeaderSeal | kFlagFullSeal;
/// kProbe: the source asks about the rest of the block's run. kHave: the body has the answer.
inline constexpr uint8_t kFlagRun = 1 << 7;

/// Returns the flag of messages that are sealed in this mode.
[[nodiscard]] constexpr uint8_t seal_flag(auth::Mode mode) {
  if (mode == auth::Mode::kNone) return 0;
  return mode == auth::Mode::kHeader ? kFlagHeaderSeal : kFlagFullSeal;
}
/// Returns the mode in which a message is sealed. @pre Its flags name at most one.
[[nodiscard]] constexpr auth::Mode seal_mode(uint8_t flags) {
  if ((flags & kFlagFullSeal) != 0) return auth::Mode::kFull;
  return (flags & kFlagHeaderSeal) != 0 ? auth::Mode::kHeader : auth::Mode::kNone;
}
/// Flags that a result inherits from any contribution.
inline constexpr uint8_t kFlagsMerged = kFlagOverflow | kFlagNotFinite | kFlagImprecise;

/// A bit of `scale_bits`: a scale is positive, so its sign bit is free. It means that the sources
/// want the mean, not the sum. The aggregator adds either way; the bit lets it report sources that
/// disagree.
inline constexpr uint32_t kScaleBitMean = uint32_t{1} << 31;

/// Bits 8 to 16 of `scale_bits`: the rank that owns the result, plus one. It alone gets the sum;
/// the others get a kReceipt. 0: all ranks get the sum. A fixed scale needs these bits itself.
inline constexpr uint32_t kScaleOwnerShift = 8;
inline constexpr uint32_t kScaleOwnerMask = (2 * kSourcesMax - 1) << kScaleOwnerShift;
/// Returns these bits. @param owner Below kSourcesMax, or not set: all ranks.
[[nodiscard]] constexpr uint32_t owner_bits(ElementFormat format, std::optional<uint32_t> owner) {
  if (!owner || format == ElementFormat::kFixedScale) return 0;
  return (*owner + 1) << kScaleOwnerShift;
}
/// Returns the rank that owns the result of a tensor, or nothing if all ranks get it. The sources
/// choose the value, so it may be no rank of the job: at most 2 * kSourcesMax - 2.
[[nodiscard]] constexpr std::optional<uint32_t> result_owner(ElementFormat format,
                                                             uint32_t scale_bits) {
  const uint32_t field = (scale_bits & kScaleOwnerMask) >> kScaleOwnerShift;
  if (field == 0 || format == ElementFormat::kFixedScale) return {};
  return field - 1;
}
static_assert(owner_bits(ElementFormat::kInt32, 255) == 0x10000 &&
              result_owner(ElementFormat::kInt32, kScaleOwnerMask) == 2 * kSourcesMax - 2);

/// The terms on which all contributions to a tensor must agree.
struct TensorTerms {
  ElementFormat format = ElementFormat::kInt32;
  uint32_t tensor_elements = 0;
  uint32_t scale_bits = 0;

  bool operator==(const TensorTerms&) const = default;
};

struct ExtensionFields {
  MessageType type = MessageType::kContribution;
  ElementFormat format = ElementFormat::kInt32;
  uint8_t flags = 0;
  int8_t exponent = -128;  ///< For a block one window ahead; the largest wins. -128: none.
  /// Length of the tensor modulo 2^32; sources must agree. In a kProbe: a number that the kHave
  /// repeats. In a kLeave: the aggregator that the member has lost, by its place from 1 on among
  /// those of the job's list that have a weight above 0; 0: it leaves for another reason.
  uint32_t tensor_elements = 0;
  /// IEEE 754 bits of the scale, with kScaleBitMean, or see kScaleOwnerMask; sources must agree.
  uint32_t scale_bits = 0;
  /// From a member: its own key. From the aggregator: the session's result key. In a join and in
  /// the replies to it: the worker's nonce. In a kReset: the key of the message that it answers.
  uint64_t key = 0;
};

/// A worker's counts since its session began, in a kReport. Nothing depends on them.
struct WorkerReport {
  uint64_t blocks = 0;         ///< Results received.
  uint64_t degraded = 0;       ///< Results that lack a rank or are imprecise.
  uint64_t retransmitted = 0;  ///< Contributions sent again.
  uint64_t probes = 0;
  uint64_t bytes = 0;      ///< Tensor bytes in these results.
  uint32_t waited_ms = 0;  ///< Wait of its oldest block, if at least a second; else 0.
  SourceMask waits_for{};  ///< The ranks that this block lacks, as far as the worker knows.
  uint32_t begun = 0;      ///< The all-reduce that it begins with this report, from 1 on; else 0.

  bool operator==(const WorkerReport&) const = default;
};

struct ControlBody {
  Reason reason = Reason::kNone;
  uint8_t source = 0;  ///< kJoin: the entry of the directory's list that the worker asks for.
  uint16_t sources = 0;
  uint32_t window = 0;
  uint32_t gradients_max = 0;
  /// Straggler timeout; 0: mitigation is off. Absent in a kJoin. With kUpstreamSilent the time of
  /// silence.
  uint32_t timeout_us = 0;
  /// Most gradients of a packet with kBlockExponent16; 0: none. kWelcome: that the job takes. kJoin
  /// of an aggregator: that it and the aggregators below it take.
  uint32_t narrow_max = 0;
  uint32_t job_window = 0;  ///< kWelcome: the window in the job's configuration; 0: not told.
  uint32_t value = 0;       ///< The allowed value; its meaning depends on the reason.
  uint64_t key = 0;         ///< kWelcome: the receiver's key. kJoin, kCookie: the cookie.
  uint64_t result_key = 0;  ///< kWelcome: the key in all messages of the aggregator.
  uint64_t salt_high = 0;   ///< kWelcome of a sealed session: makes its MAC keys.
  uint64_t salt_low = 0;
  bool upstream = false;        ///< kHave: complete here, waiting for the upper aggregator.
  bool reports = false;         ///< kWelcome: the aggregator takes kReport.
  bool asynchronous = false;    ///< kJoin: the worker pushes changes of parameters.
  bool receipts = false;        ///< kJoin: the sender, and every rank below it, takes kReceipt.
  bool names_receiver = false;  ///< kWelcome: kResults of asynchronous jobs name their receiver.
  uint8_t channels = 0;  ///< Sessions of a rank at once, in consecutive jobs; below 32. 0: one.
  /// kWelcome: the aggregator has 2^port_bits UDP ports, up to kServerPortsMax; see owner_of().
  uint8_t port_bits = 0;
  SourceMask mask{};  ///< Join: ranks below an aggregator. Notice: the ranks that it concerns.
  /// Multicast group of results; not set: unicast. In a kPending, a kRefusal and a kNotice the
  /// aggregator that the reason is about, if that is not the sender; see names_aggregator().
  Endpoint group{};
  /// kJoin only, in place of `group`: the digest of the worker's list of aggregators; 0: none.
  uint64_t list_digest = 0;
  /// kJoin with `asynchronous` only, in place of `mask`: the aggregator's part of the parameters.
  ParameterShare share{};
  TensorTerms given{};  ///< kMismatch only, in place of `group`: the differing terms.
  /// kHave with kFlagRun, in place of `group`: the blocks of the run that need no contribution of
  /// the asking source.
  RunMask present{};
  WorkerReport report{};  ///< kReport only, and instead of everything else.
  /// kHave with kFlagRun, in place of `nonce` to `timeout_us`: blocks of the run whose result is
  /// kept.
  RunMask complete{};
};

/// The part of a message that the path of a contribution reads.
struct MessageHead {
  TrioMlFields header;
  ExtensionFields extension;  ///< Default if !header.extended.
  uint32_t head_bytes = 0;    ///< The gradients begin here.
};

/// Returns the pushes that a result of an asynchronous job counts: those added to the block since
/// the receiver's previous result of it, its own included; 65,535 stands for more. src_cnt has the
/// low byte and the exponent, which a fixed scale does not use, the high one.
[[nodiscard]] inline uint32_t pushes_of(const MessageHead& result) {
  return uint32_t{static_cast<uint8_t>(result.extension.exponent)} << 8 | result.header.src_cnt;
}
inline void set_pushes(MessageHead& result, uint16_t pushes) {
  result.header.src_cnt = static_cast<uint8_t>(pushes);
  result.extension.exponent = static_cast<int8_t>(pushes >> 8);
}

/// A whole message except its gradients.
struct Message : MessageHead {
  SourceMask mask{};  ///< If extension.flags has kFlagSourceMask.
  ControlBody body;   ///< If has_body(extension.type).
};

/// Tells whether an aggregator's message of a session is for the source in its src_id alone. So is
/// a kResult of an asynchronous job whose kWelcome has ControlBody::names_receiver. All other
/// messages hold for every source.
[[nodiscard]] inline bool is_for_one_source(const Message& message) {
  const Reason reason = message.body.reason;
  if (message.extension.type == MessageType::kHave) return true;
  if (message.extension.type != MessageType::kNotice) return false;
  // With `group` set, the notice is about an aggregator above all sources of its sender.
  return reason == Reason::kNotParameters ||
         (reason == Reason::kEvicted && !message.body.group.is_set());
}

enum class DecodeStatus : uint8_t {
  kOk,
  kTruncated,     ///< Ends inside its header, extension, mask or body.
  kBadExtension,  ///< Unknown version, type or format.
  kTooShort,      ///< Fewer gradients than grad_cnt.
  kTooLong,       ///< More bytes than grad_cnt allows.
  kBadBody,       ///< A count in the body that no job can have.
};

/// Decodes straight into `fields`, where the caller reads them. Copies in a coroutine's frame are
/// slow: see microcode::Xtxn.
inline void decode_header(View<TrioMlHeader> view, TrioMlFields& fields) {
  using H = TrioMlHeader;
  fields.job_id = static_cast<uint8_t>(view.get<H::JobId>());
  fields.block_id = view.get<H::BlockId>();
  fields.age_op = static_cast<uint8_t>(view.get<H::AgeOp>());
  fields.final = view.get<H::Final>() != 0;
  fields.degraded = view.get<H::Degraded>() != 0;
  fields.extended = view.get<H::Extended>() != 0;
  fields.src_id = static_cast<uint8_t>(view.get<H::SourceId>());
  fields.src_cnt = static_cast<uint8_t>(view.get<H::SourceCount>());
  fields.gen_id = static_cast<uint16_t>(view.get<H::GenerationId>());
  fields.grad_cnt = static_cast<uint16_t>(view.get<H::GradientCount>());
}

/// Returns the bytes that encode_message() writes before the gradients, by flags and type.
[[nodiscard]] constexpr uint32_t encoded_head_bytes(const TrioMlFields& header,
                                                    const ExtensionFields& extension) {
  uint32_t size = TrioMlHeader::kBytes;
  if (!header.extended) return size;
  size += kExtensionBytes;
  if ((extension.flags & kFlagSourceMask) != 0) size += kSourceMaskBytes;
  if (has_body(extension.type)) size += kControlBodyBytes;
  return size + auth::seal_bytes(seal_mode(extension.flags));
}

/// Returns the version of a message's extension if it differs from kExtensionVersion; otherwise, or
/// without an extension, nothing.
[[nodiscard]] std::optional<uint8_t> other_version(std::span<const std::byte> head);
/// Tells whether a message of any version is a join. @pre It has an extension.
[[nodiscard]] bool is_join_of_any_version(std::span<const std::byte> head);

/// Reads the extension at `from` (kExtensionBytes). @return kBadExtension or kOk.
[[nodiscard]] DecodeStatus decode_extension(const std::byte* from, ExtensionFields& fields);

/// Reads header and extension, and checks that the message has the size that they imply.
/// @param head       The message's first bytes, at least min(size_bytes, 192) of them.
/// @param size_bytes Size of the whole UDP payload.
[[nodiscard]] inline DecodeStatus decode_head(std::span<const std::byte> head, uint32_t size_bytes,
                                              MessageHead& message) {
  if (head.size() < TrioMlHeader::kBytes) return DecodeStatus::kTruncated;
  decode_header(View<TrioMlHeader>(head.data()), message.header);
  message.head_bytes = TrioMlHeader::kBytes;
  uint32_t gradient_count = message.header.grad_cnt;
  if (message.header.extended) {
    if (head.size() < TrioMlHeader::kBytes + kExtensionBytes) return DecodeStatus::kTruncated;
    // Decode into a local copy, so that `message` can stay in registers.
    ExtensionFields extension;
    const DecodeStatus status = decode_extension(head.data() + TrioMlHeader::kBytes, extension);
    if (status != DecodeStatus::kOk) return status;
    message.extension = extension;
    message.head_bytes = encoded_head_bytes(message.header, message.extension);
    if (head.size() < message.head_bytes) return DecodeStatus::kTruncated;
    if (is_control(message.extension.type)) gradient_count = 0;
  }
  const uint32_t expected =
      message.head_bytes + gradient_count * gradient_bytes(message.extension.format);
  if (size_bytes < expected) return DecodeStatus::kTooShort;
  return size_bytes > expected ? DecodeStatus::kTooLong : DecodeStatus::kOk;
}

/// Like decode_head(), and also reads the source mask and the body. Refuses a body (kBadBody) with
/// more than kSourcesMax sources or ranks, kChannelsMax channels or kGradientsMax gradients of
/// either width, or with an unknown element format.
[[nodiscard]] DecodeStatus decode_message(std::span<const std::byte> head, uint32_t size_bytes,
                                          Message& message);

/// Returns the source mask of a message whose flags announce one. @param head The message's bytes.
[[nodiscard]] SourceMask decode_mask(const std::byte* head);

/// Writes the 12 bytes at `to` and clears unused bits. It writes whole bytes, because every result
/// has a header: field by field, bit_field.h would cost a load and a store for each of ten fields.
inline void encode_header(const TrioMlFields& fields, std::byte* to) {
  using H = TrioMlHeader;
  const auto bits = static_cast<uint8_t>(
      (fields.age_op & H::AgeOp::kMask) << H::AgeOp::kShift | fields.final << H::Final::kShift |
      fields.degraded << H::Degraded::kShift | fields.extended << H::Extended::kShift);
  to[H::JobId::kFirstByte] = static_cast<std::byte>(fields.job_id);
  store_be<uint32_t>(to + H::BlockId::kFirstByte, fields.block_id);
  to[H::AgeOp::kFirstByte] = static_cast<std::byte>(bits);
  to[H::SourceId::kFirstByte] = static_cast<std::byte>(fields.src_id);
  to[H::SourceCount::kFirstByte] = static_cast<std::byte>(fields.src_cnt);
  store_be<uint16_t>(to + H::GenerationId::kFirstByte, fields.gen_id);
  store_be<uint16_t>(to + H::GradientCount::kFirstByte,
                     static_cast<uint16_t>(fields.grad_cnt & H::GradientCount::kMask));
}

/// Writes the header and, if there is one, the extension. The caller writes the rest.
void encode_head(const MessageHead& message, std::byte* to);
/// Writes the source mask of a message whose flags announce one. @param head The message's bytes.
void encode_mask(const SourceMask& mask, std::byte* head);
/// Changes the type of an encoded message that has an extension. @param head The message's bytes.
void set_type(MessageType type, std::byte* head);

/// Writes header, extension, mask and body as far as they apply, but no gradients. A seal's bytes
/// are 0 until its owner seals the message.
/// @param to At least kMessageHeadBytesMax bytes; kControlMessageBytes for a message with a body.
/// @return bytes written: the offset of the gradients.
uint32_t encode_message(const Message& message, std::byte* to);

/// Bytes of the longest control message.
inline constexpr uint32_t kControlMessageBytes = TrioMlHeader::kBytes + kExtensionBytes +
                                                 kSourceMaskBytes + kControlBodyBytes +
                                                 auth::kSealBytesMax;

}  // namespace tributary::wire
