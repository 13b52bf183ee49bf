// SPDX-License-Identifier: Apache-2.0
/// @file
/// A port without a network, for tests and demonstrations: what a test injects is received, what
/// the engine transmits is kept for the test to look at.
///
/// Shapes:  `queue_count` queues, each with a bounded ring of packets in either direction.
/// Units:   Bytes; counters count frame bytes for kFrame, payload bytes for kUdpPayload.
/// Threads: The PortQueue side belongs to the queue's thread; the test's side may be another one (a
///          short lock for each call). wait() returns at once: time is the test's.
/// Errors:  A full ring refuses: inject() returns false, transmit() counts tx_refused.
/// Memory:  The rings are taken in the constructor; only take_sent() allocates.
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
  uint32_t rx_packets_max = 256;  ///< At least 1, as the next; in each queue.
  uint32_t tx_packets_max = 256;
  MacAddress local_mac{0x02, 0, 0, 0, 0, 0x01};  ///< For kFrame, as the next.
  MacAddress remote_mac{0x02, 0, 0, 0, 0, 0x02};
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

  /// Copies `bytes` to the end of the queue as they are: a frame for kFrame, a payload else.
  /// @param from Packet::source of what is received; kFrame packets have none.
  /// @return false when the queue is full or `bytes` exceed a slot (counted in rx_truncated).
  [[nodiscard]] bool inject(uint32_t queue_index, std::span<const std::byte> bytes,
                            const Endpoint& from);

  /// The same for a UDP payload from `from` to local(), which kFrame wraps in a frame.
  [[nodiscard]] bool inject_payload(uint32_t queue_index, std::span<const std::byte> payload,
                                    const Endpoint& from);

  /// What the queue has transmitted since the last call, in order; forgets it.
  [[nodiscard]] std::vector<SentPacket> take_sent(uint32_t queue_index);

  /// Packets that inject() has put there and receive() has not taken.
  [[nodiscard]] uint32_t waiting_count(uint32_t queue_index) const;

 private:
  class Queue;
  [[nodiscard]] Queue& at(uint32_t index) const;

  const InMemoryPortConfig config_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace tributary::io
