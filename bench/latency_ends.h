// SPDX-License-Identifier: Apache-2.0
/// @file
/// The ends of the latency benchmark's paths: a spinning client and an echo, over a plain UDP
/// socket or a port, and two ports joined by shared memory.
///
/// Shapes:  A link has send(bytes) and receive(), which returns at once with the bytes of one
///          packet, or with none.
/// Threads: A link belongs to one thread. An echo has a thread of its own during its lifetime.
/// Errors:  Port 0 means that the socket could not be opened. A wire returns a Result.
/// Tests:   tests/bench/latency_bench_test.cc
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"
#include "engine/port.h"
#include "io/file_descriptor.h"

namespace tributary::bench {

/// A plain, non-blocking UDP socket on loopback.
class LoopbackSocket {
 public:
  LoopbackSocket();
  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] bool connect(uint16_t port) const;
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  io::FileDescriptor fd_;
  uint16_t port_ = 0;
};

class SocketLink {
 public:
  /// @param server A UDP port on loopback.
  explicit SocketLink(uint16_t server);
  [[nodiscard]] bool is_open() const { return is_open_; }
  void send(std::span<const std::byte> bytes) const;
  [[nodiscard]] std::span<const std::byte> receive();

 private:
  LoopbackSocket socket_;
  bool is_open_;
  std::vector<std::byte> received_;
};

/// Echoes packets with recvfrom() and sendto().
class SocketEcho {
 public:
  SocketEcho() : thread_([this] { run(); }) {}
  ~SocketEcho();
  SocketEcho(const SocketEcho&) = delete;
  SocketEcho& operator=(const SocketEcho&) = delete;
  [[nodiscard]] uint16_t port() const { return socket_.port(); }

 private:
  void run();
  LoopbackSocket socket_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;  ///< Last member: starts when all others exist.
};

class PortLink {
 public:
  /// @param port Must outlive this link. No other object may use its queue meanwhile.
  PortLink(engine::Port& port, const Endpoint& server) : queue_(port.queue(0)), server_(server) {}
  void send(std::span<const std::byte> bytes);
  /// Returns bytes that are valid until the next call.
  [[nodiscard]] std::span<const std::byte> receive();

 private:
  engine::PortQueue& queue_;
  const Endpoint server_;
};

/// Echoes packets with PortQueue::receive() and transmit().
class PortEcho {
 public:
  /// @param port Must outlive this echo. No other object may use its queue meanwhile.
  explicit PortEcho(engine::Port& port) : queue_(port.queue(0)), thread_([this] { run(); }) {}
  ~PortEcho();
  PortEcho(const PortEcho&) = delete;
  PortEcho& operator=(const PortEcho&) = delete;

 private:
  void run();
  engine::PortQueue& queue_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;  ///< Last member, as above.
};

/// A server's and a worker's port at the two ends of a vhost-user wire in this process.
struct SharedMemoryWire {
  // The order matters: the worker's end is destroyed first.
  std::unique_ptr<engine::Port> server;
  std::unique_ptr<engine::Port> worker;

  static Result<SharedMemoryWire> open();
};

}  // namespace tributary::bench
