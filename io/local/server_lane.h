// SPDX-License-Identifier: Apache-2.0
/// @file
/// One core's side of all local connections of a server: its ring to and from each client.
///
/// Model:   The listener's thread puts connections into a table and takes them out; a lane looks at
///          the table when its version has changed. The listener frees a connection after every
///          lane has seen a version without it.
/// Threads: A lane belongs to its core. seen_version() and counters(): any thread.
/// Errors:  A client that breaks a ring is marked in the table, and its connection ends. A packet
///          without room or client is counted in tx_refused.
/// Memory:  About 260 KB per lane; the rings belong to the connections.
/// Tests:   tests/io/local/local_port_test.cc, tests/io/local/hostile_client_test.cc
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/port.h"
#include "io/counter_cells.h"
#include "io/local/client_address.h"
#include "io/local/packet_stage.h"
#include "io/local/ring_memory.h"

namespace tributary::io {

/// Most local connections of a server: the bits of a word.
inline constexpr uint32_t kLocalConnectionsMax = 64;

/// A client's connection; does not change while it is in the table.
struct LocalConnection {
  Endpoint client;
  FileDescriptor control;  ///< The Unix connection; wakes the client.
  RingMemory memory;
};

/// The connections that lanes may use. Written by the listener's thread, except `broken`.
struct ConnectionTable {
  /// Changes after `active` has changed. Release, with acquire in the lanes: they see the places.
  alignas(128) std::atomic<uint64_t> version{0};
  std::atomic<uint64_t> active{0};  ///< Bit i: places[i] is in use.
  std::array<std::optional<LocalConnection>, kLocalConnectionsMax> places;
  /// Bit i: the client of places[i] broke a ring. Set by lanes, cleared by the listener.
  alignas(128) std::atomic<uint64_t> broken{0};
};

class alignas(128) ServerLane {
 public:
  /// The caller keeps ownership of both descriptors.
  /// @param wake_fd     Non-blocking UDP socket that clients write to wake the core.
  /// @param listener_fd Eventfd that makes the listener look at the table's `broken`.
  ServerLane(ConnectionTable& table, uint32_t core, int wake_fd, int listener_fd)
      : table_(table), core_(core), wake_fd_(wake_fd), listener_fd_(listener_fd) {}

  /// Takes note of new and closed connections. Call it before each receive().
  void update() {
    const uint64_t version = table_.version.load(std::memory_order_acquire);
    if (version != version_) [[unlikely]] {
      take_version(version);
    }
  }
  /// Returns true if this core has had a local client since the start.
  [[nodiscard]] bool in_use() const { return version_ != 0; }

  /// Fills `burst` from the clients' rings, from each in turn. The packets stay valid until the
  /// next call. @return how many were filled.
  [[nodiscard]] uint32_t receive(std::span<engine::Packet> burst);

  /// Copies a packet into its client's ring; flush() shows it to the client.
  void transmit(const engine::TxPacket& packet);
  /// Shows the packets of the last transmits to the clients, and wakes those that sleep.
  void flush();

  /// Asks the clients to wake this core by its UDP socket on loopback. @return false if a packet is
  /// there.
  [[nodiscard]] bool prepare_sleep();
  /// Withdraws the request.
  void end_sleep();
  /// Reads the datagrams that woke the core.
  void drain_wakes();

  [[nodiscard]] int wake_fd() const { return wake_fd_; }
  [[nodiscard]] uint64_t seen_version() const {
    return seen_version_.load(std::memory_order_acquire);
  }
  [[nodiscard]] engine::PortCounters counters() const { return counters_.read(); }

 private:
  struct Client {
    RingReader from;
    RingWriter to;
    Endpoint address;
    int control;
  };

  void take_version(uint64_t version);
  void mark_broken(uint32_t place);

  ConnectionTable& table_;
  const uint32_t core_;
  const int wake_fd_;
  const int listener_fd_;
  uint64_t version_ = 0;
  uint64_t in_use_ = 0;   ///< Bit i: clients_[i] is connected.
  uint64_t written_ = 0;  ///< Bit i: clients_[i] has packets to be shown.
  uint32_t first_ = 0;    ///< The place that is asked first next time.
  std::array<std::optional<Client>, kLocalConnectionsMax> clients_;
  PacketStage stage_;
  PortCounterCells counters_;
  std::atomic<uint64_t> seen_version_{0};  ///< Read by the listener's thread.
};

}  // namespace tributary::io
