// SPDX-License-Identifier: Apache-2.0
/// @file
/// A `tributary serve` started by a benchmark, and outside observations of it: its counters, its
/// memory, its open files and the kernel's drops on its sockets.
///
/// Units:   Bytes; counters since the server's start.
/// Threads: One.
/// Errors:  Values, for a server that does not start or does not answer in time.
/// Tests:   tests/bench/soak/server_watch_test.cc
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/endpoint.h"
#include "base/result.h"

namespace tributary::soak {

/// Socket buffer of the server, which the kernel doubles. Small, so that the windows of many
/// workers together overflow it.
inline constexpr uint32_t kServerBufferMb = 1;
inline constexpr uint32_t kServerSocketBytes = 2 * (kServerBufferMb << 20);

/// One observation of the server.
struct ServerState {
  uint64_t rx_packets = 0;      ///< Packets that the server read from its sockets.
  uint64_t socket_drops = 0;    ///< Packets that its sockets had no room for.
  uint64_t blocks_open = 0;     ///< Blocks in progress, over all jobs.
  uint64_t buffers_free = 0;    ///< Unused aggregation buffers, over all jobs.
  uint64_t sessions_open = 0;   ///< Jobs with a running session.
  uint64_t resident_bytes = 0;  ///< Resident memory of the process.
  uint64_t open_files = 0;      ///< Open file descriptors of the process.

  friend bool operator==(const ServerState&, const ServerState&) = default;
};

/// Reads the counters from the JSON of `tributary serve`. Refuses any other text.
[[nodiscard]] Result<ServerState> state_in(const std::string& serve_json);

/// Returns the drops of all sockets bound to `port`, from the text of /proc/net/udp or udp6.
[[nodiscard]] uint64_t socket_drops_in(const std::string& udp_table, uint16_t port);

/// A server to start.
struct ServerPlan {
  std::string program;            ///< Path of `tributary`.
  std::vector<std::string> jobs;  ///< Values of --job.
  std::filesystem::path scratch;  ///< Folder for its counters.
  std::vector<std::string>
      where;  ///< Words before the command, as of `ip netns exec`; may be empty.
  std::string host = "127.0.0.1";  ///< IPv4 address to listen at.
  uint16_t port = 0;               ///< 0: a free one.
};

class ServerWatch {
 public:
  /// Starts a server and waits until it is ready.
  static Result<ServerWatch> start(const ServerPlan& plan);

  [[nodiscard]] const Endpoint& address() const { return address_; }
  [[nodiscard]] pid_t pid() const { return process_.pid(); }
  void signal(int number) { process_.signal(number); }
  /// Waits until the process has ended. @return whether it did so in time.
  bool await_end();
  /// Requests the counters and waits for them.
  Result<ServerState> look();

 private:
  ServerWatch(ChildProcess process, Endpoint address, std::filesystem::path json)
      : process_(std::move(process)), address_(address), json_(std::move(json)) {}
  Result<void> await_ready();

  ChildProcess process_;
  Endpoint address_;
  std::filesystem::path json_;
};

}  // namespace tributary::soak
