// SPDX-License-Identifier: Apache-2.0
#include "io/inline/inline_port.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "base/errno_text.h"
#include "io/packet/packet_spec.h"
#include "io/udp/socket_address.h"

namespace tributary::io {

Result<std::string> parse_inline_port(std::string_view text) {
  const std::string_view name =
      text.starts_with(kPacketPrefix) ? text.substr(kPacketPrefix.size()) : std::string_view();
  if (name.empty() || name.find(',') != std::string_view::npos) {
    return failure(fmt::format("--port '{}' is refused; allowed for a program: {}INTERFACE", text,
                               kPacketPrefix));
  }
  return std::string(name);
}

Result<std::vector<std::unique_ptr<InlinePort>>> InlinePort::open(const Config& config,
                                                                  uint32_t core_count) {
  TRIB_ASSERT(!config.interfaces.empty() && config.interfaces.size() <= 2 && core_count > 0);
  std::vector<FanoutGroup> groups(
      config.interfaces.size(),
      FanoutGroup{.steering = config.steering, .socket_count = core_count, .id = 0});
  std::vector<std::unique_ptr<InlinePort>> ports;
  for (uint32_t core = 0; core < core_count; core++) {
    FileDescriptor wake_event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_event.is_open()) {
      return failure(fmt::format("cannot make an eventfd: {}", errno_text(errno)));
    }
    std::unique_ptr<InlinePort> port(new InlinePort(std::move(wake_event)));
    for (size_t side = 0; side < config.interfaces.size(); side++) {
      auto socket = FrameSocket::open({.interface = config.interfaces[side],
                                       .receive_buffer_bytes = config.receive_buffer_bytes},
                                      core_count > 1 ? &groups[side] : nullptr);
      if (!socket) return failure("--port " + socket.error().text);
      port->sides_.push_back(*std::move(socket));
    }
    port->outgoing_.resize(port->sides_.size());
    for (auto& frames : port->outgoing_) frames.reserve(engine::kBurstPackets);
    port->message_socket_ =
        FileDescriptor(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ports.push_back(std::move(port));
  }
  return ports;
}

uint32_t InlinePort::receive(std::span<engine::Packet> burst) {
  uint32_t filled = 0;
  for (uint16_t side = 0; side < sides_.size(); side++) {
    FrameSocket& socket = *sides_[side];
    const auto room = static_cast<uint32_t>(burst.size()) - filled;
    counters_.system_calls.add(1);
    const uint32_t got = socket.receive(room);
    for (uint32_t i = 0; i < got; i++) {
      const std::span<std::byte> frame = socket.frame(i);
      engine::Packet& packet = burst[filled++];
      packet.data = frame.data();
      packet.size = static_cast<uint32_t>(frame.size());
      packet.layer = engine::PacketLayer::kFrame;
      packet.source = {};
      packet.source.via = side;
      counters_.rx_bytes.add(frame.size());
    }
  }
  counters_.rx_packets.add(filled);
  return filled;
}

void InlinePort::transmit(std::span<const engine::TxPacket> packets) {
  const auto last_side = static_cast<uint32_t>(sides_.size() - 1);
  for (const engine::TxPacket& packet : packets) {
    if (packet.layer != engine::PacketLayer::kFrame) {
      send_message(packet);
      continue;
    }
    // A forwarded frame's destination is its source: `via` says where it came in.
    const uint32_t from = packet.destination.via;
    const FrameNotes* notes = sides_[from]->notes_of(packet.data);
    outgoing_[last_side - from].push_back(
        {.bytes = {packet.data, packet.size}, .notes = notes ? *notes : FrameNotes{}});
  }
  for (uint32_t side = 0; side <= last_side; side++) flush(side);
}

void InlinePort::flush(uint32_t side) {
  std::vector<FrameSocket::Outgoing>& frames = outgoing_[side];
  if (frames.empty()) return;
  counters_.system_calls.add(1);
  const uint32_t sent = sides_[side]->send(frames);
  counters_.tx_packets.add(sent);
  counters_.tx_refused.add(frames.size() - sent);
  frames.clear();
}

void InlinePort::send_message(const engine::TxPacket& packet) {
  SocketAddress to{};
  const socklen_t size = to_socket_address(packet.destination, AF_INET6, to);
  counters_.system_calls.add(1);
  const ssize_t sent =
      ::sendto(message_socket_.get(), packet.data, packet.size, MSG_DONTWAIT, &to.any, size);
  (sent < 0 ? counters_.tx_refused : counters_.tx_packets).add(1);
}

void InlinePort::wait(Duration at_most) {
  const int64_t ns = std::max<int64_t>(in_nanoseconds(at_most), 0);
  const timespec limit{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  std::array<pollfd, 3> ready{pollfd{.fd = wake_event_.get(), .events = POLLIN, .revents = 0}};
  for (size_t side = 0; side < sides_.size(); side++) {
    ready[side + 1] = {.fd = sides_[side]->fd(), .events = POLLIN, .revents = 0};
  }
  counters_.system_calls.add(1);
  if (::ppoll(ready.data(), sides_.size() + 1, &limit, nullptr) <= 0) return;
  if (ready[0].revents == 0) return;
  eventfd_t wakes = 0;
  ::eventfd_read(wake_event_.get(), &wakes);
}

void InlinePort::wake() { ::eventfd_write(wake_event_.get(), 1); }

void InlinePort::visit_counters(const CounterVisitor& visit) const {
  uint64_t dropped = 0, trains = 0;
  for (const auto& side : sides_) {
    dropped += side->dropped_by_kernel();
    trains += side->trains();
  }
  visit("kernel_dropped", dropped);
  visit("trains", trains);
}

}  // namespace tributary::io
