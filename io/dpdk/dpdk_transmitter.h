// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sending half of a DPDK queue. It adds headers to payloads and sends them through the device
/// of their next hop. DpdkTransmitter says how payloads and headers share buffers.
///
/// Threads: Owned by the queue's thread.
/// Errors:  A packet is lost and counted if it finds no buffer or no next hop, or as tx_lane.h
///          says.
/// Memory:  Lanes of a fixed size; buffers from the port's two pools.
/// Tests:   tests/io/dpdk/dpdk_port_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/packet.h"
#include "io/counter_cells.h"
#include "io/dpdk/dpdk_device.h"
#include "io/dpdk/tx_lane.h"
#include "io/frames/frame_link.h"

struct rte_mbuf;

namespace tributary::io {

/// A payload for several destinations is copied once, and its checksum is computed once. If the
/// driver takes frames of several buffers, each destination gets a header buffer in front of the
/// shared payload buffer. A payload for one destination is copied behind its header.
class DpdkTransmitter {
 public:
  struct Config {
    uint32_t queue_index = 0;
    uint32_t payload_bytes_max = 0;
    rte_mempool* payloads = nullptr;
    rte_mempool* headers = nullptr;
  };
  /// All references must outlive this object.
  DpdkTransmitter(const Config& config, std::span<const std::unique_ptr<DpdkDevice>> devices,
                  FrameLink& link, PortCounterCells& counters);
  ~DpdkTransmitter();
  DpdkTransmitter(const DpdkTransmitter&) = delete;
  DpdkTransmitter& operator=(const DpdkTransmitter&) = delete;

  /// See PortQueue::transmit(). `now` is the time of the last received burst.
  void transmit(std::span<const engine::TxPacket> packets, Instant now);

  /// Sends a whole frame through this device.
  void send_frame(std::span<const std::byte> frame, uint32_t device);
  /// Hands all collected frames to the devices.
  void flush();

 private:
  /// A payload, with the results that all its frames share.
  struct Payload {
    std::span<const std::byte> bytes;
    uint16_t sum = 0;
    bool has_sum = false;
    rte_mbuf* shared = nullptr;  ///< Null if the payload is copied behind each header.
  };

  void send_payload(std::span<const engine::TxPacket> copies, Instant now);
  void send_copy(Payload& payload, const Endpoint& destination, const Hop& hop);
  rte_mbuf* frame_of(Payload& payload, const UdpFrameAddresses& addresses, uint32_t device);
  [[nodiscard]] uint32_t write_headers(Payload& payload, const UdpFrameAddresses& addresses,
                                       uint32_t device, rte_mbuf& frame, std::byte* at,
                                       uint32_t room);

  const Config config_;
  const std::span<const std::unique_ptr<DpdkDevice>> devices_;
  FrameLink& link_;
  PortCounterCells& counters_;
  std::vector<TxLane> lanes_;  ///< Shape [devices].
};

}  // namespace tributary::io
