// SPDX-License-Identifier: Apache-2.0
#include "bench/chaos/process_sockets.h"

#include <fmt/format.h>
#include <linux/filter.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/number_text.h"
#include "io/file_descriptor.h"
#include "io/udp/socket_address.h"

namespace tributary::chaos {
namespace {

using io::FileDescriptor;

/// Returns a process's descriptor of a file; not open for other file types than sockets.
FileDescriptor borrow(const FileDescriptor& process, const std::filesystem::directory_entry& file) {
  std::error_code ignored;
  const std::string target = std::filesystem::read_symlink(file.path(), ignored);
  if (!target.starts_with("socket:")) return {};
  const std::string name = file.path().filename();
  const int number = parse_number<int>(name).value_or(-1);
  return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), number, 0)));
}

bool is_udp(const FileDescriptor& socket) {
  int type = 0;
  int protocol = 0;
  socklen_t size = sizeof type;
  getsockopt(socket.get(), SOL_SOCKET, SO_TYPE, &type, &size);
  size = sizeof protocol;
  getsockopt(socket.get(), SOL_SOCKET, SO_PROTOCOL, &protocol, &size);
  return type == SOCK_DGRAM && protocol == IPPROTO_UDP;
}

/// Calls `visit` with a descriptor of each UDP socket of the process.
template <class Visit>
Result<void> for_each_socket(pid_t pid, Visit visit) {
  const FileDescriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const auto refused = [pid] {
    return failure(fmt::format("the sockets of process {} cannot be borrowed (pidfd_getfd): {}",
                               pid, std::strerror(errno)));
  };
  if (!process.is_open()) return refused();
  std::error_code error;
  const std::filesystem::directory_iterator files(fmt::format("/proc/{}/fd", pid), error);
  if (error) return failure(fmt::format("/proc/{}/fd: {}", pid, error.message()));
  for (const auto& file : files) {
    errno = 0;
    const FileDescriptor socket = borrow(process, file);
    // EBADF: the process has closed it since.
    if (!socket.is_open() && errno != 0 && errno != EBADF) return refused();
    if (!socket.is_open() || !is_udp(socket)) continue;
    if (auto visited = visit(socket); !visited) return visited;
  }
  return {};
}

}  // namespace

Result<std::vector<Endpoint>> udp_addresses(pid_t pid) {
  std::vector<Endpoint> addresses;
  const auto visited = for_each_socket(pid, [&](const FileDescriptor& socket) -> Result<void> {
    io::SocketAddress address{};
    socklen_t size = sizeof address;
    if (getsockname(socket.get(), &address.any, &size) == 0) {
      addresses.push_back(io::from_socket_address(address));
    }
    return {};
  });
  if (!visited) return tl::unexpected(visited.error());
  return addresses;
}

Result<void> set_receive_loss(pid_t pid, double probability) {
  const auto threshold = static_cast<uint32_t>(std::clamp(probability, 0.0, 1.0) * 4294967295.0);
  // Returns the bytes to keep of a packet: none if 32 random bits are below the threshold.
  std::array<sock_filter, 4> program{{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_RANDOM)},
      {BPF_JMP | BPF_JGE | BPF_K, 1, 0, threshold},
      {BPF_RET | BPF_K, 0, 0, 0},
      {BPF_RET | BPF_K, 0, 0, UINT32_MAX},
  }};
  const sock_fprog description{program.size(), program.data()};
  return for_each_socket(pid, [&](const FileDescriptor& socket) -> Result<void> {
    const int unused = 0;
    const int done = probability > 0 ? setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_FILTER,
                                                  &description, sizeof description)
                                     : setsockopt(socket.get(), SOL_SOCKET, SO_DETACH_FILTER,
                                                  &unused, sizeof unused);
    // ENOENT: this socket has no filter.
    if (done == 0 || errno == ENOENT) return {};
    return failure(
        fmt::format("a BPF program on a socket of process {}: {}", pid, std::strerror(errno)));
  });
}

}  // namespace tributary::chaos
