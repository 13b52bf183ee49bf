// SPDX-License-Identifier: Apache-2.0
#include "io/inline/frame_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "base/errno_text.h"
#include "io/packet/packet_socket.h"

namespace tributary::io {
namespace {

/// Bytes of the two MAC addresses, behind which a VLAN tag stands.
constexpr uint32_t kAddressBytes = 12;

/// Returns a BPF program that chooses a socket by the last four bytes of the IP destination, behind
/// up to two VLAN tags; socket 0 for other frames. The kernel has taken out a first tag of the
/// types 8100 and 88a8.
std::array<sock_filter, 26> destination_steering(uint32_t socket_count) {
  constexpr auto kNetwork = static_cast<uint32_t>(SKF_NET_OFF);
  constexpr auto kProtocol = static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_PROTOCOL);
  constexpr uint32_t kQinq = 0x9100;           // An outer tag of old equipment.
  constexpr uint32_t kOddFactor = 0x9e3779b1;  // Spreads neighbouring addresses.
  return {{
      // X is the length of the tags that remain.
      BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kProtocol),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 16, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 17, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_8021Q, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_8021AD, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kQinq, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, 0),
      // Behind one tag.
      BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, 4),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, kNetwork + 2),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 8, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 9, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_8021Q, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, 0),
      // Behind two.
      BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, 8),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, kNetwork + 6),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 3, 0),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_IND, kNetwork + 16),
      BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_IND, kNetwork + 36),
      BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, kOddFactor),
      BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 16),
      BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, socket_count),
      BPF_STMT(BPF_RET | BPF_A, 0),
  }};
}

}  // namespace

Result<std::unique_ptr<FrameSocket>> FrameSocket::open(const Config& config, FanoutGroup* group) {
  std::unique_ptr<FrameSocket> socket(new FrameSocket());
  socket->interface_ = config.interface;
  auto done = socket->open_socket(config);
  if (done && group != nullptr) done = socket->silence();
  if (done) done = socket->bind_to(config);
  if (done && group != nullptr) done = socket->join(*group);
  if (!done) return tl::unexpected(done.error());
  socket->make_buffers();
  return socket;
}

Result<void> FrameSocket::silence() {
  sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{.len = 1, .filter = &drop_all};
  if (set_socket_option(socket_, SOL_SOCKET, SO_ATTACH_FILTER, program)) return {};
  return system_failure(errno, fmt::format("{}: cannot filter frames", interface_));
}

Result<void> FrameSocket::hear() const {
  if (set_socket_option(socket_, SOL_SOCKET, SO_DETACH_FILTER, int{0})) return {};
  return system_failure(errno, fmt::format("{}: cannot remove a filter of frames", interface_));
}

Result<void> FrameSocket::open_socket(const Config& config) {
  auto opened = open_packet_socket(config.receive_buffer_bytes);
  if (!opened) return tl::unexpected(opened.error());
  socket_ = std::move(opened->descriptor);
  if (!set_socket_option(socket_, SOL_PACKET, PACKET_VNET_HDR, int{1})) {
    return system_failure(errno, "cannot read the kernel's notes on frames");
  }
  return {};
}

Result<void> FrameSocket::bind_to(const Config& config) {
  const std::string& name = config.interface;
  const auto interface = read_ethernet_interface(socket_, name);
  if (!interface) return tl::unexpected(interface.error());
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = interface->index;
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return system_failure(errno, name);
  }
  packet_mreq all{};
  all.mr_ifindex = interface->index;
  all.mr_type = PACKET_MR_PROMISC;
  if (!set_socket_option(socket_, SOL_PACKET, PACKET_ADD_MEMBERSHIP, all)) {
    return system_failure(errno, fmt::format("{}: no promiscuous mode", name));
  }
  return {};
}

Result<void> FrameSocket::join(FanoutGroup& group) {
  const bool is_first = !group.id;
  const bool by_flow = group.steering == Steering::kByFlow;
  // The first socket asks for a number that no other program uses.
  uint32_t flags = is_first ? PACKET_FANOUT_FLAG_UNIQUEID : 0;
  flags |= by_flow ? PACKET_FANOUT_HASH : PACKET_FANOUT_CBPF;
  uint32_t value = group.id.value_or(0) | flags << 16;
  if (!set_socket_option(socket_, SOL_PACKET, PACKET_FANOUT, value)) {
    const int error = errno;
    return failure(fmt::format("{}: cannot share frames among cores: {}; to fix: --cores 1",
                               interface_, errno_text(error)),
                   errno_kind(error));
  }
  socklen_t size = sizeof value;
  ::getsockopt(socket_.get(), SOL_PACKET, PACKET_FANOUT, &value, &size);
  group.id = static_cast<uint16_t>(value);
  if (!by_flow && is_first) {
    if (auto steered = steer_by_destination(group.socket_count); !steered) return steered;
  }
  group.joined.push_back(this);
  if (group.joined.size() < group.socket_count) return {};
  for (const FrameSocket* const socket : group.joined) {
    if (auto heard = socket->hear(); !heard) return heard;
  }
  return {};
}

Result<void> FrameSocket::steer_by_destination(uint32_t socket_count) {
  auto steering = destination_steering(socket_count);
  const sock_fprog program{.len = static_cast<uint16_t>(steering.size()),
                           .filter = steering.data()};
  if (!set_socket_option(socket_, SOL_PACKET, PACKET_FANOUT_DATA, program)) {
    const int error = errno;
    return failure(fmt::format("{}: cannot share frames by destination: {}; to fix: --cores 1",
                               interface_, errno_text(error)),
                   errno_kind(error));
  }
  return {};
}

void FrameSocket::make_buffers() {
  storage_ = std::make_unique_for_overwrite<std::byte[]>(size_t{kFramesEach} * kStride);
  headers_.resize(kFramesEach);
  vectors_.resize(kFramesEach);
  controls_.resize(kFramesEach);
  notes_.resize(kFramesEach);
  frames_.resize(kFramesEach);
  send_headers_.resize(kFramesEach);
  send_vectors_.resize(kFramesEach);
  for (uint32_t i = 0; i < kFramesEach; i++) {
    std::byte* const begin = storage_.get() + size_t{i} * kStride + kRoomBytes;
    vectors_[i] = {iovec{&notes_[i], sizeof notes_[i]}, iovec{begin, kFrameBytesMax}};
    headers_[i].msg_hdr.msg_iov = vectors_[i].data();
    headers_[i].msg_hdr.msg_iovlen = vectors_[i].size();
    headers_[i].msg_hdr.msg_control = controls_[i].bytes.data();
    send_headers_[i].msg_hdr.msg_iov = send_vectors_[i].data();
    send_headers_[i].msg_hdr.msg_iovlen = send_vectors_[i].size();
  }
}

uint32_t FrameSocket::receive(uint32_t count_max) {
  const uint32_t room = std::min(count_max, kFramesEach);
  for (uint32_t i = 0; i < room; i++) {
    headers_[i].msg_hdr.msg_controllen = sizeof(Control);  // The kernel overwrites it.
  }
  const int got = ::recvmmsg(socket_.get(), headers_.data(), room, MSG_DONTWAIT, nullptr);
  uint32_t received = 0;
  for (uint32_t i = 0; got > 0 && i < static_cast<uint32_t>(got); i++) {
    // A train of segments may be longer than 64 KiB (BIG TCP).
    if ((headers_[i].msg_hdr.msg_flags & MSG_TRUNC) != 0) {
      truncated_.add(1);
      continue;
    }
    const uint32_t bytes = headers_[i].msg_len - static_cast<uint32_t>(sizeof notes_[i]);
    frames_[i] = {static_cast<std::byte*>(vectors_[i][1].iov_base), bytes};
    if (notes_[i].gso_type != 0) trains_.add(1);
    put_tag_back(i, headers_[i].msg_hdr);
    received_[received++] = i;
  }
  return received;
}

void FrameSocket::put_tag_back(uint32_t index, msghdr& header) {
  std::span<std::byte>& frame = frames_[index];
  if (frame.size() < kAddressBytes) return;
  for (cmsghdr* note = CMSG_FIRSTHDR(&header); note != nullptr; note = CMSG_NXTHDR(&header, note)) {
    if (note->cmsg_level != SOL_PACKET || note->cmsg_type != PACKET_AUXDATA) continue;
    tpacket_auxdata aux{};
    std::memcpy(&aux, CMSG_DATA(note), sizeof aux);
    if ((aux.tp_status & TP_STATUS_VLAN_VALID) == 0) return;
    const bool has_type = (aux.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
    const uint16_t type = htons(has_type ? aux.tp_vlan_tpid : uint16_t{ETH_P_8021Q});
    const uint16_t tag = htons(aux.tp_vlan_tci);
    std::byte* const begin = frame.data() - kTagRoomBytes;
    std::memmove(begin, frame.data(), kAddressBytes);
    std::memcpy(begin + kAddressBytes, &type, sizeof type);
    std::memcpy(begin + kAddressBytes + sizeof type, &tag, sizeof tag);
    frame = {begin, frame.size() + kTagRoomBytes};
    // The kernel's offsets count from the frame without its tag.
    FrameNotes& notes = notes_[index];
    if (notes.needs_checksum()) notes.checksum_start += kTagRoomBytes;
    if (notes.gso_type != 0) notes.header_bytes += kTagRoomBytes;
    return;
  }
}

std::optional<FrameNotes> FrameSocket::notes_of(std::span<const std::byte> bytes) const {
  const std::byte* const begin = storage_.get();
  const std::byte* const data = bytes.data();
  TRIB_ASSERT(data >= begin && data < begin + size_t{kFramesEach} * kStride);
  const size_t index = static_cast<size_t>(data - begin) / kStride;
  return moved_notes(notes_[index], frames_[index].data() - data, bytes);
}

InlineSide::Sent FrameSocket::send(std::span<const Outgoing> frames) {
  Sent sent;
  while (!frames.empty()) {
    const auto count = static_cast<uint32_t>(std::min<size_t>(frames.size(), kFramesEach));
    for (uint32_t i = 0; i < count; i++) {
      // sendmmsg() does not write through these pointers.
      send_vectors_[i] = {
          iovec{const_cast<FrameNotes*>(&frames[i].notes), sizeof frames[i].notes},
          iovec{const_cast<std::byte*>(frames[i].bytes.data()), frames[i].bytes.size()}};
    }
    const Sent part = send_messages(socket_.get(), std::span(send_headers_).first(count));
    sent.frames += part.frames;
    sent.bytes += part.bytes;
    frames = frames.subspan(count);
  }
  return sent;
}

uint64_t FrameSocket::dropped_by_kernel() const {
  tpacket_stats counted{};
  socklen_t size = sizeof counted;
  // Reading resets the kernel's counter.
  if (::getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &counted, &size) == 0) {
    dropped_.fetch_add(counted.tp_drops, std::memory_order_relaxed);
  }
  return dropped_.load(std::memory_order_relaxed);
}

}  // namespace tributary::io
