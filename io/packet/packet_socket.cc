// SPDX-License-Identifier: Apache-2.0
#include "io/packet/packet_socket.h"

#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/errno_text.h"

namespace tributary::io {

Result<PacketSocket> open_packet_socket(uint32_t receive_buffer_bytes) {
  PacketSocket opened;
  // Protocol 0 receives nothing until the socket is bound to the interface.
  opened.descriptor =
      FileDescriptor(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const FileDescriptor& socket = opened.descriptor;
  if (!socket.is_open()) {
    const int error = errno;
    return failure(fmt::format("cannot open a packet socket: {}; to fix: run as root, or: setcap "
                               "cap_net_raw+ep on this program",
                               errno_text(error)),
                   errno_kind(error));
  }
  const bool marked = set_socket_option(socket, SOL_PACKET, PACKET_AUXDATA, int{1}) &&
                      set_socket_option(socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, int{1});
  if (!marked) return system_failure(errno, "needs Linux 4.20 or newer");
  const int wanted = static_cast<int>(std::min(receive_buffer_bytes, 1U << 30));
  if (!set_socket_option(socket, SOL_SOCKET, SO_RCVBUFFORCE, wanted)) {
    set_socket_option(socket, SOL_SOCKET, SO_RCVBUF, wanted);
  }
  int granted = 0;
  socklen_t size = sizeof granted;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &granted, &size);
  opened.receive_buffer_bytes =
      static_cast<uint32_t>(granted) / 2;  // The kernel reports twice that.
  return opened;
}

Result<EthernetInterface> read_ethernet_interface(const FileDescriptor& socket,
                                                  const std::string& name) {
  EthernetInterface interface;
  interface.index = static_cast<int>(::if_nametoindex(name.c_str()));
  if (interface.index == 0) {
    return failure(fmt::format("there is no interface '{}'; see: ip link", name));
  }
  ifreq request{};
  name.copy(request.ifr_name, IF_NAMESIZE - 1);
  const auto ask = [&](unsigned long what) { return ::ioctl(socket.get(), what, &request) == 0; };
  if (!ask(SIOCGIFFLAGS)) return system_failure(errno, name);
  if ((request.ifr_flags & IFF_UP) == 0) {
    return failure(fmt::format("{} is down; to fix: ip link set dev {} up", name, name));
  }
  if (!ask(SIOCGIFHWADDR) || request.ifr_hwaddr.sa_family != ARPHRD_ETHER) {
    return failure(fmt::format("{} is not an Ethernet interface; see: ip link", name));
  }
  std::memcpy(interface.mac.data(), request.ifr_hwaddr.sa_data, interface.mac.size());
  if (!ask(SIOCGIFMTU)) return system_failure(errno, name);
  interface.mtu = static_cast<uint32_t>(request.ifr_mtu);
  return interface;
}

}  // namespace tributary::io
