// SPDX-License-Identifier: Apache-2.0
#include "io/packet/packet_spec.h"

#include <fmt/format.h>
#include <net/if.h>

namespace tributary::io {
namespace {

Result<void> read_key(const std::string& part, PacketPortSpec& spec) {
  const auto pair = split_key(part);
  if (!pair) return tl::unexpected(pair.error());
  const auto& [key, value] = *pair;
  const auto shared = read_address_key(key, value, spec);
  if (!shared) return tl::unexpected(shared.error());
  if (*shared) return {};
  if (key != "mtu") return failure(fmt::format("unknown key '{}'; allowed: ip, gw, mtu", key));
  const auto mtu = read_number(key, value, kPacketMtuMin, kPacketMtuMax);
  if (!mtu) return tl::unexpected(mtu.error());
  spec.mtu = *mtu;
  return {};
}

}  // namespace

Result<PacketPortSpec> parse_packet_port(std::string_view text) {
  const auto wrong = [text](const std::string& reason) {
    return failure(fmt::format("'{}': {}", text, reason));
  };
  if (!text.starts_with(kPacketPrefix)) {
    return wrong("is not a packet port; allowed: packet:INTERFACE,ip=ADDRESS/BITS[,key=value]...");
  }
  PacketPortSpec spec;
  spec.text = std::string(text);
  const std::vector<std::string> parts = split(text.substr(kPacketPrefix.size()), ',');
  spec.interface = parts.front();
  if (spec.interface.empty() || spec.interface.size() >= IF_NAMESIZE) {
    return wrong(fmt::format("'{}' is not an interface; see: ip link", spec.interface));
  }
  for (size_t i = 1; i < parts.size(); i++) {
    if (const auto read = read_key(parts[i], spec); !read) return wrong(read.error().text);
  }
  if (!spec.address) {
    return wrong(
        "lacks ip: the port needs an address of its own, which the kernel does not have; add it "
        "as in --port packet:eth0,ip=10.0.0.1/24");
  }
  if (const auto good = check_gateway(spec.gateway, *spec.address); !good) {
    return wrong(good.error().text);
  }
  return spec;
}

}  // namespace tributary::io
