// SPDX-License-Identifier: Apache-2.0
/// @file
/// The interface between packet I/O (io/) and its users: the live engine and the worker's driver.
/// Packets move in bursts, so a burst costs one virtual call.
///
/// Threads: A PortQueue and its WaitSource belong to one thread, except wake(), which any thread
///          may call.
/// Errors:  Packets that cannot be sent or are refused are counted, never reported one by one.
///          A broken port (for example, a closed socket) receives nothing.
/// Tests:   tests/io/
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"
#include "base/time.h"
#include "engine/packet.h"

struct pollfd;  // poll.h

namespace tributary::engine {

/// Most packets that receive() returns at once.
inline constexpr uint32_t kBurstPackets = 128;

/// Counts a queue's work since it was made. Written by the queue's thread, read by any thread.
struct PortCounters {
  uint64_t rx_packets = 0;
  uint64_t rx_bytes = 0;  ///< UDP payload bytes (kUdpPayload) or frame bytes (kFrame).
  uint64_t tx_packets = 0;
  uint64_t tx_bytes = 0;
  uint64_t tx_refused = 0;    ///< The port refused it (full queue, unreachable); packet lost.
  uint64_t rx_truncated = 0;  ///< Larger than a receive buffer; dropped.
  /// Times that the connected peer's machine said that nothing listens there (ICMP port
  /// unreachable). Anybody can forge this message.
  uint64_t peer_refused = 0;
  /// 1 after the peer has closed the connection, for ports that have one. Nobody else can cause it.
  uint64_t peer_closed = 0;
  /// Messages that arrived at a local address for which the port's table has no room. Replies leave
  /// from the address that the kernel chooses.
  uint64_t local_address_unknown = 0;
  uint64_t system_calls = 0;  ///< Receive, send and wait calls; 0 for ports that make none.

  friend PortCounters operator+(PortCounters a, const PortCounters& b) {
    a.rx_packets += b.rx_packets;
    a.rx_bytes += b.rx_bytes;
    a.tx_packets += b.tx_packets;
    a.tx_bytes += b.tx_bytes;
    a.tx_refused += b.tx_refused;
    a.rx_truncated += b.rx_truncated;
    a.peer_refused += b.peer_refused;
    a.peer_closed += b.peer_closed;
    a.local_address_unknown += b.local_address_unknown;
    a.system_calls += b.system_calls;
    return a;
  }
};

/// A queue whose thread can wait for it together with other queues: see io::WaitSet.
class WaitSource {
 public:
  virtual ~WaitSource() = default;
  /// Appends the descriptors that become readable when a packet may have arrived or wake() is
  /// called. @return false if a packet may be here already: nothing is appended.
  [[nodiscard]] virtual bool begin_wait(std::vector<pollfd>& polled) = 0;
  /// Ends a wait that has begun. @param polled The descriptors appended, after poll().
  virtual void end_wait(std::span<const pollfd> polled) = 0;
};

class PortQueue {
 public:
  virtual ~PortQueue() = default;

  /// Fills `burst` from its beginning; the packets stay valid until the next receive().
  /// Never blocks. @return how many were filled, at most burst.size().
  [[nodiscard]] virtual uint32_t receive(std::span<Packet> burst) = 0;

  /// Sends all of `packets` in order. The caller may change their bytes after it returns.
  virtual void transmit(std::span<const TxPacket> packets) = 0;

  /// Blocks until a packet may have arrived, wake() is called, or `at_most` has passed.
  virtual void wait(Duration at_most) = 0;

  /// Ends the current or the next wait() early. Any thread.
  virtual void wake() = 0;

  /// Returns the queue's part in a wait for several queues; null: it can only wait() alone.
  [[nodiscard]] virtual WaitSource* wait_source() { return nullptr; }

  [[nodiscard]] virtual PortCounters counters() const = 0;

  /// Returns the packets that the operating system has dropped before receive(), for example
  /// because the receive buffer was full; nothing: unknown. Modulo 2^32. Linux counts a train of
  /// packets that it has joined (UDP_GRO) as one. Makes a system call. Any thread.
  [[nodiscard]] virtual std::optional<uint64_t> rx_dropped() const { return {}; }

  /// Tells whether packets that have not left fill half of the send buffer or more, for example
  /// because nobody answers the ARP requests for their addresses. Makes a system call.
  [[nodiscard]] virtual bool is_send_crowded() const { return false; }

  /// Calls the visitor for each counter that only this kind of port has. Any thread.
  using CounterVisitor = std::function<void(const char* name, uint64_t value)>;
  virtual void visit_counters(const CounterVisitor&) const {}
};

/// Largest IP packet, rounded up to loopback's value. Source: RFC 791, RFC 8200 (16-bit length).
inline constexpr uint32_t kIpBytesMax = 65'536;

/// A port with one queue per core. The queues live as long as the port.
class Port {
 public:
  virtual ~Port() = default;
  [[nodiscard]] virtual uint32_t queue_count() const = 0;
  [[nodiscard]] virtual PortQueue& queue(uint32_t index) = 0;
  /// The address at which others reach this port.
  [[nodiscard]] virtual Endpoint local() const = 0;
  /// UDP ports, counted up from local()'s: queue i receives packets for the i-th. 1: the port
  /// chooses the queue in another way.
  [[nodiscard]] virtual uint32_t udp_ports() const { return 1; }
  /// Largest UDP payload that can be sent or received, in bytes.
  [[nodiscard]] virtual uint32_t payload_bytes_max() const = 0;
  /// Returns the size of the largest IP packet that reaches `to` in one piece, as far as the port
  /// knows. Unless a port splits packets, any payload up to payload_bytes_max() does.
  [[nodiscard]] virtual uint32_t path_mtu(const Endpoint& /*to*/) const { return kIpBytesMax; }
  /// Payload bytes that a queue buffers while nobody reads it; 0: enough, as far as it knows.
  [[nodiscard]] virtual uint32_t receive_room_bytes() const { return 0; }
  /// Joins a multicast group: queue 0 receives packets sent to this group and port. The thread of
  /// the only queue in use calls it. @return false if the port cannot join, such as a kernel socket
  /// bound to another port; an error if the group is not allowed.
  virtual Result<bool> join_group(const Endpoint&) { return false; }
  /// Returns the MAC address to which neighbours send, as a number of 48 bits. 0 if the kernel
  /// handles frames, or if the port has several devices.
  [[nodiscard]] virtual uint64_t mac() const { return 0; }
  /// Fixes a neighbour's MAC address until unpin_neighbour(), for hosts that answer no ARP. A port
  /// without frames ignores both calls. Any thread.
  virtual void pin_neighbour(const Endpoint& /*address*/, uint64_t /*mac*/) {}
  virtual void unpin_neighbour(const Endpoint& /*address*/) {}
};

}  // namespace tributary::engine
