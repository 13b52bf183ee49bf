// SPDX-License-Identifier: Apache-2.0
#include "io/udp/udp_receiver.h"

#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tributary::io {
namespace {

/// The number of errors that one receive() ignores before it returns. Each reports the fate of an
/// earlier packet in the network; the socket still works.
constexpr uint32_t kTransientErrorsMax = 4;

template <class T>
T value_of(const cmsghdr* note) {
  T value;
  std::memcpy(&value, CMSG_DATA(note), sizeof value);
  return value;
}

/// Returns the address of this machine that an IPv4 packet was sent to. For a broadcast, it is the
/// address of the interface.
Endpoint local_of(const in_pktinfo& info) {
  return Endpoint::ipv4(ntohl(info.ipi_spec_dst.s_addr), 0);
}

/// Returns the address of this machine that an IPv6 packet was sent to. The default Endpoint stands
/// for a group, which cannot be a source, and for a mapped address, which in_pktinfo tells too.
Endpoint local_of(const in6_pktinfo& info) {
  Endpoint local;
  if (IN6_IS_ADDR_V4MAPPED(&info.ipi6_addr) || IN6_IS_ADDR_MULTICAST(&info.ipi6_addr)) return local;
  std::memcpy(local.address.data(), &info.ipi6_addr, local.address.size());
  if (IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr)) local.scope_id = info.ipi6_ifindex;
  return local;
}

}  // namespace

UdpReceiver::UdpReceiver(int socket, uint32_t payload_bytes_max, LocalAddresses* local_addresses,
                         PortCounterCells& counters)
    : socket_(socket),
      payload_bytes_max_(payload_bytes_max),
      local_addresses_(local_addresses),
      counters_(counters),
      storage_(std::make_unique_for_overwrite<std::byte[]>(size_t{kMessages} * kBufferStride)) {
  for (uint32_t i = 0; i < kMessages; i++) {
    vectors_[i] = {storage_.get() + size_t{i} * kBufferStride, kBufferBytes};
    headers_[i].msg_hdr.msg_iov = &vectors_[i];
    headers_[i].msg_hdr.msg_iovlen = 1;
    headers_[i].msg_hdr.msg_name = &sources_[i];
    headers_[i].msg_hdr.msg_control = controls_[i].bytes.data();
  }
}

uint32_t UdpReceiver::receive(std::span<engine::Packet> burst) {
  if (!has_leftover()) refill(static_cast<uint32_t>(burst.size()));
  uint32_t filled = 0;
  uint64_t bytes = 0;
  while (filled < burst.size() && has_leftover()) {
    const Message& message = messages_[message_index_];
    std::byte* const data = storage_.get() + size_t{message_index_} * kBufferStride;
    const uint32_t room = static_cast<uint32_t>(burst.size()) - filled;
    const uint32_t end = segment_index_ + std::min(message.segment_end - segment_index_, room);
    for (; segment_index_ < end; segment_index_++) {
      const uint32_t offset = segment_index_ * message.segment_size;
      engine::Packet& packet = burst[filled++];
      packet.data = data + offset;
      packet.size = std::min(message.segment_size, message.size - offset);
      packet.layer = engine::PacketLayer::kUdpPayload;
      packet.source = message.source;
      bytes += packet.size;
    }
    if (segment_index_ == message.segment_end) {
      message_index_++;
      skip_empty_messages();
    }
  }
  counters_.rx_packets.add(filled);
  counters_.rx_bytes.add(bytes);
  return filled;
}

void UdpReceiver::refill(uint32_t packet_count) {
  // Asks for about one burst, so that the received packets are still in cache when they are used:
  // with trains of 15 datagrams, five buffers instead of thirty-two.
  const uint32_t wanted =
      std::clamp((packet_count + segments_last_ - 1) / segments_last_, kMessagesMin, kMessages);
  message_count_ = packet_count == 0 ? 0 : ask_kernel(wanted);
  message_index_ = 0;
  uint32_t segments = 0;
  for (uint32_t i = 0; i < message_count_; i++) {
    open_message(i);
    segments += messages_[i].segment_end;
  }
  if (segments != 0) segments_last_ = (segments + message_count_ - 1) / message_count_;
  skip_empty_messages();
}

uint32_t UdpReceiver::ask_kernel(uint32_t message_count) {
  for (uint32_t i = 0; i < message_count; i++) {  // The kernel overwrites both fields.
    headers_[i].msg_hdr.msg_namelen = sizeof(SocketAddress);
    headers_[i].msg_hdr.msg_controllen = sizeof(Control);
  }
  for (uint32_t attempt = 0; attempt < kTransientErrorsMax; attempt++) {
    counters_.system_calls.add(1);
    const int count = ::recvmmsg(socket_, headers_.data(), message_count, MSG_DONTWAIT, nullptr);
    if (count >= 0) return static_cast<uint32_t>(count);
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    if (errno == ECONNREFUSED) counters_.peer_refused.add(1);
  }
  return 0;
}

UdpReceiver::Notes UdpReceiver::read_notes(msghdr& header) {
  Notes notes;
  for (cmsghdr* note = CMSG_FIRSTHDR(&header); note != nullptr; note = CMSG_NXTHDR(&header, note)) {
    if (note->cmsg_level == IPPROTO_UDP && note->cmsg_type == UDP_GRO) {
      notes.segment_size = static_cast<uint32_t>(std::max(value_of<int>(note), 0));
    } else if (note->cmsg_level == IPPROTO_IP && note->cmsg_type == IP_PKTINFO) {
      notes.local = local_of(value_of<in_pktinfo>(note));
    } else if (note->cmsg_level == IPPROTO_IPV6 && note->cmsg_type == IPV6_PKTINFO &&
               is_wildcard(notes.local)) {
      notes.local = local_of(value_of<in6_pktinfo>(note));
    }
  }
  return notes;
}

void UdpReceiver::open_message(uint32_t index) {
  mmsghdr& header = headers_[index];
  Message& message = messages_[index];
  message.size = header.msg_len;
  const Notes notes = read_notes(header.msg_hdr);
  message.segment_size = notes.segment_size != 0 ? notes.segment_size : message.size;
  // An empty datagram is one segment of 0 bytes.
  const uint32_t count = message.segment_size == 0
                             ? 1
                             : (message.size + message.segment_size - 1) / message.segment_size;
  message.segment_first = 0;
  message.segment_end = count;
  message.source = from_socket_address(sources_[index]);
  if (local_addresses_ != nullptr && !is_wildcard(notes.local)) {
    message.source.via = local_addresses_->index_of(notes.local);
    if (message.source.via == 0) counters_.local_address_unknown.add(1);
  }
  if ((header.msg_hdr.msg_flags & MSG_TRUNC) != 0) {
    message.segment_first = count;
  } else if (message.segment_size > payload_bytes_max_) {
    // Only the last segment of a train may be shorter, so only it can be small enough.
    const uint32_t last_size = message.size - (count - 1) * message.segment_size;
    message.segment_first = last_size > payload_bytes_max_ ? count : count - 1;
  }
  counters_.rx_truncated.add(message.segment_first);
}

void UdpReceiver::skip_empty_messages() {
  while (message_index_ < message_count_ &&
         messages_[message_index_].segment_first == messages_[message_index_].segment_end) {
    message_index_++;
  }
  if (has_leftover()) segment_index_ = messages_[message_index_].segment_first;
}

}  // namespace tributary::io
