// SPDX-License-Identifier: Apache-2.0
/// @file
/// A local server without UDP, whose lanes the test drives, and clients of it.
///
/// Threads: The test's thread drives all lanes and clients.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "io/local/local_port.h"
#include "io/local/local_server.h"
#include "io/udp/udp_port.h"

namespace tributary::io {

using Bytes = std::vector<std::byte>;

/// Longest wait for another thread or process.
inline constexpr std::chrono::seconds kPatience{20};

/// Calls `done` until it returns true; fails the test after kPatience.
template <class Done>
void await(Done done) {
  const auto give_up_at = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up_at);
    std::this_thread::yield();
  }
}

inline Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// A client, as a worker uses it.
struct Client {
  explicit Client(const Endpoint& address) : server(address) {
    auto opened = connect_local_port(address);
    if (opened) {
      port = *std::move(opened);
    } else {
      error = opened.error().text;
    }
  }
  /// Throws `error` if there is no connection, which fails the test.
  [[nodiscard]] engine::PortQueue& queue() const {
    if (port == nullptr) throw std::runtime_error(error);
    return port->queue(0);
  }

  void send(const Bytes& bytes) const {
    engine::TxPacket packet;
    packet.data = bytes.data();
    packet.size = static_cast<uint32_t>(bytes.size());
    packet.destination = server;
    queue().transmit(std::span(&packet, 1));
  }
  /// Returns the next packet; fails the test if none comes.
  [[nodiscard]] Bytes receive() const {
    std::array<engine::Packet, 1> burst;
    Bytes bytes;
    await([&] {
      if (queue().receive(burst) == 0) {
        queue().wait(milliseconds(100));
        return false;
      }
      EXPECT_EQ(burst[0].source, server);
      bytes.assign(burst[0].bytes().begin(), burst[0].bytes().end());
      return true;
    });
    return bytes;
  }

  Endpoint server;
  std::unique_ptr<engine::Port> port;
  std::string error;
};

/// A server at a UDP port that nobody else uses meanwhile.
class LocalBed {
 public:
  explicit LocalBed(LocalServerConfig config = {}) : config_(config) {
    port_ = UdpPort::open({.local = Endpoint::ipv4(0x7f000001, 0)}).value();
    config_.listen = port_->local();
    start();
  }

  void start() {
    auto opened = LocalServer::open(config_, [](uint32_t) {});
    ASSERT_TRUE(opened.has_value()) << opened.error().text;
    server = *std::move(opened);
  }
  [[nodiscard]] Endpoint address() const { return config_.listen; }

  /// Lets all lanes see the connections.
  void update() const {
    for (uint32_t core = 0; core < config_.core_count; core++) server->lane(core).update();
  }

  /// Returns the next packet of a core; fails the test if none comes. It stays valid until the next
  /// call.
  engine::Packet receive(uint32_t core = 0) const {
    std::array<engine::Packet, 1> burst;
    ServerLane& lane = server->lane(core);
    await([&] {
      lane.update();
      return lane.receive(burst) == 1;
    });
    return burst[0];
  }

  void send(const Bytes& bytes, const Endpoint& to, uint32_t core = 0) const {
    engine::TxPacket packet;
    packet.data = bytes.data();
    packet.size = static_cast<uint32_t>(bytes.size());
    packet.destination = to;
    server->lane(core).transmit(packet);
    server->lane(core).flush();
  }

  std::unique_ptr<LocalServer> server;

 private:
  LocalServerConfig config_;
  std::unique_ptr<UdpPort> port_;  ///< Holds the number.
};

inline Bytes copy(const engine::Packet& packet) {
  return {packet.bytes().begin(), packet.bytes().end()};
}

}  // namespace tributary::io
