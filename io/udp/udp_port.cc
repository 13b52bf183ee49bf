// SPDX-License-Identifier: Apache-2.0
#include "io/udp/udp_port.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "base/errno_text.h"
#include "io/counter_cells.h"
#include "io/file_descriptor.h"
#include "io/udp/udp_receiver.h"
#include "io/udp/udp_sender.h"
#include "io/udp/udp_socket.h"
#include "io/wait_set.h"

namespace tributary::io {

/// One socket, and the eventfd that wakes its thread. Queues are aligned to 128 bytes, so that the
/// counters of two cores never share a cache line or a pair of lines.
class alignas(128) UdpPort::Queue final : public engine::PortQueue, public engine::WaitSource {
 public:
  Queue(FileDescriptor socket, FileDescriptor wake_event, LocalAddresses* local_addresses,
        const UdpSender::Config& sender)
      : socket_(std::move(socket)),
        wake_event_(std::move(wake_event)),
        receiver_(socket_.get(), sender.payload_bytes_max, local_addresses, counters_),
        sender_(socket_.get(), sender, counters_) {}

  uint32_t receive(std::span<engine::Packet> burst) override { return receiver_.receive(burst); }

  void transmit(std::span<const engine::TxPacket> packets) override { sender_.transmit(packets); }

  void wait(Duration at_most) override { single_wait_.wait(at_most); }

  bool begin_wait(std::vector<pollfd>& polled) override {
    if (receiver_.has_leftover()) return false;
    polled.push_back({.fd = socket_.get(), .events = POLLIN, .revents = 0});
    polled.push_back({.fd = wake_event_.get(), .events = POLLIN, .revents = 0});
    if (other_ != nullptr) polled.push_back(*other_);
    counters_.system_calls.add(1);
    return true;
  }

  void end_wait(std::span<const pollfd> polled) override {
    if (other_ != nullptr) other_->revents = polled[2].revents;
    if (polled[1].revents == 0) return;
    eventfd_t wakes = 0;
    counters_.system_calls.add(1);
    ::eventfd_read(wake_event_.get(), &wakes);
  }

  engine::WaitSource* wait_source() override { return this; }

  void wake() override { ::eventfd_write(wake_event_.get(), 1); }

  void also_wait_for(pollfd& other) { other_ = &other; }

  engine::PortCounters counters() const override { return counters_.read(); }
  std::optional<uint64_t> rx_dropped() const override { return udp_rx_dropped(socket_.get()); }
  bool is_send_crowded() const override { return udp_send_is_crowded(socket_.get()); }

 private:
  const FileDescriptor socket_;
  const FileDescriptor wake_event_;
  PortCounterCells counters_;
  UdpReceiver receiver_;
  UdpSender sender_;
  pollfd* other_ = nullptr;  ///< See UdpPort::also_wait_for().
  SingleWait single_wait_{*this};
};

Result<std::unique_ptr<UdpPort>> UdpPort::open(const UdpPortConfig& config) {
  auto opened = open_udp_sockets(config);
  if (!opened) return tl::unexpected(opened.error());

  std::unique_ptr<UdpPort> port(new UdpPort(config));
  port->local_ = opened->local;
  port->receive_buffer_bytes_ = opened->receive_buffer_bytes;
  port->receive_offload_ = opened->receive_offload;
  port->warnings_ = std::move(opened->warnings);
  LocalAddresses* const local_addresses =
      opened->tells_local_address ? &port->local_addresses_ : nullptr;
  for (FileDescriptor& socket : opened->sockets) {
    FileDescriptor wake_event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_event.is_open()) {
      return system_failure(errno, "cannot make an eventfd");
    }
    port->queues_.push_back(
        std::make_unique<Queue>(std::move(socket), std::move(wake_event), local_addresses,
                                UdpSender::Config{.family = opened->family,
                                                  .peer = config.peer,
                                                  .steering = config.steering,
                                                  .payload_bytes_max = config.payload_bytes_max,
                                                  .send_offload = config.send_offload,
                                                  .local_addresses = local_addresses}));
  }
  return port;
}

UdpPort::UdpPort(const UdpPortConfig& config) : payload_bytes_max_(config.payload_bytes_max) {}

UdpPort::~UdpPort() = default;

uint32_t UdpPort::queue_count() const { return static_cast<uint32_t>(queues_.size()); }

void UdpPort::also_wait_for(uint32_t queue_index, pollfd& other) {
  TRIB_ASSERT(queue_index < queues_.size());
  queues_[queue_index]->also_wait_for(other);
}

engine::PortQueue& UdpPort::queue(uint32_t index) {
  TRIB_ASSERT(index < queues_.size());
  return *queues_[index];
}

}  // namespace tributary::io
