// SPDX-License-Identifier: Apache-2.0
#include "io/frames/port_keys.h"

#include <fmt/format.h>

#include "base/number_text.h"
#include "io/frames/link_inspect.h"

namespace tributary::io {
namespace {

/// Parses an address without a port. Endpoint::parse() needs a port, so this adds one.
Result<Endpoint> read_address(const std::string& key, const std::string& value) {
  const bool ipv6 = value.find(':') != std::string::npos;
  auto endpoint = Endpoint::parse(ipv6 ? fmt::format("[{}]:1", value) : value + ":1");
  if (!endpoint) {
    return failure(
        fmt::format("{}={} is not allowed; allowed: an IPv4 or IPv6 address", key, value));
  }
  endpoint->port = 0;
  return *endpoint;
}

Result<void> read_own_address(const std::string& value, PortAddress& port) {
  const size_t slash = value.find('/');
  const auto address = read_address("ip", value.substr(0, slash));
  if (!address) return tl::unexpected(address.error());
  if (address->is_multicast() || same_address(*address, Endpoint{}) ||
      same_address(*address, Endpoint::ipv4(0, 0))) {
    return failure(fmt::format("ip={} is not allowed; allowed: the address of one host", value));
  }
  const uint32_t bits_max = address->is_ipv4() ? 32 : 128;
  if (slash == std::string::npos) {
    return failure(fmt::format(
        "ip={} lacks the prefix length; allowed: ADDRESS/BITS, as in 10.0.0.1/24", value));
  }
  const auto bits = read_number("ip", value.substr(slash + 1), 1, bits_max);
  if (!bits) return tl::unexpected(bits.error());
  port.address = *address;
  port.prefix_bits = *bits;
  return {};
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

Result<std::pair<std::string, std::string>> split_key(const std::string& part) {
  const size_t equals = part.find('=');
  if (part.empty() || equals == 0) return failure(fmt::format("'{}' is not key=value", part));
  return std::pair(part.substr(0, equals),
                   equals == std::string::npos ? std::string() : part.substr(equals + 1));
}

Result<uint32_t> read_number(const std::string& key, const std::string& value, uint32_t min,
                             uint32_t max) {
  const auto number = parse_number<uint32_t>(value);
  if (!number || *number < min || *number > max) {
    return failure(fmt::format("{}={} is not allowed; allowed: a whole number from {} to {}", key,
                               value, min, max));
  }
  return *number;
}

Result<bool> read_address_key(const std::string& key, const std::string& value, PortAddress& port) {
  if (key == "gw") {
    const auto gateway = read_address(key, value);
    if (!gateway) return tl::unexpected(gateway.error());
    port.gateway = *gateway;
    return true;
  }
  if (key != "ip") return false;
  const auto read = read_own_address(value, port);
  if (!read) return tl::unexpected(read.error());
  return true;
}

Result<void> check_gateway(const std::optional<Endpoint>& gateway, const Endpoint& address) {
  if (!gateway || gateway->is_ipv4() == address.is_ipv4()) return {};
  return failure("gw: must have the same address family as ip");
}

}  // namespace tributary::io
