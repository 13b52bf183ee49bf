// SPDX-License-Identifier: Apache-2.0
#include "io/udp/free_port.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/errno_text.h"
#include "io/descriptor_limit.h"
#include "io/file_descriptor.h"

namespace tributary::io {

Result<uint16_t> free_port(Transport transport) {
  const bool udp = transport == Transport::kUdp;
  const FileDescriptor probe(::socket(AF_INET, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!probe.is_open() || ::bind(probe.get(), generic, size) != 0 ||
      ::getsockname(probe.get(), generic, &size) != 0) {
    const int error = errno;
    const bool is_full = error == EMFILE || error == ENFILE;
    return failure(fmt::format("no free {} port on 127.0.0.1: {}{}", udp ? "UDP" : "TCP",
                               errno_text(error), is_full ? kDescriptorRemedy : ""),
                   errno_kind(error));
  }
  return ntohs(address.sin_port);
}

}  // namespace tributary::io
