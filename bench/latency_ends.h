// SPDX-License-Identifier: Apache-2.0
/// @file
/// The ends of the latency bench's paths: a client that spins, an echo that does nothing else, over
/// a plain UDP socket or over a port; and two ports joined by shared memory.
///
/// Shapes:  A link has send(bytes), and receive(), which returns at once with the bytes of one
///          packet or none.
/// Threads: A link belongs to one thread; an echo has one of its own as long as it lives.
/// Errors:  A port 0 is a socket that could not be opened; a wire is a Result.
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

/// A plain UDP socket on loopback that never blocks.
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

/// Sends back what comes: recvfrom() and sendto().
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
  std::thread thread_;  ///< Last: begins when the rest is there.
};

class PortLink {
 public:
  /// @param port Outlives this, and nobody else uses its queue meanwhile.
  PortLink(engine::Port& port, const Endpoint& server) : queue_(port.queue(0)), server_(server) {}
  void send(std::span<const std::byte> bytes);
  /// Valid until the next call.
  [[nodiscard]] std::span<const std::byte> receive();

 private:
  engine::PortQueue& queue_;
  const Endpoint server_;
};

/// Sends back what comes: PortQueue::receive() and transmit().
class PortEcho {
 public:
  /// As PortLink.
  explicit PortEcho(engine::Port& port) : queue_(port.queue(0)), thread_([this] { run(); }) {}
  ~PortEcho();
  PortEcho(const PortEcho&) = delete;
  PortEcho& operator=(const PortEcho&) = delete;

 private:
  void run();
  engine::PortQueue& queue_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;  ///< Last, as above.
};

/// A server's and a worker's port on both ends of a vhost-user wire in this process.
struct SharedMemoryWire {
  // In this order: the worker's end goes first.
  std::unique_ptr<engine::Port> server;
  std::unique_ptr<engine::Port> worker;

  static Result<SharedMemoryWire> open();
};

}  // namespace tributary::bench
