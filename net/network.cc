// SPDX-License-Identifier: Apache-2.0
#include "net/network.h"

#include <fmt/format.h>

#include <utility>

#include "base/assert.h"
#include "net/digest.h"

namespace tributary::net {
namespace {

/// Hashes the part of a packet that the digest covers besides place, time and manner of arrival.
uint64_t content_hash(const Packet& packet) {
  uint64_t hash =
      hash_chain(packet.size_bytes, uint64_t{packet.source.port} << 32 | packet.destination.port);
  for (const Endpoint* endpoint : {&packet.source, &packet.destination}) {
    const AddressWords words(*endpoint);
    hash = hash_chain(hash_chain(hash, words.high), words.low);
  }
  if (!packet.stored.empty()) hash ^= hash_bytes(packet.stored);
  return hash | 1;  // 0 means not computed.
}

}  // namespace

Network::Network(EventCore& core, uint64_t seed, uint32_t train)
    : core_(core), seed_(seed), train_(train) {
  TRIB_ASSERT(train >= 1);
}

Network::~Network() = default;

NodeId Network::add_node(Node& node, std::string name) {
  const auto id = static_cast<NodeId>(nodes_.size());
  const bool is_new = names_.emplace(name, id).second;
  TRIB_ASSERT(is_new);
  nodes_.push_back({&node, std::move(name), {}});
  return id;
}

Result<void> Network::check_port(NodeId node, uint32_t port) const {
  if (node >= nodes_.size()) {
    return failure(fmt::format("node {} does not exist; allowed: below {}", node, nodes_.size()));
  }
  if (port > kPortMax) {
    return failure(fmt::format("{}: port {} is out of range; allowed: 0 to {}", nodes_[node].name,
                               port, kPortMax));
  }
  const auto& ports = nodes_[node].ports;
  if (port < ports.size() && ports[port] != nullptr) {
    return failure(fmt::format("{}: port {} has a cable already, {}; allowed: one cable a port",
                               nodes_[node].name, port, link_name(ports[port]->id())));
  }
  return {};
}

Link& Network::add_link(const LinkEnds& ends, const LinkConfig& config) {
  const auto id = static_cast<LinkId>(links_.size());
  const uint64_t seed = hash_mix(seed_ + kHashFactor * (uint64_t{id} + 1));
  links_.push_back(
      std::make_unique<Link>(*this, id, ends, *nodes_[ends.to_node].node, config, seed));
  auto& ports = nodes_[ends.from_node].ports;
  if (ports.size() <= ends.from_port) ports.resize(ends.from_port + 1);
  ports[ends.from_port] = links_.back().get();
  return *links_.back();
}

Result<LinkId> Network::connect(NodeId a, uint32_t port_a, NodeId b, uint32_t port_b,
                                const LinkConfig& forth, const LinkConfig& back) {
  if (auto good = check_port(a, port_a); !good) return failure(good.error().text);
  if (auto good = check_port(b, port_b); !good) return failure(good.error().text);
  if (a == b && port_a == port_b) {
    return failure(fmt::format("{}: port {} cannot be cabled to itself; allowed: two ports",
                               nodes_[a].name, port_a));
  }
  for (const LinkConfig* config : {&forth, &back}) {
    if (auto good = check(*config); !good) {
      return failure(fmt::format("{}.{}>{}.{}: {}", nodes_[a].name, port_a, nodes_[b].name, port_b,
                                 good.error().text));
    }
  }
  const LinkId id = add_link({a, port_a, b, port_b}, forth).id();
  add_link({b, port_b, a, port_a}, back);
  return id;
}

Link* Network::find_port(NodeId node, uint32_t port) {
  const auto& ports = nodes_[node].ports;
  Link* link = port < ports.size() ? ports[port] : nullptr;
  if (link == nullptr) [[unlikely]]
    counters_.no_link++;
  return link;
}

void Network::transmit_last(NodeId from, uint32_t port, PacketRef packet) {
  Link* link = find_port(from, port);
  if (link == nullptr) return;
  const Duration spread = link->train_spread(packet->size_bytes);
  link->send(std::move(packet), spread);
}

void Network::transmit(NodeId from, uint32_t port, PacketRef packet) {
  Link* link = find_port(from, port);
  if (link == nullptr) return;
  const bool passed_on = train_ > 1 && &*packet == passing_;
  link->send(std::move(packet), passed_on ? passing_spread_ : Duration());
}

void Network::deliver(const Link& link, Node& receiver, PacketRef packet, Duration spread) {
  counters_.delivered++;
  if (packet->content_hash_ == 0) packet->content_hash_ = content_hash(*packet);
  const auto when = static_cast<uint64_t>(core_.now().since_start().ticks());
  const uint64_t where = uint64_t{link.id()} << 1 | (packet->congestion_experienced ? 1 : 0);
  digest_ = hash_chain(digest_ ^ where * kHashFactor, when ^ packet->content_hash_);
  if (train_ == 1) [[likely]] {
    return receiver.receive(link.ends().to_port, std::move(packet));
  }
  passing_ = &*packet;
  passing_spread_ = spread;
  receiver.receive(link.ends().to_port, std::move(packet));
  passing_ = nullptr;
}

void Network::set_faults(LinkId link, const LinkFaults& faults) {
  links_.at(link)->set_faults(faults);
}

void Network::set_cut(LinkId link, bool cut) { links_.at(link)->set_cut(cut); }

void Network::set_tap(LinkId link, Tap tap) { links_.at(link)->set_tap(std::move(tap)); }

const std::string& Network::node_name(NodeId node) const { return nodes_.at(node).name; }

Result<NodeId> Network::find_node(std::string_view name) const {
  const auto found = names_.find(name);
  if (found == names_.end()) return failure(fmt::format("there is no node '{}'", name));
  return found->second;
}

std::string Network::link_name(LinkId link) const {
  const LinkEnds& ends = links_.at(link)->ends();
  return fmt::format("{}.{}>{}.{}", nodes_[ends.from_node].name, ends.from_port,
                     nodes_[ends.to_node].name, ends.to_port);
}

Result<LinkId> Network::find_link(std::string_view name) const {
  for (LinkId link = 0; link < link_count(); link++) {
    if (link_name(link) == name) return link;
  }
  return failure(fmt::format("there is no link '{}'; links are named FROM.PORT>TO.PORT{}", name,
                             links_.empty() ? "" : ", as in " + link_name(0)));
}

Result<LinkId> Network::link_at(NodeId node, uint32_t port) const {
  if (node < nodes_.size() && port < nodes_[node].ports.size() &&
      nodes_[node].ports[port] != nullptr) {
    return nodes_[node].ports[port]->id();
  }
  return failure(fmt::format("node {} has no cable at port {}", node, port));
}

uint64_t Network::queue_bytes(LinkId link) const {
  return links_.at(link)->queue_bytes(core_.now());
}

}  // namespace tributary::net
