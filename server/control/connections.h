// SPDX-License-Identifier: Apache-2.0
/// @file
/// The connections of an HTTP server. One thread accepts them, reads whole requests, and writes the
/// answers, so that a slow client occupies none of the threads that answer.
///
/// States:  reading -> answering -> writing -> ending. Clients delay all but answering.
/// Bounds:  kConnectionsMax: a further one closes an ending connection; if there is none, a reading
///          one; else a writing one. A request has kRequestBytesMax and kRequestWithin. An answer
///          has kRequestWithin and a second per kAnswerBytesPerS. Unsent answers occupy at most
///          kAnswersBytesMax beside the largest one.
/// Errors:  Without a free file descriptor, new connections wait in the kernel's queue.
/// Threads: answer() and the counters: any. Everything else: the owner.
/// Tests:   tests/server/control/http_server_tcp_test.cc, http_server_test.cc
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "io/file_descriptor.h"
#include "server/control/request_reader.h"

namespace tributary::control {

inline constexpr size_t kConnectionsMax = 256;
/// A client that needs longer to send its request is disconnected.
inline constexpr std::chrono::milliseconds kRequestWithin{2000};
/// A client that takes a long answer more slowly is disconnected. Assumed: slower than any link
/// that an operator uses.
inline constexpr size_t kAnswerBytesPerS = size_t{1} << 20;
inline constexpr size_t kAnswersBytesMax = size_t{64} << 20;

/// The end of a connection.
enum class ConnectionEnd : uint8_t {
  kAnswered,
  kTimedOut,   ///< The client took too long to send its request, or to take the answer.
  kDisplaced,  ///< Too many connections, or too many bytes of answers.
  kClosed,     ///< The client closed it before it had its answer.
};
inline constexpr uint32_t kConnectionEndCount = 4;
[[nodiscard]] const char* to_string(ConnectionEnd end);

/// Ended connections, in the order of ConnectionEnd. Relaxed: statistics, which order nothing else.
using ConnectionCounters = std::array<std::atomic<uint64_t>, kConnectionEndCount>;

class Connections {
 public:
  /// Takes a whole request, whose answer comes with answer(id, …). Must not block.
  using Take = std::function<void(uint64_t id, std::string request)>;

  /// @param listener A listening socket that does not block.
  /// @param counters Must outlive this object.
  Connections(io::FileDescriptor listener, ConnectionCounters& counters);
  ~Connections() { stop(); }
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// Starts the thread. Call it once. @return an Error if the process has no free descriptor.
  [[nodiscard]] Result<void> start(Take take);
  /// Closes all connections and ends the thread. Idempotent.
  void stop();
  /// Sends the answer to the request with this id, if its connection still exists.
  void answer(uint64_t id, std::string bytes);

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : uint8_t { kReading, kAnswering, kWriting, kEnding };
  struct Connection {
    uint64_t id;
    io::FileDescriptor socket;
    std::string address;  ///< Address of the client; empty on a Unix socket.
    Clock::time_point deadline;
    State state = State::kReading;
    RequestReader request = {};
    std::string answer = {};
    size_t sent_bytes = 0;     ///< Sent bytes of the answer.
    size_t drained_bytes = 0;  ///< Bytes that came after the request.
  };
  /// Whether a connection stays.
  enum class Next : uint8_t { kStays, kGone };

  void run();
  /// Waits until something can be done. @return the events of each connection.
  [[nodiscard]] std::vector<int16_t> wait();
  [[nodiscard]] int wait_ms() const;
  void take_answers();
  void accept_some();
  [[nodiscard]] bool has_room() const;
  /// Closes a connection to make room for a new one. Of the ending connections, whose answers have
  /// been sent, it closes the oldest one of the address that has the most of them. If there are
  /// none, it chooses from the reading connections in the same way, else from the writing ones.
  void displace();
  /// Closes the oldest connections with answers until all but the largest answer, the newest of
  /// that size, fit into kAnswersBytesMax. A recording may be larger than that.
  void limit_answers();
  Next serve(Connection& connection);
  Next read(Connection& connection);
  Next write(Connection& connection);
  Next drain_request(Connection& connection);
  Next end(ConnectionEnd how);

  const io::FileDescriptor wake_;
  const io::FileDescriptor listener_;
  ConnectionCounters& counters_;
  Take take_;
  // Of the thread.
  std::vector<std::unique_ptr<Connection>> connections_;  ///< Oldest first.
  uint64_t next_id_ = 0;
  Clock::time_point accept_at_{};  ///< No connection is accepted before.

  std::mutex mutex_;  ///< Guards the rest.
  std::vector<std::pair<uint64_t, std::string>> answers_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tributary::control
