// SPDX-License-Identifier: Apache-2.0
/// @file
/// Trio-ML messages as values, and their bytes. The twelve-byte header is the paper's (Figure 8);
/// the extension behind it and the control messages are ours. Byte by byte: docs/wire-format.md.
///
/// Shapes:  header (12) [extension (20) [source mask (32)]] then gradients (4 each) or, in a
/// control
///          message, its body (80).
/// Errors:  decode_message() names what is wrong with the bytes; it never reads past them.
/// Tests:   tests/wire/trio_ml_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/endpoint.h"
#include "wire/headers.h"

namespace tributary::wire {

/// Which sources a sum holds; bit s of word s/64 is source s (Trio paper Figures 17, 18).
using SourceMask = std::array<uint64_t, 4>;
inline constexpr uint32_t kSourcesMax = 256;
/// Jobs of an aggregator, at most: job_id has 8 bits.
inline constexpr uint32_t kJobsMax = 256;
/// Channels of a job, at most: threads of a rank. Assumed: who has more has cores to spare.
inline constexpr uint32_t kChannelsMax = 16;
/// UDP ports of an aggregator, at most: one for each core.
inline constexpr uint32_t kServerPortsMax = 128;

/// Consecutive block_ids that one core owns, then the next core's turn: a sender's combined
/// datagrams (up to 64, of 1500 bytes up to 44) then stay on one core.
inline constexpr uint32_t kBlocksPerRun = 128;

/// The core (shard) that owns a block. @pre shard_count is a power of two.
[[nodiscard]] constexpr uint32_t owner_of(uint32_t block_id, uint32_t shard_count) {
  return block_id / kBlocksPerRun & (shard_count - 1);
}

struct TrioMlFields {
  uint8_t job_id = 0;
  uint32_t block_id = 0;
  uint8_t age_op = 0;  ///< 1 in a result whose block has aged out, else 0.
  bool final = false;
  bool degraded = false;
  bool extended = false;
  uint8_t src_id = 0;
  uint8_t src_cnt = 0;  ///< 0 in a result stands for 256.
  uint16_t gen_id = 0;
  uint16_t grad_cnt = 0;
};

enum class MessageType : uint8_t {
  kContribution = 0,
  kResult = 1,
  kProbe = 2,  ///< Source asks what became of its contribution; no gradients.
  kHave = 3,   ///< Answer: these sources have contributed, the block is not complete.
  kJoin = 4,
  kWelcome = 5,
  kPending = 6,  ///< Join noted; these sources have joined so far.
  kRefusal = 7,
  kNotice = 8,
  kLeave = 9,
  kKeepAlive = 10,
};
inline constexpr uint8_t kMessageTypeLast = 10;
[[nodiscard]] constexpr bool is_control(MessageType type) { return type >= MessageType::kProbe; }
/// Control messages that carry a body.
[[nodiscard]] constexpr bool has_body(MessageType type) {
  return type >= MessageType::kHave && type <= MessageType::kNotice;  // kJoin is among them.
}

/// What the gradients stand for; all sources of a block must agree.
enum class ElementFormat : uint8_t { kInt32 = 0, kFixedScale = 1, kBlockExponent = 2 };

/// Why a kRefusal, kPending or kNotice was sent.
enum class Reason : uint8_t {
  kNone = 0,
  kUnknownJob = 1,           ///< Refusal.
  kSourceOutsideJob = 2,     ///< Refusal; value: sources of the job.
  kWrongWorld = 3,           ///< Refusal; value: ranks of the job.
  kTooManyGradients = 4,     ///< Refusal; value: block_grad_max.
  kRankTaken = 5,            ///< Pending: another living worker has this rank.
  kSessionRunning = 6,       ///< Pending: the previous session has not ended.
  kWaitingForPeers = 7,      ///< Pending: mask says who has joined.
  kSessionLost = 8,          ///< Notice: this session is not (or no longer) known here.
  kPastCache = 9,            ///< Notice: that block's result is not kept any more.
  kPeerLeft = 10,            ///< Notice; source, mask: who left while a block waits for it.
  kMismatch = 11,            ///< Notice; source, mask: whose contribution differs from the block's.
  kSourcePermanent = 12,     ///< Notice; source: permanent straggler, no longer waited for.
  kSourceReturned = 13,      ///< Notice; source: waited for again.
  kWaitingForUpstream = 14,  ///< Pending: the upper aggregator has not started its session.
  kStaleGeneration = 15,     ///< Notice to a plain source; value: the newest generation seen.
  kFutureGeneration = 16,    ///< Likewise.
};
inline constexpr uint8_t kReasonLast = 16;

inline constexpr uint8_t kExtensionVersion = 1;
inline constexpr uint32_t kExtensionBytes = 20;
inline constexpr uint32_t kSourceMaskBytes = 32;
inline constexpr uint32_t kControlBodyBytes = 80;
/// The longest bytes before gradients.
inline constexpr uint32_t kMessageHeadBytesMax =
    TrioMlHeader::kBytes + kExtensionBytes + kSourceMaskBytes;
static_assert(kMessageHeadBytesMax == 64,
              "a result's head and its gradients share cache lines well");

/// Where the extension's flags are in a message.
inline constexpr uint32_t kFlagsByte = TrioMlHeader::kBytes + 2;
/// Extension flags.
inline constexpr uint8_t kFlagRetransmission = 1 << 0;
inline constexpr uint8_t kFlagOverflow = 1 << 1;   ///< Some source's value did not fit.
inline constexpr uint8_t kFlagNotFinite = 1 << 2;  ///< Some source had an infinity or a NaN.
inline constexpr uint8_t kFlagSourceMask = 1 << 3;
/// Flags that a result inherits from any contribution.
inline constexpr uint8_t kFlagsMerged = kFlagOverflow | kFlagNotFinite;

/// In `scale_bits`, whose sign a scale does not need: the sources want the mean, not the sum. The
/// aggregator sums either way; it is there so that sources that disagree are told.
inline constexpr uint32_t kScaleBitMean = uint32_t{1} << 31;

/// What all contributions to a tensor must have alike.
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
  int8_t exponent = -128;        ///< Of a block one window ahead; the largest wins. -128: none.
  uint32_t session = 0;          ///< In a kJoin: the worker's nonce.
  uint32_t tensor_elements = 0;  ///< Length of the tensor modulo 2^32; must agree.
  uint32_t scale_bits = 0;       ///< IEEE 754 bits of the scale, kScaleBitMean; must agree.
  uint32_t key = 0;              ///< Sender's key from its kWelcome, or 0.
};

struct ControlBody {
  Reason reason = Reason::kNone;
  uint8_t source = 0;
  uint16_t sources = 0;
  uint32_t nonce = 0;
  uint32_t window = 0;
  uint32_t gradients_max = 0;
  uint32_t timeout_us = 0;  ///< Straggler timeout; 0 when mitigation is off.
  uint32_t value = 0;       ///< What is allowed, by reason.
  uint32_t key = 0;
  bool upstream = false;  ///< kHave: complete here, waiting for the upper aggregator.
  uint8_t channels = 0;   ///< Sessions of a rank at once, in jobs one after another; 0: one.
                          ///< Below 32.
  /// kWelcome: the aggregator has 2^port_bits UDP ports, up to kServerPortsMax; see owner_of().
  uint8_t port_bits = 0;
  SourceMask mask{};  ///< Join: ranks below an aggregator. Notice: the ranks that it is about.
  Endpoint group;     ///< Multicast group of results; not set: unicast.
  TensorTerms given;  ///< With kMismatch, in the group's place: the contribution that differs.
};

/// What every message has: all that the path of a contribution looks at.
struct MessageHead {
  TrioMlFields header;
  ExtensionFields extension;  ///< Default if !header.extended.
  uint32_t head_bytes = 0;    ///< Where the gradients begin.
};

/// A whole message but its gradients.
struct Message : MessageHead {
  SourceMask mask{};  ///< If extension.flags has kFlagSourceMask.
  ControlBody body;   ///< If has_body(extension.type).
};

enum class DecodeStatus : uint8_t {
  kOk,
  kTruncated,     ///< Ends before its header, extension, mask or body does.
  kBadExtension,  ///< Unknown version, type or format.
  kTooShort,      ///< Fewer gradients than grad_cnt says.
  kTooLong,       ///< More bytes than grad_cnt says.
};

/// Straight into `fields`, which lie where they will be read: see Xtxn about copies in frames.
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

/// Bytes that encode_message() writes in front of the gradients for these flags and this type.
[[nodiscard]] constexpr uint32_t encoded_head_bytes(const TrioMlFields& header,
                                                    const ExtensionFields& extension) {
  uint32_t size = TrioMlHeader::kBytes;
  if (!header.extended) return size;
  size += kExtensionBytes;
  if ((extension.flags & kFlagSourceMask) != 0) size += kSourceMaskBytes;
  if (has_body(extension.type)) size += kControlBodyBytes;
  return size;
}

/// Reads the extension at `from` (kExtensionBytes). @return kBadExtension or kOk.
[[nodiscard]] DecodeStatus decode_extension(const std::byte* from, ExtensionFields& fields);

/// Reads header and extension, and checks that the whole message has the size they say.
/// @param head       The message's first bytes, at least min(size_bytes, 192) of them.
/// @param size_bytes Of the whole UDP payload.
[[nodiscard]] inline DecodeStatus decode_head(std::span<const std::byte> head, uint32_t size_bytes,
                                              MessageHead& message) {
  if (head.size() < TrioMlHeader::kBytes) return DecodeStatus::kTruncated;
  decode_header(View<TrioMlHeader>(head.data()), message.header);
  message.head_bytes = TrioMlHeader::kBytes;
  uint32_t gradient_count = message.header.grad_cnt;
  if (message.header.extended) {
    if (head.size() < TrioMlHeader::kBytes + kExtensionBytes) return DecodeStatus::kTruncated;
    // A copy of its own, so that `message` can stay in registers.
    ExtensionFields extension;
    const DecodeStatus status = decode_extension(head.data() + TrioMlHeader::kBytes, extension);
    if (status != DecodeStatus::kOk) return status;
    message.extension = extension;
    message.head_bytes = encoded_head_bytes(message.header, message.extension);
    if (head.size() < message.head_bytes) return DecodeStatus::kTruncated;
    if (is_control(message.extension.type)) gradient_count = 0;
  }
  const uint32_t expected = message.head_bytes + gradient_count * kGradientBytes;
  if (size_bytes < expected) return DecodeStatus::kTooShort;
  return size_bytes > expected ? DecodeStatus::kTooLong : DecodeStatus::kOk;
}

/// As decode_head(), and the source mask and body too.
[[nodiscard]] DecodeStatus decode_message(std::span<const std::byte> head, uint32_t size_bytes,
                                          Message& message);

/// The source mask of a message whose flags say that it has one. @param head As decoded.
[[nodiscard]] SourceMask decode_mask(const std::byte* head);

/// Writes the 12 bytes at `to`; unused bits become 0. Whole bytes at once, since every result has
/// one: field by field through bit_field.h costs a load and a store for each of the ten.
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

/// Writes header and, if there is one, extension; what follows them is the caller's.
void encode_head(const MessageHead& message, std::byte* to);
/// Writes the source mask of a message whose flags say that it has one. @param head As encoded.
void encode_mask(const SourceMask& mask, std::byte* head);

/// Writes header, extension, mask and body as far as they apply; sets nothing of the gradients.
/// @param to At least kMessageHeadBytesMax bytes, kControlMessageBytes for a body.
/// @return bytes written: where the gradients begin.
uint32_t encode_message(const Message& message, std::byte* to);

/// Bytes of the longest control message.
inline constexpr uint32_t kControlMessageBytes =
    TrioMlHeader::kBytes + kExtensionBytes + kSourceMaskBytes + kControlBodyBytes;

}  // namespace tributary::wire
