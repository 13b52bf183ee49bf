// SPDX-License-Identifier: Apache-2.0
/// @file
/// A client of the control API over TCP that can misbehave.
///
/// Waiting: In poll(), for at most kPatience; only a failure takes this long.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <string>

#include "io/file_descriptor.h"
#include "io/udp/free_port.h"
#include "io/udp/socket_address.h"

namespace tributary::testing {

inline constexpr int kPatienceMs = 60'000;

class TcpClient {
 public:
  TcpClient() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {}
  explicit TcpClient(const Endpoint& to) : TcpClient() { connect(to); }
  /// Connects from this address of the loopback network, from any port.
  TcpClient(const Endpoint& from, const Endpoint& to) : TcpClient() {
    io::SocketAddress address{};
    const socklen_t size = io::to_socket_address(from, AF_INET, address);
    EXPECT_EQ(::bind(socket_.get(), &address.any, size), 0);
    connect(to);
  }

  /// Begins to connect, without waiting.
  void connect(const Endpoint& to) {
    io::SocketAddress address{};
    const socklen_t size = io::to_socket_address(to, AF_INET, address);
    static_cast<void>(::connect(socket_.get(), &address.any, size));
  }
  /// Sends the bytes as soon as the connection stands.
  void send(const std::string& bytes) const {
    if (!wait_for(POLLOUT, kPatienceMs)) ADD_FAILURE() << "the server does not accept";
    static_cast<void>(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  /// Returns everything that the server sends until it disconnects.
  [[nodiscard]] std::string receive() const {
    std::string answer;
    std::array<char, 4096> buffer;
    while (wait_for(POLLIN, kPatienceMs)) {
      const ssize_t size = recv(socket_.get(), buffer.data(), buffer.size(), 0);
      if (size <= 0) return answer;
      answer.append(buffer.data(), static_cast<size_t>(size));
    }
    ADD_FAILURE() << "the server does not disconnect";
    return answer;
  }
  /// Tells whether the server has disconnected.
  [[nodiscard]] bool is_disconnected() const {
    char byte = 0;
    return wait_for(POLLIN, 0) && recv(socket_.get(), &byte, 1, MSG_PEEK) <= 0;
  }
  [[nodiscard]] bool wait_for(int16_t event, int timeout_ms) const {
    pollfd file{socket_.get(), event, 0};
    return poll(&file, 1, timeout_ms) == 1;
  }

 private:
  io::FileDescriptor socket_;
};

/// Sends the bytes and returns the answer.
[[nodiscard]] inline std::string talk(const Endpoint& to, const std::string& bytes) {
  const TcpClient client(to);
  client.send(bytes);
  return client.receive();
}

/// Returns an address of 127.0.0.1 at which nobody listens.
[[nodiscard]] inline Endpoint free_tcp_address() {
  const auto port = io::free_port(io::Transport::kTcp);
  EXPECT_TRUE(port.has_value());
  return Endpoint::ipv4(0x7f000001, port.value_or(uint16_t{1}));
}

}  // namespace tributary::testing
