// SPDX-License-Identifier: Apache-2.0
#include "io/udp/udp_sender.h"

#include <netinet/udp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/byte_order.h"
#include "base/clock.h"

namespace tributary::io {
namespace {

/// Packets of a train. Source: UDP_MAX_SEGMENTS of Linux before 6.8 (128 from 6.8 on).
constexpr uint64_t kTrainPacketsMax = 64;

/// Largest number of attempts to send one train. Only errors about earlier packets cause a retry.
constexpr uint32_t kAttemptsMax = 4;

bool is_full(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS; }

/// Returns true for a report about an earlier packet and for a signal: a retry may succeed at once.
bool is_transient(int error) {
  return error == ECONNREFUSED || error == EINTR || error == EHOSTUNREACH;
}

/// Writes a control message. @return bytes used, with padding.
template <class T>
size_t write_note(std::byte* at, int level, int type, const T& value) {
  cmsghdr note{};
  note.cmsg_level = level;
  note.cmsg_type = type;
  note.cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(at, &note, sizeof note);
  std::memcpy(at + CMSG_LEN(0), &value, sizeof value);
  return CMSG_SPACE(sizeof value);
}

/// Returns true for an error by which a kernel or a device refuses to split a train. EINVAL and
/// EMSGSIZE: a segment exceeds the MTU. EIO: no checksum offload, or an encrypted route.
bool refuses_trains(int error) {
  return error == EINVAL || error == EMSGSIZE || error == EIO || error == EOPNOTSUPP;
}

}  // namespace

UdpSender::UdpSender(int socket, const Config& config, PortCounterCells& counters)
    : socket_(socket), config_(config), counters_(counters) {}

void UdpSender::transmit(std::span<const engine::TxPacket> packets) {
  full_until_.reset();
  while (!packets.empty()) {
    const auto group = packets.first(std::min<size_t>(packets.size(), kGroupPackets));
    sort_by_destination(group);
    build_trains(group);
    write_notes();
    send_trains();
    packets = packets.subspan(group.size());
  }
}

/// Chains the packets of each destination, in order.
void UdpSender::sort_by_destination(std::span<const engine::TxPacket> packets) {
  destination_count_ = 0;
  destination_last_ = 0;
  if (!limits_.empty()) group_at_ = monotonic_now();
  for (uint32_t i = 0; i < packets.size(); i++) {
    // The socket adds its own headers, so it cannot send a whole frame.
    if (packets[i].layer != engine::PacketLayer::kUdpPayload ||
        packets[i].size > config_.payload_bytes_max) {
      counters_.tx_refused.add(1);
      continue;
    }
    const auto found = find_destination(packets[i].destination);
    if (!found) {
      counters_.tx_refused.add(1);
      continue;
    }
    Destination& destination = destinations_[*found];
    const auto position = static_cast<uint16_t>(i);
    next_[i] = kNone;
    if (destination.first == kNone) {
      destination.first = position;
    } else {
      next_[destination.last] = position;
    }
    destination.last = position;
  }
}

/// Returns the destination's index, adding it if it is new; none if the socket cannot reach it.
std::optional<uint32_t> UdpSender::find_destination(const Endpoint& endpoint) {
  // Results go to all workers in turn, so try the previous destination and the next one first.
  if (destination_count_ != 0) {
    if (destinations_[destination_last_].endpoint == endpoint) return destination_last_;
    const uint32_t after = destination_last_ + 1 == destination_count_ ? 0 : destination_last_ + 1;
    if (destinations_[after].endpoint == endpoint) return destination_last_ = after;
  }
  for (uint32_t i = 0; i < destination_count_; i++) {
    if (destinations_[i].endpoint == endpoint) return destination_last_ = i;
  }
  if (endpoint.port == 0) return std::nullopt;
  Destination& added = destinations_[destination_count_];
  added = {};
  added.endpoint = endpoint;
  if (!config_.peer.is_set() || endpoint != config_.peer) {
    added.name_size = to_socket_address(endpoint, config_.family, names_[destination_count_]);
    if (added.name_size == 0) return std::nullopt;
  }
  added.segment_bytes_max = config_.send_offload ? config_.payload_bytes_max : 0;
  if (!limits_.empty()) {
    added.segment_bytes_max = std::min(added.segment_bytes_max, limits_.of(endpoint, group_at_));
  }
  destination_last_ = destination_count_;
  return destination_count_++;
}

void UdpSender::build_trains(std::span<const engine::TxPacket> packets) {
  train_count_ = 0;
  vector_count_ = 0;
  for (uint32_t d = 0; d < destination_count_; d++) {
    for (uint16_t i = destinations_[d].first; i != kNone; i = next_[i]) {
      append(packets[i], d, i == destinations_[d].first);
    }
  }
}

/// Adds the packet to the last train or starts a new one.
/// @param first True for the first packet of its destination.
void UdpSender::append(const engine::TxPacket& packet, uint32_t destination, bool first) {
  const uint32_t steering = steering_of(packet);
  // sendmmsg only reads the bytes, but iovec has no const form.
  vectors_[vector_count_] = {const_cast<std::byte*>(packet.data), packet.size};
  if (!first) {
    Train& train = trains_[train_count_ - 1];
    msghdr& header = headers_[train_count_ - 1].msg_hdr;
    if (fits(train, header.msg_iovlen, packet, steering)) {
      train.size += packet.size;
      train.closed = packet.size < train.segment_size;
      header.msg_iovlen++;
      vector_count_++;
      return;
    }
  }
  const Destination& to = destinations_[destination];
  trains_[train_count_] = {.size = packet.size,
                           .segment_size = packet.size,
                           .steering = steering,
                           .destination = static_cast<uint16_t>(destination)};
  msghdr& header = headers_[train_count_].msg_hdr;
  header = {};
  header.msg_name = to.name_size == 0 ? nullptr : &names_[destination];
  header.msg_namelen = to.name_size;
  header.msg_iov = &vectors_[vector_count_];
  header.msg_iovlen = 1;
  train_count_++;
  vector_count_++;
}

bool UdpSender::fits(const Train& train, uint64_t packet_count, const engine::TxPacket& packet,
                     uint32_t steering) const {
  // An empty datagram would vanish in a train. A receiving kernel steers a train by its first
  // packet, so all packets of a train must have the same value of the steering field.
  return !train.closed && packet.size != 0 && packet.size <= train.segment_size &&
         train.segment_size <= destinations_[train.destination].segment_bytes_max &&
         packet_count < kTrainPacketsMax && train.size + packet.size <= kUdpTrainBytesMax &&
         train.steering == steering;
}

uint32_t UdpSender::steering_of(const engine::TxPacket& packet) const {
  const uint32_t offset = config_.steering.payload_offset_bytes;
  if (packet.size < offset + sizeof(uint32_t)) return 0;
  return load_be<uint32_t>(packet.data + offset) >> config_.steering.shift_bits;
}

/// Tells the kernel the source address of each message that has one, and the segment size of each
/// train of more than one packet.
void UdpSender::write_notes() {
  for (uint32_t i = 0; i < train_count_; i++) {
    msghdr& header = headers_[i].msg_hdr;
    const uint16_t via = destinations_[trains_[i].destination].endpoint.via;
    if (header.msg_iovlen == 1 && via == 0) continue;
    Control& control = controls_[i];
    const Endpoint* const from =
        config_.local_addresses == nullptr ? nullptr : config_.local_addresses->find(via);
    size_t bytes = from == nullptr ? 0 : write_source(control, *from);
    trains_[i].source_bytes = static_cast<uint16_t>(bytes);
    if (header.msg_iovlen > 1) {
      bytes += write_note(control.bytes.data() + bytes, IPPROTO_UDP, UDP_SEGMENT,
                          static_cast<uint16_t>(trains_[i].segment_size));
    }
    header.msg_control = control.bytes.data();
    header.msg_controllen = bytes;
  }
}

/// @return bytes used at the beginning of `control`.
size_t UdpSender::write_source(Control& control, const Endpoint& from) const {
  if (config_.family == AF_INET) {
    in_pktinfo info{};
    info.ipi_spec_dst = ipv4_address(from);
    return write_note(control.bytes.data(), IPPROTO_IP, IP_PKTINFO, info);
  }
  in6_pktinfo info{};  // An AF_INET6 socket takes IPv4 addresses in mapped form.
  std::memcpy(&info.ipi6_addr, from.address.data(), from.address.size());
  info.ipi6_ifindex = from.scope_id;
  return write_note(control.bytes.data(), IPPROTO_IPV6, IPV6_PKTINFO, info);
}

void UdpSender::send_trains() {
  uint32_t index = 0;
  uint32_t attempts = 0;
  while (index < train_count_) {
    counters_.system_calls.add(1);
    const int sent =
        ::sendmmsg(socket_, &headers_[index], train_count_ - index, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      const uint32_t end = index + static_cast<uint32_t>(sent);
      for (; index < end; index++) count_sent(index);
      attempts = 0;
    } else if (is_full(errno)) {
      if (!wait_for_room()) return refuse_from(index);
    } else if (handle_error(errno, index, attempts)) {
      index++;
      attempts = 0;
    }
  }
}

/// Handles an error of the train at `index`. @return true if the train needs no retry.
bool UdpSender::handle_error(int error, uint32_t index, uint32_t& attempts) {
  if (error == ECONNREFUSED) counters_.peer_refused.add(1);
  const uint64_t packet_count = headers_[index].msg_hdr.msg_iovlen;
  if (packet_count > 1 && refuses_trains(error)) {
    send_one_by_one(index, error);
    return true;
  }
  if (is_transient(error) && ++attempts < kAttemptsMax) return false;
  counters_.tx_refused.add(packet_count);
  return true;
}

void UdpSender::send_one_by_one(uint32_t index, int train_error) {
  const msghdr& train = headers_[index].msg_hdr;
  uint64_t sent = 0;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < train.msg_iovlen; i++) {
    if (send_single(train.msg_iov[i], index) != 0) continue;
    sent++;
    bytes += train.msg_iov[i].iov_len;
  }
  counters_.tx_packets.add(sent);
  counters_.tx_bytes.add(bytes);
  counters_.tx_refused.add(train.msg_iovlen - sent);
  // If packets passed singly, the kernel refused the train and not, say, the destination. Smaller
  // packets may still work as trains below the MTU, so the limit does not drop to 0 at once.
  if (sent != 0) {
    const bool too_large = train_error == EINVAL || train_error == EMSGSIZE;
    limits_.lower(destinations_[trains_[index].destination].endpoint,
                  too_large ? trains_[index].segment_size - 1 : 0, monotonic_now());
  }
}

/// Sends one packet of the train at `index`. @return 0, or the error that the kernel gave.
int UdpSender::send_single(const iovec& packet, uint32_t index) {
  const msghdr& train = headers_[index].msg_hdr;
  iovec vector = packet;
  msghdr header{};
  header.msg_name = train.msg_name;
  header.msg_namelen = train.msg_namelen;
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  // The source address alone: a single packet has no segments.
  header.msg_control = train.msg_control;
  header.msg_controllen = trains_[index].source_bytes;
  uint32_t attempts = 0;
  for (;;) {
    counters_.system_calls.add(1);
    if (::sendmsg(socket_, &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return 0;
    const int error = errno;
    if (error == ECONNREFUSED) counters_.peer_refused.add(1);
    if (is_full(error)) {
      if (!wait_for_room()) return error;
    } else if (!is_transient(error) || ++attempts == kAttemptsMax) {
      return error;
    }
  }
}

/// Waits for room in the socket's buffer. @return false if this transmit() has used up its wait.
bool UdpSender::wait_for_room() {
  const Instant now = monotonic_now();
  if (!full_until_) full_until_ = now + kFullWaitMax;
  const int64_t left_ns = in_nanoseconds(*full_until_ - now);
  if (left_ns <= 0) return false;
  pollfd ready{.fd = socket_, .events = POLLOUT, .revents = 0};
  timespec limit{};
  limit.tv_nsec = left_ns;
  counters_.system_calls.add(1);
  ::ppoll(&ready, 1, &limit, nullptr);
  return true;
}

void UdpSender::count_sent(uint32_t index) {
  counters_.tx_packets.add(headers_[index].msg_hdr.msg_iovlen);
  counters_.tx_bytes.add(trains_[index].size);
}

void UdpSender::refuse_from(uint32_t index) {
  for (; index < train_count_; index++) {
    counters_.tx_refused.add(headers_[index].msg_hdr.msg_iovlen);
  }
}

}  // namespace tributary::io
