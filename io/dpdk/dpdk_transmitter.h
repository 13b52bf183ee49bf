// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sending half of a DPDK queue. It adds headers to payloads and sends them through the device
/// of their next hop. DpdkTransmitter says how payloads and headers share buffers.
///
/// Threads: Owned by the queue's thread. If cores share a transmit queue, a burst takes its lock.
/// Errors:  A packet is lost and counted if it finds no buffer, no next hop, or no room in the
///          device within kFullWait. If the driver refuses a frame, that frame alone is lost and
///          counted. Only frames that the device has taken count as sent.
/// Memory:  Arrays of a fixed size; buffers from the port's two pools.
/// Tests:   tests/io/dpdk/dpdk_port_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/packet.h"
#include "io/counter_cells.h"
#include "io/dpdk/dpdk_device.h"
#include "io/dpdk/offer.h"
#include "io/frames/frame_link.h"

struct rte_mbuf;

namespace tributary::io {

/// How long one transmit() waits for full devices. A peer that resumes reading within this time
/// loses nothing. A peer that is gone causes one such wait, and no further wait until it reads.
inline constexpr Duration kFullWait = milliseconds(1);

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
  static constexpr uint32_t kBurst = 64;
  /// Payload size of a frame that the link itself sends.
  static constexpr uint32_t kNoPayload = UINT32_MAX;

  /// Frames collected for one device.
  struct Lane {
    std::array<rte_mbuf*, kBurst> frames{};
    std::array<uint32_t, kBurst> payload_bytes{};  ///< Per frame; kNoPayload for the link's own.
    uint32_t count = 0;
    bool stuck = false;  ///< Took nothing for kFullWait, so transmit() does not wait for it.
  };

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
  void append(rte_mbuf* frame, uint32_t payload_bytes, uint32_t device);
  void flush_lane(uint32_t device);
  Offered offer_to(uint32_t device, std::span<rte_mbuf*> frames);
  void count_sent(std::span<const uint32_t> payload_bytes);
  void drop(std::span<rte_mbuf*> frames);

  const Config config_;
  const std::span<const std::unique_ptr<DpdkDevice>> devices_;
  FrameLink& link_;
  PortCounterCells& counters_;
  std::vector<Lane> lanes_;  ///< Shape [devices].
};

}  // namespace tributary::io
