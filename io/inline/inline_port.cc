// SPDX-License-Identifier: Apache-2.0
#include "io/inline/inline_port.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "base/clock.h"
#include "base/errno_text.h"
#include "base/time.h"
#include "io/dpdk/open_dpdk_sides.h"
#include "io/idle_nap.h"
#include "io/packet/packet_socket.h"
#include "io/udp/socket_address.h"
#include "wire/headers.h"

namespace tributary::io {

namespace {

/// @param group Null: the side's frames all come to one core.
Result<std::unique_ptr<InlineSide>> open_socket(const InlineSideSpec& spec, uint32_t buffer_bytes,
                                                FanoutGroup* group) {
  const auto as_side = [](auto socket) -> Result<std::unique_ptr<InlineSide>> {
    if (!socket) return failure_in("--port ", socket.error());
    return *std::move(socket);
  };
  if (const auto* const tunnel = std::get_if<VxlanConfig>(&spec.config)) {
    VxlanConfig config = *tunnel;
    config.receive_buffer_bytes = buffer_bytes;
    return as_side(VxlanSocket::open(config));
  }
  FrameSocket::Config config = std::get<FrameSocket::Config>(spec.config);
  config.receive_buffer_bytes = buffer_bytes;
  return as_side(FrameSocket::open(config, group));
}

Result<void> check_cores(const std::vector<InlineSideSpec>& sides, uint32_t core_count) {
  if (core_count == 1) return {};
  for (const InlineSideSpec& side : sides) {
    const bool is_mixed = side.config.index() != sides.front().config.index();
    if (!side.is_tunnel() && !is_mixed) continue;
    const char* const why = side.is_tunnel()
                                ? "a tunnel has one core"
                                : "a DPDK device with an interface has one core, because they "
                                  "share frames by different hashes";
    return failure(fmt::format("--port '{}': {}, and --cores is {}; allowed: --cores 1", side.text,
                               why, core_count));
  }
  return {};
}

/// Opens the DPDK devices together, because DPDK starts once, with all its cards.
Result<OpenedDpdkSides> open_dpdk(const InlinePort::Config& config, uint32_t core_count) {
  DpdkSidesConfig wanted{.devices = {}, .core_count = core_count, .steering = config.steering};
  for (const InlineSideSpec& side : config.sides) {
    if (side.dpdk() != nullptr) wanted.devices.push_back(*side.dpdk());
  }
  OpenedDpdkSides none;
  none.sides.resize(core_count);
  if (wanted.devices.empty()) return none;
  auto opened = open_dpdk_sides(wanted);
  if (!opened) return failure_in("--port: ", opened.error());
  return opened;
}

/// Opens the socket of messages such as IPFIX: for IPv6 and IPv4, or for IPv4 alone if the kernel
/// has no IPv6. @param family Set to the socket's.
FileDescriptor message_socket(int& family) {
  constexpr int kType = SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  family = AF_INET6;
  FileDescriptor both(::socket(AF_INET6, kType, 0));
  if (both.is_open() && set_socket_option(both, IPPROTO_IPV6, IPV6_V6ONLY, int{0})) return both;
  family = AF_INET;
  return FileDescriptor(::socket(AF_INET, kType, 0));
}

/// Longest wait for room in a socket's buffer, as with frames.
constexpr int kSendWaitMs = 1;

}  // namespace

InlinePort::InlinePort(FileDescriptor wake_event)
    : wake_event_(std::move(wake_event)),
      message_socket_(message_socket(message_family_)),
      busy_at_(monotonic_now()) {}

Result<InlinePort::Opened> InlinePort::open(const Config& config, uint32_t core_count) {
  TRIB_ASSERT(!config.sides.empty() && config.sides.size() <= 2 && core_count > 0);
  const auto good = check_cores(config.sides, core_count);
  if (!good) return tl::unexpected(good.error());
  auto dpdk = open_dpdk(config, core_count);
  if (!dpdk) return tl::unexpected(dpdk.error());
  std::vector<FanoutGroup> groups(
      config.sides.size(), FanoutGroup{.steering = config.steering, .socket_count = core_count});
  Opened opened{.ports = {}, .warnings = std::move(dpdk->warnings)};
  for (uint32_t core = 0; core < core_count; core++) {
    FileDescriptor wake_event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_event.is_open()) {
      return system_failure(errno, "cannot make an eventfd");
    }
    std::unique_ptr<InlinePort> port(new InlinePort(std::move(wake_event)));
    auto device = dpdk->sides[core].begin();
    for (size_t side = 0; side < config.sides.size(); side++) {
      const InlineSideSpec& spec = config.sides[side];
      if (spec.dpdk() != nullptr) {
        port->never_naps_ |= spec.dpdk()->poll;
        port->add_side(std::move(*device++));
        continue;
      }
      auto socket =
          open_socket(spec, config.receive_buffer_bytes, core_count > 1 ? &groups[side] : nullptr);
      if (!socket) return tl::unexpected(socket.error());
      port->add_side(*std::move(socket));
    }
    opened.ports.push_back(std::move(port));
  }
  return opened;
}

void InlinePort::add_side(std::unique_ptr<InlineSide> side) {
  is_polled_ |= side->fd() == InlineSide::kPolled;
  sides_.push_back(std::move(side));
  outgoing_.emplace_back().reserve(engine::kBurstPackets);
}

uint32_t InlinePort::receive(std::span<engine::Packet> burst) {
  uint32_t filled = 0;
  for (uint16_t side = 0; side < sides_.size(); side++) {
    InlineSide& from = *sides_[side];
    const auto room = static_cast<uint32_t>(burst.size()) - filled;
    count_system_call(from);
    const uint32_t got = from.receive(room);
    for (uint32_t i = 0; i < got; i++) {
      const std::span<std::byte> frame = from.frame(i);
      engine::Packet& packet = burst[filled++];
      packet.data = frame.data();
      packet.size = static_cast<uint32_t>(frame.size());
      packet.layer = engine::PacketLayer::kFrame;
      packet.headroom_bytes = engine::kHeadroomBytes;
      packet.source = {};
      packet.source.via = side;
      counters_.rx_bytes.add(frame.size());
    }
  }
  counters_.rx_packets.add(filled);
  if (is_polled_ && filled > 0) busy_at_ = monotonic_now();
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
    const std::span<const std::byte> bytes(packet.data, packet.size);
    const auto notes = sides_[from]->notes_of(bytes);
    if (!notes || bytes.size() < wire::EthernetHeader::kBytes) {
      counters_.tx_refused.add(1);
      continue;
    }
    outgoing_[last_side - from].push_back({.bytes = bytes, .notes = *notes});
  }
  for (uint32_t side = 0; side <= last_side; side++) flush(side);
}

void InlinePort::flush(uint32_t side) {
  std::vector<InlineSide::Outgoing>& frames = outgoing_[side];
  if (frames.empty()) return;
  count_system_call(*sides_[side]);
  const InlineSide::Sent sent = sides_[side]->send(frames);
  counters_.tx_packets.add(sent.frames);
  counters_.tx_bytes.add(sent.bytes);
  counters_.tx_refused.add(frames.size() - sent.frames);
  frames.clear();
}

void InlinePort::send_message(const engine::TxPacket& packet) {
  SocketAddress to{};
  const socklen_t size = to_socket_address(packet.destination, message_family_, to);
  const auto send = [&] {
    counters_.system_calls.add(1);
    return ::sendto(message_socket_.get(), packet.data, packet.size, MSG_DONTWAIT, &to.any, size);
  };
  ssize_t sent = send();
  if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
    // A burst of records is larger than the socket's buffer.
    pollfd room{.fd = message_socket_.get(), .events = POLLOUT, .revents = 0};
    counters_.system_calls.add(1);
    if (::poll(&room, 1, kSendWaitMs) > 0) sent = send();
  }
  if (sent < 0) {
    counters_.tx_refused.add(1);
    return;
  }
  counters_.tx_packets.add(1);
  counters_.tx_bytes.add(packet.size);
}

void InlinePort::count_system_call(const InlineSide& side) {
  if (side.fd() != InlineSide::kPolled) counters_.system_calls.add(1);
}

void InlinePort::wait(Duration at_most) {
  if (never_naps_) return;
  if (is_polled_) at_most = std::min(at_most, idle_nap(monotonic_now() - busy_at_));
  const int64_t ns = std::max<int64_t>(in_nanoseconds(at_most), 0);
  const timespec limit{.tv_sec = ns / kNanosecondsPerSecond, .tv_nsec = ns % kNanosecondsPerSecond};
  std::array<pollfd, 3> ready{pollfd{.fd = wake_event_.get(), .events = POLLIN, .revents = 0}};
  for (size_t side = 0; side < sides_.size(); side++) {
    // The kernel ignores a descriptor below 0, that of a polled side.
    ready[side + 1] = {.fd = sides_[side]->fd(), .events = POLLIN, .revents = 0};
  }
  counters_.system_calls.add(1);
  if (::ppoll(ready.data(), sides_.size() + 1, &limit, nullptr) <= 0) return;
  if (ready[0].revents == 0) return;
  eventfd_t wakes = 0;
  ::eventfd_read(wake_event_.get(), &wakes);
}

void InlinePort::wake() { ::eventfd_write(wake_event_.get(), 1); }

engine::PortCounters InlinePort::counters() const {
  engine::PortCounters counters = counters_.read();
  for (const auto& side : sides_) counters.rx_truncated += side->rx_truncated();
  return counters;
}

std::optional<uint64_t> InlinePort::rx_dropped() const {
  std::optional<uint64_t> sum;
  for (const auto& side : sides_) {
    if (const auto dropped = side->rx_dropped()) sum = sum.value_or(0) + *dropped;
  }
  return sum;
}

void InlinePort::visit_counters(const CounterVisitor& visit) const {
  std::map<std::string_view, uint64_t> sums;
  for (const auto& side : sides_) {
    side->visit_counters([&sums](const char* name, uint64_t value) { sums[name] += value; });
  }
  for (const auto& [name, value] : sums) visit(name.data(), value);
}

}  // namespace tributary::io
