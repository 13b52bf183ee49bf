// SPDX-License-Identifier: Apache-2.0
/// @file
/// Packets over DPDK devices, without the kernel. A port has one IP address, on a network card or
/// on several wires in memory to workers on the same machine.
///
/// Model:   One queue per core; a core may send through any device. If a device has fewer receive
///          queues than cores, or no rte_flow, the engine's cores hand packets over.
/// Units:   Payload bytes; packets are PacketLayer::kUdpPayload.
/// Threads: As engine::Port. No queue may be in use during open() and the destructor.
/// Errors:  open() returns one line: the cause, and the command to fix it.
/// Memory:  Packet buffers on the device's NUMA node. After open(), only new entries of a bounded
///          neighbour table are allocated.
/// Tests:   tests/io/dpdk/dpdk_port_test.cc
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/port.h"
#include "io/dpdk/dpdk_device.h"
#include "io/dpdk/open_dpdk_port.h"
#include "io/dpdk/port_spec.h"
#include "io/frames/frame_link.h"

namespace tributary::io {

class DpdkQueue;

class DpdkPort final : public engine::Port {
 public:
  static Result<std::unique_ptr<DpdkPort>> open(const DpdkPortConfig& config);
  ~DpdkPort() override;
  DpdkPort(const DpdkPort&) = delete;
  DpdkPort& operator=(const DpdkPort&) = delete;

  [[nodiscard]] uint32_t queue_count() const override;
  [[nodiscard]] engine::PortQueue& queue(uint32_t index) override;
  [[nodiscard]] Endpoint local() const override { return link_.local; }
  [[nodiscard]] uint32_t udp_ports() const override { return link_.udp_ports; }
  [[nodiscard]] uint32_t payload_bytes_max() const override { return payload_bytes_max_; }
  Result<bool> join_group(const Endpoint& group) override;
  [[nodiscard]] uint64_t mac() const override;
  void pin_neighbour(const Endpoint& address, uint64_t mac) override;
  void unpin_neighbour(const Endpoint& address) override;

  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  DpdkPort() = default;
  Result<void> open_devices(const DpdkPortConfig& config);
  void agree_on_steering(uint32_t queue_count);
  Result<void> make_pools(uint32_t queue_count);
  void make_queues(const DpdkPortConfig& config);
  void listen_to_groups(const std::vector<Endpoint>& groups);

  FrameLinkConfig link_;
  uint32_t payload_bytes_max_ = 0;
  uint32_t frame_bytes_max_ = 0;
  std::vector<std::string> warnings_;
  std::vector<Endpoint> groups_;
  NeighbourTable neighbours_{kNeighboursMax};
  // The order matters: queues return buffers to pools, and devices hold buffers of pools.
  MbufPool payloads_;
  MbufPool headers_;
  std::vector<std::unique_ptr<DpdkDevice>> devices_;
  std::vector<std::unique_ptr<DpdkQueue>> queues_;
};

}  // namespace tributary::io
