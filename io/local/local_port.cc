// SPDX-License-Identifier: Apache-2.0
#include "io/local/local_port.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/byte_order.h"
#include "io/counter_cells.h"
#include "io/local/background_close.h"
#include "io/local/local_socket.h"
#include "io/local/packet_stage.h"
#include "io/local/ring_memory.h"
#include "io/local/udp_owner.h"
#include "io/wait_set.h"

namespace tributary::io {
namespace {

/// Wake-ups that one read takes. The socket holds more only if the server is hostile.
constexpr uint32_t kWakesMax = 64;

/// The connection that connect() has opened.
struct Opened {
  Endpoint server;
  FileDescriptor control;
  FileDescriptor waker;  ///< Sends the datagrams that wake the server's cores.
  FileDescriptor wake_event;
  LocalWelcome welcome;
  RingMemory memory;
};

class alignas(128) Queue final : public engine::PortQueue, public engine::WaitSource {
 public:
  explicit Queue(Opened opened) : opened_(std::move(opened)) {
    for (uint32_t core = 0; core < core_count(); core++) {
      cores_.push_back({.from = RingReader(opened_.memory.ring(core, RingDirection::kToClient)),
                        .to = RingWriter(opened_.memory.ring(core, RingDirection::kToServer))});
    }
  }

  /// Ends the connection, even if a child process has inherited its descriptor.
  ~Queue() override { ::shutdown(opened_.control.get(), SHUT_RDWR); }

  uint32_t receive(std::span<engine::Packet> burst) override {
    stage_.clear();
    uint32_t filled = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < core_count() && filled < burst.size(); i++) {
      Core& core = cores_[(first_ + i) % core_count()];
      const PacketStage::Taken taken =
          stage_.take(core.from, opened_.server, burst.subspan(filled));
      filled += taken.count;
      bytes += taken.bytes;
      if (taken.broken) hung_up_ = true;
    }
    if (filled == 0) {
      report_hang_up();
      return 0;
    }
    first_ = (first_ + 1) % core_count();
    counters_.rx_packets.add(filled);
    counters_.rx_bytes.add(bytes);
    return filled;
  }

  void transmit(std::span<const engine::TxPacket> packets) override {
    uint64_t written = 0;
    uint32_t sent = 0;
    uint64_t bytes = 0;
    for (const engine::TxPacket& packet : packets) {
      const uint32_t core = core_of(packet);
      if (hung_up_ || packet.layer != engine::PacketLayer::kUdpPayload ||
          !packet.destination.is_same_peer(opened_.server) ||
          !cores_[core].to.push({packet.data, packet.size})) {
        continue;
      }
      written |= uint64_t{1} << core;
      sent++;
      bytes += packet.size;
    }
    counters_.tx_packets.add(sent);
    counters_.tx_bytes.add(bytes);
    counters_.tx_refused.add(packets.size() - sent);
    for (uint32_t core = 0; written != 0; core++, written >>= 1) {
      if ((written & 1) == 0 || !cores_[core].to.publish()) continue;
      counters_.system_calls.add(1);
      send_wake_to(opened_.waker.get(), opened_.welcome.wake_ports[core]);
    }
  }

  void wait(Duration at_most) override { single_wait_.wait(at_most); }

  bool begin_wait(std::vector<pollfd>& polled) override {
    if (!prepare_sleep()) return false;
    polled.push_back({.fd = opened_.wake_event.get(), .events = POLLIN, .revents = 0});
    // A closed connection is always readable, so it is left out.
    const int control = hung_up_ ? -1 : opened_.control.get();
    polled.push_back({.fd = control, .events = POLLIN, .revents = 0});
    counters_.system_calls.add(1);
    return true;
  }

  void end_wait(std::span<const pollfd> polled) override {
    for (Core& core : cores_) core.from.end_sleep();
    if (polled[0].revents != 0) {
      eventfd_t wakes = 0;
      counters_.system_calls.add(1);
      ::eventfd_read(opened_.wake_event.get(), &wakes);
    }
    if (polled[1].revents != 0) read_control();
  }

  engine::WaitSource* wait_source() override { return this; }

  void wake() override { ::eventfd_write(opened_.wake_event.get(), 1); }

  engine::PortCounters counters() const override { return counters_.read(); }

 private:
  struct Core {
    RingReader from;
    RingWriter to;
  };

  uint32_t core_count() const { return opened_.welcome.shape.core_count; }

  /// Returns the core that owns a packet. See SteeringField.
  uint32_t core_of(const engine::TxPacket& packet) const {
    const SteeringField& field = opened_.welcome.steering;
    if (uint64_t{field.payload_offset_bytes} + sizeof(uint32_t) > packet.size) return 0;
    const auto value = load_be<uint32_t>(packet.data + field.payload_offset_bytes);
    return (value >> field.shift_bits) & (core_count() - 1);
  }

  /// @return false if packets, or the end of the connection, are still to be received.
  bool prepare_sleep() {
    if (hung_up_) return has_reported_hang_up();
    for (Core& core : cores_) {
      if (core.from.prepare_sleep()) continue;
      for (Core& each : cores_) each.from.end_sleep();
      return false;
    }
    return true;
  }

  /// Reads the server's wake-ups, and notes the end of the connection.
  void read_control() {
    for (uint32_t i = 0; i < kWakesMax; i++) {
      char byte = 0;
      counters_.system_calls.add(1);
      const ssize_t size = ::recv(opened_.control.get(), &byte, 1, MSG_DONTWAIT);
      if (size > 0) continue;
      if (size == 0 || (errno != EAGAIN && errno != EINTR)) hung_up_ = true;
      return;
    }
  }

  bool has_reported_hang_up() const { return counters_.peer_closed.value() != 0; }

  /// Counts the end of the connection, once, when all packets have been received.
  void report_hang_up() {
    if (hung_up_ && !has_reported_hang_up()) counters_.peer_closed.add(1);
  }

  const Opened opened_;
  std::vector<Core> cores_;  ///< One for each of the server's.
  uint32_t first_ = 0;       ///< The core that is asked first next time.
  bool hung_up_ = false;     ///< The server has closed the connection, or broken a ring.
  PacketStage stage_;
  PortCounterCells counters_;
  SingleWait single_wait_{*this};
};

class LocalPort final : public engine::Port {
 public:
  explicit LocalPort(Opened opened)
      : server_(opened.server), shape_(opened.welcome.shape), queue_(std::move(opened)) {}

  uint32_t queue_count() const override { return 1; }
  engine::PortQueue& queue(uint32_t index) override {
    TRIB_ASSERT(index == 0);
    return queue_;
  }
  /// Returns the machine's address that the server uses.
  Endpoint local() const override {
    Endpoint local = server_;
    local.port = 0;
    return local;
  }
  uint32_t payload_bytes_max() const override { return shape_.packet_bytes_max; }
  /// Returns the payload that one ring holds, because all results may come from one core. A quarter
  /// is left for the heads and the rounding of packets of 256 bytes and more.
  uint32_t receive_room_bytes() const override { return shape_.ring_bytes / 4 * 3; }

 private:
  const Endpoint server_;
  const RingMemoryShape shape_;
  Queue queue_;
};

/// Connects to the server whose user holds the UDP socket that receives packets to `server`. Asks
/// at the name of that socket only: any user may hold another name, and UDP is always left. Closes
/// the Unix socket if a stranger answers.
Result<std::string> connect_to_owner(FileDescriptor& control, const Endpoint& server) {
  const auto owner = udp_owner(server);
  if (!owner) {
    return failure(
        fmt::format("the kernel names no user of this machine who holds the UDP address {}",
                    server.to_string()));
  }
  std::string name = local_name(owner->listen);
  if (const auto connected = connect_name(control.get(), name); !connected) {
    return failure(fmt::format("no aggregator for {} serves shared memory on this machine: {}",
                               server.to_string(), connected.error().text));
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(control.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
      peer.uid == owner->user) {
    return name;
  }
  close_in_background(std::move(control));  // The stranger may have sent something.
  return failure(
      fmt::format("the Unix socket @{} belongs to user {}, but user {} holds the UDP address {}",
                  name, peer.uid, owner->user, owner->listen.to_string()));
}

}  // namespace

Result<std::unique_ptr<engine::Port>> connect_local_port(const Endpoint& server) {
  if (!is_own_address(server)) {
    return failure(fmt::format("{} is not an address of this machine", server.to_string()));
  }
  if (background_close_count() >= kBackgroundClosesMax)
    return failure("too many Unix sockets of strangers are being closed");
  auto control = unix_socket();
  if (!control) return tl::unexpected(control.error());
  const auto name = connect_to_owner(*control, server);
  if (!name) return tl::unexpected(name.error());
  FileDescriptor memory_fd;
  const auto welcome = receive_welcome(control->get(), memory_fd);
  if (!welcome) return failure(fmt::format("the Unix socket @{}: {}", *name, welcome.error().text));
  auto memory = RingMemory::map(welcome->shape, memory_fd.get());
  if (!memory) return failure(fmt::format("the Unix socket @{}: {}", *name, memory.error().text));
  auto waker = waker_socket();
  if (!waker) return tl::unexpected(waker.error());
  FileDescriptor wake_event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_event.is_open()) return failure("cannot make an eventfd");
  return std::make_unique<LocalPort>(Opened{.server = server,
                                            .control = *std::move(control),
                                            .waker = *std::move(waker),
                                            .wake_event = std::move(wake_event),
                                            .welcome = *welcome,
                                            .memory = *std::move(memory)});
}

}  // namespace tributary::io
