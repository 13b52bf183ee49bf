// SPDX-License-Identifier: Apache-2.0
/// @file
/// A plain UDP socket on the loopback interface, for tests of programs at the other end.
///
/// Waiting: In poll() and with a deadline.
/// Threads: One.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/endpoint.h"
#include "io/file_descriptor.h"
#include "io/udp/socket_address.h"

namespace tributary::testing {

class UdpPeer {
 public:
  /// @param host_order_address In 127.0.0.0/8.
  explicit UdpPeer(uint32_t host_order_address = INADDR_LOOPBACK)
      : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    io::SocketAddress address{};
    socklen_t size = io::to_socket_address(Endpoint::ipv4(host_order_address, 0), AF_INET, address);
    EXPECT_EQ(::bind(socket_.get(), &address.any, size), 0);
    size = sizeof address;
    EXPECT_EQ(::getsockname(socket_.get(), &address.any, &size), 0);
    at_ = io::from_socket_address(address);
  }
  [[nodiscard]] const Endpoint& at() const { return at_; }

  void send(std::span<const std::byte> datagram, const Endpoint& to) const {
    io::SocketAddress address{};
    const socklen_t size = io::to_socket_address(to, AF_INET, address);
    EXPECT_EQ(::sendto(socket_.get(), datagram.data(), datagram.size(), 0, &address.any, size),
              static_cast<ssize_t>(datagram.size()));
  }
  /// Waits for a datagram. @return nothing if none came in time.
  [[nodiscard]] std::optional<std::vector<std::byte>> receive() const {
    constexpr int kPatienceMs = 20'000;
    pollfd ready{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, kPatienceMs) != 1) return std::nullopt;
    std::vector<std::byte> bytes(65'536);
    const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return bytes;
  }

 private:
  io::FileDescriptor socket_;
  Endpoint at_;
};

}  // namespace tributary::testing
