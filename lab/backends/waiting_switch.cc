// SPDX-License-Identifier: Apache-2.0
#include "lab/backends/waiting_switch.h"

#include <algorithm>
#include <array>

#include "auth/keys.h"
#include "base/byte_order.h"

namespace tributary::lab {

using wire::Message;
using wire::MessageType;

WaitingSwitch::WaitingSwitch(net::Network& network, const AggregatorSpec& spec, Duration latency)
    : AggregatorNode(network, spec),
      latency_(latency),
      session_(spec.job, auth::key_of_seed(spec.seed)),
      slots_(size_t{2} * spec.job.block_cnt_max) {}

WaitingSwitch::Slot& WaitingSwitch::slot_of(uint32_t block_id) {
  return slots_[block_id % slots_.size()];
}

Message WaitingSwitch::control(const Message& about, MessageType type) const {
  Message message;
  message.header = about.header;
  message.header.extended = true;
  message.extension.type = type;
  message.extension.key = session_.result_key(session_.number());
  return message;
}

void WaitingSwitch::send_control(const Message& message, const Endpoint& to) {
  std::array<std::byte, wire::kControlMessageBytes> bytes;
  const uint32_t size = encode_message(message, bytes.data());
  send(std::span(bytes).first(size), size, {&to, 1});
  note_sent();
}

// --- In ---

void WaitingSwitch::aggregate(net::PacketRef packet) {
  packets_++;
  Message message;
  const auto head = std::span<const std::byte>(packet->stored)
                        .first(std::min<size_t>(packet->stored.size(), wire::kControlMessageBytes));
  const bool sound = decode_message(head, packet->size_bytes, message) == wire::DecodeStatus::kOk &&
                     message.header.extended && message.header.job_id == spec().job.id;
  if (sound && message.extension.type == MessageType::kJoin) {
    return serve_join(message, packet->source);
  }
  const bool mine =
      sound && message.header.src_id < spec().job.sources && session_.number() != 0 &&
      message.extension.key == session_.key_of(message.header.src_id, session_.number());
  if (!mine) {
    invalid_++;
    return;
  }
  session_.heard(message.header.src_id, network_now());
  switch (message.extension.type) {
    case MessageType::kContribution:
      return serve_contribution(message, *packet);
    case MessageType::kProbe:
      return serve_probe(message, packet->source);
    case MessageType::kLeave:
      session_.leave(message.header.src_id);
      return;
    default:  // Keep-alives; nothing else is for an aggregator.
      return;
  }
}

void WaitingSwitch::serve_join(const Message& message, const Endpoint& from) {
  const auto outcome = session_.join(message, from, network_now());
  if (!outcome.started) {
    Message reply = control(message, outcome.reply);
    reply.extension.key = message.extension.key;
    reply.body = outcome.body;
    send_control(reply, from);
    if (outcome.to_all_pending) ask_to_confirm(reply);
    return;
  }
  for (Slot& slot : slots_) slot = Slot{};
  to_all_.clear();
  for (uint32_t source = 0; source < spec().job.sources; source++) {
    Message welcome = control(message, MessageType::kWelcome);
    welcome.header.src_id = static_cast<uint8_t>(source);
    welcome.extension.key = session_.nonce_of(source);
    welcome.body = session_.welcome_body(source);
    send_control(welcome, session_.address_of(source));
    if (!spec().job.group.is_set()) to_all_.push_back(session_.address_of(source));
  }
  if (spec().job.group.is_set()) to_all_.push_back(spec().job.group);
}

/// Asks every other pending worker to repeat its join.
void WaitingSwitch::ask_to_confirm(const Message& pending) {
  for (uint32_t source = 0; source < spec().job.sources; source++) {
    if (source == pending.header.src_id) continue;
    Message question = pending;
    question.header.src_id = static_cast<uint8_t>(source);
    question.extension.key = session_.pending_nonce(source, network_now());
    send_control(question, session_.address_of(source));
  }
}

void WaitingSwitch::serve_contribution(const Message& message, const net::Packet& packet) {
  const uint32_t block_id = message.header.block_id;
  Slot& slot = slot_of(block_id);
  const bool known = slot.used && slot.block_id == block_id;
  if (slot.used && static_cast<int32_t>(block_id - slot.block_id) < 0) {
    invalid_++;  // So late a duplicate that its block's result is no longer kept.
    return;
  }
  // Everyone has the result of what the slot held before: who sends this block has had its
  // predecessor's, and so has everyone who sent that.
  if (!known) begin(slot, message, packet.elided());
  const uint32_t source = message.header.src_id;
  if (trio_ml::contains(slot.mask, source) || slot.elided != packet.elided() ||
      slot.result.header.grad_cnt != message.header.grad_cnt) {
    if (slot.complete) return send_result(slot, packet.source);
    invalid_++;
    return;
  }
  add(slot, message, packet);
  if (slot.received < spec().job.sources) return;
  slot.complete = true;
  core().schedule(network_now() + latency_, EventPriority::kMachine, *this,
                  block_id % slots_.size());
}

void WaitingSwitch::begin(Slot& slot, const Message& message, bool elided) {
  slot.used = true;
  slot.complete = false;
  slot.block_id = message.header.block_id;
  slot.received = 0;
  slot.mask = {};
  slot.elided = elided;
  slot.lanes.assign(elided ? 0 : message.header.grad_cnt, 0);
  slot.result = Message{};
  slot.result.header = message.header;
  slot.result.header.src_id = 0;
  slot.result.header.src_cnt = static_cast<uint8_t>(spec().job.sources);  // 256 is 0.
  slot.result.extension = message.extension;
  slot.result.extension.type = MessageType::kResult;
  slot.result.extension.flags = 0;
  slot.result.extension.key = session_.result_key(session_.number());
}

void WaitingSwitch::add(Slot& slot, const Message& message, const net::Packet& packet) {
  trio_ml::include(slot.mask, message.header.src_id);
  slot.received++;
  slot.result.extension.flags |= message.extension.flags & wire::kFlagsMerged;
  slot.result.extension.exponent =
      std::max(slot.result.extension.exponent, message.extension.exponent);
  const std::byte* lanes = packet.stored.data() + message.head_bytes;
  for (size_t i = 0; i < slot.lanes.size(); i++) {
    slot.lanes[i] = static_cast<int32_t>(static_cast<uint32_t>(slot.lanes[i]) +
                                         load_be<uint32_t>(lanes + i * sizeof(int32_t)));
  }
}

void WaitingSwitch::serve_probe(const Message& message, const Endpoint& from) {
  const Slot& slot = slot_of(message.header.block_id);
  const bool known = slot.used && slot.block_id == message.header.block_id;
  if (known && slot.complete) return send_result(slot, from);
  Message reply = control(message, MessageType::kHave);
  if (known) reply.body.mask = slot.mask;
  send_control(reply, from);
}

// --- Out ---

void WaitingSwitch::on_event(uint64_t slot_index) {
  for (const Endpoint& to : to_all_) send_result(slots_[slot_index], to);
}

void WaitingSwitch::send_result(const Slot& slot, const Endpoint& to) {
  const uint32_t head_bytes = encoded_head_bytes(slot.result.header, slot.result.extension);
  const uint32_t size_bytes = head_bytes + slot.result.header.grad_cnt * wire::kGradientBytes;
  const uint32_t stored_bytes = slot.elided ? head_bytes : size_bytes;
  message_.resize(std::max(stored_bytes, wire::kControlMessageBytes));
  encode_message(slot.result, message_.data());
  for (size_t i = 0; i < slot.lanes.size(); i++) {
    store_be(&message_[head_bytes + i * sizeof(int32_t)], static_cast<uint32_t>(slot.lanes[i]));
  }
  send(std::span(message_).first(stored_bytes), size_bytes, {&to, 1});
  note_sent();
}

AggregatorResult WaitingSwitch::result(Duration) const {
  AggregatorResult result;
  result.name = name();
  result.packets = packets_ * spec().train;
  result.dropped = invalid_ * spec().train;
  result.bottleneck = "none: it aggregates at the rate of its ports";
  return result;
}

}  // namespace tributary::lab
