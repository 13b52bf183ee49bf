// SPDX-License-Identifier: Apache-2.0
/// @file
/// A server's port that serves UDP sockets and clients of this machine over shared memory at once.
///
/// Model:   Queue i polls UDP queue i and the rings of core i, and sleeps on both. Local clients
///          are senders with addresses of their own (io/local/client_address.h).
/// Threads: As UdpPort; the local server adds a thread that sleeps until a client comes or goes.
/// Errors:  As UdpPort. If the Unix socket cannot be opened, open() leaves shared memory out and
///          adds a warning.
/// Memory:  As UdpPort; each local client about 2 MB for each core.
/// Tests:   tests/io/local/udp_and_local_port_test.cc
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/local/local_server.h"
#include "io/udp/udp_port.h"

namespace tributary::io {

class UdpAndLocalPort final : public engine::Port {
 public:
  /// @param local Its `listen`, `core_count` and `steering` are set from the UDP port.
  static Result<std::unique_ptr<UdpAndLocalPort>> open(const UdpPortConfig& udp,
                                                       LocalServerConfig local = {});
  ~UdpAndLocalPort() override;

  [[nodiscard]] uint32_t queue_count() const override { return udp_->queue_count(); }
  [[nodiscard]] engine::PortQueue& queue(uint32_t index) override;
  [[nodiscard]] Endpoint local() const override { return udp_->local(); }
  [[nodiscard]] uint32_t payload_bytes_max() const override { return udp_->payload_bytes_max(); }
  [[nodiscard]] uint32_t path_mtu(const Endpoint& to) const override { return udp_->path_mtu(to); }
  [[nodiscard]] uint32_t receive_room_bytes() const override { return udp_->receive_room_bytes(); }

  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  /// Null if the Unix socket could not be opened.
  [[nodiscard]] LocalServer* local_server() const { return local_.get(); }

 private:
  class Queue;
  explicit UdpAndLocalPort(std::unique_ptr<UdpPort> udp);

  const std::unique_ptr<UdpPort> udp_;
  std::unique_ptr<LocalServer> local_;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<std::string> warnings_;
};

}  // namespace tributary::io
