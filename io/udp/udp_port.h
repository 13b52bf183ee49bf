// SPDX-License-Identifier: Apache-2.0
/// @file
/// Packets over kernel UDP sockets, one socket per queue. Needs no privilege, driver or setup.
///
/// Model:   A server opens one port with a queue per core, and the kernel steers each packet to a
///          queue (see SteeringField). A client opens a port with queue_count 1. On a wildcard
///          address, a packet to a received source leaves from the address that it was sent to.
/// Units:   Payload bytes; packets are PacketLayer::kUdpPayload.
/// Threads: Each queue belongs to one thread; any thread may call wake() and counters(). No queue
///          may be in use during open() and the destructor.
/// Errors:  open() returns one line. Later network errors are ignored or counted.
/// Memory:  About 2.5 MB per queue, touched only by traffic. open() makes all allocations.
/// Tests:   tests/io/udp/udp_port_test.cc, tests/io/udp/udp_port_open_test.cc
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/port.h"
#include "io/udp/local_addresses.h"
#include "io/udp/path_mtu.h"
#include "io/udp/udp_port_config.h"

namespace tributary::io {

class UdpPort final : public engine::Port {
 public:
  /// Opens the sockets. Refuses a field that is out of range, an address that is in use or not on
  /// this machine, a group that cannot be joined, and a peer without a route.
  static Result<std::unique_ptr<UdpPort>> open(const UdpPortConfig& config);

  ~UdpPort() override;
  UdpPort(const UdpPort&) = delete;
  UdpPort& operator=(const UdpPort&) = delete;

  [[nodiscard]] uint32_t queue_count() const override;
  [[nodiscard]] engine::PortQueue& queue(uint32_t index) override;
  /// Returns the bound address, with the port that the kernel chose. [::] stays [::] unless there
  /// is a peer.
  [[nodiscard]] Endpoint local() const override { return local_; }
  [[nodiscard]] uint32_t payload_bytes_max() const override { return payload_bytes_max_; }
  /// Returns the path's MTU. The kernel fragments larger packets.
  [[nodiscard]] uint32_t path_mtu(const Endpoint& to) const override { return io::path_mtu(to); }

  /// One sentence for each setting that works worse than requested, with the command to fix it.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  /// Returns the payload bytes, in packets of 1 KB and more, that can wait in a queue's socket
  /// without loss. The kernel counts up to twice the payload against twice the granted buffer
  /// (socket(7), SO_RCVBUF). It may free a quarter of that late (udp_rmem_release, Linux since
  /// 4.10).
  [[nodiscard]] uint32_t receive_room_bytes() const override {
    return receive_buffer_bytes_ / 4 * 3;
  }
  /// Returns true if the kernel joins received datagrams (UDP_GRO).
  [[nodiscard]] bool receive_offload() const { return receive_offload_; }

  /// Makes wait() of this queue also wait for `other`, and write its `revents`. Call it before the
  /// queue is in use. `other` must outlive the queue's use.
  void also_wait_for(uint32_t queue_index, pollfd& other);

 private:
  class Queue;
  explicit UdpPort(const UdpPortConfig& config);

  const uint32_t payload_bytes_max_;
  Endpoint local_;
  uint32_t receive_buffer_bytes_ = 0;  ///< As granted.
  bool receive_offload_ = false;
  std::vector<std::string> warnings_;
  LocalAddresses local_addresses_;  ///< Written by all queues, if the sockets tell the addresses.
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace tributary::io
