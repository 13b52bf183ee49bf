// SPDX-License-Identifier: Apache-2.0
#include "io/udp/udp_socket.h"

#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <array>
#include <bit>
#include <cerrno>

#include "base/errno_text.h"
#include "io/descriptor_limit.h"
#include "io/udp/socket_address.h"

namespace tributary::io {
namespace {

template <class T>
bool set_option(int socket, int level, int name, const T& value) {
  return setsockopt(socket, level, name, &value, sizeof value) == 0;
}

Result<bool> check(const UdpPortConfig& config) {
  if (config.queue_count == 0 || config.queue_count > kUdpQueuesMax ||
      !std::has_single_bit(config.queue_count)) {
    return failure(fmt::format("queue_count {} is not allowed; it must be a power of two up to {}",
                               config.queue_count, kUdpQueuesMax));
  }
  if (config.payload_bytes_max == 0 || config.payload_bytes_max > kUdpPayloadBytesMax) {
    return failure(fmt::format("payload_bytes_max {} is not allowed; it must be 1 to {}",
                               config.payload_bytes_max, kUdpPayloadBytesMax));
  }
  if (config.steering.shift_bits > 31) {
    return failure(fmt::format("steering.shift_bits {} is not allowed; it must be 0 to 31",
                               config.steering.shift_bits));
  }
  if (config.steering.payload_offset_bytes > kUdpPayloadBytesMax) {
    return failure(
        fmt::format("steering.payload_offset_bytes {} is not allowed; it must be 0 to {}",
                    config.steering.payload_offset_bytes, kUdpPayloadBytesMax));
  }
  if (config.peer.is_set() && config.queue_count != 1) {
    return failure(fmt::format("a port with a single peer, {}, needs queue_count 1, not {}",
                               config.peer.to_string(), config.queue_count));
  }
  if (config.multicast && config.multicast->group != Endpoint{}) {
    const Endpoint& group = config.multicast->group;
    if (!group.is_multicast()) {
      return failure(fmt::format("{} is not a multicast group", group.to_string()));
    }
    if (config.queue_count != 1) {
      return failure(fmt::format("joining multicast group {} needs queue_count 1, not {}",
                                 group.to_string(), config.queue_count));
    }
  }
  return true;
}

/// Returns the family of the sockets: that of `local`, or of the peer if `local` is a wildcard.
int family_of(const UdpPortConfig& config) {
  if (config.local.is_ipv4()) return AF_INET;
  const bool follows = is_wildcard(config.local) && config.peer.is_set();
  return follows && config.peer.is_ipv4() ? AF_INET : AF_INET6;
}

Result<FileDescriptor> open_socket(int family) {
  FileDescriptor fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));
  if (!fd.is_open()) {
    const int error = errno;
    return failure(fmt::format("cannot open a UDP socket: {}{}", errno_text(error),
                               error == EMFILE || error == ENFILE ? kDescriptorRemedy : ""),
                   errno_kind(error));
  }
  if (family == AF_INET6 && !set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, int{0})) {
    return system_failure(errno, "cannot open a UDP socket for IPv6 and IPv4");
  }
  return fd;
}

Result<Endpoint> bind_socket(int socket, int family, const Endpoint& local) {
  SocketAddress address{};
  Endpoint wanted = local;
  // [::] on a machine without IPv6, or for an IPv4 peer, means 0.0.0.0.
  if (family == AF_INET && !local.is_ipv4()) wanted = Endpoint::ipv4(INADDR_ANY, local.port);
  const socklen_t size = to_socket_address(wanted, family, address);
  if (::bind(socket, &address.any, size) != 0) {
    const int error = errno;
    const char* hint = error == EADDRINUSE      ? " (another program listens there)"
                       : error == EADDRNOTAVAIL ? " (no interface of this machine has it)"
                                                : "";
    return failure(
        fmt::format("cannot listen on UDP {}: {}{}", local.to_string(), errno_text(error), hint),
        errno_kind(error));
  }
  SocketAddress bound{};
  socklen_t bound_size = sizeof bound;
  if (::getsockname(socket, &bound.any, &bound_size) != 0) {
    return system_failure(errno, "cannot read the bound address");
  }
  return from_socket_address(bound);
}

struct BufferOption {
  int force;  ///< Needs CAP_NET_ADMIN; ignores the system's limit.
  int plain;
  const char* noun;
  const char* limit;
};
constexpr BufferOption kReceiveBuffer{SO_RCVBUFFORCE, SO_RCVBUF, "receive", "net.core.rmem_max"};
constexpr BufferOption kSendBuffer{SO_SNDBUFFORCE, SO_SNDBUF, "send", "net.core.wmem_max"};

/// The kernel keeps twice the size of a buffer in an int.
constexpr uint32_t kBufferBytesMax = INT32_MAX / 2;

/// @param wanted_bytes At most kBufferBytesMax.
/// @return bytes granted. The kernel reports twice that number, because it uses the other half for
/// its own bookkeeping (socket(7)).
uint32_t ask_buffer(int socket, const BufferOption& option, uint32_t wanted_bytes) {
  const int wanted = static_cast<int>(wanted_bytes);
  if (!set_option(socket, SOL_SOCKET, option.force, wanted)) {
    set_option(socket, SOL_SOCKET, option.plain, wanted);
  }
  int granted = 0;
  socklen_t size = sizeof granted;
  getsockopt(socket, SOL_SOCKET, option.plain, &granted, &size);
  return static_cast<uint32_t>(granted) / 2;
}

void ask_buffers(int socket, const UdpPortConfig& config, UdpSockets& port) {
  const bool first = port.sockets.empty();  // All queues get the same, so one warning is enough.
  const auto ask = [&](const BufferOption& option, uint32_t bytes) {
    const uint32_t wanted_bytes = std::min(bytes, kBufferBytesMax);
    const uint32_t granted_bytes = ask_buffer(socket, option, wanted_bytes);
    if (granted_bytes >= wanted_bytes || !first) return granted_bytes;
    port.warnings.push_back(fmt::format(
        "the {} buffer of UDP {} holds {} bytes, but {} were requested, so bursts may be lost; "
        "to fix: sysctl -w {}={}",
        option.noun, port.local.to_string(), granted_bytes, wanted_bytes, option.limit,
        wanted_bytes));
    return granted_bytes;
  };
  port.receive_buffer_bytes = ask(kReceiveBuffer, config.receive_buffer_bytes);
  ask(kSendBuffer, config.send_buffer_bytes);
}

/// Returns the address or scope that names the multicast interface; a default Endpoint for "any".
Endpoint multicast_interface(const UdpPortConfig& config) {
  return config.multicast->via != Endpoint{} ? config.multicast->via : config.local;
}

in_addr interface_address(const UdpPortConfig& config) {
  const Endpoint via = multicast_interface(config);
  return via.is_ipv4() ? ipv4_address(via) : in_addr{INADDR_ANY};
}

Result<bool> set_multicast_sending(int socket, int family, const UdpPortConfig& config) {
  const UdpMulticast& multicast = *config.multicast;
  const int loop = multicast.loop ? 1 : 0;
  const int ttl = multicast.ttl;
  const int index = static_cast<int>(multicast_interface(config).scope_id);
  // An AF_INET6 socket sends to IPv4 groups too, and keeps separate IPv4 options for them.
  const bool good = set_option(socket, IPPROTO_IP, IP_MULTICAST_TTL, ttl) &&
                    set_option(socket, IPPROTO_IP, IP_MULTICAST_LOOP, loop) &&
                    set_option(socket, IPPROTO_IP, IP_MULTICAST_IF, interface_address(config)) &&
                    (family == AF_INET ||
                     (set_option(socket, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, ttl) &&
                      set_option(socket, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, loop) &&
                      (index == 0 || set_option(socket, IPPROTO_IPV6, IPV6_MULTICAST_IF, index))));
  if (good) return true;
  const int error = errno;
  return system_failure(error, fmt::format("cannot send to multicast groups through {}",
                                           multicast_interface(config).to_string()));
}

Result<bool> join_group(int socket, int family, const UdpPortConfig& config) {
  const Endpoint& group = config.multicast->group;
  int error = 0;
  if (group.is_ipv4()) {
    ip_mreqn request{};
    request.imr_multiaddr = ipv4_address(group);
    request.imr_address = interface_address(config);
    // Without the second option, a socket on [::] also receives other programs' groups.
    if (!set_option(socket, IPPROTO_IP, IP_ADD_MEMBERSHIP, request) ||
        !set_option(socket, IPPROTO_IP, IP_MULTICAST_ALL, int{0})) {
      error = errno;
    }
  } else if (family == AF_INET6) {
    ipv6_mreq request{};
    SocketAddress address{};
    static_cast<void>(to_socket_address(group, AF_INET6, address));
    request.ipv6mr_multiaddr = address.v6.sin6_addr;
    request.ipv6mr_interface = multicast_interface(config).scope_id;
    if (!set_option(socket, IPPROTO_IPV6, IPV6_JOIN_GROUP, request)) error = errno;
    // Linux before 4.20 lacks this option. The receiver then refuses foreign packets by content.
    static_cast<void>(set_option(socket, IPPROTO_IPV6, IPV6_MULTICAST_ALL, int{0}));
  } else {
    error = EAFNOSUPPORT;
  }
  if (error == 0) return true;
  return system_failure(error, fmt::format("cannot join multicast group {} on {}",
                                           group.to_string(), config.local.to_string()));
}

Result<bool> connect_peer(int socket, int family, const Endpoint& peer) {
  SocketAddress address{};
  const socklen_t size = to_socket_address(peer, family, address);
  if (size == 0) {
    return failure(
        fmt::format("an IPv4 local address cannot reach the IPv6 peer {}", peer.to_string()));
  }
  if (::connect(socket, &address.any, size) == 0) return true;
  const int error = errno;
  return system_failure(error, fmt::format("cannot connect to {}", peer.to_string()));
}

/// Attaches a classic BPF program, which needs no privilege. The program sees the UDP payload from
/// offset 0. A load past the end makes it return 0, so short packets go to queue 0.
Result<bool> attach_steering(int socket, const SteeringField& field, uint32_t queue_count) {
  std::array<sock_filter, 4> program{{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, field.payload_offset_bytes},
      {BPF_ALU | BPF_RSH | BPF_K, 0, 0, field.shift_bits},
      {BPF_ALU | BPF_AND | BPF_K, 0, 0, queue_count - 1},
      {BPF_RET | BPF_A, 0, 0, 0},
  }};
  const sock_fprog description{static_cast<uint16_t>(program.size()), program.data()};
  if (set_option(socket, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, description)) return true;
  return system_failure(errno, fmt::format("cannot steer packets to {} queues", queue_count));
}

/// Returns true if packets may arrive at several local addresses, so that replies must name theirs.
/// Results of a group come to a socket of its own, which sends nothing.
bool needs_local_address(const UdpPortConfig& config) {
  const bool joins = config.multicast && config.multicast->group != Endpoint{};
  return is_wildcard(config.local) && !config.peer.is_set() && !joins;
}

/// Asks the kernel for the local address of each message. IPv4 packets on an AF_INET6 socket need
/// the option of both families.
bool ask_local_address(int socket, int family) {
  return set_option(socket, IPPROTO_IP, IP_PKTINFO, int{1}) &&
         (family == AF_INET || set_option(socket, IPPROTO_IPV6, IPV6_RECVPKTINFO, int{1}));
}

/// Opens and configures the next socket and appends it to port.sockets.
Result<bool> add_socket(const UdpPortConfig& config, UdpSockets& port) {
  auto fd = open_socket(port.family);
  if (!fd) return tl::unexpected(fd.error());
  const int socket = fd->get();
  const bool first = port.sockets.empty();

  if (config.multicast && config.multicast->share) {
    set_option(socket, SOL_SOCKET, SO_REUSEADDR, int{1});
  }
  // The first socket binds alone and becomes sharable afterwards. Binding therefore fails if any
  // other program has the port, even a sharing one. Two servers never split each other's packets.
  if (!first) set_option(socket, SOL_SOCKET, SO_REUSEPORT, int{1});
  const auto bound = bind_socket(socket, port.family, first ? config.local : port.local);
  if (!bound) return tl::unexpected(bound.error());
  if (first && config.queue_count > 1) set_option(socket, SOL_SOCKET, SO_REUSEPORT, int{1});
  if (first) port.local = *bound;

  ask_buffers(socket, config, port);
  port.receive_offload = config.receive_offload && set_option(socket, IPPROTO_UDP, UDP_GRO, int{1});
  if (needs_local_address(config)) {
    port.tells_local_address = ask_local_address(socket, port.family);
    if (first && !port.tells_local_address) {
      port.warnings.push_back(
          fmt::format("the kernel does not tell at which address a packet for UDP port {} arrived, "
                      "so replies may leave from another one; to fix: listen on one address",
                      port.local.port));
    }
  }
  if (config.multicast) {
    const auto sending = set_multicast_sending(socket, port.family, config);
    if (!sending) return sending;
    if (config.multicast->group != Endpoint{}) {
      const auto joined = join_group(socket, port.family, config);
      if (!joined) return joined;
    }
  }
  if (config.peer.is_set()) {
    const auto connected = connect_peer(socket, port.family, config.peer);
    if (!connected) return connected;
    SocketAddress address{};
    socklen_t size = sizeof address;
    // Connecting replaces a wildcard with the source address of the route to the peer.
    if (::getsockname(socket, &address.any, &size) == 0) port.local = from_socket_address(address);
  }
  port.sockets.push_back(std::move(*fd));
  return true;
}

}  // namespace

Result<UdpSockets> open_udp_sockets(const UdpPortConfig& config) {
  if (const auto checked = check(config); !checked) return tl::unexpected(checked.error());
  UdpSockets port;
  port.family = family_of(config);
  if (port.family == AF_INET6 && is_wildcard(config.local) && !config.peer.is_set() &&
      !open_socket(AF_INET6)) {
    port.family = AF_INET;
    port.warnings.push_back(
        fmt::format("this machine has no IPv6, so UDP port {} listens on IPv4 only; to fix: "
                    "boot without ipv6.disable=1, or bind 0.0.0.0",
                    config.local.port));
  }
  for (uint32_t i = 0; i < config.queue_count; i++) {
    const auto added = add_socket(config, port);
    if (!added) return tl::unexpected(added.error());
  }
  if (config.queue_count > 1) {
    const auto steered =
        attach_steering(port.sockets.front().get(), config.steering, config.queue_count);
    if (!steered) return tl::unexpected(steered.error());
  }
  return port;
}

namespace {

using MemoryInfo = std::array<uint32_t, SK_MEMINFO_VARS>;

/// @return nothing if the kernel does not tell.
std::optional<MemoryInfo> memory_info(int socket) {
  MemoryInfo info{};
  socklen_t size = sizeof info;
  const bool told = ::getsockopt(socket, SOL_SOCKET, SO_MEMINFO, info.data(), &size) == 0 &&
                    size > SK_MEMINFO_DROPS * sizeof(uint32_t);
  return told ? std::optional(info) : std::nullopt;
}

}  // namespace

std::optional<uint64_t> udp_rx_dropped(int socket) {
  const auto info = memory_info(socket);
  if (!info) return {};
  return (*info)[SK_MEMINFO_DROPS];
}

bool udp_send_is_crowded(int socket) {
  const auto info = memory_info(socket);
  return info && (*info)[SK_MEMINFO_WMEM_ALLOC] >= (*info)[SK_MEMINFO_SNDBUF] / 2;
}

}  // namespace tributary::io
