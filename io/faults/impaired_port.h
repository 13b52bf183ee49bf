// SPDX-License-Identifier: Apache-2.0
/// @file
/// A port that spoils what passes through another one: packets are lost, doubled, held back past
/// later ones, or changed, each with a probability of its own.
///
/// Model:   For each packet four independent draws from the seed, in the order loss, corruption,
///          reordering, duplication. Changing one rate leaves the other draws as they are.
///          Corruption inverts one bit, and no UDP checksum catches it afterwards.
///          A reordered packet comes after 1 … reorder_packets_max later ones, or after
///          hold_calls_max calls, or at the next wait(), whichever is first.
///          A packet that is both reordered and doubled passes at once and comes again later.
/// Threads: As the inner port: each queue one thread.
/// Errors:  make() refuses rates outside 0 … 1.
/// Determinism: The same configuration, calls and inner packets give the same result.
/// Memory:  Per queue and direction 128 slots of the largest packet, taken at the start (backed by
///          the kernel when used). With all slots taken a packet passes as it is.
/// Tests:   tests/io/faults/impaired_port_test.cc
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "engine/port.h"

namespace tributary::io {

/// Probabilities, 0 to 1, each for itself.
struct FaultRates {
  double loss = 0;
  double corrupt = 0;
  double reorder = 0;
  double duplicate = 0;
};

struct ImpairmentConfig {
  FaultRates rx{};
  FaultRates tx{};
  uint32_t reorder_packets_max = 8;  ///< At least 1.
  uint32_t hold_calls_max = 64;      ///< At least 1; receive() and transmit() calls of the queue.
  uint64_t seed = 1;
};

/// What was really done to one direction of a queue.
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
  /// Its counters() are the inner queue's.
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

  /// Faults injected so far; any thread.
  [[nodiscard]] FaultCounts rx_faults(uint32_t queue_index) const;
  [[nodiscard]] FaultCounts tx_faults(uint32_t queue_index) const;

 private:
  class Queue;
  ImpairedPort(std::unique_ptr<engine::Port> inner, const ImpairmentConfig& config);

  const std::unique_ptr<engine::Port> inner_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace tributary::io
