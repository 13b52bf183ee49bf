// SPDX-License-Identifier: Apache-2.0
/// @file
/// Accepts clients of this machine and gives each shared memory with rings to and from every core.
///
/// Model:   A thread waits for callers on a Unix socket. A connection ends when its client closes
///          it, dies, or breaks a ring.
/// Threads: The listener's thread owns the table; each lane belongs to its core. Any thread may
///          call stats(). No lane may be in use during the destructor.
/// Errors:  open() returns one line. Everything that a client can cause is counted in
///          LocalServerStats.
/// Memory:  Each connection takes two rings per core, about 2 MB for each core; all take 1 GB at
///          most.
/// Tests:   tests/io/local/local_port_test.cc, tests/io/local/hostile_client_test.cc
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "io/local/local_socket.h"
#include "io/local/server_lane.h"

namespace tributary::io {

/// Most memory of all rings of a server, so that strangers cannot make it take more. Assumed.
inline constexpr uint64_t kRingsBytesMax = 1U << 30;

struct LocalServerConfig {
  Endpoint listen{};  ///< The UDP address that local clients ask for; its port is not 0.
  uint32_t core_count = 1;
  SteeringField steering{};
  /// 1 to kLocalConnectionsMax. The server takes fewer if their rings need more than
  /// kRingsBytesMax.
  uint32_t connections_max = kLocalConnectionsMax;
  /// Ring size; a power of two. The default holds the largest window of a worker that chooses
  /// it automatically (768 KB), with the heads of its records.
  uint32_t ring_bytes = 1U << 20;
};

/// Returns how many connections a server allows: 64 with up to 8 cores and the default rings, 8
/// with 64 cores.
[[nodiscard]] uint32_t connections_allowed(const LocalServerConfig& config);

struct LocalServerStats {
  std::string socket;        ///< The name of the Unix socket, with @ for its zero byte.
  uint32_t connections = 0;  ///< Open at the moment.
  uint64_t connections_opened = 0;
  uint64_t connections_closed = 0;   ///< By the client, or by its end.
  uint64_t connections_broken = 0;   ///< The client broke the ring's rules.
  uint64_t connections_refused = 0;  ///< All places were taken.
  uint64_t connections_failed = 0;   ///< The kernel gave no memory or descriptors.
  engine::PortCounters packets;      ///< Packet counters, summed over all lanes.
};

class LocalServer {
 public:
  /// Starts to listen.
  /// @param wake_core Ends the sleep of a core; any thread may call it.
  static Result<std::unique_ptr<LocalServer>> open(const LocalServerConfig& config,
                                                   std::function<void(uint32_t core)> wake_core);
  ~LocalServer();
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  [[nodiscard]] ServerLane& lane(uint32_t core) { return *lanes_[core]; }

  [[nodiscard]] LocalServerStats stats() const;

 private:
  LocalServer(const LocalServerConfig& config, std::function<void(uint32_t)> wake_core);
  Result<void> start();
  void listen();
  [[nodiscard]] FileDescriptor accept() const;
  void accept_all();
  void refuse_callers();
  void open_connection(FileDescriptor control);
  void close_connections(uint64_t gone);
  void close_place(uint32_t place, CounterCell& reason);
  void free_places();
  void publish_active(uint64_t active);

  const LocalServerConfig config_;
  const std::function<void(uint32_t core)> wake_core_;
  const std::string name_;
  FileDescriptor listener_;
  FileDescriptor wake_event_;
  std::vector<FileDescriptor> wake_sockets_;  ///< One per core.
  LocalWelcome welcome_;
  ConnectionTable table_;
  std::vector<std::unique_ptr<ServerLane>> lanes_;

  // The listener's thread.
  uint64_t closing_ = 0;          ///< Bit i: places[i] is closed, but a lane may still use it.
  uint64_t closing_version_ = 0;  ///< All lanes must have seen it before the places are free.
  uint64_t numbers_ = 0;          ///< Connections since the start.

  CounterCell opened_;
  CounterCell closed_;
  CounterCell broken_;
  CounterCell refused_;
  CounterCell failed_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace tributary::io
