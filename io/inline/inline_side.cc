// SPDX-License-Identifier: Apache-2.0
#include "io/inline/inline_side.h"

#include <poll.h>

#include <cerrno>

#include "base/byte_order.h"
#include "base/internet_checksum.h"
#include "wire/headers.h"

namespace tributary::io {
namespace {

/// Returns the bytes of a message's frame: all its pieces but the first.
uint64_t frame_bytes(const msghdr& message) {
  uint64_t bytes = 0;
  for (size_t i = 1; i < message.msg_iovlen; i++) bytes += message.msg_iov[i].iov_len;
  return bytes;
}

/// Returns the place of the header behind Ethernet, VLAN tags and IP without extension headers.
std::optional<size_t> transport_offset(std::span<const std::byte> frame) {
  size_t at = wire::EthernetHeader::kBytes;
  const auto type = [&] { return load_be<uint16_t>(frame.data() + at - sizeof(uint16_t)); };
  constexpr size_t kIpv6Bytes = 40;
  while (frame.size() >= at + kIpv6Bytes) {
    switch (type()) {
      case wire::kEtherTypeVlan:
      case wire::kEtherTypeServiceVlan:
        at += wire::VlanTag::kBytes;
        break;
      case wire::kEtherTypeIpv4:
        return at + (std::to_integer<size_t>(frame[at]) & 15) * 4;
      case wire::kEtherTypeIpv6:
        return at + kIpv6Bytes;
      default:
        return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<FrameNotes> moved_notes(FrameNotes notes, int64_t added_bytes,
                                      std::span<const std::byte> bytes) {
  if (added_bytes == 0) return notes;
  const int64_t start = notes.checksum_start + added_bytes;
  if (notes.gso_type != 0) {
    const auto transport = transport_offset(bytes);
    if (!transport || static_cast<int64_t>(*transport) != start) return std::nullopt;
    notes.header_bytes = static_cast<uint16_t>(notes.header_bytes + added_bytes);
  }
  if (!notes.needs_checksum()) return notes;
  // The program has removed the header with the checksum.
  if (start < 0) return FrameNotes{};
  notes.checksum_start = static_cast<uint16_t>(start);
  return notes;
}

std::optional<OpenChecksum> open_checksum(const InlineSide::Outgoing& frame) {
  const size_t at = size_t{frame.notes.checksum_start} + frame.notes.checksum_offset;
  if (at + sizeof(uint16_t) > frame.bytes.size()) return std::nullopt;
  // The field holds the sum of the pseudo-header. A sum of 0 is sent as 0xffff (RFC 768).
  const uint16_t sum = internet_checksum(frame.bytes.subspan(frame.notes.checksum_start));
  return OpenChecksum{.at = at, .value = sum == 0 ? uint16_t{0xffff} : sum};
}

InlineSide::Sent send_messages(int socket, std::span<mmsghdr> messages) {
  constexpr int kFullWaitMs = 1;
  InlineSide::Sent sent;
  bool has_waited = false;
  while (!messages.empty()) {
    const int taken =
        ::sendmmsg(socket, messages.data(), static_cast<uint32_t>(messages.size()), MSG_DONTWAIT);
    if (taken > 0) {
      const auto count = static_cast<uint32_t>(taken);
      for (const mmsghdr& each : messages.first(count)) sent.bytes += frame_bytes(each.msg_hdr);
      sent.frames += count;
      messages = messages.subspan(count);
      continue;
    }
    const bool full = errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS;
    if (!full) {
      messages = messages.subspan(1);  // The kernel refuses this one; the others may still go.
    } else if (has_waited) {
      return sent;
    } else {
      pollfd room{.fd = socket, .events = POLLOUT, .revents = 0};
      ::poll(&room, 1, kFullWaitMs);
      has_waited = true;
    }
  }
  return sent;
}

}  // namespace tributary::io
