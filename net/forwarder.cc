// SPDX-License-Identifier: Apache-2.0
#include "net/forwarder.h"

#include <utility>

namespace tributary::net {

Forwarder::Forwarder(Network& network, std::string name)
    : network_(network), id_(network.add_node(*this, std::move(name))), table_(id_) {}

void Forwarder::receive(uint32_t port, PacketRef packet) {
  const std::span<const uint32_t> ports = table_.ports_for(*packet);
  if (ports.empty()) [[unlikely]] {
    counters_.no_route++;
    return;
  }
  if (ports.size() > 1) return replicate(port, ports, packet);
  if (ports.front() == port) [[unlikely]] {
    counters_.back_to_input_port++;
    return;
  }
  counters_.forwarded++;
  network_.transmit(id_, ports.front(), std::move(packet));
}

void Forwarder::replicate(uint32_t port, std::span<const uint32_t> ports, const PacketRef& packet) {
  counters_.forwarded++;
  for (const uint32_t out : ports) {
    if (out == port) continue;
    counters_.copies++;
    network_.transmit(id_, out, packet);
  }
}

}  // namespace tributary::net
