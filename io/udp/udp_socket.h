// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens the sockets of a UDP port: binding, steering among them, buffers, multicast. All of it
/// happens once, at the start.
///
/// Threads: Any, one call at a time per result.
/// Errors:  One line that names the address or the field, and the cause.
/// Tests:   tests/io/udp/udp_port_open_test.cc
#pragma once

#include <string>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"
#include "io/file_descriptor.h"
#include "io/udp/udp_port_config.h"

namespace tributary::io {

struct UdpSockets {
  std::vector<FileDescriptor> sockets;  ///< Shape [queue_count], in the order of steering.
  int family = 0;                       ///< AF_INET or AF_INET6 (which then takes IPv4 too).
  Endpoint local;                       ///< As bound.
  bool receive_offload = false;         ///< UDP_GRO is in force.
  uint32_t receive_buffer_bytes = 0;    ///< As granted to each of them.
  std::vector<std::string> warnings;    ///< One sentence each, with the command that mends it.
};

/// Opens, binds and configures config.queue_count sockets. The port is taken exclusively: a second
/// program on it is refused by the kernel, however many queues either has.
[[nodiscard]] Result<UdpSockets> open_udp_sockets(const UdpPortConfig& config);

}  // namespace tributary::io
