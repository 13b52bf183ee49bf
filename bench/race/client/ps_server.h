// SPDX-License-Identifier: Apache-2.0
/// @file
/// A plain parameter server over TCP, as a rival: one thread, float32. It sums a chunk, and sends
/// the sum to all workers when all have contributed.
///
/// Model:   Sums are shared by reference until the last worker has taken them. Workers send at most
///          kPsChunksAhead chunks ahead of the sums they have, so memory is bounded.
/// Threads: One. Any thread or a signal handler may call stop().
/// Errors:  Closes a connection that breaks, sends a bad greeting or sends too far ahead. The other
///          workers then wait until the race ends the server.
/// Memory:  At most 2 x kPsChunksAhead chunks, and one per worker.
/// Tests:   tests/bench/race/client/ps_test.cc
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"
#include "bench/race/client/ps_chunks.h"

namespace tributary::race {

class PsServer {
 public:
  /// Listens on an IPv4 address; port 0 lets the kernel choose.
  static Result<std::unique_ptr<PsServer>> listen(const Endpoint& local, uint32_t workers);
  ~PsServer();
  PsServer(const PsServer&) = delete;
  PsServer& operator=(const PsServer&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }
  /// Serves until stop().
  void run();
  void stop();

 private:
  using Sum = std::shared_ptr<std::vector<float>>;
  struct Pending {
    Sum sum;
    uint32_t contributions = 0;
  };
  struct Connection;

  PsServer(int listener, int wake_read, int wake_write, uint16_t port, uint32_t workers);
  void accept_all();
  /// @return false to close the connection.
  bool read_from(Connection& connection);
  bool take_greeting(Connection& connection);
  bool take_chunk(Connection& connection);
  [[nodiscard]] Sum unused_sum();
  bool write_to(Connection& connection);

  const int listener_;
  const int wake_read_;
  const int wake_write_;
  const uint16_t port_;
  const uint32_t workers_;
  std::vector<std::unique_ptr<Connection>> connections_;
  uint64_t pending_first_ = 0;   ///< Number of the first incomplete chunk.
  std::deque<Pending> pending_;  ///< From that chunk on.
  std::vector<Sum> spare_;       ///< Reused when no connection holds them.
};

}  // namespace tributary::race
