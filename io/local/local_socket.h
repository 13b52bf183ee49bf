// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sockets of a local server: the Unix socket that opens connections, and the UDP sockets on
/// loopback that wake its cores.
///
/// Model:   A server listens on the abstract name "tributary-ADDRESS:PORT", after its UDP address.
///          Abstract names belong to a network namespace and vanish with their socket. A connection
///          gets one message: the welcome with the memory's descriptor, or a refusal.
/// Trust:   A stranger's Unix message may hold a descriptor that blocks for hours when it is
///          closed. So a server reads none, and io/local/background_close.h closes its socket.
/// Threads: Pure functions over descriptors.
/// Errors:  One line with the kernel's reason, or the field that is not allowed.
/// Tests:   tests/io/local/local_socket_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/endpoint.h"
#include "base/result.h"
#include "io/file_descriptor.h"
#include "io/local/ring_memory.h"
#include "io/udp/udp_port_config.h"

namespace tributary::io {

/// Returns the abstract name, without its leading zero byte, under which a server at this UDP
/// address listens.
[[nodiscard]] std::string local_name(const Endpoint& listen);

/// Returns true if the address is this machine's own: loopback, or an interface's.
[[nodiscard]] bool is_own_address(const Endpoint& address);

/// Opens a non-blocking socket for packets in sequence.
[[nodiscard]] Result<FileDescriptor> unix_socket();
[[nodiscard]] Result<void> bind_name(int socket, const std::string& name);
/// Connects without waiting. A server whose queue of callers is full refuses.
[[nodiscard]] Result<void> connect_name(int socket, const std::string& name);

/// Makes the peer's later sends fail.
/// @return true if a message came before: the socket must be closed in the background.
[[nodiscard]] bool end_receiving(int socket);

/// The first message of a server to a new client.
struct LocalWelcome {
  RingMemoryShape shape;
  SteeringField steering;  ///< Selects the core of a packet.
  /// For each core, the UDP port on 127.0.0.1 where one byte wakes it.
  std::array<uint16_t, kLocalCoresMax> wake_ports{};
};

/// Sends the welcome with the memory's descriptor. Never blocks. @return false if it failed.
[[nodiscard]] bool send_welcome(int socket, const LocalWelcome& welcome, int memory_fd);
/// Sends a refusal: all places are taken. Never blocks.
void send_refusal(int socket);
/// Waits for a welcome and its descriptor.
[[nodiscard]] Result<LocalWelcome> receive_welcome(int socket, FileDescriptor& memory_fd);

/// Sends one byte to wake the client, without blocking. A full socket wakes it, too.
void send_wake(int socket);

/// Opens a non-blocking UDP socket, and for a core binds it to 127.0.0.1 and a port that the kernel
/// chooses.
[[nodiscard]] Result<FileDescriptor> waker_socket();
[[nodiscard]] Result<FileDescriptor> core_wake_socket(uint16_t& port);
/// Sends one byte to a core's port, without blocking.
void send_wake_to(int socket, uint16_t port);

}  // namespace tributary::io
