// SPDX-License-Identifier: Apache-2.0
#include "lab/peers/ring_protocol.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/byte_order.h"
#include "host/formats/number_format.h"

namespace tributary::lab {

using host::Incoming;
using host::Outgoing;
using host::Status;
using host::Transfer;

namespace {

constexpr uint32_t kLaneBytes = 4;

bool is_added(const Transfer& transfer) {
  if (!transfer.halves.bits.empty()) return false;
  if (!transfer.floats.empty()) return transfer.format == wire::ElementFormat::kFixedScale;
  return transfer.format == wire::ElementFormat::kInt32 && transfer.op == host::ReduceOp::kSum;
}

}  // namespace

RingProtocol::RingProtocol(const RingConfig& config, Instant now)
    : config_(config),
      left_rank_((config.rank + config.world - 1) % config.world),
      right_rank_((config.rank + 1) % config.world),
      sent_(config.window),
      received_(config.window),
      sent_from_(config.window),
      kept_(config.window),
      heard_left_at_(now),
      heard_right_at_(now),
      waits_since_(now) {
  TRIB_ASSERT(config.world > 0 && config.rank < config.world);
  TRIB_ASSERT(config.gradients > 0 && config.gradients <= kRingLanesMax);
}

uint32_t RingProtocol::packet_bytes_max() const {
  return std::max(kRingHeadBytes + config_.gradients * kLaneBytes, kRingAckBytesMax);
}

// --- Tensors ---

void RingProtocol::submit(Transfer& transfer, Instant now) {
  transfer.done = false;
  transfer.outcome = host::Outcome{};
  if (phase_ == Phase::kEnded || !is_added(transfer)) {
    transfer.outcome.status = phase_ == Phase::kEnded ? status_ : Status::kRefused;
    transfer.outcome.text = phase_ == Phase::kEnded
                                ? status_text_
                                : "the ring adds only sums of int32 and floats of a fixed scale";
    transfer.done = true;
    return;
  }
  if (transfers_.empty()) waits_since_ = now;
  const uint64_t blocks = (transfer.element_count() + config_.gradients - 1) / config_.gradients;
  transfer.outcome.blocks = blocks;
  transfers_.push_back({.transfer = &transfer, .blocks = blocks});
  if (!take_floats(transfers_.back())) {
    return end(Status::kOverflow, fmt::format("rank {}: a float does not fit the scale of {}",
                                              config_.rank, transfer.scale));
  }
  settle(out_, config_.rank);
  settle(in_, left_rank_);
  use_what_came(now);
}

void RingProtocol::leave(Instant) { end(Status::kClosed, "closed"); }

void RingProtocol::fail(Status status, std::string text, uint32_t) { end(status, std::move(text)); }

void RingProtocol::end(Status status, std::string text) {
  if (phase_ == Phase::kEnded) return;
  phase_ = Phase::kEnded;
  status_ = status;
  status_text_ = std::move(text);
  for (const Flight& flight : transfers_) {
    flight.transfer->outcome.status = status_;
    flight.transfer->outcome.text = status_text_;
    flight.transfer->done = true;
  }
  transfers_.clear();
}

// --- The schedule ---

uint64_t RingProtocol::chunk_first(uint64_t blocks, uint32_t chunk) const {
  return blocks * chunk / config_.world;
}

uint32_t RingProtocol::chunk_of(uint32_t rank, uint32_t step) const {
  return (rank + 2 * config_.world - step) % config_.world;
}

bool RingProtocol::is_in_flight(const Cursor& cursor) const {
  return cursor.number - first_number_ < transfers_.size();
}

RingProtocol::Flight& RingProtocol::flight_of(const Cursor& cursor) {
  return transfers_[cursor.number - first_number_];
}
const RingProtocol::Flight& RingProtocol::flight_of(const Cursor& cursor) const {
  return transfers_[cursor.number - first_number_];
}

void RingProtocol::settle(Cursor& cursor, uint32_t rank) const {
  while (is_in_flight(cursor)) {
    const uint64_t blocks = flight_of(cursor).blocks;
    for (; cursor.step < steps(); cursor.step++, cursor.index = 0) {
      const uint32_t chunk = chunk_of(rank, cursor.step);
      const uint64_t count = chunk_first(blocks, chunk + 1) - chunk_first(blocks, chunk);
      if (cursor.index < count) return;
    }
    cursor = {.number = cursor.number + 1, .step = 0, .index = 0};
  }
}

uint64_t RingProtocol::block_at(const Cursor& cursor, uint32_t rank) const {
  return chunk_first(flight_of(cursor).blocks, chunk_of(rank, cursor.step)) + cursor.index;
}

/// After the first step, a packet to the right is one that arrived from the left in the previous
/// step.
bool RingProtocol::out_is_ready() {
  if (!is_in_flight(out_)) return false;
  if (out_.step == 0) return true;
  if (in_.number != out_.number) return in_.number > out_.number;
  return in_.step >= out_.step || (in_.step + 1 == out_.step && in_.index > out_.index);
}

// --- Floats ---

bool RingProtocol::take_floats(Flight& flight) const {
  const Transfer& transfer = *flight.transfer;
  const int32_t magnitude_max = host::lane_magnitude_max(config_.world);
  for (const float value : transfer.floats) {
    const int32_t fixed = host::to_fixed(value, transfer.scale);  // INT32_MIN if it is not finite.
    if (fixed < -magnitude_max || fixed > magnitude_max) return false;
    flight.fixed.push_back(fixed);
  }
  return true;
}

/// Replaces the transfer's floats by their sums or means.
void RingProtocol::return_floats(const Flight& flight) const {
  Transfer& transfer = *flight.transfer;
  const uint32_t divisor = transfer.op == host::ReduceOp::kMean ? config_.world : 1;
  for (size_t i = 0; i < flight.fixed.size(); i++) {
    transfer.floats[i] = host::from_fixed(flight.fixed[i], transfer.scale, divisor);
  }
}

// --- In ---

bool RingProtocol::accepts_from(const Endpoint& from) const {
  return from == config_.left || from == config_.right;
}

std::optional<Duration> RingProtocol::on_packet(const Incoming& packet, Instant now) {
  counters_.packets_received++;
  const auto decoded = decode_ring(packet.stored, packet.size_bytes);
  const bool from_left = decoded && decoded->kind != RingKind::kAck;
  const bool known = decoded && phase_ != Phase::kEnded &&
                     packet.from == (from_left ? config_.left : config_.right) &&
                     decoded->rank == static_cast<uint8_t>(from_left ? left_rank_ : right_rank_);
  if (!known) {
    counters_.invalid_packets++;
    return std::nullopt;
  }
  (from_left ? heard_left_at_ : heard_right_at_) = now;
  switch (decoded->kind) {
    case RingKind::kData:
      on_data(*decoded, packet, now);
      break;
    case RingKind::kAck:
      if (!sent_.on_ack(decoded->ack, now)) counters_.invalid_packets++;
      finish_done(now);
      break;
    case RingKind::kProbe:
      owe_ack(true, now);
      break;
  }
  return std::nullopt;
}

void RingProtocol::on_data(const RingPacket& data, const Incoming& packet, Instant now) {
  const bool elided = packet.stored.size() < packet.size_bytes;
  const bool fits =
      data.lanes <= config_.gradients && (!elided || packet.stored.size() == kRingHeadBytes);
  if (!fits) {
    counters_.invalid_packets++;
    return;
  }
  switch (received_.take(data.position)) {
    case ReceiveWindow::Take::kNew:
      break;
    case ReceiveWindow::Take::kDuplicate:
      counters_.duplicate_results++;
      return owe_ack(true, now);
    case ReceiveWindow::Take::kOutside:
      return owe_ack(true, now);
  }
  Kept& kept = kept_[data.position % kept_.size()];
  kept.lanes = data.lanes;
  kept.elided = elided;
  kept.values.resize(elided ? 0 : data.lanes);
  for (size_t i = 0; i < kept.values.size(); i++) {
    kept.values[i] = static_cast<int32_t>(
        load_be<uint32_t>(packet.stored.data() + kRingHeadBytes + i * kLaneBytes));
  }
  owe_ack(received_.has_gap(), now);
  use_what_came(now);
}

void RingProtocol::use_what_came(Instant now) {
  const uint64_t before = in_.number;
  const bool was_held = received_.is_full();
  bool used = false;
  while (phase_ != Phase::kEnded && received_.has_next() && is_in_flight(in_)) {
    if (!use(received_.used())) return;
    received_.use_next();
    used = true;
    in_.index++;
    settle(in_, left_rank_);
  }
  // A neighbour that waits for the end or for a limit sends no further packets: acknowledge at
  // once.
  if (in_.number != before || (used && was_held)) owe_ack(true, now);
  finish_done(now);
}

/// Adds or copies the packet at `position`.
/// @return false if it ends the protocol.
bool RingProtocol::use(uint64_t position) {
  Flight& flight = flight_of(in_);
  const Transfer& transfer = *flight.transfer;
  const Kept& kept = kept_[position % kept_.size()];
  const uint64_t block = block_at(in_, left_rank_);
  const uint32_t expected = lanes_of(transfer, block);
  const bool elided = transfer.elided_elements > 0;
  if (kept.lanes != expected || kept.elided != elided) {
    end(Status::kMismatch,
        fmt::format("rank {} sends {} elements{} where this rank has {}{}", left_rank_, kept.lanes,
                    kept.elided ? " (elided)" : "", expected, elided ? " (elided)" : ""));
    return false;
  }
  if (elided) return true;
  const std::span<int32_t> lanes = lanes_at(flight, block);
  const bool adds = in_.step < config_.world - 1;
  for (size_t i = 0; i < lanes.size(); i++) {
    lanes[i] = adds ? static_cast<int32_t>(static_cast<uint32_t>(lanes[i]) +
                                           static_cast<uint32_t>(kept.values[i]))
                    : kept.values[i];
  }
  return true;
}

void RingProtocol::owe_ack(bool at_once, Instant now) {
  acks_owed_++;
  const bool enough = acks_owed_ >= std::min(kAckEvery, std::max(config_.window / 4, 1U));
  if (at_once || enough) ack_due_ = true;
  ack_at_ = std::min(ack_at_, now + kAckWithin);
}

/// Finishes the leading tensors that are completely received and acknowledged.
void RingProtocol::finish_done(Instant now) {
  note_sent_ends();
  while (!transfers_.empty()) {
    const Flight& flight = transfers_.front();
    if (in_.number == first_number_ || !flight.sent_end || sent_.base() < *flight.sent_end) return;
    counters_.blocks += flight.blocks;
    return_floats(flight);
    flight.transfer->done = true;
    transfers_.pop_front();
    first_number_++;
    waits_since_ = now;
  }
}

/// Records the end of each tensor that the cursor to the right has passed.
void RingProtocol::note_sent_ends() {
  for (size_t i = 0; i < transfers_.size() && first_number_ + i < out_.number; i++) {
    if (!transfers_[i].sent_end) transfers_[i].sent_end = sent_.next();
  }
}

void RingProtocol::check_deadline(Instant now) {
  if (transfers_.empty()) return;
  const bool waits_for_left = in_.number == first_number_;
  const Instant heard = waits_for_left ? heard_left_at_ : heard_right_at_;
  if (now < std::max(heard, waits_since_) + config_.deadline) return;
  end(Status::kPeerMissing,
      fmt::format("rank {} has been silent for {:.0f} s", waits_for_left ? left_rank_ : right_rank_,
                  in_seconds(config_.deadline)));
}

void RingProtocol::on_time(Instant now) {
  if (phase_ == Phase::kEnded) return;
  if (config_.repair) sent_.on_time(now);
  const bool held = sent_.held_by_limit() && out_is_ready();
  if (!held) {
    probe_at_ = Instant::never();
  } else if (probe_at_ == Instant::never()) {
    probe_at_ = now + sent_.timeout();
  }
  probe_due_ = held && probe_at_ <= now;
  if (probe_due_) probe_at_ = now + sent_.timeout();
  if (ack_at_ <= now) {
    ack_due_ = true;
    ack_at_ = Instant::never();
  }
  check_deadline(now);
}

Instant RingProtocol::next_deadline() const {
  if (phase_ == Phase::kEnded) return Instant::never();
  Instant at = std::min(ack_at_, probe_at_);
  if (config_.repair) at = std::min(at, sent_.next_deadline());
  if (!transfers_.empty()) {
    const Instant heard = in_.number == first_number_ ? heard_left_at_ : heard_right_at_;
    at = std::min(at, std::max(heard, waits_since_) + config_.deadline);
  }
  return at;
}

// --- Out ---

Outgoing RingProtocol::next_packet(std::span<std::byte> out, Instant now) {
  if (phase_ == Phase::kEnded) return {};
  Outgoing packet;
  if (ack_due_) {
    packet = write_ack(out);
  } else if (const auto repair = sent_.next_repair(now)) {
    counters_.retransmitted++;
    packet = write_data(out, *repair);
  } else if (out_is_ready() && sent_.may_send_new()) {
    const uint64_t position = sent_.send_new(now);
    sent_from_[position % sent_from_.size()] = {.flight = &flight_of(out_),
                                                .block = block_at(out_, config_.rank)};
    out_.index++;
    settle(out_, config_.rank);
    note_sent_ends();
    packet = write_data(out, position);
  } else if (probe_due_) {
    packet = write_probe(out);
  } else {
    return {};
  }
  counters_.packets_sent++;
  return packet;
}

Outgoing RingProtocol::write_ack(std::span<std::byte> out) {
  acks_owed_ = 0;
  ack_due_ = false;
  ack_at_ = Instant::never();
  const uint32_t size = encode(
      {.kind = RingKind::kAck, .rank = static_cast<uint8_t>(config_.rank), .ack = received_.ack()},
      out);
  return {.size_bytes = size, .stored_bytes = size, .to = config_.left};
}

Outgoing RingProtocol::write_probe(std::span<std::byte> out) {
  counters_.probes++;
  probe_due_ = false;
  const uint32_t size =
      encode({.kind = RingKind::kProbe, .rank = static_cast<uint8_t>(config_.rank)}, out);
  return {.size_bytes = size, .stored_bytes = size, .to = config_.right};
}

Outgoing RingProtocol::write_data(std::span<std::byte> out, uint64_t position) {
  const Sent& sent = sent_from_[position % sent_from_.size()];
  const uint32_t lanes = lanes_of(*sent.flight->transfer, sent.block);
  encode({.kind = RingKind::kData,
          .rank = static_cast<uint8_t>(config_.rank),
          .lanes = static_cast<uint16_t>(lanes),
          .position = position},
         out);
  const uint32_t size = kRingHeadBytes + lanes * kLaneBytes;
  if (sent.flight->transfer->elided_elements > 0) {
    return {.size_bytes = size, .stored_bytes = kRingHeadBytes, .to = config_.right};
  }
  const std::span<int32_t> values = lanes_at(*sent.flight, sent.block);
  for (size_t i = 0; i < values.size(); i++) {
    store_be(&out[kRingHeadBytes + i * kLaneBytes], static_cast<uint32_t>(values[i]));
  }
  return {.size_bytes = size, .stored_bytes = size, .to = config_.right};
}

uint32_t RingProtocol::lanes_of(const Transfer& transfer, uint64_t block) const {
  return static_cast<uint32_t>(
      std::min<uint64_t>(config_.gradients, transfer.element_count() - block * config_.gradients));
}

std::span<int32_t> RingProtocol::lanes_at(Flight& flight, uint64_t block) const {
  const Transfer& transfer = *flight.transfer;
  const std::span<int32_t> all = transfer.floats.empty() ? transfer.integers : flight.fixed;
  return all.subspan(block * config_.gradients, lanes_of(transfer, block));
}

}  // namespace tributary::lab
