// SPDX-License-Identifier: Apache-2.0
#include "io/inline/vxlan_socket.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/byte_order.h"
#include "base/errno_text.h"
#include "io/udp/udp_socket.h"

namespace tributary::io {
namespace {

constexpr uint32_t kHeaderBytes = wire::VxlanHeader::kBytes;
constexpr uint32_t kChecksumBytes = 2;
/// Largest frame that fits a UDP datagram. Source: RFC 768, RFC 791.
constexpr uint32_t kTunnelFrameBytesMax = 65'507 - kHeaderBytes;

/// Returns an iovec that a send only reads.
iovec piece(const void* data, size_t size) { return {const_cast<void*>(data), size}; }

}  // namespace

VxlanSocket::VxlanSocket(const VxlanConfig& config)
    : config_(config), header_(wire::vxlan_header(config.network)) {}

Result<std::unique_ptr<VxlanSocket>> VxlanSocket::open(const VxlanConfig& config) {
  std::unique_ptr<VxlanSocket> made(new VxlanSocket(config));
  const int family = config.local.is_ipv4() ? AF_INET : AF_INET6;
  const std::string name = config.local.to_string();
  made->socket_ = FileDescriptor(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made->socket_.is_open()) {
    return system_failure(errno, fmt::format("{}: cannot make a UDP socket", name));
  }
  SocketAddress local{};
  const socklen_t size = to_socket_address(config.local, family, local);
  if (::bind(made->socket_.get(), &local.any, size) != 0) {
    const int error = errno;
    return failure(
        fmt::format("{}: cannot bind: {}; to fix: give an address of this machine, and a "
                    "port that is free (ss -lun)",
                    name, errno_text(error)),
        errno_kind(error));
  }
  const auto buffer = static_cast<int>(config.receive_buffer_bytes);
  // The kernel may grant less; then bursts lose more frames, which kernel_dropped counts.
  static_cast<void>(
      ::setsockopt(made->socket_.get(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer));
  made->make_buffers();
  return made;
}

void VxlanSocket::make_buffers() {
  const int family = config_.local.is_ipv4() ? AF_INET : AF_INET6;
  const socklen_t peer_size = to_socket_address(config_.peer, family, peer_);
  storage_ = std::make_unique_for_overwrite<std::byte[]>(size_t{kFramesEach} * kStride);
  headers_.resize(kFramesEach);
  vectors_.resize(kFramesEach);
  senders_.resize(kFramesEach);
  frames_.resize(kFramesEach);
  send_headers_.resize(kFramesEach);
  send_vectors_.resize(kFramesEach);
  checksums_.resize(kFramesEach);
  for (uint32_t i = 0; i < kFramesEach; i++) {
    vectors_[i] = {datagram(i), kDatagramBytesMax};
    headers_[i].msg_hdr.msg_iov = &vectors_[i];
    headers_[i].msg_hdr.msg_iovlen = 1;
    headers_[i].msg_hdr.msg_name = &senders_[i];
    send_headers_[i].msg_hdr.msg_name = &peer_;
    send_headers_[i].msg_hdr.msg_namelen = peer_size;
    send_headers_[i].msg_hdr.msg_iov = send_vectors_[i].data();
    send_headers_[i].msg_hdr.msg_iovlen = kPieces;
  }
}

uint32_t VxlanSocket::receive(uint32_t count_max) {
  const uint32_t room = std::min(count_max, kFramesEach);
  for (uint32_t i = 0; i < room; i++) headers_[i].msg_hdr.msg_namelen = sizeof(SocketAddress);
  const int got = ::recvmmsg(socket_.get(), headers_.data(), room, MSG_DONTWAIT, nullptr);
  uint32_t accepted = 0;
  for (uint32_t i = 0; got > 0 && i < static_cast<uint32_t>(got); i++) {
    Endpoint sender = from_socket_address(senders_[i]);
    sender.port = config_.peer.port;  // RFC 7348 §5: the source port varies.
    if (!sender.is_same_peer(config_.peer)) {
      foreign_.add(1);
      continue;
    }
    const std::span<const std::byte> bytes(datagram(i), headers_[i].msg_len);
    const auto frame = wire::vxlan_frame(bytes, config_.network);
    if (!frame) {
      (wire::vxlan_network(bytes) ? foreign_ : malformed_).add(1);
      continue;
    }
    frames_[accepted++] = {datagram(i) + kHeaderBytes, frame->size()};
  }
  return accepted;
}

bool VxlanSocket::put(const Outgoing& frame, uint32_t index) {
  const FrameNotes& notes = frame.notes;
  const size_t size = frame.bytes.size();
  if (notes.gso_type != 0 || size > kTunnelFrameBytesMax) return false;
  std::array<iovec, kPieces>& pieces = send_vectors_[index];
  pieces = {piece(header_.data(), header_.size()), piece(frame.bytes.data(), size), iovec{},
            iovec{}};
  if (!notes.needs_checksum()) return true;
  const auto checksum = open_checksum(frame);
  if (!checksum) return false;
  store_be<uint16_t>(checksums_[index].data(), checksum->value);
  const size_t rest_at = checksum->at + kChecksumBytes;
  pieces[1] = piece(frame.bytes.data(), checksum->at);
  pieces[2] = piece(checksums_[index].data(), kChecksumBytes);
  pieces[3] = piece(frame.bytes.data() + rest_at, size - rest_at);
  return true;
}

InlineSide::Sent VxlanSocket::send(std::span<const Outgoing> frames) {
  Sent sent;
  while (!frames.empty()) {
    const size_t count = std::min<size_t>(frames.size(), kFramesEach);
    uint32_t filled = 0;
    for (const Outgoing& frame : frames.first(count)) {
      if (put(frame, filled)) filled++;
    }
    const Sent part = send_messages(socket_.get(), std::span(send_headers_).first(filled));
    sent.frames += part.frames;
    sent.bytes += part.bytes;
    frames = frames.subspan(count);
  }
  return sent;
}

Endpoint VxlanSocket::local() const {
  SocketAddress address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket_.get(), &address.any, &size) != 0) return {};
  return from_socket_address(address);
}

std::optional<uint64_t> VxlanSocket::rx_dropped() const { return udp_rx_dropped(socket_.get()); }

void VxlanSocket::visit_counters(const engine::PortQueue::CounterVisitor& visit) const {
  visit("kernel_dropped", rx_dropped().value_or(0));
  visit("tunnel_foreign", foreign());
  visit("tunnel_malformed", malformed());
}

}  // namespace tributary::io
