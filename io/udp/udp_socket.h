// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens the sockets of a UDP port: binding, steering, buffers and multicast. This happens once, at
/// the start.
///
/// Threads: Any, but one call at a time per result.
/// Errors:  One line that names the address or the field, and the cause.
/// Tests:   tests/io/udp/udp_port_open_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"
#include "io/file_descriptor.h"
#include "io/udp/udp_port_config.h"

namespace tributary::io {

struct UdpSockets {
  std::vector<FileDescriptor> sockets;  ///< Shape [queue_count], in the order of steering.
  int family = 0;                       ///< AF_INET, or AF_INET6, which takes IPv4 too.
  Endpoint local;                       ///< The bound address.
  bool receive_offload = false;         ///< True if UDP_GRO is active.
  /// True if each message comes with the local address at which it arrived.
  bool tells_local_address = false;
  uint32_t receive_buffer_bytes = 0;  ///< Granted to each socket.
  std::vector<std::string> warnings;  ///< One sentence each, with the command to fix it.
};

/// Opens, binds and configures config.queue_count sockets. The port is exclusive: the kernel
/// refuses a second program on it, whatever its queue count.
[[nodiscard]] Result<UdpSockets> open_udp_sockets(const UdpPortConfig& config);

/// Returns the packets that the kernel has dropped at this socket; nothing: it does not tell. See
/// engine::PortQueue::rx_dropped().
[[nodiscard]] std::optional<uint64_t> udp_rx_dropped(int socket);

/// Tells whether packets that have not left fill half of the send buffer or more. See
/// engine::PortQueue::is_send_crowded().
[[nodiscard]] bool udp_send_is_crowded(int socket);

}  // namespace tributary::io
