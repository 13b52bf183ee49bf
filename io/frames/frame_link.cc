// SPDX-License-Identifier: Apache-2.0
#include "io/frames/frame_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/byte_order.h"
#include "base/endpoint.h"
#include "io/frames/link_headers.h"

namespace tributary::io {
namespace {

Arrival ended(FrameOutcome outcome, uint32_t reply_bytes = 0) {
  Arrival arrival;
  arrival.outcome = outcome;
  arrival.reply_bytes = reply_bytes;
  return arrival;
}

/// Returns the group that a query names; [::] or 0.0.0.0 means all groups.
Endpoint queried_group(std::span<const std::byte> message, FrameKind kind) {
  if (kind == FrameKind::kIgmp) {
    return Endpoint::ipv4(ControlHeader::Rest::load(message.data()), 0);
  }
  Endpoint group;
  std::memcpy(group.address.data(), message.data() + kTargetAtByte, group.address.size());
  return group;
}

}  // namespace

bool is_on_wire(const FrameLinkConfig& config, const Endpoint& address) {
  if (address.is_ipv4() != config.local.is_ipv4()) return false;
  uint32_t bit = address.is_ipv4() ? kMappedPrefixBits : 0;
  const uint32_t end = bit + config.prefix_bits;
  for (; bit < end; bit += 8) {
    const uint32_t bits = std::min(end - bit, 8U);
    const auto mask = static_cast<uint8_t>(0xff00U >> bits);
    const uint32_t byte = bit / 8;
    if (((address.address[byte] ^ config.local.address[byte]) & mask) != 0) return false;
  }
  return true;
}

uint64_t number_of(const MacAddress& mac) {
  uint64_t number = 0;
  for (const uint8_t byte : mac) number = number << 8 | byte;
  return number;
}

void pin_neighbour(NeighbourTable& table, const FrameLinkConfig& config, const Endpoint& address,
                   uint64_t mac) {
  MacAddress bytes{};
  for (size_t i = bytes.size(); i-- > 0; mac >>= 8) bytes[i] = static_cast<uint8_t>(mac);
  const bool of_one_host = bytes != MacAddress{} && (bytes[0] & 1) == 0;
  if (of_one_host && is_on_wire(config, address)) table.pin(address, bytes);
}

FrameLink::FrameLink(const FrameLinkConfig& config, NeighbourTable& neighbours)
    : config_(config),
      table_(neighbours),
      neighbours_(neighbours),
      prng_(number_of(config.devices.at(0).mac)) {
  TRIB_ASSERT(config.local.is_set());
  groups_.reserve(kGroupsMax);
  group_addresses_.reserve(kGroupsMax);
}

LinkIdentity FrameLink::identity(uint32_t device) const {
  return {
      .mac = config_.devices[device].mac,
      .local = config_.local,
      .udp_ports = config_.udp_ports,
      .groups = group_addresses_,
      .trusts_udp_checksum = config_.lax_checksums || config_.devices[device].trusts_udp_checksum,
      .allows_no_ip_checksum = config_.lax_checksums};
}

Arrival FrameLink::receive(std::span<const std::byte> frame, uint32_t device,
                           VerifiedByHardware verified, Instant now, std::span<std::byte> reply) {
  TRIB_ASSERT(device < config_.devices.size());
  const InspectedFrame found = inspect_frame(frame, identity(device), verified);
  Arrival arrival;
  if (found.kind == FrameKind::kUdp) {
    arrival = deliver(frame, device, found, now);
  } else if (found.kind == FrameKind::kRefused) {
    arrival = ended(found.refusal);
  } else {
    arrival = answer(frame, device, found, now, reply);
  }
  if (arrival.reply_bytes > 0 && !take_reply_token(now)) arrival = ended(FrameOutcome::kLimited);
  count(arrival.outcome);
  return arrival;
}

void FrameLink::visit_counters(const engine::PortQueue::CounterVisitor& visit) const {
  for (size_t i = 0; i < outcomes_.size(); i++) {
    visit(to_string(static_cast<FrameOutcome>(i)), outcomes_[i].value());
  }
  visit("unresolved", unresolved());
  visit("unanswered", unanswered());
  visit("neighbours_lost", neighbours_lost());
}

Arrival FrameLink::deliver(std::span<const std::byte> frame, uint32_t device,
                           const InspectedFrame& found, Instant now) {
  if (config_.peer && !found.destination.is_multicast() && found.source != *config_.peer) {
    return ended(FrameOutcome::kNotPeer);
  }
  Hop hop{.device = device, .mac = {}};
  std::memcpy(hop.mac.data(), frame.data() + hop.mac.size(), hop.mac.size());
  // Behind a router this is the router's MAC address, which is the right next hop for replies.
  if ((hop.mac[0] & 1) == 0) neighbours_.learn(found.source, hop, now);
  return {.outcome = FrameOutcome::kDelivered,
          .offset = found.offset,
          .size = found.size,
          .source = found.source,
          .reply_bytes = 0};
}

Arrival FrameLink::answer(std::span<const std::byte> frame, uint32_t device,
                          const InspectedFrame& found, Instant now, std::span<std::byte> reply) {
  switch (found.kind) {
    case FrameKind::kArp:
      return answer_arp_packet(frame, device, found, now, reply);
    case FrameKind::kIcmp: {
      const uint32_t bytes = answer_echo(frame, found, identity(device), reply);
      return ended(bytes > 0 ? FrameOutcome::kEchoAnswered : FrameOutcome::kBadControl, bytes);
    }
    case FrameKind::kIcmpv6:
      return answer_icmpv6(frame, device, found, now, reply);
    default: {
      const auto message = frame.subspan(found.offset, found.size);
      if (ControlHeader::Type::load(message.data()) != kIgmpQuery) {
        return ended(FrameOutcome::kNotOurs);  // Another host's report.
      }
      return ended(take_query(queried_group(message, found.kind), now));
    }
  }
}

Arrival FrameLink::answer_arp_packet(std::span<const std::byte> frame, uint32_t device,
                                     const InspectedFrame& found, Instant now,
                                     std::span<std::byte> reply) {
  const LinkIdentity self = identity(device);
  if (ArpHeader::Operation::load(frame.data() + found.offset) == ArpHeader::kRequest) {
    const uint32_t bytes = answer_arp(frame, found, self, reply);
    return ended(bytes > 0 ? FrameOutcome::kArpAnswered : FrameOutcome::kNotOurs, bytes);
  }
  const auto neighbour = read_arp_reply(frame, found, self);
  return ended(neighbour ? learn_answer(*neighbour, device, now) : FrameOutcome::kBadArp);
}

Arrival FrameLink::answer_icmpv6(std::span<const std::byte> frame, uint32_t device,
                                 const InspectedFrame& found, Instant now,
                                 std::span<std::byte> reply) {
  const auto message = frame.subspan(found.offset, found.size);
  switch (ControlHeader::Type::load(message.data())) {
    case kNeighbourSolicitation: {
      const uint32_t bytes = answer_solicitation(frame, found, identity(device), reply);
      return ended(bytes > 0 ? FrameOutcome::kNeighbourAnswered : FrameOutcome::kNotOurs, bytes);
    }
    case kNeighbourAdvertisement: {
      const auto neighbour = read_advertisement(frame, found);
      return ended(neighbour ? learn_answer(*neighbour, device, now) : FrameOutcome::kBadControl);
    }
    case kMldQuery:
      if (found.size < kTargetedBytes) return ended(FrameOutcome::kBadControl);
      return ended(take_query(queried_group(message, found.kind), now));
    default: {
      const uint32_t bytes = answer_echo(frame, found, identity(device), reply);
      return ended(bytes > 0 ? FrameOutcome::kEchoAnswered : FrameOutcome::kBadControl, bytes);
    }
  }
}

/// Learns an answer to an open question only, so nobody can fill the table with answers. If another
/// queue of the port asked, that queue notices when it is about to ask again.
FrameOutcome FrameLink::learn_answer(const NeighbourAddress& neighbour, uint32_t device,
                                     Instant now) {
  const Hop hop{.device = device, .mac = neighbour.mac};
  if (!table_.take_answer(neighbour.address, hop, now)) return FrameOutcome::kNotOurs;
  for (SendTask& question : questions_) {
    if (question.times_left > 0 && same_address(question.address, neighbour.address)) {
      end_question(question);
    }
  }
  find_next_due();
  return FrameOutcome::kNeighbourLearned;
}

FrameOutcome FrameLink::take_query(const Endpoint& group, Instant now) {
  const bool all = same_address(group, Endpoint{}) || same_address(group, Endpoint::ipv4(0, 0));
  for (Group& joined : groups_) {
    if (leaving_ || (!all && !same_address(group, joined.address))) continue;
    // A report is already scheduled within the next second.
    if (joined.report.times_left > 0) continue;
    const int64_t wait = in_nanoseconds(kReportAgainAfter) * prng_.below(1024) / 1024;
    joined.report = {
        .address = joined.address, .due_at = now + nanoseconds(wait), .times_left = 1, .device = 0};
  }
  find_next_due();
  return FrameOutcome::kGroupQuery;
}

bool FrameLink::take_reply_token(Instant now) {
  constexpr Duration kRefillOne = seconds(1) / kAnswersPerSecond;
  const int64_t refilled = (now - answers_counted_at_).ticks() / kRefillOne.ticks();
  if (refilled > 0) {
    answers_left_ =
        static_cast<uint32_t>(std::min<int64_t>(kAnswersAtOnce, int64_t{answers_left_} + refilled));
    answers_counted_at_ = now;
  }
  if (answers_left_ == 0) return false;
  answers_left_--;
  return true;
}

std::optional<Hop> FrameLink::route(const Endpoint& destination, Instant now) {
  if (destination.is_ipv4() != config_.local.is_ipv4()) {
    unresolved_.add(1);
    return std::nullopt;
  }
  if (destination.is_multicast()) return Hop{.device = 0, .mac = multicast_mac(destination)};
  auto known = neighbours_.find(destination, now);
  if (known && !known->is_stale) return known->hop;
  const bool direct = is_on_wire(config_, destination);
  const bool routed = !direct && config_.gateway;
  if (routed) {
    if (const auto gateway = neighbours_.find(*config_.gateway, now)) {
      // The destination was heard through a router and fell silent. Use the gateway, which can be
      // asked for.
      if (known) table_.forget(destination);
      known = gateway;
    }
  }
  if ((!known || known->is_stale) && (direct || routed)) {
    ask(routed ? *config_.gateway : destination, now);
  }
  if (known) return known->hop;
  unresolved_.add(1);
  return std::nullopt;
}

void FrameLink::ask(const Endpoint& address, Instant now) {
  for (SendTask& question : questions_) {
    if (question.times_left > 0) continue;
    if (!table_.open_question(address)) return;  // Open already, or the next packet asks.
    question = {
        .address = address, .due_at = now, .times_left = kQuestionsPerAddress + 1, .device = 0};
    next_due_ = std::min(next_due_, now);
    return;
  }
}

void FrameLink::end_question(SendTask& question) {
  table_.close_question(question.address);
  question.times_left = 0;
}

void FrameLink::fail_question(SendTask& question, bool was_known) {
  if (was_known) table_.forget(question.address);
  (was_known ? neighbours_lost_ : unanswered_).add(1);
  end_question(question);
}

Result<void> FrameLink::join(const Endpoint& group, Instant now) {
  if (!group.is_multicast() || !group.is_set() || group.is_ipv4() != config_.local.is_ipv4()) {
    return failure(
        fmt::format("group {} is not allowed; allowed: a multicast group with a port, "
                    "of the same family as {}",
                    group.to_string(), config_.local.to_string()));
  }
  if (std::find(group_addresses_.begin(), group_addresses_.end(), group) !=
      group_addresses_.end()) {
    return {};
  }
  if (groups_.size() == kGroupsMax) {
    return failure(
        fmt::format("group {} is one too many; a port allows {}", group.to_string(), kGroupsMax));
  }
  groups_.push_back({.address = group,
                     .report = {.address = group, .due_at = now, .times_left = 2, .device = 0}});
  group_addresses_.push_back(group);
  find_next_due();
  return {};
}

void FrameLink::leave_all(Instant now) {
  leaving_ = true;
  for (Group& group : groups_) {
    group.report = {.address = group.address, .due_at = now, .times_left = 1, .device = 0};
  }
  group_addresses_.clear();
  find_next_due();
}

OwnFrame FrameLink::next_frame(std::span<std::byte> out, Instant now) {
  if (now < next_due_) return {};
  OwnFrame frame = question_due(out, now);
  if (frame.bytes == 0) frame = report_due(out, now);
  find_next_due();
  return frame;
}

/// Moves `task` to the next device; after the last device, to its next time.
void FrameLink::step(SendTask& task, Instant next_at) {
  if (++task.device == config_.devices.size()) end_round(task, next_at);
}

void FrameLink::end_round(SendTask& task, Instant next_at) {
  task.device = 0;
  task.times_left--;
  task.due_at = next_at;
}

OwnFrame FrameLink::question_due(std::span<std::byte> out, Instant now) {
  for (SendTask& question : questions_) {
    if (question.times_left == 0 || now < question.due_at) continue;
    const auto known = table_.find(question.address);
    if (known && !known->is_stale(now)) {  // The answer, or a packet, reached some queue.
      end_question(question);
      continue;
    }
    if (question.times_left == 1) {
      fail_question(question, known.has_value());
      continue;
    }
    if (known) {  // Asked directly: RFC 1122 §2.3.2.1 and RFC 4861 §7.3.3.
      const Hop& at = known->hop;
      end_round(question, now + kQuestionEvery);
      return {.bytes = write_question(question.address, at.mac, identity(at.device), out),
              .device = at.device};
    }
    const uint32_t device = question.device;
    step(question, now + kQuestionEvery);
    return {.bytes = write_question(question.address, std::nullopt, identity(device), out),
            .device = device};
  }
  return {};
}

OwnFrame FrameLink::report_due(std::span<std::byte> out, Instant now) {
  for (Group& group : groups_) {
    if (group.report.times_left == 0 || now < group.report.due_at) continue;
    const uint32_t device = group.report.device;
    const uint32_t bytes = write_membership(leaving_ ? Membership::kLeave : Membership::kReport,
                                            group.address, identity(device), out);
    step(group.report, now + kReportAgainAfter);
    return {.bytes = bytes, .device = device};
  }
  return {};
}

void FrameLink::find_next_due() {
  next_due_ = Instant::never();
  const auto update = [this](const SendTask& task) {
    if (task.times_left > 0) next_due_ = std::min(next_due_, task.due_at);
  };
  for (const SendTask& question : questions_) update(question);
  for (const Group& group : groups_) update(group.report);
}

}  // namespace tributary::io
