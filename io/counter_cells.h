// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counters that one thread increments and any thread reads, without locked instructions.
///
/// Threads: Only the owner calls add(). Any thread calls value() and read().
/// Tests:   through each port's test in tests/io/
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/port.h"

namespace tributary::io {

class CounterCell {
 public:
  /// Adds `count`. A relaxed load and store are enough: there is one writer, and readers need each
  /// number on its own, with no order between numbers.
  void add(uint64_t count) {
    value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  [[nodiscard]] uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

/// One cell for each field of engine::PortCounters.
struct PortCounterCells {
  CounterCell rx_packets;
  CounterCell rx_bytes;
  CounterCell tx_packets;
  CounterCell tx_bytes;
  CounterCell tx_refused;
  CounterCell rx_truncated;
  CounterCell peer_refused;
  CounterCell peer_closed;
  CounterCell local_address_unknown;
  CounterCell system_calls;

  [[nodiscard]] engine::PortCounters read() const {
    return {.rx_packets = rx_packets.value(),
            .rx_bytes = rx_bytes.value(),
            .tx_packets = tx_packets.value(),
            .tx_bytes = tx_bytes.value(),
            .tx_refused = tx_refused.value(),
            .rx_truncated = rx_truncated.value(),
            .peer_refused = peer_refused.value(),
            .peer_closed = peer_closed.value(),
            .local_address_unknown = local_address_unknown.value(),
            .system_calls = system_calls.value()};
  }
};

}  // namespace tributary::io
