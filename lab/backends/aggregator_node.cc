// SPDX-License-Identifier: Apache-2.0
#include "lab/backends/aggregator_node.h"

namespace tributary::lab {

AggregatorNode::AggregatorNode(net::Network& network, const AggregatorSpec& spec)
    : network_(network), spec_(spec), id_(network.add_node(*this, spec.name)) {}

void AggregatorNode::receive(uint32_t, net::PacketRef packet) {
  if (packet->destination == spec_.address) {
    aggregate(std::move(packet));
  } else {
    forward(std::move(packet));
  }
}

void AggregatorNode::forward(net::PacketRef packet) {
  const std::span<const uint32_t> ports = table_.ports_for(*packet);
  if (ports.empty()) unroutable_++;
  for (const uint32_t port : ports) network_.transmit(id_, port, packet);
}

void AggregatorNode::send_last(net::PacketRef packet) {
  const std::span<const uint32_t> ports = table_.ports_for(*packet);
  if (ports.empty()) unroutable_++;
  for (const uint32_t port : ports) network_.transmit_last(id_, port, packet);
}

void AggregatorNode::send(std::span<const std::byte> stored, uint32_t size_bytes,
                          std::span<const Endpoint> destinations) {
  for (const Endpoint& destination : destinations) {
    forward(network_.packets().make(spec_.address, destination, size_bytes, stored));
  }
}

}  // namespace tributary::lab
