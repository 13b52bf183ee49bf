// SPDX-License-Identifier: Apache-2.0
/// @file
/// Packets over DPDK devices, without the kernel: one port of one IP address over a network card,
/// or over several wires in memory to workers on the same machine.
///
/// Model:   A queue for each core. Each receive queue of each device belongs to one core; a core
/// may
///          send by any device. A device with fewer queues than cores, or without rte_flow, leaves
///          steering to the engine, whose cores hand packets over.
/// Units:   Payload bytes; packets are PacketLayer::kUdpPayload.
/// Threads: As engine::Port. open() and the destructor run while no queue is in use.
/// Errors:  open() returns one line: the cause, and the command that mends it.
/// Memory:  Packet buffers as the queues need them, on the device's NUMA node; nothing is taken
///          after open() but a new neighbour's entry in a bounded table.
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

/// Neighbours of a port: four times the most workers that a job has, and their routers.
inline constexpr uint32_t kNeighboursMax = 1100;

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

  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  DpdkPort() = default;
  Result<void> start_dpdk(const DpdkPortConfig& config);
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
  // In this order: queues give buffers back to pools, and devices hold buffers of pools.
  MbufPool payloads_;
  MbufPool headers_;
  std::vector<std::unique_ptr<DpdkDevice>> devices_;
  std::vector<std::unique_ptr<DpdkQueue>> queues_;
};

}  // namespace tributary::io
