// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens packet sockets (AF_PACKET), and reads the interfaces that they are for.
///
/// Errors:  One line that names the cause and the remedy.
/// Threads: Any.
/// Tests:   tests/io/packet/packet_socket_test.cc
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "io/file_descriptor.h"

namespace tributary::io {

template <class T>
bool set_socket_option(const FileDescriptor& socket, int level, int name, const T& value) {
  return ::setsockopt(socket.get(), level, name, &value, sizeof value) == 0;
}

struct PacketSocket {
  FileDescriptor descriptor;
  uint32_t receive_buffer_bytes = 0;  ///< Granted by the kernel.
};

/// Opens a socket that receives frames with their VLAN tags as messages, but none that this machine
/// sends. It receives nothing until it is bound to an interface.
/// @param receive_buffer_bytes The size to ask for; at most 1 GiB.
[[nodiscard]] Result<PacketSocket> open_packet_socket(uint32_t receive_buffer_bytes);

/// An Ethernet interface that is up.
struct EthernetInterface {
  int index = 0;
  std::array<uint8_t, 6> mac{};
  uint32_t mtu = 0;  ///< Bytes of an IP packet.
};

/// @param socket Any socket. @return An error if the interface is absent, down or not Ethernet.
[[nodiscard]] Result<EthernetInterface> read_ethernet_interface(const FileDescriptor& socket,
                                                                const std::string& name);

}  // namespace tributary::io
