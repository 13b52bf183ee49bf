// SPDX-License-Identifier: Apache-2.0
/// @file
/// Packets over kernel UDP sockets, one socket per queue. Needs no privilege, no driver and no
/// setup, and runs everywhere Linux does.
///
/// Model:   A server opens one port with a queue per core; the kernel steers each packet to a queue
///          by a field of its payload (SteeringField). A client opens one with queue_count 1.
///          Steering is by train: with UDP_GRO the kernel may join packets that cross from one
///          queue's stretch to the next, and then all go where the first one goes. So steering is
///          for speed; a program must stay right when a packet comes to another queue.
/// Units:   Payload bytes; packets are PacketLayer::kUdpPayload.
/// Threads: Each queue belongs to one thread, wake() and counters() to any. open() and the
///          destructor run while no queue is in use.
/// Errors:  open() returns one line. Afterwards nothing ends a port: network errors are passed over
///          or counted.
/// Memory:  About 2.5 MB for each queue, of which the kernel backs what traffic touches; nothing is
///          allocated after open().
/// Tests:   tests/io/udp/udp_port_test.cc, tests/io/udp/udp_port_open_test.cc
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/port.h"
#include "io/udp/path_mtu.h"
#include "io/udp/udp_port_config.h"

namespace tributary::io {

class UdpPort final : public engine::Port {
 public:
  /// Refusals: a field out of its range, an address in use or not of this machine, a group that
  /// cannot be joined, a peer without a route.
  static Result<std::unique_ptr<UdpPort>> open(const UdpPortConfig& config);

  ~UdpPort() override;
  UdpPort(const UdpPort&) = delete;
  UdpPort& operator=(const UdpPort&) = delete;

  [[nodiscard]] uint32_t queue_count() const override;
  [[nodiscard]] engine::PortQueue& queue(uint32_t index) override;
  /// As bound: with the port that the kernel chose; [::] stays [::] unless there is a peer.
  [[nodiscard]] Endpoint local() const override { return local_; }
  [[nodiscard]] uint32_t payload_bytes_max() const override { return payload_bytes_max_; }
  /// The kernel splits what is larger.
  [[nodiscard]] uint32_t path_mtu(const Endpoint& to) const override { return io::path_mtu(to); }

  /// What works, but worse than asked for: one sentence each, with the command that mends it.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  /// Payload of packets of 1 KB and more that waits in a queue's socket without a loss. The kernel
  /// counts up to twice the payload, against twice the buffer that it granted (socket(7),
  /// SO_RCVBUF), and gives up to a quarter back late (udp_rmem_release, Linux since 4.10).
  [[nodiscard]] uint32_t receive_room_bytes() const override {
    return receive_buffer_bytes_ / 4 * 3;
  }
  /// The kernel joins received datagrams (UDP_GRO).
  [[nodiscard]] bool receive_offload() const { return receive_offload_; }

 private:
  class Queue;
  explicit UdpPort(const UdpPortConfig& config);

  const uint32_t payload_bytes_max_;
  Endpoint local_;
  uint32_t receive_buffer_bytes_ = 0;  ///< As granted.
  bool receive_offload_ = false;
  std::vector<std::string> warnings_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace tributary::io
