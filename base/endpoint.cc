// SPDX-License-Identifier: Apache-2.0
#include "base/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <cstring>

#include "base/number_text.h"

namespace tributary {
namespace {

constexpr std::array<uint8_t, kMappedPrefixBytes> kMappedPrefix{0, 0, 0, 0, 0,    0,
                                                                0, 0, 0, 0, 0xff, 0xff};

/// Returns "%eth0" for the interface of a link-local or multicast address, or its number if it is
/// gone.
std::string scope_text(const Endpoint& endpoint) {
  const auto& address = endpoint.address;
  const bool is_link_local = address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
  if (endpoint.scope_id == 0 || !(is_link_local || endpoint.is_multicast())) return {};
  std::array<char, IF_NAMESIZE> name{};
  if (if_indextoname(endpoint.scope_id, name.data()) == nullptr) {
    return fmt::format("%{}", endpoint.scope_id);
  }
  return fmt::format("%{}", name.data());
}

Result<uint16_t> parse_port(std::string_view text, std::string_view whole) {
  const uint16_t port = parse_number<uint16_t>(text).value_or(0);
  if (port != 0) return port;
  return failure(fmt::format("'{}' has no valid port; allowed: 1 to 65535", whole));
}

}  // namespace

Endpoint Endpoint::ipv4(uint32_t host_order_address, uint16_t port) {
  Endpoint endpoint;
  std::copy(kMappedPrefix.begin(), kMappedPrefix.end(), endpoint.address.begin());
  for (uint32_t i = 0; i < 4; i++) {
    endpoint.address[kMappedPrefixBytes + i] =
        static_cast<uint8_t>(host_order_address >> (24 - 8 * i));
  }
  endpoint.port = port;
  return endpoint;
}

Result<Endpoint> Endpoint::parse(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return failure(
        fmt::format("'{}' is not HOST:PORT, for example 127.0.0.1:12000 or [::1]:12000", text));
  }
  const auto port = parse_port(text.substr(colon + 1), text);
  if (!port) return tl::unexpected(port.error());

  std::string host(text.substr(0, colon));
  Endpoint endpoint;
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (inet_pton(AF_INET6, host.c_str(), endpoint.address.data()) != 1) {
      return failure(fmt::format("'{}' is not an IPv6 address", host));
    }
  } else {
    in_addr address{};
    if (inet_pton(AF_INET, host.c_str(), &address) != 1) {
      return failure(fmt::format("'{}' is not an IPv4 address (IPv6 goes in brackets)", host));
    }
    endpoint = ipv4(ntohl(address.s_addr), *port);
  }
  endpoint.port = *port;
  return endpoint;
}

bool Endpoint::is_ipv4() const {
  return std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), address.begin());
}

uint32_t Endpoint::ipv4_address() const {
  uint32_t bits = 0;
  for (uint32_t i = 0; i < 4; i++) bits = bits << 8 | address[kMappedPrefixBytes + i];
  return bits;
}

bool Endpoint::is_multicast() const {
  return is_ipv4() ? (address[kMappedPrefixBytes] & 0xf0) == 0xe0 : address[0] == 0xff;
}

std::string Endpoint::host_text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (is_ipv4())
    return inet_ntop(AF_INET, address.data() + kMappedPrefixBytes, text.data(), text.size());
  return inet_ntop(AF_INET6, address.data(), text.data(), text.size()) + scope_text(*this);
}

std::string Endpoint::to_string() const {
  return is_ipv4() ? fmt::format("{}:{}", host_text(), port)
                   : fmt::format("[{}]:{}", host_text(), port);
}

}  // namespace tributary
