// SPDX-License-Identifier: Apache-2.0
/// @file
/// A port that measures an engine without I/O. It hands out the same prepared packets repeatedly,
/// without copying them, and adds the transmitted packets to a checksum.
///
/// Model:   A network that is never the bottleneck; a few nanoseconds per packet.
/// Shapes:  One ReplaySource per queue.
/// Threads: Each queue belongs to one thread. Any thread may call counters() and wake(). Only the
///          queue's thread may call checksum() and done() until it has stopped.
/// Errors:  None: it takes every packet.
/// Memory:  The caller owns the packets. If a program changes a packet in place, the next round
///          hands out the changed packet.
/// Tests:   tests/io/memory/replay_port_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/endpoint.h"
#include "engine/port.h"

namespace tributary::io {

struct ReplaySource {
  /// Not empty unless packet_count is 0; must outlive the port.
  std::span<const engine::Packet> packets;
  /// Packets that receive() hands out, in rounds, before the queue is empty.
  uint64_t packet_count = 0;
};

class ReplayPort final : public engine::Port {
 public:
  /// @param sources Shape [queue_count], at least one.
  explicit ReplayPort(std::span<const ReplaySource> sources,
                      const Endpoint& local = Endpoint::ipv4(0x7f000001, 12000));
  ~ReplayPort() override;

  [[nodiscard]] uint32_t queue_count() const override;
  [[nodiscard]] engine::PortQueue& queue(uint32_t index) override;
  [[nodiscard]] Endpoint local() const override { return local_; }
  [[nodiscard]] uint32_t payload_bytes_max() const override;

  /// Returns true if the queue has handed out all its packets.
  [[nodiscard]] bool done(uint32_t queue_index) const;

  /// Returns a sum, modulo 2^64, over the transmitted packets. Each packet adds its size and its
  /// first eight bytes as a big-endian number (0 if it is shorter). The order does not matter. The
  /// checksum stops the compiler from removing the work, and lets two runs be compared.
  [[nodiscard]] uint64_t checksum(uint32_t queue_index) const;

 private:
  class Queue;
  [[nodiscard]] Queue& at(uint32_t index) const;

  const Endpoint local_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace tributary::io
