// SPDX-License-Identifier: Apache-2.0
/// @file
/// A port without a network, for tests and demonstrations. The engine receives the packets that a
/// test injects. The port keeps the packets that the engine transmits, so that the test can read
/// them.
///
/// Shapes:  `queue_count` queues, each with one bounded packet ring per direction.
/// Units:   Bytes; counters count frame bytes for kFrame and payload bytes for kUdpPayload.
/// Threads: The PortQueue side belongs to the queue's thread. The test may use another thread; each
///          call takes a short lock. wait() returns at once: the test controls time.
/// Errors:  When a ring is full, inject() returns false and transmit() counts tx_refused.
/// Memory:  The constructor allocates the rings. Later, only take_sent() allocates.
/// Tests:   tests/io/memory/in_memory_port_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/endpoint.h"
#include "engine/port.h"
#include "io/frames/udp_frame.h"

namespace tributary::io {

struct InMemoryPortConfig {
  uint32_t queue_count = 1;  ///< At least 1.
  engine::PacketLayer layer = engine::PacketLayer::kUdpPayload;
  Endpoint local = Endpoint::ipv4(0x7f000001, 12000);
  uint32_t payload_bytes_max = 9000;
  uint32_t rx_packets_max = 256;                  ///< Per queue; at least 1.
  uint32_t tx_packets_max = 256;                  ///< Per queue; at least 1.
  MacAddress local_mac{0x02, 0, 0, 0, 0, 0x01};   ///< For kFrame.
  MacAddress remote_mac{0x02, 0, 0, 0, 0, 0x02};  ///< For kFrame.
};

/// One transmitted packet: a whole frame for kFrame, a payload for kUdpPayload.
struct SentPacket {
  std::vector<std::byte> bytes;
  Endpoint destination;
};

class InMemoryPort final : public engine::Port {
 public:
  explicit InMemoryPort(const InMemoryPortConfig& config);
  ~InMemoryPort() override;

  [[nodiscard]] uint32_t queue_count() const override;
  [[nodiscard]] engine::PortQueue& queue(uint32_t index) override;
  [[nodiscard]] Endpoint local() const override { return config_.local; }
  [[nodiscard]] uint32_t payload_bytes_max() const override { return config_.payload_bytes_max; }

  /// Copies `bytes` unchanged to the end of the queue: a frame for kFrame, otherwise a payload.
  /// @param from Becomes Packet::source when the packet is received; kFrame packets have none.
  /// @return false if the queue is full, or if `bytes` exceed a slot (counted in rx_truncated).
  [[nodiscard]] bool inject(uint32_t queue_index, std::span<const std::byte> bytes,
                            const Endpoint& from);

  /// Injects a UDP payload from `from` to local(). A kFrame port wraps it in a frame.
  [[nodiscard]] bool inject_payload(uint32_t queue_index, std::span<const std::byte> payload,
                                    const Endpoint& from);

  /// Returns the packets that the queue has transmitted since the last call, in order, and removes
  /// them from the queue.
  [[nodiscard]] std::vector<SentPacket> take_sent(uint32_t queue_index);

  /// Returns the number of packets that inject() has queued and receive() has not taken.
  [[nodiscard]] uint32_t waiting_count(uint32_t queue_index) const;

 private:
  class Queue;
  [[nodiscard]] Queue& at(uint32_t index) const;

  const InMemoryPortConfig config_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace tributary::io
