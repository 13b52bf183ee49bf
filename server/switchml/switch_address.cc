// SPDX-License-Identifier: Apache-2.0
#include "server/switchml/switch_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "base/errno_text.h"
#include "io/file_descriptor.h"
#include "io/udp/socket_address.h"

namespace tributary::server {
namespace {

/// Returns the address from which this machine would send to `worker`. Sends nothing.
Result<in_addr> source_towards(const Endpoint& worker) {
  const auto refuse = [&worker] {
    return system_failure(errno, fmt::format("no route to worker {}", worker.to_string()));
  };
  const io::FileDescriptor probe(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe.is_open()) return refuse();
  io::SocketAddress address{};
  const socklen_t size = io::to_socket_address(worker, AF_INET, address);
  if (::connect(probe.get(), &address.any, size) != 0) return refuse();
  socklen_t local_size = sizeof address;
  if (::getsockname(probe.get(), &address.any, &local_size) != 0) return refuse();
  return address.v4.sin_addr;
}

uint64_t mac_from(const sockaddr_ll& link) {
  uint64_t mac = 0;
  for (uint32_t i = 0; i < 6; i++) mac = mac << 8 | link.sll_addr[i];
  return mac;
}

/// Returns the MAC of the interface with this address; 0 if there is none.
uint64_t mac_of(in_addr address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return 0;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::string interface;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in found{};
    std::memcpy(&found, at->ifa_addr, sizeof found);
    if (found.sin_addr.s_addr == address.s_addr) interface = at->ifa_name;
  }
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_PACKET) continue;
    if (interface != at->ifa_name) continue;
    sockaddr_ll link{};
    std::memcpy(&link, at->ifa_addr, sizeof link);
    return mac_from(link);
  }
  return 0;
}

}  // namespace

Result<SwitchAddress> switch_address(const Endpoint& listen, const Endpoint& worker) {
  in_addr address = io::ipv4_address(listen);
  if (io::is_wildcard(listen)) {
    const auto source = source_towards(worker);
    if (!source) return tl::unexpected(source.error());
    address = *source;
  }
  return SwitchAddress{.mac = mac_of(address), .ipv4 = ntohl(address.s_addr)};
}

}  // namespace tributary::server
