// SPDX-License-Identifier: Apache-2.0
#include "io/packet/packet_queue.h"

#include <linux/if_packet.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>

#include "base/clock.h"
#include "base/errno_text.h"
#include "base/time.h"

namespace tributary::io {
namespace {

/// How long one flush() waits for a full socket.
constexpr Duration kFullWait = milliseconds(1);
/// Bytes of the VLAN tag that the kernel leaves in frames with two tags.
constexpr uint32_t kVlanTagBytes = 4;
/// The VLAN number in a tag. 0 means that the tag has a priority only.
constexpr uint32_t kVlanIdMask = 0xfff;

timespec timespec_of(Duration duration) {
  const int64_t ns = std::max<int64_t>(in_nanoseconds(duration), 0);
  timespec time{};
  time.tv_sec = ns / kNanosecondsPerSecond;
  time.tv_nsec = ns % kNanosecondsPerSecond;
  return time;
}

/// Returns the kernel's notes about a frame.
std::optional<tpacket_auxdata> notes_of(msghdr& header) {
  for (cmsghdr* note = CMSG_FIRSTHDR(&header); note != nullptr; note = CMSG_NXTHDR(&header, note)) {
    if (note->cmsg_level != SOL_PACKET || note->cmsg_type != PACKET_AUXDATA) continue;
    tpacket_auxdata notes{};
    std::memcpy(&notes, CMSG_DATA(note), sizeof notes);
    return notes;
  }
  return std::nullopt;
}

/// Returns whether the kernel has moved a VLAN tag from the frame to its notes.
bool has_vlan(const tpacket_auxdata& notes) {
  return (notes.tp_status & TP_STATUS_VLAN_VALID) != 0 && (notes.tp_vlan_tci & kVlanIdMask) != 0;
}

/// A sender on this machine leaves the UDP checksum to a card that a virtual wire does not have
/// (CSUMNOTREADY). VALID: the kernel or the card has verified it.
VerifiedByHardware verified_of(const tpacket_auxdata& notes) {
  return {.ip_checksum = false,
          .udp_checksum = (notes.tp_status & (TP_STATUS_CSUMNOTREADY | TP_STATUS_CSUM_VALID)) != 0};
}

}  // namespace

Result<std::unique_ptr<PacketQueue>> PacketQueue::make(const Config& config,
                                                       const FrameLinkConfig& link,
                                                       NeighbourTable& neighbours) {
  FileDescriptor wake_event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_event.is_open()) {
    return system_failure(errno, "cannot make an eventfd");
  }
  return std::unique_ptr<PacketQueue>(
      new PacketQueue(config, link, neighbours, std::move(wake_event)));
}

PacketQueue::PacketQueue(const Config& config, const FrameLinkConfig& link,
                         NeighbourTable& neighbours, FileDescriptor wake_event)
    : config_(config),
      wake_event_(std::move(wake_event)),
      link_(link, neighbours),
      now_(monotonic_now()),
      reply_(std::max(config.mtu + kEthernetHeaderBytes, kLinkFrameBytesMax)) {
  for (uint32_t i = 0; i < kSendBurst; i++) {
    tx_headers_[i].msg_hdr.msg_iov = tx_vectors_[i].data();
    tx_headers_[i].msg_hdr.msg_iovlen = tx_vectors_[i].size();
  }
  if (!config.receives) return;
  constexpr uint32_t kCacheLineBytes = 64;
  const uint32_t frame_bytes = config.mtu + kEthernetHeaderBytes + kVlanTagBytes;
  stride_ = (frame_bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
  storage_.resize(size_t{engine::kBurstPackets} * stride_);
  rx_headers_.resize(engine::kBurstPackets);
  rx_vectors_.resize(engine::kBurstPackets);
  rx_controls_.resize(engine::kBurstPackets);
  for (uint32_t i = 0; i < engine::kBurstPackets; i++) {
    rx_vectors_[i] = {storage_.data() + size_t{i} * stride_, frame_bytes};
    rx_headers_[i].msg_hdr.msg_iov = &rx_vectors_[i];
    rx_headers_[i].msg_hdr.msg_iovlen = 1;
    rx_headers_[i].msg_hdr.msg_control = rx_controls_[i].bytes.data();
  }
}

uint32_t PacketQueue::receive(std::span<engine::Packet> burst) {
  now_ = monotonic_now();
  uint32_t filled = 0;
  uint64_t bytes = 0;
  if (config_.receives && !burst.empty()) {
    const auto room = static_cast<uint32_t>(std::min<size_t>(burst.size(), rx_headers_.size()));
    for (uint32_t i = 0; i < room; i++) {
      rx_headers_[i].msg_hdr.msg_controllen = sizeof(Control);  // The kernel overwrites it.
    }
    counters_.system_calls.add(1);
    const int got = ::recvmmsg(config_.socket, rx_headers_.data(), room, MSG_DONTWAIT, nullptr);
    for (int i = 0; i < got; i++) {
      if (!take(static_cast<uint32_t>(i), burst[filled])) continue;
      bytes += burst[filled].size;
      filled++;
    }
  }
  send_own_frames();
  counters_.rx_packets.add(filled);
  counters_.rx_bytes.add(bytes);
  return filled;
}

/// Inspects a frame. @return true if `packet` is a payload for the engine.
bool PacketQueue::take(uint32_t index, engine::Packet& packet) {
  mmsghdr& header = rx_headers_[index];
  const auto notes = notes_of(header.msg_hdr).value_or(tpacket_auxdata{});
  // A sender on this machine may send a train of datagrams as one frame (UDP_SEGMENT).
  if ((header.msg_hdr.msg_flags & MSG_TRUNC) != 0 ||
      header.msg_len > config_.mtu + kEthernetHeaderBytes + kVlanTagBytes) {
    link_.count(FrameOutcome::kGiant);
    counters_.rx_truncated.add(1);
    return false;
  }
  if (has_vlan(notes)) {
    link_.count(FrameOutcome::kVlan);
    return false;
  }
  std::byte* const data = storage_.data() + size_t{index} * stride_;
  const Arrival arrival =
      link_.receive({data, header.msg_len}, /*device=*/0, verified_of(notes), now_, reply_);
  if (arrival.reply_bytes > 0) send_frame({reply_.data(), arrival.reply_bytes});
  if (arrival.outcome != FrameOutcome::kDelivered) return false;
  packet.data = data + arrival.offset;
  packet.size = arrival.size;
  packet.layer = engine::PacketLayer::kUdpPayload;
  packet.source = arrival.source;
  return true;
}

void PacketQueue::transmit(std::span<const engine::TxPacket> packets) {
  const engine::TxPacket* summed = nullptr;
  uint16_t sum = 0;
  for (const engine::TxPacket& packet : packets) {
    if (packet.layer != engine::PacketLayer::kUdpPayload ||
        packet.size > config_.payload_bytes_max) {
      counters_.tx_refused.add(1);
      continue;
    }
    // A payload for many destinations arrives as a run of packets with the same bytes.
    if (summed == nullptr || summed->data != packet.data || summed->size != packet.size) {
      sum = word_sum({packet.data, packet.size});
      summed = &packet;
    }
    add_frame(packet, sum);
  }
  flush();
}

void PacketQueue::add_frame(const engine::TxPacket& packet, uint16_t payload_sum) {
  const auto hop = link_.route(packet.destination, now_);
  if (pending_ == kSendBurst) flush();
  const uint32_t header_bytes =
      hop ? write_udp_frame_headers(link_.addresses(*hop, packet.destination), packet.size,
                                    payload_sum, UdpChecksum::kComplete, tx_bytes_[pending_].bytes)
          : 0;
  if (header_bytes == 0) {
    counters_.tx_refused.add(1);
    return;
  }
  // sendmmsg() does not write through this pointer.
  auto* const payload = const_cast<std::byte*>(packet.data);
  tx_vectors_[pending_] = {iovec{tx_bytes_[pending_].bytes.data(), header_bytes},
                           iovec{payload, packet.size}};
  pending_++;
}

void PacketQueue::flush() {
  uint32_t done = 0;
  const Instant full_until = monotonic_now() + kFullWait;
  while (done < pending_) {
    counters_.system_calls.add(1);
    const int sent =
        ::sendmmsg(config_.socket, tx_headers_.data() + done, pending_ - done, MSG_DONTWAIT);
    for (int i = 0; i < sent; i++) {
      counters_.tx_packets.add(1);
      counters_.tx_bytes.add(tx_vectors_[done++][1].iov_len);
    }
    if (sent > 0) continue;
    const bool full = errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS;
    if (!full) {
      counters_.tx_refused.add(1);  // The kernel refuses this frame; the others may still go.
      done++;
      continue;
    }
    if (monotonic_now() >= full_until) break;
    pollfd room{.fd = config_.socket, .events = POLLOUT, .revents = 0};
    const timespec limit = timespec_of(kFullWait);
    ::ppoll(&room, 1, &limit, nullptr);
  }
  counters_.tx_refused.add(pending_ - done);
  pending_ = 0;
}

void PacketQueue::send_frame(std::span<const std::byte> frame) {
  counters_.system_calls.add(1);
  if (::send(config_.socket, frame.data(), frame.size(), MSG_DONTWAIT) < 0) {
    counters_.tx_refused.add(1);
  }
}

void PacketQueue::send_own_frames() {
  while (link_.next_due() <= now_) {
    const OwnFrame own = link_.next_frame(reply_, now_);
    if (own.bytes > 0) send_frame({reply_.data(), own.bytes});
  }
}

void PacketQueue::wait(Duration at_most) {
  const Instant now = monotonic_now();
  const timespec limit = timespec_of(std::min(now + at_most, link_.next_due()) - now);
  std::array<pollfd, 2> ready{pollfd{.fd = wake_event_.get(), .events = POLLIN, .revents = 0},
                              pollfd{.fd = config_.socket, .events = POLLIN, .revents = 0}};
  counters_.system_calls.add(1);
  if (::ppoll(ready.data(), config_.receives ? 2 : 1, &limit, nullptr) <= 0) return;
  if (ready[0].revents != 0) {
    eventfd_t wakes = 0;
    counters_.system_calls.add(1);
    ::eventfd_read(wake_event_.get(), &wakes);
  }
}

void PacketQueue::wake() { ::eventfd_write(wake_event_.get(), 1); }

void PacketQueue::visit_counters(const CounterVisitor& visit) const { link_.visit_counters(visit); }

void PacketQueue::leave_groups() {
  now_ = monotonic_now();
  link_.leave_all(now_);
  send_own_frames();
}

}  // namespace tributary::io
