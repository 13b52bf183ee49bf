// SPDX-License-Identifier: Apache-2.0
#include "io/local/local_socket.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>

#include "base/errno_text.h"
#include "io/udp/socket_address.h"

namespace tributary::io {
namespace {

/// First field of each message; the last digit is the version of the messages and of the memory.
constexpr std::array<char, 8> kMagic{'t', 'r', 'i', 'b', 'l', 'o', 'c', '1'};

/// Longest wait for a welcome. A server answers at once, unless it is stopped. Assumed.
constexpr int kWelcomeWaitMs = 3000;

/// The message on the socket, in the machine's byte order.
struct WelcomeBytes {
  std::array<char, 8> magic = kMagic;
  uint32_t accepted = 0;  ///< 0: all places are taken; the other fields are 0.
  uint32_t core_count = 0;
  uint32_t ring_bytes = 0;
  uint32_t packet_bytes_max = 0;
  uint32_t steering_offset_bytes = 0;
  uint32_t steering_shift_bits = 0;
  std::array<uint16_t, kLocalCoresMax> wake_ports{};  ///< 0: no such core.
};
static_assert(sizeof(WelcomeBytes) == 160);

/// An abstract Unix address.
struct UnixAddress {
  sockaddr_un address{};
  socklen_t size = 0;

  explicit UnixAddress(const std::string& name) {
    address.sun_family = AF_UNIX;
    // The first byte of sun_path stays 0, which makes the name abstract.
    const size_t length = std::min(name.size(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path + 1, name.data(), length);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// Room for one descriptor beside a message.
struct DescriptorNote {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> bytes{};
};

/// Takes the descriptor that came with a message, if one did.
FileDescriptor take_descriptor(msghdr& header) {
  FileDescriptor taken;
  for (cmsghdr* note = CMSG_FIRSTHDR(&header); note != nullptr; note = CMSG_NXTHDR(&header, note)) {
    if (note->cmsg_level != SOL_SOCKET || note->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(note), sizeof fd);  // There is room for one only.
    taken = FileDescriptor(fd);
  }
  return taken;
}

Result<LocalWelcome> read_welcome(const WelcomeBytes& bytes) {
  if (bytes.magic != kMagic) return failure("the server speaks another version");
  if (bytes.accepted == 0) {
    return failure("the server has as many local connections as it allows");
  }
  const LocalWelcome welcome{.shape = {.core_count = bytes.core_count,
                                       .ring_bytes = bytes.ring_bytes,
                                       .packet_bytes_max = bytes.packet_bytes_max},
                             .steering = {.payload_offset_bytes = bytes.steering_offset_bytes,
                                          .shift_bits = bytes.steering_shift_bits},
                             .wake_ports = bytes.wake_ports};
  if (const auto good = welcome.shape.check(); !good) return tl::unexpected(good.error());
  if (bytes.steering_shift_bits > 31 || bytes.steering_offset_bytes > bytes.packet_bytes_max) {
    return failure("the server's steering field lies outside of its packets");
  }
  return welcome;
}

}  // namespace

std::string local_name(const Endpoint& listen) { return "tributary-" + listen.to_string(); }

bool is_own_address(const Endpoint& address) {
  if (is_loopback(address)) return true;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    SocketAddress own{};
    std::memcpy(&own, each->ifa_addr, family == AF_INET ? sizeof own.v4 : sizeof own.v6);
    const Endpoint endpoint = from_socket_address(own);
    if (endpoint.address == address.address && endpoint.scope_id == address.scope_id) return true;
  }
  return false;
}

Result<FileDescriptor> unix_socket() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return system_failure(errno, "cannot make a Unix socket");
  return socket;
}

Result<void> bind_name(int socket, const std::string& name) {
  const UnixAddress address(name);
  if (::bind(socket, address.get(), address.size) == 0) return {};
  return system_failure(errno, fmt::format("cannot bind the Unix socket @{}", name));
}

Result<void> connect_name(int socket, const std::string& name) {
  const UnixAddress address(name);
  if (::connect(socket, address.get(), address.size) == 0) return {};
  return system_failure(errno, fmt::format("cannot connect to the Unix socket @{}", name));
}

bool end_receiving(int socket) {
  if (::shutdown(socket, SHUT_RD) != 0) return true;
  // With SO_PASSCRED each message has a note, for which there is no room here: so an empty message
  // differs from none. MSG_PEEK leaves the message and its descriptors where they are.
  const int on = 1;
  if (::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) return true;
  char byte = 0;
  iovec vector{&byte, 1};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  const ssize_t size = ::recvmsg(socket, &header, MSG_PEEK | MSG_DONTWAIT);
  return size > 0 || (size == 0 && (header.msg_flags & MSG_CTRUNC) != 0);
}

bool send_welcome(int socket, const LocalWelcome& welcome, int memory_fd) {
  WelcomeBytes bytes{.accepted = 1,
                     .core_count = welcome.shape.core_count,
                     .ring_bytes = welcome.shape.ring_bytes,
                     .packet_bytes_max = welcome.shape.packet_bytes_max,
                     .steering_offset_bytes = welcome.steering.payload_offset_bytes,
                     .steering_shift_bits = welcome.steering.shift_bits,
                     .wake_ports = welcome.wake_ports};
  DescriptorNote note;
  iovec vector{&bytes, sizeof bytes};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = note.bytes.data();
  header.msg_controllen = note.bytes.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof memory_fd);
  std::memcpy(CMSG_DATA(rights), &memory_fd, sizeof memory_fd);
  return ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof bytes;
}

void send_refusal(int socket) {
  const WelcomeBytes bytes;
  // A caller that does not get it sees the closed connection.
  static_cast<void>(::send(socket, &bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL));
}

Result<LocalWelcome> receive_welcome(int socket, FileDescriptor& memory_fd) {
  pollfd ready{.fd = socket, .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, kWelcomeWaitMs) != 1) return failure("the server does not answer");
  WelcomeBytes bytes;
  DescriptorNote note;
  iovec vector{&bytes, sizeof bytes};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = note.bytes.data();
  header.msg_controllen = note.bytes.size();
  const ssize_t size = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0) return system_failure(errno, "cannot receive the welcome");
  FileDescriptor taken = take_descriptor(header);
  if (static_cast<size_t>(size) != sizeof bytes) return failure("the server closed the connection");
  const auto welcome = read_welcome(bytes);
  if (!welcome) return welcome;
  if (!taken.is_open()) return failure("the server's welcome came without its memory");
  memory_fd = std::move(taken);
  return welcome;
}

void send_wake(int socket) {
  const char byte = 0;
  static_cast<void>(::send(socket, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
}

Result<FileDescriptor> waker_socket() {
  FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return system_failure(errno, "cannot make a UDP socket");
  return socket;
}

Result<FileDescriptor> core_wake_socket(uint16_t& port) {
  auto socket = waker_socket();
  if (!socket) return socket;
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket->get(), any, size) != 0 || ::getsockname(socket->get(), any, &size) != 0) {
    return system_failure(errno, "cannot bind a UDP socket to 127.0.0.1");
  }
  // One datagram wakes, so a stranger's many need no memory. The kernel raises it to its least.
  const int bytes = 0;
  ::setsockopt(socket->get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  port = ntohs(address.sin_port);
  return socket;
}

void send_wake_to(int socket, uint16_t port) {
  const char byte = 0;
  const sockaddr_in address = loopback(port);
  static_cast<void>(::sendto(socket, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&address), sizeof address));
}

}  // namespace tributary::io
