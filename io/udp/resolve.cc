// SPDX-License-Identifier: Apache-2.0
#include "io/udp/resolve.h"

#include <fmt/format.h>
#include <netdb.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "base/errno_text.h"
#include "base/number_text.h"
#include "io/udp/socket_address.h"

namespace tributary::io {
namespace {

struct HostAndPort {
  std::string host;
  std::string_view port;  ///< Empty if the text has none.
};

Result<HostAndPort> split(std::string_view text) {
  if (text.starts_with('[')) {
    const size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) {
      return failure(fmt::format("'{}' lacks the closing bracket", text));
    }
    const std::string_view rest = text.substr(bracket + 1);
    if (!rest.empty() && (rest.front() != ':' || rest.size() == 1)) {
      return failure(fmt::format("'{}' is not [ADDRESS]:PORT", text));
    }
    return HostAndPort{std::string(text.substr(1, bracket - 1)),
                       rest.empty() ? rest : rest.substr(1)};
  }
  const size_t colon = text.find(':');
  // Only a bare IPv6 address has two colons without brackets.
  if (colon == std::string_view::npos || text.find(':', colon + 1) != std::string_view::npos) {
    return HostAndPort{std::string(text), {}};
  }
  if (colon + 1 == text.size()) {
    return failure(fmt::format("'{}' names no port after the colon", text));
  }
  return HostAndPort{std::string(text.substr(0, colon)), text.substr(colon + 1)};
}

Result<uint16_t> parse_port(std::string_view port, uint16_t default_port, std::string_view whole) {
  if (port.empty()) {
    if (default_port != 0) return default_port;
    return failure(fmt::format("'{}' names no port; write HOST:PORT", whole));
  }
  const uint16_t value = parse_number<uint16_t>(port).value_or(0);
  if (value != 0) return value;
  return failure(fmt::format("'{}' has no valid port; allowed: 1 to 65535", whole));
}

}  // namespace

Result<Endpoint> resolve(std::string_view text, uint16_t default_port) {
  const auto parts = split(text);
  if (!parts) return tl::unexpected(parts.error());
  if (parts->host.empty()) return failure(fmt::format("'{}' names no host", text));
  const auto port = parse_port(parts->port, default_port, text);
  if (!port) return tl::unexpected(port.error());

  const bool ipv6 = parts->host.find(':') != std::string::npos;
  const auto numeric = Endpoint::parse(
      fmt::format("{}{}{}:{}", ipv6 ? "[" : "", parts->host, ipv6 ? "]" : "", *port));
  if (numeric) return *numeric;

  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* answers = nullptr;
  const int status = getaddrinfo(parts->host.c_str(), nullptr, &hints, &answers);
  if (status != 0 && ipv6 && parts->host.find('%') != std::string::npos) {
    return failure(fmt::format(
        "'{}' is not an IPv6 address of an interface of this machine; 'ip link' lists them", text));
  }
  if (status != 0 && ipv6) {
    return failure(
        fmt::format("'{}' is not an IPv6 address; with a port write [ADDRESS]:PORT", text));
  }
  if (status != 0) {
    return failure(fmt::format("cannot find the address of '{}': {}", parts->host,
                               status == EAI_SYSTEM ? errno_text(errno) : gai_strerror(status)),
                   ErrorKind::kPassing);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(answers, &freeaddrinfo);
  for (const addrinfo* answer = answers; answer != nullptr; answer = answer->ai_next) {
    if (answer->ai_addrlen > sizeof(SocketAddress)) continue;
    SocketAddress address{};
    std::memcpy(&address, answer->ai_addr, answer->ai_addrlen);
    Endpoint endpoint = from_socket_address(address);
    endpoint.port = *port;
    return endpoint;
  }
  return failure(fmt::format("'{}' has neither an IPv4 nor an IPv6 address", parts->host));
}

}  // namespace tributary::io
