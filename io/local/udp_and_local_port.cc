// SPDX-License-Identifier: Apache-2.0
#include "io/local/udp_and_local_port.h"

#include <fmt/format.h>
#include <poll.h>

#include <array>
#include <utility>

#include "base/assert.h"
#include "io/local/client_address.h"

namespace tributary::io {
namespace {

/// While local clients keep a core busy and the sockets are empty, it asks the kernel only in one
/// of this many bursts. A full burst takes about 25 us, so a packet from the network waits 0.1 ms
/// at most. Assumed.
constexpr uint32_t kUdpEveryBursts = 4;

/// Packets to the network of one transmit(): as many as a machine collects, so that trains stay
/// whole.
constexpr uint32_t kSendPacketsMax = 1024;

}  // namespace

class alignas(128) UdpAndLocalPort::Queue final : public engine::PortQueue {
 public:
  Queue(engine::PortQueue& udp, ServerLane& lane)
      : udp_(udp), lane_(lane), wakes_{.fd = lane.wake_fd(), .events = POLLIN, .revents = 0} {}

  pollfd& wakes() { return wakes_; }

  uint32_t receive(std::span<engine::Packet> burst) override {
    lane_.update();
    if (!lane_.in_use()) [[likely]] {
      return udp_.receive(burst);
    }
    return receive_both(burst);
  }

  void transmit(std::span<const engine::TxPacket> packets) override {
    if (!lane_.in_use()) [[likely]] {
      return udp_.transmit(packets);
    }
    uint32_t count = 0;
    for (const engine::TxPacket& packet : packets) {
      if (is_local_client(packet.destination)) {
        lane_.transmit(packet);
        continue;
      }
      to_network_[count++] = packet;
      if (count == kSendPacketsMax)
        udp_.transmit(std::span(to_network_).first(std::exchange(count, 0)));
    }
    lane_.flush();
    if (count != 0) udp_.transmit(std::span(to_network_).first(count));
  }

  void wait(Duration at_most) override {
    if (!lane_.prepare_sleep()) return;
    wakes_.revents = 0;
    udp_.wait(at_most);
    lane_.end_sleep();
    if (wakes_.revents != 0) lane_.drain_wakes();
  }

  void wake() override { udp_.wake(); }
  engine::PortCounters counters() const override { return udp_.counters() + lane_.counters(); }
  std::optional<uint64_t> rx_dropped() const override { return udp_.rx_dropped(); }
  bool is_send_crowded() const override { return udp_.is_send_crowded(); }

 private:
  /// Asks the rings first, because that costs no system call. The sockets go first after they have
  /// waited long enough, so that neither side can keep the other out.
  uint32_t receive_both(std::span<engine::Packet> burst) {
    const bool udp_first = udp_waits_bursts_ >= kUdpEveryBursts;
    uint32_t filled = udp_first ? receive_udp(burst) : 0;
    filled += lane_.receive(burst.subspan(filled));
    if (udp_first) return filled;
    if (filled == 0 || (filled < burst.size() && !udp_was_empty_)) {
      return filled + receive_udp(burst.subspan(filled));
    }
    udp_waits_bursts_++;
    return filled;
  }

  uint32_t receive_udp(std::span<engine::Packet> burst) {
    const uint32_t count = udp_.receive(burst);
    udp_was_empty_ = count == 0;
    udp_waits_bursts_ = 0;
    return count;
  }

  engine::PortQueue& udp_;
  ServerLane& lane_;
  pollfd wakes_;  ///< The datagrams of clients; udp_.wait() waits for them.
  bool udp_was_empty_ = false;
  uint32_t udp_waits_bursts_ = 0;  ///< Bursts since the sockets were asked.
  std::array<engine::TxPacket, kSendPacketsMax> to_network_;
};

Result<std::unique_ptr<UdpAndLocalPort>> UdpAndLocalPort::open(const UdpPortConfig& udp,
                                                               LocalServerConfig local) {
  auto sockets = UdpPort::open(udp);
  if (!sockets) return tl::unexpected(sockets.error());
  std::unique_ptr<UdpAndLocalPort> port(new UdpAndLocalPort(*std::move(sockets)));
  UdpPort& opened = *port->udp_;
  local.listen = opened.local();
  local.core_count = opened.queue_count();
  local.steering = udp.steering;
  auto server = LocalServer::open(local, [&opened](uint32_t core) { opened.queue(core).wake(); });
  if (!server) {
    port->warnings_.push_back(
        fmt::format("workers on this machine use UDP instead of shared memory: {}; give --local "
                    "off to leave shared memory out",
                    server.error().text));
    return port;
  }
  port->local_ = *std::move(server);
  for (uint32_t i = 0; i < opened.queue_count(); i++) {
    port->queues_.push_back(std::make_unique<Queue>(opened.queue(i), port->local_->lane(i)));
    opened.also_wait_for(i, port->queues_.back()->wakes());
  }
  return port;
}

UdpAndLocalPort::UdpAndLocalPort(std::unique_ptr<UdpPort> udp)
    : udp_(std::move(udp)), warnings_(udp_->warnings()) {}

UdpAndLocalPort::~UdpAndLocalPort() = default;

engine::PortQueue& UdpAndLocalPort::queue(uint32_t index) {
  if (local_ == nullptr) return udp_->queue(index);
  TRIB_ASSERT(index < queues_.size());
  return *queues_[index];
}

}  // namespace tributary::io
