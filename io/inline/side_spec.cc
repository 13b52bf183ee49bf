// SPDX-License-Identifier: Apache-2.0
#include "io/inline/side_spec.h"

#include <fmt/format.h>

#include <optional>

#include "base/number_text.h"
#include "io/packet/packet_spec.h"
#include "io/udp/resolve.h"

namespace tributary::io {
namespace {

constexpr std::string_view kTunnelShape = "vxlan:ADDRESS[:PORT],peer=ADDRESS[:PORT][,vni=NUMBER]";

tl::unexpected<Error> refused(std::string_view text, std::string_view why,
                              ErrorKind kind = ErrorKind::kLasting) {
  return failure(fmt::format("--port '{}': {}", text, why), kind);
}

std::optional<uint32_t> parse_network(std::string_view text) {
  const auto network = parse_number<uint32_t>(text);
  return network && *network <= wire::kVxlanNetworkMax ? network : std::nullopt;
}

/// Reads one "key=value" of a tunnel.
Result<void> read_key(VxlanConfig& config, std::string_view text, std::string_view item) {
  const size_t equals = item.find('=');
  const std::string_view key = item.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
  if (key == "peer") {
    const auto peer = resolve(value, wire::kVxlanPort);
    if (!peer) return refused(text, "peer: " + peer.error().text, peer.error().kind);
    config.peer = *peer;
    return {};
  }
  if (key == "vni") {
    const auto network = parse_network(value);
    if (!network) {
      return refused(text, fmt::format("vni={}; allowed: 0 to {}", value, wire::kVxlanNetworkMax));
    }
    config.network = *network;
    return {};
  }
  return refused(text, fmt::format("unknown key '{}'; allowed: {}", key, kTunnelShape));
}

Result<InlineSideSpec> parse_tunnel(std::string_view text) {
  VxlanConfig config;
  std::string_view rest = text.substr(kVxlanPrefix.size());
  size_t comma = rest.find(',');
  const auto local = resolve(rest.substr(0, comma), wire::kVxlanPort);
  if (!local) return refused(text, local.error().text, local.error().kind);
  config.local = *local;
  while (comma != std::string_view::npos) {
    rest = rest.substr(comma + 1);
    comma = rest.find(',');
    const auto read = read_key(config, text, rest.substr(0, comma));
    if (!read) return tl::unexpected(read.error());
  }
  if (!config.peer.is_set()) {
    return refused(text, fmt::format("a tunnel needs a peer; allowed: {}", kTunnelShape));
  }
  if (config.local.is_multicast() || config.peer.is_multicast()) {
    return refused(text, "a multicast address; allowed: addresses of one machine");
  }
  if (config.local.is_ipv4() != config.peer.is_ipv4()) {
    return refused(text, "the two addresses are IPv4 and IPv6; allowed: both of one kind");
  }
  return InlineSideSpec{std::string(text), config};
}

Result<InlineSideSpec> parse_dpdk(std::string_view text) {
  auto device = parse_dpdk_device(text);
  if (!device) return failure_in("--port ", device.error());
  if (device->address || device->gateway) {
    return refused(text, "a program sits in a wire and has no address; leave out ip and gw");
  }
  return InlineSideSpec{std::string(text), *std::move(device)};
}

}  // namespace

std::string InlineSideSpec::interface() const {
  const auto* const side = std::get_if<FrameSocket::Config>(&config);
  return side == nullptr ? std::string() : side->interface;
}

Result<InlineSideSpec> parse_inline_side(std::string_view text) {
  if (text.starts_with(kVxlanPrefix)) return parse_tunnel(text);
  if (text.starts_with(kDpdkPrefix)) return parse_dpdk(text);
  const std::string_view name =
      text.starts_with(kPacketPrefix) ? text.substr(kPacketPrefix.size()) : text;
  if (name.empty() || name.find_first_of(",:") != std::string_view::npos) {
    return failure(
        fmt::format("--port '{}' is refused; allowed for a program: INTERFACE, {}INTERFACE, "
                    "{}DEVICE[,key=value]... or {}",
                    text, kPacketPrefix, kDpdkPrefix, kTunnelShape));
  }
  return InlineSideSpec{std::string(text), FrameSocket::Config{.interface = std::string(name)}};
}

bool is_same_side(const InlineSideSpec& a, const InlineSideSpec& b) {
  if (a.config.index() != b.config.index() || a.dpdk() != nullptr) return false;
  if (!a.is_tunnel()) return a.interface() == b.interface();
  return std::get<VxlanConfig>(a.config).local == std::get<VxlanConfig>(b.config).local;
}

}  // namespace tributary::io
