// SPDX-License-Identifier: Apache-2.0
/// @file
/// Packets over a raw socket on a network interface (AF_PACKET): whole frames on any Ethernet
/// interface, next to the kernel. The port has an IP address of its own and answers ARP for it.
///
/// Model:   One socket. Queue 0 receives; the engine's cores hand packets over to the others. Every
///          queue sends. The kernel's own IP checks do not apply to these frames (FrameLink's do).
/// Units:   Payload bytes; packets are PacketLayer::kUdpPayload.
/// Threads: As engine::Port. No queue may be in use during open() and the destructor.
/// Errors:  open() returns one line: the cause, and the command to fix it.
/// Memory:  Receive buffers for one burst, made in open(); a bounded neighbour table.
/// Tests:   tests/io/packet/packet_port_test.cc
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/port.h"
#include "io/file_descriptor.h"
#include "io/frames/frame_link.h"
#include "io/packet/packet_spec.h"

namespace tributary::io {

struct PacketPortConfig {
  PacketPortSpec spec;
  uint16_t udp_port = 0;  ///< Our UDP port; not 0.
  uint32_t queue_count = 1;
  std::optional<Endpoint> peer = {};  ///< A worker's aggregator, the only accepted sender.
  bool lax_checksums = false;         ///< See FrameLinkConfig.
  uint32_t receive_buffer_bytes = 4U << 20;
};

class PacketQueue;

class PacketPort final : public engine::Port {
 public:
  static Result<std::unique_ptr<PacketPort>> open(const PacketPortConfig& config);
  ~PacketPort() override;
  PacketPort(const PacketPort&) = delete;
  PacketPort& operator=(const PacketPort&) = delete;

  [[nodiscard]] uint32_t queue_count() const override;
  [[nodiscard]] engine::PortQueue& queue(uint32_t index) override;
  [[nodiscard]] Endpoint local() const override { return link_.local; }
  [[nodiscard]] uint32_t payload_bytes_max() const override { return payload_bytes_max_; }
  /// Returns half of the granted buffer: the kernel counts a frame with its bookkeeping.
  [[nodiscard]] uint32_t receive_room_bytes() const override { return receive_buffer_bytes_ / 2; }
  Result<bool> join_group(const Endpoint& group) override;
  [[nodiscard]] uint64_t mac() const override;
  void pin_neighbour(const Endpoint& address, uint64_t mac) override;
  void unpin_neighbour(const Endpoint& address) override;

  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  PacketPort();
  Result<void> open_socket(const PacketPortConfig& config);
  Result<void> read_interface(const PacketPortConfig& config);
  Result<void> make_queues(const PacketPortConfig& config);
  Result<void> listen_to(const MacAddress& group);

  FrameLinkConfig link_;
  FileDescriptor socket_;
  int interface_index_ = 0;
  uint32_t mtu_ = 0;
  uint32_t payload_bytes_max_ = 0;
  uint32_t receive_buffer_bytes_ = 0;  ///< As granted.
  bool in_groups_ = false;
  std::vector<std::string> warnings_;
  NeighbourTable neighbours_;
  std::vector<std::unique_ptr<PacketQueue>> queues_;
};

}  // namespace tributary::io
