// SPDX-License-Identifier: Apache-2.0
/// @file
/// A port that injects faults into the traffic of another port. Each packet may be lost, corrupted,
/// reordered or duplicated, and each fault has its own probability.
///
/// Model:   Each packet takes four independent draws from the seed: loss, corruption, reordering,
///          duplication. Changing one rate leaves the other draws unchanged.
/// Determinism: The same configuration, calls and inner packets give the same result.
/// Threads: As the inner port: each queue belongs to one thread.
/// Errors:  make() refuses rates outside 0 … 1.
/// Memory:  128 slots of the largest packet per queue and direction, taken at the start. If all are
///          in use, a fault that needs a slot is skipped.
/// Tests:   tests/io/faults/impaired_port_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "engine/port.h"

namespace tributary::io {

/// Probabilities from 0 to 1, drawn independently.
struct FaultRates {
  double loss = 0;
  /// Inverts one bit. No UDP checksum catches it afterwards.
  double corrupt = 0;
  /// Holds the packet back. A packet that is also duplicated passes at once and once more later.
  double reorder = 0;
  double duplicate = 0;
};

struct ImpairmentConfig {
  FaultRates rx{};
  FaultRates tx{};
  /// A reordered packet comes after 1 … reorder_packets_max later packets. It comes sooner at the
  /// next wait(), or after hold_calls_max calls.
  uint32_t reorder_packets_max = 8;  ///< At least 1.
  uint32_t hold_calls_max = 64;      ///< At least 1; counts the queue's receive() and transmit().
  uint64_t seed = 1;
};

/// The faults injected into one direction of a queue.
struct FaultCounts {
  uint64_t lost = 0;
  uint64_t corrupted = 0;
  uint64_t reordered = 0;
  uint64_t duplicated = 0;

  friend bool operator==(const FaultCounts&, const FaultCounts&) = default;
};

class ImpairedPort final : public engine::Port {
 public:
  /// Wraps `inner`, which must not be null.
  static Result<std::unique_ptr<ImpairedPort>> make(std::unique_ptr<engine::Port> inner,
                                                    const ImpairmentConfig& config);
  ~ImpairedPort() override;

  [[nodiscard]] uint32_t queue_count() const override;
  /// The queue's counters() are those of the inner queue.
  [[nodiscard]] engine::PortQueue& queue(uint32_t index) override;
  [[nodiscard]] Endpoint local() const override { return inner_->local(); }
  [[nodiscard]] uint32_t payload_bytes_max() const override { return inner_->payload_bytes_max(); }
  [[nodiscard]] uint32_t path_mtu(const Endpoint& to) const override {
    return inner_->path_mtu(to);
  }
  [[nodiscard]] uint32_t receive_room_bytes() const override {
    return inner_->receive_room_bytes();
  }
  Result<bool> join_group(const Endpoint& group) override { return inner_->join_group(group); }

  /// Return the faults injected so far. Any thread may call them.
  [[nodiscard]] FaultCounts rx_faults(uint32_t queue_index) const;
  [[nodiscard]] FaultCounts tx_faults(uint32_t queue_index) const;

 private:
  class Queue;
  ImpairedPort(std::unique_ptr<engine::Port> inner, const ImpairmentConfig& config);

  const std::unique_ptr<engine::Port> inner_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace tributary::io
