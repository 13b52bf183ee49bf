// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Unix sockets of a local server: their names, and the message that opens a connection.
///
/// Model:   A server listens on the abstract name "tributary-ADDRESS:PORT", after its UDP address.
///          Abstract names belong to a network namespace and vanish with their socket. A connection
///          gets one message: the welcome with the memory's descriptor, or a refusal.
/// Threads: Pure functions over descriptors.
/// Errors:  One line with the kernel's reason, or the field that is not allowed.
/// Tests:   tests/io/local/local_socket_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"
#include "io/file_descriptor.h"
#include "io/local/ring_memory.h"
#include "io/udp/udp_port_config.h"

namespace tributary::io {

/// Returns the abstract name, without its leading zero byte, under which a server at this UDP
/// address listens.
[[nodiscard]] std::string local_name(const Endpoint& listen);
/// Returns the name of the datagram socket that wakes a core of that server.
[[nodiscard]] std::string wake_name(const std::string& local_name, uint32_t core);

/// Returns the UDP addresses at which a server for packets to `server` may listen, the most
/// specific first: the kernel chooses a UDP socket in the same order.
[[nodiscard]] std::vector<Endpoint> listen_candidates(const Endpoint& server);

/// Returns true if the address is this machine's own: loopback, or an interface's.
[[nodiscard]] bool is_own_address(const Endpoint& address);

/// Opens a non-blocking socket. `type` is SOCK_SEQPACKET or SOCK_DGRAM.
[[nodiscard]] Result<FileDescriptor> unix_socket(int type);
[[nodiscard]] Result<void> bind_name(int socket, const std::string& name);
/// Connects without waiting. A server whose queue of callers is full refuses.
[[nodiscard]] Result<void> connect_name(int socket, const std::string& name);

/// What a server tells a new client.
struct LocalWelcome {
  RingMemoryShape shape;
  SteeringField steering;  ///< Selects the core of a packet.
};

/// Sends the welcome with the memory's descriptor. Never blocks. @return false if it failed.
[[nodiscard]] bool send_welcome(int socket, const LocalWelcome& welcome, int memory_fd);
/// Sends a refusal: all places are taken. Never blocks.
void send_refusal(int socket);
/// Waits for a welcome and its descriptor.
[[nodiscard]] Result<LocalWelcome> receive_welcome(int socket, FileDescriptor& memory_fd);

/// Sends one byte to wake the other side, without blocking. A full socket wakes it, too.
void send_wake(int socket);
/// Sends one byte to the socket with this name.
void send_wake_to(int socket, const std::string& name);

}  // namespace tributary::io
