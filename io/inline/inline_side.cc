// SPDX-License-Identifier: Apache-2.0
#include "io/inline/inline_side.h"

#include <poll.h>

#include <cerrno>

#include "base/internet_checksum.h"

namespace tributary::io {
namespace {

/// Returns the bytes of a message's frame: all its pieces but the first.
uint64_t frame_bytes(const msghdr& message) {
  uint64_t bytes = 0;
  for (size_t i = 1; i < message.msg_iovlen; i++) bytes += message.msg_iov[i].iov_len;
  return bytes;
}

}  // namespace

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
