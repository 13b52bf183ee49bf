// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sending half of a DPDK queue: payloads get their headers and go out by the device of their
/// next hop.
///
/// Model:   A payload that goes to several destinations is copied once and its checksum made once;
///          each destination has a header buffer in front of the shared payload buffer, where the
///          driver takes frames of several buffers. A payload for one is copied behind its header.
/// Threads: Owned by the queue's thread. A transmit queue that cores share is locked for a burst.
/// Errors:  What finds no buffer, no next hop, or no room in the device within kFullWait is lost
///          and counted, and so is a frame that the driver refuses, without those behind it. Only
///          what the device has taken counts as sent.
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

/// How long one transmit() waits for full devices. A peer that reads again within this loses
/// nothing; one that is gone costs it once and not again until it reads.
inline constexpr Duration kFullWait = milliseconds(1);

class DpdkTransmitter {
 public:
  struct Config {
    uint32_t queue_index = 0;
    uint32_t payload_bytes_max = 0;
    rte_mempool* payloads = nullptr;
    rte_mempool* headers = nullptr;
  };
  /// All references outlive this.
  DpdkTransmitter(const Config& config, std::span<const std::unique_ptr<DpdkDevice>> devices,
                  FrameLink& link, PortCounterCells& counters);
  ~DpdkTransmitter();
  DpdkTransmitter(const DpdkTransmitter&) = delete;
  DpdkTransmitter& operator=(const DpdkTransmitter&) = delete;

  /// As PortQueue::transmit(). `now` is the time of the last burst received.
  void transmit(std::span<const engine::TxPacket> packets, Instant now);

  /// A whole frame, by this device.
  void send_frame(std::span<const std::byte> frame, uint32_t device);
  /// Hands everything to the devices.
  void flush();

 private:
  static constexpr uint32_t kBurst = 64;
  /// For a frame of the link's own.
  static constexpr uint32_t kNoPayload = UINT32_MAX;

  /// Frames on their way to one device.
  struct Lane {
    std::array<rte_mbuf*, kBurst> frames{};
    std::array<uint32_t, kBurst> payload_bytes{};  ///< Of each, or kNoPayload.
    uint32_t count = 0;
    bool stuck = false;  ///< Took nothing for kFullWait; no longer waited for.
  };

  /// A payload with all that is made of it once.
  struct Payload {
    std::span<const std::byte> bytes;
    uint16_t sum = 0;
    bool has_sum = false;
    rte_mbuf* shared = nullptr;  ///< Null: copied behind each header.
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
