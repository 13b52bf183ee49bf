// SPDX-License-Identifier: Apache-2.0
#include "io/udp/free_port.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tributary::io {

Result<uint16_t> free_port(Transport transport) {
  const bool udp = transport == Transport::kUdp;
  const int probe = socket(AF_INET, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool found = bind(probe, generic, size) == 0 && getsockname(probe, generic, &size) == 0;
  const int reason = errno;
  if (probe >= 0) close(probe);
  if (found) return ntohs(address.sin_port);
  return failure(
      fmt::format("no free {} port on 127.0.0.1: {}", udp ? "UDP" : "TCP", std::strerror(reason)));
}

}  // namespace tributary::io
