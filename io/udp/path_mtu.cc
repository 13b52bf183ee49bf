// SPDX-License-Identifier: Apache-2.0
#include "io/udp/path_mtu.h"

#include <netinet/in.h>
#include <netinet/ip.h>
#include <sys/socket.h>

#include <algorithm>

#include "io/file_descriptor.h"
#include "io/udp/socket_address.h"

namespace tributary::io {

uint32_t path_mtu(const Endpoint& to) {
  const int family = to.is_ipv4() ? AF_INET : AF_INET6;
  const FileDescriptor socket(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress address{};
  const socklen_t address_size = to_socket_address(to, family, address);
  int mtu = 0;
  socklen_t mtu_size = sizeof mtu;
  // Connecting a datagram socket only looks up the route.
  const bool known = socket.is_open() && ::connect(socket.get(), &address.any, address_size) == 0 &&
                     ::getsockopt(socket.get(), family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6,
                                  family == AF_INET ? IP_MTU : IPV6_MTU, &mtu, &mtu_size) == 0;
  return known ? std::max(static_cast<uint32_t>(std::max(mtu, 0)), kPathMtuMin) : kPathMtuMin;
}

}  // namespace tributary::io
