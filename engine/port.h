// SPDX-License-Identifier: Apache-2.0
/// @file
/// The interface between packet I/O (io/) and whoever processes packets: the live engine and the
/// worker's driver. Everything moves in bursts; a virtual call is paid once per burst.
///
/// Threads: A PortQueue belongs to one thread, except wake(), which any thread may call.
/// Errors:  Packets that could not be sent or had to be refused are counted, never reported one
///          by one. A broken port (socket closed under it) counts as receiving nothing.
/// Tests:   tests/io/
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/endpoint.h"
#include "base/result.h"
#include "base/time.h"
#include "engine/packet.h"

namespace tributary::engine {

/// Packets of one burst, the most that receive() returns at once.
inline constexpr uint32_t kBurstPackets = 128;

/// What a queue has done since it was made. Written by the queue's thread, read by any.
struct PortCounters {
  uint64_t rx_packets = 0;
  uint64_t rx_bytes = 0;  ///< UDP payload bytes (kUdpPayload) or frame bytes (kFrame).
  uint64_t tx_packets = 0;
  uint64_t tx_bytes = 0;
  uint64_t tx_refused = 0;    ///< The port took no more (full queue, unreachable); packet lost.
  uint64_t rx_truncated = 0;  ///< Larger than a receive buffer; not delivered.
  uint64_t system_calls = 0;  ///< Receive, send and wait calls; 0 for ports without.
};

class PortQueue {
 public:
  virtual ~PortQueue() = default;

  /// Fills `burst` from its beginning; the packets stay valid until the next receive().
  /// Never blocks. @return how many were filled, at most burst.size().
  [[nodiscard]] virtual uint32_t receive(std::span<Packet> burst) = 0;

  /// Sends all of `packets` in order. When it returns, their bytes may be changed.
  virtual void transmit(std::span<const TxPacket> packets) = 0;

  /// Blocks until a packet may be there, wake() was called, or `at_most` is over.
  virtual void wait(Duration at_most) = 0;

  /// Ends the current or the next wait() early. Any thread.
  virtual void wake() = 0;

  [[nodiscard]] virtual PortCounters counters() const = 0;

  /// Shows the counters that only this kind of port has, by name. Any thread.
  using CounterVisitor = std::function<void(const char* name, uint64_t value)>;
  virtual void visit_counters(const CounterVisitor&) const {}
};

/// Largest IP packet. Source: RFC 791, RFC 8200: 16 bits of length, rounded up as loopback has it.
inline constexpr uint32_t kIpBytesMax = 65'536;

/// A port with one queue per core. The queues live as long as the port.
class Port {
 public:
  virtual ~Port() = default;
  [[nodiscard]] virtual uint32_t queue_count() const = 0;
  [[nodiscard]] virtual PortQueue& queue(uint32_t index) = 0;
  /// Where others send to reach this port.
  [[nodiscard]] virtual Endpoint local() const = 0;
  /// UDP ports, from local()'s on: queue i gets what is sent to the i-th. 1: it chooses otherwise.
  [[nodiscard]] virtual uint32_t udp_ports() const { return 1; }
  /// Largest UDP payload that can be sent or received, in bytes.
  [[nodiscard]] virtual uint32_t payload_bytes_max() const = 0;
  /// Bytes of the largest IP packet that reaches `to` in one piece, as far as the port knows.
  /// Unless a port splits packets, whatever fits payload_bytes_max() does.
  [[nodiscard]] virtual uint32_t path_mtu(const Endpoint& /*to*/) const { return kIpBytesMax; }
  /// Payload that a queue holds while nobody reads it, in bytes; 0: enough, as far as it knows.
  [[nodiscard]] virtual uint32_t receive_room_bytes() const { return 0; }
  /// From now on receives, in queue 0, what is sent to this multicast group and port. Called by the
  /// thread of the only queue in use. @return false for a port that cannot, as a kernel socket
  /// that is bound to another port; an error for a group that is not allowed.
  virtual Result<bool> join_group(const Endpoint&) { return false; }
};

}  // namespace tributary::engine
