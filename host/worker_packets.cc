// SPDX-License-Identifier: Apache-2.0
// The part of WorkerProtocol that turns positions into packets and packets into events.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/mutant.h"
#include "host/number_format.h"
#include "host/worker_protocol.h"

namespace tributary::host {

using wire::ElementFormat;
using wire::Message;
using wire::MessageType;
using wire::Reason;

namespace {

/// The part of a tensor that a block holds.
template <class T>
std::span<T> slice(std::span<T> tensor, uint64_t block, uint32_t gradients) {
  const uint64_t first = block * gradients;
  return tensor.subspan(first, std::min<uint64_t>(gradients, tensor.size() - first));
}

/// Types behind a block exponent, beside float32's 0 (docs/wire-format.md).
constexpr uint32_t kTypeFloat16 = 1;
constexpr uint32_t kTypeBfloat16 = 2;

/// The scale, or the type that is behind a block exponent.
uint32_t type_bits_of(const Transfer& transfer) {
  if (transfer.format == ElementFormat::kFixedScale) return std::bit_cast<uint32_t>(transfer.scale);
  if (transfer.halves.bits.empty()) return 0;
  return transfer.halves.type == HalfType::kFloat16 ? kTypeFloat16 : kTypeBfloat16;
}

/// What all ranks must agree about.
wire::TensorTerms terms_of(const Transfer& transfer) {
  const bool mean = transfer.op == ReduceOp::kMean;
  const uint64_t elements =
      transfer.tensor_elements == 0 ? transfer.element_count() : transfer.tensor_elements;
  return {.format = transfer.format,
          .tensor_elements = static_cast<uint32_t>(elements),
          .scale_bits = type_bits_of(transfer) | (mean ? wire::kScaleBitMean : 0)};
}

std::string type_text(const wire::TensorTerms& terms) {
  const uint32_t bits = terms.scale_bits & ~wire::kScaleBitMean;
  switch (terms.format) {
    case ElementFormat::kInt32:
      return "int32";
    case ElementFormat::kFixedScale:
      return fmt::format("float32 at scale {}", std::bit_cast<float>(bits));
    case ElementFormat::kBlockExponent:
      break;
  }
  if (bits == kTypeFloat16) return "float16";
  return bits == kTypeBfloat16 ? "bfloat16" : "float32";
}

/// As in "the mean of 1000 float32".
std::string tensor_text(const wire::TensorTerms& terms) {
  return fmt::format("the {} of {} {}",
                     (terms.scale_bits & wire::kScaleBitMean) != 0 ? "mean" : "sum",
                     terms.tensor_elements, type_text(terms));
}

/// As in "rank 1, 3"; `nobody` for an empty set.
std::string ranks_text(const SourceSet& ranks, const char* nobody) {
  constexpr uint32_t kNamedMax = 8;
  std::string text;
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < wire::kSourcesMax; rank++) {
    if (!contains(ranks, rank) || ++count > kNamedMax) continue;
    text += fmt::format("{}{}", text.empty() ? "rank " : ", ", rank);
  }
  if (count == 0) return nobody;
  if (count > kNamedMax) text += fmt::format(" and {} more", count - kNamedMax);
  return text;
}

std::string mismatch_text(const std::string& who, const wire::TensorTerms& given,
                          const std::string& others, const wire::TensorTerms& expected,
                          uint64_t position) {
  if (given.tensor_elements == 0 && expected.tensor_elements == 0) {  // An older aggregator's.
    return fmt::format("{} and {} disagree about a tensor (block {})", who, others, position);
  }
  std::string ours = tensor_text(given);
  // Alike in all that has a name: another call of the same kind, or other packets.
  if (ours == tensor_text(expected)) ours += " in another call, or in packets of another size,";
  return fmt::format("{} gives {} where {} gave {} (block {}); all ranks must make the same calls",
                     who, ours, others, tensor_text(expected), position);
}

std::string refusal_text(const CommunicatorConfig& config, const wire::ControlBody& body) {
  const std::string server = config.server.to_string();
  switch (body.reason) {
    case Reason::kUnknownJob:
      return fmt::format("aggregator {} has no job {}", server, config.job_id);
    case Reason::kSourceOutsideJob:
      return fmt::format("rank {} is outside job {} at {}: its sources are 0 to {}", config.rank,
                         config.job_id, server, body.value - 1);
    case Reason::kWrongWorld:
      return fmt::format("job {} at {} has {} ranks, not {}", config.job_id, server, body.value,
                         config.world);
    case Reason::kTooManyGradients:
      return fmt::format("job {} at {} takes at most {} gradients a packet, not {}", config.job_id,
                         server, body.value, config.gradients);
    default:
      return fmt::format("aggregator {} refuses rank {} of job {}", server, config.rank,
                         config.job_id);
  }
}

}  // namespace

uint32_t WorkerProtocol::packet_bytes_max() const {
  return std::max(wire::kControlMessageBytes,
                  wire::kMessageHeadBytesMax + config_.gradients * wire::kGradientBytes);
}

uint32_t WorkerProtocol::lane_count(const Transfer& transfer, uint64_t position) const {
  const uint64_t offset = position - transfer.position_first_;
  if (offset < transfer.lead_) return 0;
  const uint64_t first = (offset - transfer.lead_) * config_.gradients;
  return static_cast<uint32_t>(
      std::min<uint64_t>(config_.gradients, transfer.element_count() - first));
}

// --- Out ---

/// The port by which the aggregator's card finds the core that owns the block.
Endpoint WorkerProtocol::server_for(uint32_t block_id) const {
  Endpoint server = config_.server;
  server.port = static_cast<uint16_t>(server.port + wire::owner_of(block_id, server_ports_));
  return server;
}

std::span<const float> WorkerProtocol::floats_of(const Transfer& transfer, uint64_t block) {
  if (transfer.halves.bits.empty()) {
    return slice<const float>(transfer.floats, block, config_.gradients);
  }
  const auto halves = slice<const uint16_t>(transfer.halves.bits, block, config_.gradients);
  widen_halves(halves, transfer.halves.type, wide_.data());
  return std::span(wide_).first(halves.size());
}

void WorkerProtocol::write_gradients(Transfer& transfer, uint64_t block, Message& message,
                                     std::byte* lanes) {
  if (transfer.format == ElementFormat::kInt32) {
    pack_int32(slice<const int32_t>(transfer.integers, block, config_.gradients), lanes);
    return;
  }
  const auto values = floats_of(transfer, block);
  const float scale = transfer.format == ElementFormat::kFixedScale
                          ? transfer.scale
                          : scale_for_exponent(transfer.exponents_[block], config_.world);
  switch (pack_fixed(values, scale,
                     lane_magnitude_max(TRIB_MUTANT(kOverflowUnseen) ? 1 : config_.world), lanes)) {
    case Fit::kFits:
      break;
    case Fit::kOverflows:
      message.extension.flags |= wire::kFlagOverflow;
      break;
    case Fit::kNotFinite:
      message.extension.flags |= wire::kFlagNotFinite;
      break;
  }
}

Outgoing WorkerProtocol::write_contribution(uint64_t position, std::span<std::byte> out,
                                            Instant now) {
  Slot& slot = slot_of(position);
  Transfer& transfer = *slot.transfer;
  const uint64_t offset = position - transfer.position_first_;
  const uint32_t lanes = lane_count(transfer, position);

  Message message;
  message.header = {.job_id = config_.job_id,
                    .block_id = static_cast<uint32_t>(position),
                    .final = false,
                    .extended = true,
                    .src_id = static_cast<uint8_t>(*config_.source),
                    .src_cnt = 1,
                    .gen_id = transfer.gen_id_,
                    .grad_cnt = static_cast<uint16_t>(lanes)};
  const wire::TensorTerms terms = terms_of(transfer);
  message.extension = {.format = terms.format,
                       .session = session_,
                       .tensor_elements = terms.tensor_elements,
                       .scale_bits = terms.scale_bits,
                       .key = key_};
  if (offset < transfer.exponents_.size()) {
    message.extension.exponent = block_exponent(floats_of(transfer, offset));
  }
  if (slot.attempts > 0) {
    message.extension.flags |= wire::kFlagRetransmission;
    counters_.retransmitted++;
  } else {
    slot.first_sent_at = now;
  }
  const uint32_t head_bytes = wire::encoded_head_bytes(message.header, message.extension);
  if (lanes > 0 && transfer.elided_elements == 0)
    write_gradients(transfer, offset - transfer.lead_, message, &out[head_bytes]);
  encode_message(message, out.data());

  slot.state = SlotState::kSent;
  slot.data_wanted = false;
  slot.attempts = static_cast<uint8_t>(std::min(slot.attempts + 1, UINT8_MAX));
  slot.sent_at = now;
  slot.sent_order = next_order_++;
  begin_wait(position, Wait::kResult);
  scan_at_ = std::min(scan_at_, now + repair_after(position));
  const uint32_t size_bytes = head_bytes + lanes * wire::kGradientBytes;
  return {.size_bytes = size_bytes,
          .stored_bytes = transfer.elided_elements > 0 ? head_bytes : size_bytes,
          .to = server_for(message.header.block_id)};
}

Outgoing WorkerProtocol::write_control(MessageType type, uint64_t position,
                                       std::span<std::byte> out) {
  Message message;
  message.header = {
      .job_id = config_.job_id, .extended = true, .src_id = static_cast<uint8_t>(*config_.source)};
  message.extension = {.type = type, .session = session_, .key = key_};
  if (type == MessageType::kProbe) {
    const Transfer& transfer = *slot_of(position).transfer;
    message.header.block_id = static_cast<uint32_t>(position);
    message.header.gen_id = transfer.gen_id_;
    message.header.grad_cnt = static_cast<uint16_t>(lane_count(transfer, position));
    message.extension.flags = wire::kFlagRetransmission;
  }
  // One that gives its join up has no session yet; the aggregator knows it by its nonce.
  if (type == MessageType::kLeave && session_ == 0) message.extension.session = nonce_;
  if (type == MessageType::kJoin) {
    message.extension.session = nonce_;
    message.body.nonce = nonce_;
    message.body.sources = static_cast<uint16_t>(config_.world);
    message.body.window = config_.window;
    message.body.gradients_max = config_.gradients;
    if (config_.threads > 1) message.body.channels = static_cast<uint8_t>(config_.threads);
  }
  const uint32_t size_bytes = encode_message(message, out.data());
  return {.size_bytes = size_bytes,
          .stored_bytes = size_bytes,
          .to = type == MessageType::kProbe ? server_for(message.header.block_id) : config_.server};
}

// --- In ---

std::optional<Duration> WorkerProtocol::on_packet(std::span<const std::byte> payload, Instant now) {
  Message message;
  const auto head = payload.first(std::min<size_t>(payload.size(), wire::kControlMessageBytes));
  if (decode_message(head, static_cast<uint32_t>(payload.size()), message) !=
          wire::DecodeStatus::kOk ||
      !message.header.extended || message.header.job_id != config_.job_id) {
    counters_.invalid_packets++;
    return {};
  }
  const MessageType type = message.extension.type;
  const bool join_reply = type == MessageType::kWelcome || type == MessageType::kPending ||
                          type == MessageType::kRefusal;
  const bool mine =
      join_reply ? message.body.nonce == nonce_
                 : phase_ == Phase::kRunning &&
                       (message.extension.session == session_ ||
                        (TRIB_MUTANT(kForeignSessionResult) && type == MessageType::kResult));
  if (!mine || phase_ == Phase::kEnded) {
    if (phase_ != Phase::kEnded) counters_.invalid_packets++;
    return {};
  }
  counters_.packets_received++;
  if (heard_at_ <= asked_at_) {
    // It was silent and is not: questions that have backed off are due again.
    scan_at_ = std::min(scan_at_, now + rtt_.timeout(RttEstimator::kMax));
  }
  heard_at_ = now;
  switch (type) {
    case MessageType::kWelcome:
    case MessageType::kPending:
    case MessageType::kRefusal:
      on_join_reply(message, now);
      break;
    case MessageType::kResult:
      hear_result(message.header.block_id);
      return on_result(message, payload, now);
    case MessageType::kHave:
      on_have(message, now);
      break;
    case MessageType::kNotice:
      on_notice(message);
      break;
    default:
      counters_.invalid_packets++;
  }
  return {};
}

void WorkerProtocol::hear_result(uint32_t block_id) {
  const auto ahead = static_cast<int32_t>(block_id - static_cast<uint32_t>(results_heard_));
  if (ahead >= 0) results_heard_ += static_cast<uint32_t>(ahead) + 1;
}

void WorkerProtocol::on_join_reply(const Message& message, Instant now) {
  if (phase_ != Phase::kJoining) return;  // A repeat.
  const wire::ControlBody& body = message.body;
  if (message.extension.type == MessageType::kPending) {
    pending_reason_ = body.reason;
    joined_ = body.mask;
    sources_ = body.sources;
    rank_base_ = body.value;
    return;
  }
  if (message.extension.type == MessageType::kRefusal) {
    if (body.reason == Reason::kTooManyGradients && config_.gradients_flexible && body.value > 0 &&
        body.value < config_.gradients) {
      config_.gradients = body.value;
      join_at_ = now;
      return;
    }
    end(Status::kRefused, refusal_text(config_, body));
    return;
  }
  session_ = message.extension.session;
  key_ = body.key;
  window_ = std::clamp(config_.window, 1U, std::max(body.window, 1U));
  config_.gradients = std::min(config_.gradients, std::max(body.gradients_max, 1U));
  config_.threads = std::clamp<uint32_t>(body.channels, 1, config_.threads);
  server_ports_ = 1U << body.port_bits;
  straggler_timeout_ = microseconds(body.timeout_us);
  rank_base_ = body.value;
  sources_ = body.sources;
  group_ = body.group;
  slots_.assign(window_, Slot{});
  wide_.resize(config_.gradients);
  phase_ = Phase::kRunning;
  // Mitigation begins when the aggregator knows that every rank was welcomed: say so at once.
  sent_at_ = now - kKeepAliveEvery;
  for (Transfer* transfer : transfers_) start_transfer(*transfer, now);
}

void WorkerProtocol::read_gradients(Transfer& transfer, uint64_t block, const Message& message,
                                    const std::byte* lanes) {
  const uint32_t in_sum = message.header.src_cnt == 0 ? wire::kSourcesMax : message.header.src_cnt;
  const uint32_t sources = TRIB_MUTANT(kMeanOfWorld) ? config_.world : in_sum;
  const uint32_t divisor = transfer.op == ReduceOp::kMean ? sources : 1;
  if (message.header.degraded && !TRIB_MUTANT(kDegradedUnsaid)) {
    counters_.degraded_blocks++;
    transfer.outcome.degraded.push_back({.element_first = block * config_.gradients,
                                         .element_count = message.header.grad_cnt,
                                         .sources = message.mask});
  }
  if (transfer.elided_elements > 0) return;
  if (transfer.format == ElementFormat::kInt32) {
    unpack_int32(lanes, divisor, slice(transfer.integers, block, config_.gradients));
    return;
  }
  const float scale = transfer.format == ElementFormat::kFixedScale
                          ? transfer.scale
                          : scale_for_exponent(transfer.exponents_[block], config_.world);
  if (transfer.halves.bits.empty()) {
    unpack_fixed(lanes, scale, divisor, slice(transfer.floats, block, config_.gradients));
  } else {
    unpack_halves(lanes, scale, divisor, transfer.halves.type,
                  slice(transfer.halves.bits, block, config_.gradients));
  }
}

std::optional<Duration> WorkerProtocol::on_result(const Message& message,
                                                  std::span<const std::byte> payload, Instant now) {
  uint64_t position = 0;
  if (!position_of(message.header.block_id, position) ||
      (slot_of(position).state == SlotState::kDone && !TRIB_MUTANT(kResultTakenTwice))) {
    counters_.duplicate_results++;
    return {};
  }
  const Transfer& transfer = *slot_of(position).transfer;
  const wire::TensorTerms terms = terms_of(transfer);
  const bool fits = message.header.grad_cnt == lane_count(transfer, position) &&
                    message.header.gen_id == transfer.gen_id_ &&
                    message.extension.format == terms.format &&
                    message.extension.tensor_elements == terms.tensor_elements &&
                    // A sum of other scales is none that this rank could read.
                    message.extension.scale_bits == terms.scale_bits;
  if (!fits && !TRIB_MUTANT(kResultUnchecked)) {
    counters_.invalid_packets++;
    if (message.header.degraded && !contains(message.mask, config_.rank) &&
        message.header.gen_id == transfer.gen_id_) {
      note_unlike_the_others(position, message, now);
    }
    return {};
  }
  return take_result(position, message, payload.subspan(message.head_bytes), now);
}

/// The others have made a sum of another tensor without this rank: nobody else will tell it. One
/// packet may have been changed on its way, so it counts when it stands in the answer to a later
/// question, too.
void WorkerProtocol::note_unlike_the_others(uint64_t position, const Message& sum, Instant now) {
  const wire::TensorTerms theirs{.format = sum.extension.format,
                                 .tensor_elements = sum.extension.tensor_elements,
                                 .scale_bits = sum.extension.scale_bits};
  const bool again = unlike_.position == position && unlike_.terms == theirs &&
                     unlike_.grad_cnt == sum.header.grad_cnt;
  if (!again) {
    unlike_ = {position, theirs, sum.header.grad_cnt, now};
    return;
  }
  if (slot_of(position).sent_at <= unlike_.heard_at) return;  // Not asked since then.
  end(Status::kMismatch,
      mismatch_text(fmt::format("rank {}", config_.rank), terms_of(*slot_of(position).transfer),
                    ranks_text(sum.mask, "another rank"), theirs, position));
}

void WorkerProtocol::on_have(const Message& message, Instant now) {
  uint64_t position = 0;
  if (!position_of(message.header.block_id, position)) return;
  Slot& slot = slot_of(position);
  if (slot.state == SlotState::kDone && !TRIB_MUTANT(kHaveAfterResult)) return;
  // The oldest one heard of is what missing_text() wants: it is the first to reach its deadline.
  if (position <= have_position_ || have_position_ < base_) {
    have_ = message.body.mask;
    have_position_ = position;
    have_upstream_ = message.body.upstream;
  }
  const bool lost = !contains(message.body.mask, *config_.source) && !slot.transfer->receive_only;
  learn_from_answer(position, lost, now);
  if (slot.wait == Wait::kAnswer) {
    if (slot.attempts == 2) sample_answer(now - slot.sent_at);
    repair_overtaken(Wait::kAnswer, position);
  }
  if (lost) {
    slot.state = SlotState::kSent;
    slot.data_wanted = true;
    end_wait(position);
    queue_repair(position);
    return;
  }
  begin_wait(position, Wait::kResult);
  if (slot.state == SlotState::kHeld) return;
  slot.state = SlotState::kHeld;
  slot.data_wanted = false;
  slot.attempts = 2;  // Asked once: no sample for the estimator any more.
  scan_at_ = std::min(scan_at_, now + repair_after(position));
}

std::string WorkerProtocol::subject_of(const wire::ControlBody& notice) const {
  const std::string source = fmt::format("rank {}", rank_base_ + notice.source);
  return ranks_text(notice.mask, source.c_str());
}

void WorkerProtocol::on_notice(const Message& message) {
  const wire::ControlBody& body = message.body;
  uint64_t position = 0;
  const bool wanted =
      position_of(message.header.block_id, position) && slot_of(position).state != SlotState::kDone;
  switch (body.reason) {
    case Reason::kSessionLost:
      end(Status::kSessionLost, fmt::format("aggregator {} was restarted or has ended this session",
                                            config_.server.to_string()));
      break;
    case Reason::kPastCache:
      if (!wanted) break;  // A late duplicate of something long done.
      end(Status::kDesynchronised,
          fmt::format("rank {} is too far behind: block {} is no longer kept at {}; rejoin with "
                      "fresh parameters",
                      config_.rank, position, config_.server.to_string()));
      break;
    case Reason::kPeerLeft:
      if (!wanted) break;
      end(Status::kPeerLeft, fmt::format("{} has left job {} while block {} waits for it",
                                         subject_of(body), config_.job_id, position));
      break;
    case Reason::kMismatch: {
      if (!wanted) break;
      const wire::TensorTerms expected{.format = message.extension.format,
                                       .tensor_elements = message.extension.tensor_elements,
                                       .scale_bits = message.extension.scale_bits};
      end(Status::kMismatch,
          mismatch_text(subject_of(body), body.given, ranks_text(message.mask, "another rank"),
                        expected, position));
      break;
    }
    default:  // Permanent stragglers and their return show in the results.
      break;
  }
}

}  // namespace tributary::host
