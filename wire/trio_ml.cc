// SPDX-License-Identifier: Apache-2.0
#include "wire/trio_ml.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tributary::wire {
namespace {

// Byte offsets inside the extension (docs/wire-format.md).
constexpr uint32_t kExtFormat = 1;
constexpr uint32_t kExtFlags = 2;
constexpr uint32_t kExtExponent = 3;
constexpr uint32_t kExtElements = 4;
constexpr uint32_t kExtScale = 8;
constexpr uint32_t kExtKey = 12;
static_assert(kExtKey + 8 == kExtensionBytes);
static_assert(TrioMlHeader::kBytes + kExtFlags == kFlagsByte);

// Byte offsets inside a control body.
constexpr uint32_t kBodySource = 1;
constexpr uint32_t kBodySources = 2;
constexpr uint32_t kBodyWindow = 4;
constexpr uint32_t kBodyGradients = 8;
constexpr uint32_t kBodyTimeout = 12;
constexpr uint32_t kBodyValue = 16;
constexpr uint32_t kBodyKey = 20;
constexpr uint32_t kBodyGroupPort = 28;
constexpr uint32_t kBodyUpstream = 30;  // Five bits.
constexpr uint8_t kUpstreamBit = 1 << 0;
constexpr uint8_t kAsynchronousBit = 1 << 1;
constexpr uint8_t kReportsBit = 1 << 2;
constexpr uint8_t kReceiptsBit = 1 << 3;
constexpr uint8_t kNamesReceiverBit = 1 << 4;
constexpr uint32_t kBodyChannels = 31;  // Low bits; the port bits from kPortBitsShift on.
constexpr uint32_t kPortBitsShift = 5;
static_assert(kChannelsMax < 1U << kPortBitsShift);
static_assert(kServerPortsMax == 1U << ((1U << (8 - kPortBitsShift)) - 1));
constexpr uint32_t kBodyMask = 32;
// In a join for asynchronous training, in place of the mask.
constexpr uint32_t kBodyShareBefore = kBodyMask;
constexpr uint32_t kBodyShareAll = kBodyMask + 8;
constexpr uint32_t kBodyShareOwn = kBodyMask + 16;
constexpr uint32_t kBodyResultKey = kBodyMask;  // A welcome has no mask.
constexpr uint32_t kBodySalt = kBodyMask + 8;
constexpr uint32_t kBodyNarrow = kBodyMask + 24;  // Of a welcome.
constexpr uint32_t kBodyJobWindow = kBodyNarrow + 4;
constexpr uint32_t kBodyNarrowWish = kBodyTimeout;  // Of a join, which has no timeout.
constexpr uint32_t kBodyGroup = 64;
static_assert(kBodyGroup + 16 == kControlBodyBytes);
// With Reason::kMismatch, in place of the group's address.
constexpr uint32_t kBodyGivenFormat = kBodyGroup;
constexpr uint32_t kBodyGivenElements = kBodyGroup + 4;
constexpr uint32_t kBodyGivenScale = kBodyGroup + 8;
// In a kReport.
constexpr uint32_t kReportBegun = 0;
constexpr uint32_t kReportWaited = 4;
constexpr uint32_t kReportBlocks = 8;
constexpr uint32_t kReportDegraded = 16;
constexpr uint32_t kReportRetransmitted = 24;
constexpr uint32_t kReportWaitsFor = kBodyMask;
constexpr uint32_t kReportBytes = 64;
constexpr uint32_t kReportProbes = 72;
static_assert(kReportProbes + 8 == kControlBodyBytes);
// With kFlagRun in a kHave, in place of the group's address and of the fields from the window on.
constexpr uint32_t kBodyPresent = kBodyGroup;
constexpr uint32_t kBodyComplete = kBodyWindow;
static_assert(kBodyPresent + sizeof(RunMask) == kControlBodyBytes);
static_assert(kBodyComplete + sizeof(RunMask) == kBodyKey);

uint8_t byte_at(const std::byte* from, uint32_t offset) {
  return std::to_integer<uint8_t>(from[offset]);
}

template <size_t kWords>
void load_mask(const std::byte* from, std::array<uint64_t, kWords>& mask) {
  for (uint32_t i = 0; i < kWords; i++) mask[i] = load_be<uint64_t>(from + 8 * i);
}

template <size_t kWords>
void store_mask(const std::array<uint64_t, kWords>& mask, std::byte* to) {
  for (uint32_t i = 0; i < kWords; i++) store_be<uint64_t>(to + 8 * i, mask[i]);
}

/// Tells whether the body of a message with this extension is about a run.
bool has_run(const ExtensionFields& extension) {
  return extension.type == MessageType::kHave && (extension.flags & kFlagRun) != 0;
}

}  // namespace

std::optional<uint8_t> other_version(std::span<const std::byte> head) {
  if (head.size() < TrioMlHeader::kBytes + kExtensionBytes) return {};
  TrioMlFields header;
  decode_header(View<TrioMlHeader>(head.data()), header);
  const auto version = static_cast<uint8_t>(byte_at(head.data(), TrioMlHeader::kBytes) >> 4);
  if (!header.extended || version == kExtensionVersion) return {};
  return version;
}

bool is_join_of_any_version(std::span<const std::byte> head) {
  const uint8_t type = byte_at(head.data(), TrioMlHeader::kBytes) & 0x0f;
  return type == static_cast<uint8_t>(MessageType::kJoin);
}

DecodeStatus decode_extension(const std::byte* from, ExtensionFields& fields) {
  const uint8_t first = byte_at(from, 0);
  const uint8_t type = first & 0x0f;
  const uint8_t format = byte_at(from, kExtFormat);
  if (first >> 4 != kExtensionVersion || type > kMessageTypeLast || format > kElementFormatLast) {
    return DecodeStatus::kBadExtension;
  }
  fields.type = static_cast<MessageType>(type);
  fields.format = static_cast<ElementFormat>(format);
  fields.flags = byte_at(from, kExtFlags);
  if ((fields.flags & kFlagsOfSeal) == kFlagsOfSeal) return DecodeStatus::kBadExtension;
  fields.exponent = static_cast<int8_t>(byte_at(from, kExtExponent));
  fields.tensor_elements = load_be<uint32_t>(from + kExtElements);
  fields.scale_bits = load_be<uint32_t>(from + kExtScale);
  fields.key = load_be<uint64_t>(from + kExtKey);
  return DecodeStatus::kOk;
}

namespace {

void encode_extension(const ExtensionFields& fields, std::byte* to) {
  to[0] = static_cast<std::byte>(kExtensionVersion << 4 | static_cast<uint8_t>(fields.type));
  to[kExtFormat] = static_cast<std::byte>(fields.format);
  to[kExtFlags] = static_cast<std::byte>(fields.flags);
  to[kExtExponent] = static_cast<std::byte>(fields.exponent);
  store_be<uint32_t>(to + kExtElements, fields.tensor_elements);
  store_be<uint32_t>(to + kExtScale, fields.scale_bits);
  store_be<uint64_t>(to + kExtKey, fields.key);
}

/// Returns whether the body states a share of parameters, in place of the mask.
bool has_share(MessageType type, const ControlBody& body) {
  return type == MessageType::kJoin && body.asynchronous;
}

/// Returns whether every count is one that a job can have.
bool is_possible(MessageType type, const ControlBody& body) {
  // The sources of a welcome or a pending are ranks from `value` on.
  const bool has_ranks = type == MessageType::kWelcome || type == MessageType::kPending;
  const uint64_t ranks_end = uint64_t{body.sources} + (has_ranks ? body.value : 0);
  return ranks_end <= kSourcesMax && body.gradients_max <= kGradientsMax &&
         body.narrow_max <= kGradientsMax && body.channels <= kChannelsMax &&
         (!has_share(type, body) || body.share.is_possible()) &&
         static_cast<uint8_t>(body.given.format) <= kElementFormatLast;
}

void decode_report(const std::byte* from, WorkerReport& report) {
  report.begun = load_be<uint32_t>(from + kReportBegun);
  report.waited_ms = load_be<uint32_t>(from + kReportWaited);
  report.blocks = load_be<uint64_t>(from + kReportBlocks);
  report.degraded = load_be<uint64_t>(from + kReportDegraded);
  report.retransmitted = load_be<uint64_t>(from + kReportRetransmitted);
  load_mask(from + kReportWaitsFor, report.waits_for);
  report.bytes = load_be<uint64_t>(from + kReportBytes);
  report.probes = load_be<uint64_t>(from + kReportProbes);
}

void encode_report(const WorkerReport& report, std::byte* to) {
  store_be<uint32_t>(to + kReportBegun, report.begun);
  store_be<uint32_t>(to + kReportWaited, report.waited_ms);
  store_be<uint64_t>(to + kReportBlocks, report.blocks);
  store_be<uint64_t>(to + kReportDegraded, report.degraded);
  store_be<uint64_t>(to + kReportRetransmitted, report.retransmitted);
  store_mask(report.waits_for, to + kReportWaitsFor);
  store_be<uint64_t>(to + kReportBytes, report.bytes);
  store_be<uint64_t>(to + kReportProbes, report.probes);
}

/// Weights of 0 come from a worker of a job with one aggregator.
void decode_share(const std::byte* from, ParameterShare& share) {
  const auto all = load_be<uint64_t>(from + kBodyShareAll);
  share = {};
  if (all == 0) return;
  share = {.before = load_be<uint64_t>(from + kBodyShareBefore),
           .own = load_be<uint32_t>(from + kBodyShareOwn),
           .all = all};
}

void encode_share(const ParameterShare& share, std::byte* to) {
  if (share == ParameterShare{}) return;
  store_be<uint64_t>(to + kBodyShareBefore, share.before);
  store_be<uint64_t>(to + kBodyShareAll, share.all);
  store_be<uint32_t>(to + kBodyShareOwn, share.own);
}

void decode_body(const std::byte* from, const ExtensionFields& extension, ControlBody& body) {
  if (extension.type == MessageType::kReport) return decode_report(from, body.report);
  body.reason = static_cast<Reason>(byte_at(from, 0));
  body.source = byte_at(from, kBodySource);
  body.sources = load_be<uint16_t>(from + kBodySources);
  body.window = load_be<uint32_t>(from + kBodyWindow);
  body.gradients_max = load_be<uint32_t>(from + kBodyGradients);
  body.timeout_us = load_be<uint32_t>(from + kBodyTimeout);
  body.value = load_be<uint32_t>(from + kBodyValue);
  body.key = load_be<uint64_t>(from + kBodyKey);
  body.group.port = load_be<uint16_t>(from + kBodyGroupPort);
  body.upstream = (byte_at(from, kBodyUpstream) & kUpstreamBit) != 0;
  body.asynchronous = (byte_at(from, kBodyUpstream) & kAsynchronousBit) != 0;
  body.reports = (byte_at(from, kBodyUpstream) & kReportsBit) != 0;
  body.receipts = (byte_at(from, kBodyUpstream) & kReceiptsBit) != 0;
  body.names_receiver = (byte_at(from, kBodyUpstream) & kNamesReceiverBit) != 0;
  body.channels = byte_at(from, kBodyChannels) & ((1U << kPortBitsShift) - 1);
  body.port_bits = static_cast<uint8_t>(byte_at(from, kBodyChannels) >> kPortBitsShift);
  if (extension.type == MessageType::kWelcome) {
    body.result_key = load_be<uint64_t>(from + kBodyResultKey);
    body.salt_high = load_be<uint64_t>(from + kBodySalt);
    body.salt_low = load_be<uint64_t>(from + kBodySalt + 8);
    body.narrow_max = load_be<uint32_t>(from + kBodyNarrow);
    body.job_window = load_be<uint32_t>(from + kBodyJobWindow);
  } else if (has_share(extension.type, body)) {
    decode_share(from, body.share);
    body.mask = {};
  } else {
    load_mask(from + kBodyMask, body.mask);
  }
  if (has_run(extension)) {
    load_mask(from + kBodyPresent, body.present);
    load_mask(from + kBodyComplete, body.complete);
    body.window = body.gradients_max = body.timeout_us = body.value = 0;  // Absent.
    return;
  }
  if (body.reason == Reason::kMismatch) {
    body.given = {.format = static_cast<ElementFormat>(byte_at(from, kBodyGivenFormat)),
                  .tensor_elements = load_be<uint32_t>(from + kBodyGivenElements),
                  .scale_bits = load_be<uint32_t>(from + kBodyGivenScale)};
    return;
  }
  if (extension.type == MessageType::kJoin) {
    body.list_digest = load_be<uint64_t>(from + kBodyGroup);
    body.narrow_max = load_be<uint32_t>(from + kBodyNarrowWish);
    body.timeout_us = 0;
    return;
  }
  std::memcpy(body.group.address.data(), from + kBodyGroup, body.group.address.size());
}

void encode_body(const ControlBody& body, const ExtensionFields& extension, std::byte* to) {
  std::memset(to, 0, kControlBodyBytes);
  if (extension.type == MessageType::kReport) return encode_report(body.report, to);
  to[0] = static_cast<std::byte>(body.reason);
  to[kBodySource] = static_cast<std::byte>(body.source);
  store_be<uint16_t>(to + kBodySources, body.sources);
  store_be<uint32_t>(to + kBodyWindow, body.window);
  store_be<uint32_t>(to + kBodyGradients, body.gradients_max);
  store_be<uint32_t>(to + kBodyTimeout, body.timeout_us);
  store_be<uint32_t>(to + kBodyValue, body.value);
  store_be<uint64_t>(to + kBodyKey, body.key);
  store_be<uint16_t>(to + kBodyGroupPort, body.group.port);
  to[kBodyUpstream] = static_cast<std::byte>(
      (body.upstream ? kUpstreamBit : 0) | (body.asynchronous ? kAsynchronousBit : 0) |
      (body.reports ? kReportsBit : 0) | (body.receipts ? kReceiptsBit : 0) |
      (body.names_receiver ? kNamesReceiverBit : 0));
  to[kBodyChannels] = static_cast<std::byte>(body.channels | body.port_bits << kPortBitsShift);
  if (extension.type == MessageType::kWelcome) {
    store_be<uint64_t>(to + kBodyResultKey, body.result_key);
    store_be<uint64_t>(to + kBodySalt, body.salt_high);
    store_be<uint64_t>(to + kBodySalt + 8, body.salt_low);
    store_be<uint32_t>(to + kBodyNarrow, body.narrow_max);
    store_be<uint32_t>(to + kBodyJobWindow, body.job_window);
  } else if (has_share(extension.type, body)) {
    encode_share(body.share, to);
  } else {
    store_mask(body.mask, to + kBodyMask);
  }
  if (has_run(extension)) {
    store_mask(body.present, to + kBodyPresent);
    store_mask(body.complete, to + kBodyComplete);
    return;
  }
  if (body.reason == Reason::kMismatch) {
    to[kBodyGivenFormat] = static_cast<std::byte>(body.given.format);
    store_be<uint32_t>(to + kBodyGivenElements, body.given.tensor_elements);
    store_be<uint32_t>(to + kBodyGivenScale, body.given.scale_bits);
    return;
  }
  if (extension.type == MessageType::kJoin) {
    store_be<uint64_t>(to + kBodyGroup, body.list_digest);
    store_be<uint32_t>(to + kBodyNarrowWish, body.narrow_max);
    return;
  }
  std::memcpy(to + kBodyGroup, body.group.address.data(), body.group.address.size());
}

}  // namespace

void encode_head(const MessageHead& message, std::byte* to) {
  encode_header(message.header, to);
  if (message.header.extended) encode_extension(message.extension, to + TrioMlHeader::kBytes);
}

void set_type(MessageType type, std::byte* head) {
  head[TrioMlHeader::kBytes] =
      static_cast<std::byte>(kExtensionVersion << 4 | static_cast<uint8_t>(type));
}

void encode_mask(const SourceMask& mask, std::byte* head) {
  store_mask(mask, head + TrioMlHeader::kBytes + kExtensionBytes);
}

SourceMask decode_mask(const std::byte* head) {
  SourceMask mask;
  load_mask(head + TrioMlHeader::kBytes + kExtensionBytes, mask);
  return mask;
}

DecodeStatus decode_message(std::span<const std::byte> head, uint32_t size_bytes,
                            Message& message) {
  const DecodeStatus status = decode_head(head, size_bytes, message);
  if (status != DecodeStatus::kOk || !message.header.extended) return status;
  const std::byte* rest = head.data() + TrioMlHeader::kBytes + kExtensionBytes;
  if ((message.extension.flags & kFlagSourceMask) != 0) {
    load_mask(rest, message.mask);
    rest += kSourceMaskBytes;
  }
  if (!has_body(message.extension.type)) return status;
  decode_body(rest, message.extension, message.body);
  return is_possible(message.extension.type, message.body) ? status : DecodeStatus::kBadBody;
}

uint32_t encode_message(const Message& message, std::byte* to) {
  encode_head(message, to);
  if (!message.header.extended) return TrioMlHeader::kBytes;
  std::byte* rest = to + TrioMlHeader::kBytes + kExtensionBytes;
  if ((message.extension.flags & kFlagSourceMask) != 0) {
    store_mask(message.mask, rest);
    rest += kSourceMaskBytes;
  }
  if (has_body(message.extension.type)) {
    encode_body(message.body, message.extension, rest);
    rest += kControlBodyBytes;
  }
  const uint32_t seal_bytes = auth::seal_bytes(seal_mode(message.extension.flags));
  std::fill_n(rest, seal_bytes, std::byte{0});
  return encoded_head_bytes(message.header, message.extension);
}

const char* to_string(Reason reason) {
  constexpr std::array<const char*, kReasonLast + 1> kNames{"none",
                                                            "unknown_job",
                                                            "source_outside_job",
                                                            "wrong_world",
                                                            "too_many_gradients",
                                                            "rank_taken",
                                                            "session_running",
                                                            "waiting_for_peers",
                                                            "session_lost",
                                                            "past_cache",
                                                            "peer_left",
                                                            "mismatch",
                                                            "source_permanent",
                                                            "source_returned",
                                                            "waiting_for_upstream",
                                                            "stale_generation",
                                                            "future_generation",
                                                            "confirm",
                                                            "plain_clients",
                                                            "peer_silent",
                                                            "server_stopped",
                                                            "authentication",
                                                            "lists_differ",
                                                            "other_list",
                                                            "waiting_for_aggregators",
                                                            "other_training",
                                                            "too_few_gradients",
                                                            "not_parameters",
                                                            "job_removed",
                                                            "evicted",
                                                            "upstream_silent",
                                                            "other_version",
                                                            "ranks_overlap"};
  const auto index = static_cast<uint32_t>(reason);
  return index < kNames.size() ? kNames[index] : "unknown";
}

}  // namespace tributary::wire
