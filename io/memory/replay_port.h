// SPDX-License-Identifier: Apache-2.0
/// @file
/// A port that measures an engine without I/O: it hands out the same prepared packets again and
/// again without a copy, and folds what is transmitted into a checksum.
///
/// Model:   A network that is never the limit; a few nanoseconds for each packet.
/// Shapes:  One ReplaySource for each queue.
/// Threads: Each queue belongs to one thread; counters() and wake() to any; checksum() and done()
///          to the queue's thread, or to any after it has stopped.
/// Errors:  None: it takes every packet.
/// Memory:  The packets are the caller's and stay so; a program that changes a packet in place
///          changes what is handed out next time round.
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
  std::span<const engine::Packet>
      packets;  ///< Not empty unless packet_count is 0; outlives the port.
  uint64_t packet_count =
      0;  ///< How many are handed out, round and round, before receive() is dry.
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

  /// All packets of the queue have been handed out.
  [[nodiscard]] bool done(uint32_t queue_index) const;

  /// Sum, modulo 2^64, over the transmitted packets of their first eight bytes as a big-endian
  /// number (shorter packets: 0) plus their size. Independent of order; keeps a benchmark's
  /// compiler from leaving out the work, and two runs comparable.
  [[nodiscard]] uint64_t checksum(uint32_t queue_index) const;

 private:
  class Queue;
  [[nodiscard]] Queue& at(uint32_t index) const;

  const Endpoint local_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace tributary::io
