// SPDX-License-Identifier: Apache-2.0
#include "server/control/listener.h"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>

#include "base/errno_text.h"
#include "io/descriptor_limit.h"
#include "io/udp/socket_address.h"

namespace tributary::control {
namespace {

constexpr int kStreamSocket = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

void set_option(int socket, int level, int option) {
  const int on = 1;
  static_cast<void>(setsockopt(socket, level, option, &on, sizeof on));
}

bool is_full(int error) { return error == EMFILE || error == ENFILE; }

/// Returns how to get a port on which this process can listen; empty for an unusual error.
const char* remedy_for(int error) {
  if (is_full(error)) return io::kDescriptorRemedy;
  if (error == EACCES) return "; to fix: give a port from 1024 on";
  const bool is_address = error == EADDRINUSE || error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
  return is_address ? "; to fix: give an address of this machine and a free port" : "";
}

}  // namespace

Result<io::FileDescriptor> listen_on_path(const std::string& path) {
  io::FileDescriptor socket(::socket(AF_UNIX, kStreamSocket, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return failure(
        fmt::format("control socket {}: the path has more than {} characters; to fix: give a "
                    "shorter --name, or set XDG_RUNTIME_DIR to a shorter folder",
                    path, sizeof address.sun_path - 1));
  }
  path.copy(address.sun_path, path.size());
  // Linux makes the file with the socket's mode, so that it is never open to others.
  if (!socket.is_open() || fchmod(socket.get(), S_IRUSR | S_IWUSR) != 0 ||
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    const int error = errno;
    return failure(fmt::format("control socket {}: cannot listen there ({}){}", path,
                               errno_text(error), is_full(error) ? io::kDescriptorRemedy : ""),
                   errno_kind(error));
  }
  return socket;
}

Result<io::FileDescriptor> listen_on_port(const Endpoint& at) {
  const int family = at.is_ipv4() ? AF_INET : AF_INET6;
  io::SocketAddress address{};
  const socklen_t size = io::to_socket_address(at, family, address);
  io::FileDescriptor socket(::socket(family, kStreamSocket, 0));
  if (socket.is_open()) {
    // A restarted server takes the port although old connections wait for their end.
    set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR);
    // Connections inherit this: a small answer leaves at once.
    set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY);
  }
  if (!socket.is_open() || bind(socket.get(), &address.any, size) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    const int error = errno;
    return failure(fmt::format("TCP {}: cannot listen there ({}){}", at.to_string(),
                               errno_text(error), remedy_for(error)),
                   errno_kind(error));
  }
  return socket;
}

}  // namespace tributary::control
