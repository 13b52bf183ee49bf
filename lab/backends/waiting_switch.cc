// SPDX-License-Identifier: Apache-2.0
#include "lab/backends/waiting_switch.h"

#include <algorithm>
#include <array>

#include "auth/keys.h"
#include "base/byte_order.h"

namespace tributary::lab {

using wire::Message;
using wire::MessageType;

namespace {

uint32_t needed_of(const AggregatorSpec& spec) {
  return spec.quorum == 0 ? spec.job.sources : std::min(spec.quorum, spec.job.sources);
}

}  // namespace

WaitingSwitch::WaitingSwitch(net::Network& network, const AggregatorSpec& spec, Duration latency)
    : AggregatorNode(network, spec),
      latency_(latency),
      needed_(needed_of(spec)),
      leaves_out_late_(spec.job.mitigation || needed_ < spec.job.sources),
      timer_(*this) {
  // The block in progress, and the results before it at the same place.
  const uint32_t kept = 1 + (leaves_out_late_ ? spec.job.history : 1);
  for (uint32_t i = 0; i < spec.job.channels; i++) {
    channels_.emplace_back(trio_ml::channel_of(spec.job, i), kept, spec.seed + i);
  }
}

WaitingSwitch::Channel::Channel(const trio_ml::JobConfig& job, uint32_t kept, uint64_t seed)
    : session(job, auth::key_of_seed(seed)), slots(size_t{kept} * job.block_cnt_max) {}

WaitingSwitch::Channel* WaitingSwitch::channel_of(const Message& message) {
  const uint32_t job = message.header.job_id;
  const uint32_t first = spec().job.id;
  return job >= first && job - first < channels_.size() ? &channels_[job - first] : nullptr;
}

Message WaitingSwitch::Channel::control(const Message& about, MessageType type) const {
  Message message;
  message.header = about.header;
  message.header.extended = true;
  message.extension.type = type;
  message.extension.key = session.result_key(session.number());
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
                     message.header.extended;
  Channel* const channel = sound ? channel_of(message) : nullptr;
  if (channel != nullptr && message.extension.type == MessageType::kJoin) {
    return serve_join(*channel, message, packet->source);
  }
  const uint8_t source = message.header.src_id;
  const bool mine =
      channel != nullptr && source < spec().job.sources && channel->session.number() != 0 &&
      message.extension.key == channel->session.key_of(source, channel->session.number());
  if (!mine) {
    invalid_++;
    return;
  }
  channel->session.heard(source, network_now());
  switch (message.extension.type) {
    case MessageType::kContribution:
      return serve_contribution(*channel, message, *packet);
    case MessageType::kProbe:
      return serve_probe(*channel, message, packet->source);
    case MessageType::kLeave:
      channel->session.leave(source);
      return;
    default:  // Keep-alives; nothing else is for an aggregator.
      return;
  }
}

void WaitingSwitch::serve_join(Channel& channel, const Message& message, const Endpoint& from) {
  const auto outcome = channel.session.join(message, from, network_now());
  if (!outcome.started) {
    Message reply = channel.control(message, outcome.reply);
    reply.extension.key = message.extension.key;
    reply.body = outcome.body;
    send_control(reply, from);
    if (outcome.to_all_pending) ask_to_confirm(channel, reply);
    return;
  }
  for (Slot& slot : channel.slots) slot = Slot{};
  channel.to_all.clear();
  for (uint32_t source = 0; source < spec().job.sources; source++) {
    Message welcome = channel.control(message, MessageType::kWelcome);
    welcome.header.src_id = static_cast<uint8_t>(source);
    welcome.extension.key = channel.session.nonce_of(source);
    welcome.body = channel.session.welcome_body(source);
    send_control(welcome, channel.session.address_of(source));
    if (!spec().job.group.is_set()) channel.to_all.push_back(channel.session.address_of(source));
  }
  if (spec().job.group.is_set()) channel.to_all.push_back(spec().job.group);
}

/// Asks every other pending worker to repeat its join.
void WaitingSwitch::ask_to_confirm(Channel& channel, const Message& pending) {
  for (uint32_t source = 0; source < spec().job.sources; source++) {
    if (source == pending.header.src_id) continue;
    Message question = pending;
    question.header.src_id = static_cast<uint8_t>(source);
    question.extension.key = channel.session.pending_nonce(source, network_now());
    send_control(question, channel.session.address_of(source));
  }
}

void WaitingSwitch::serve_contribution(Channel& channel, const Message& message,
                                       const net::Packet& packet) {
  const uint32_t block_id = message.header.block_id;
  Slot& slot = channel.slot_of(block_id);
  const bool known = slot.used && slot.block_id == block_id;
  if (slot.used && static_cast<int32_t>(block_id - slot.block_id) < 0) {
    invalid_++;  // So late that its block's result is not kept.
    if (leaves_out_late_) tell_past_cache(channel, message, packet.source);
    return;
  }
  const uint64_t number = slot_number(channel, block_id);
  // The block before in this slot is complete: a worker that sends this one has had results up to
  // one window below it.
  if (!known) {
    begin(channel, slot, message, packet.elided());
    if (spec().job.mitigation) {
      slot.expires_at = network_now() + spec().job.timeout;
      core().schedule(slot.expires_at, EventPriority::kMachine, timer_, number);
    }
  }
  const bool repeats = trio_ml::contains(slot.mask, message.header.src_id);
  if (slot.complete) {
    if (!repeats) late_++;
    // Before it is published, every source will get it anyway.
    if (repeats || slot.published) send_result(slot, packet.source);
    return;
  }
  if (repeats || slot.elided != packet.elided() ||
      slot.result.header.grad_cnt != message.header.grad_cnt) {
    invalid_++;
    return;
  }
  add(slot, message, packet);
  if (slot.received == needed_) complete(slot, number);
}

/// Ends a block with the contributions that have come.
void WaitingSwitch::complete(Slot& slot, uint64_t slot_number) {
  slot.complete = true;
  slot.result.header.src_cnt = static_cast<uint8_t>(slot.received);  // 256 is 0.
  if (slot.received < spec().job.sources) {
    slot.result.header.degraded = true;
    slot.result.extension.flags |= wire::kFlagSourceMask;
    slot.result.mask = slot.mask;
  }
  core().schedule(network_now() + latency_, EventPriority::kMachine, *this, slot_number);
}

void WaitingSwitch::expire(uint64_t slot_number) {
  Slot& slot = slot_at(slot_number);
  const bool due = slot.used && !slot.complete && slot.expires_at == network_now();
  if (due) complete(slot, slot_number);
}

void WaitingSwitch::begin(const Channel& channel, Slot& slot, const Message& message, bool elided) {
  slot.used = true;
  slot.complete = false;
  slot.published = false;
  slot.block_id = message.header.block_id;
  slot.received = 0;
  slot.mask = {};
  slot.elided = elided;
  slot.lanes.assign(elided ? 0 : message.header.grad_cnt, 0);
  slot.result = Message{};
  slot.result.header = message.header;
  slot.result.header.src_id = 0;
  slot.result.extension = message.extension;
  slot.result.extension.type = MessageType::kResult;
  slot.result.extension.flags = 0;
  slot.result.extension.key = channel.session.result_key(channel.session.number());
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

void WaitingSwitch::serve_probe(Channel& channel, const Message& message, const Endpoint& from) {
  const Slot& slot = channel.slot_of(message.header.block_id);
  const uint32_t block_id = message.header.block_id;
  const bool known = slot.used && slot.block_id == block_id;
  if (known && slot.complete) return send_result(slot, from);
  const bool past = slot.used && static_cast<int32_t>(block_id - slot.block_id) < 0;
  if (past && leaves_out_late_) return tell_past_cache(channel, message, from);
  Message reply = channel.control(message, MessageType::kHave);
  if (known) reply.body.mask = slot.mask;
  send_control(reply, from);
}

/// Tells a source that the result of its block is not kept.
void WaitingSwitch::tell_past_cache(const Channel& channel, const Message& about,
                                    const Endpoint& to) {
  Message notice = channel.control(about, MessageType::kNotice);
  notice.body.reason = wire::Reason::kPastCache;
  send_control(notice, to);
}

// --- Slots ---

uint64_t WaitingSwitch::slot_number(const Channel& channel, uint32_t block_id) const {
  const uint64_t before = channel.session.config().id - spec().job.id;
  return before * channel.slots.size() + block_id % channel.slots.size();
}

WaitingSwitch::Slot& WaitingSwitch::slot_at(uint64_t slot_number) {
  const size_t each = channels_.front().slots.size();
  return channels_[slot_number / each].slots[slot_number % each];
}

// --- Out ---

void WaitingSwitch::on_event(uint64_t slot_number) {
  const Channel& channel = channels_[slot_number / channels_.front().slots.size()];
  Slot& slot = slot_at(slot_number);
  slot.published = true;
  for (const Endpoint& to : channel.to_all) send_result(slot, to);
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
  if (leaves_out_late_) {
    result.add("late contributions", static_cast<double>(late_ * spec().train), "packets");
  }
  result.bottleneck = "none: it aggregates at the rate of its ports";
  return result;
}

}  // namespace tributary::lab
