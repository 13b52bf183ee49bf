// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base/assert.h"
#include "net/digest.h"
#include "net/routing.h"

namespace tributary::net {

RoutingTable::RoutingTable(uint64_t salt) : salt_(salt), book_(std::make_shared<AddressBook>()) {}

void RoutingTable::clear(std::shared_ptr<AddressBook> book) {
  book_ = std::move(book);
  exits_.clear();
  ports_.clear();
  interned_.clear();
}

void RoutingTable::set_route(const Endpoint& address, std::span<const uint32_t> ports) {
  TRIB_ASSERT(!ports.empty());
  set(address, ports, Kind::kRoute);
}

void RoutingTable::set_group(const Endpoint& address, std::span<const uint32_t> ports) {
  set(address, ports, Kind::kGroup);
}

void RoutingTable::set(const Endpoint& address, std::span<const uint32_t> ports, Kind kind) {
  TRIB_ASSERT(ports.size() <= UINT16_MAX);
  const auto [list, is_new] = interned_.try_emplace(
      std::vector<uint32_t>(ports.begin(), ports.end()), static_cast<uint32_t>(ports_.size()));
  if (is_new) ports_.insert(ports_.end(), ports.begin(), ports.end());
  const uint32_t number = book_->add(address);
  if (exits_.size() <= number) exits_.resize(number + 1);
  exits_[number] = {list->second, static_cast<uint16_t>(ports.size()), kind};
}

std::span<const uint32_t> RoutingTable::ports_for(const Packet& packet) const {
  const uint32_t number = book_->find(packet.destination);
  if (number >= exits_.size()) [[unlikely]]
    return {};
  const Exit& exit = exits_[number];
  const std::span ports(ports_.data() + exit.first, exit.count);
  if (exit.count == 1 || exit.kind != Kind::kRoute) return ports;
  const AddressWords source(packet.source);
  const AddressWords destination(packet.destination);
  const uint64_t both_ports = uint64_t{packet.source.port} << 16 | packet.destination.port;
  uint64_t flow = hash_chain(salt_ ^ both_ports, source.high);
  flow = hash_chain(flow, source.low);
  flow = hash_chain(flow, destination.high);
  flow = hash_mix(hash_chain(flow, destination.low));
  return ports.subspan((flow >> 32) * exit.count >> 32, 1);
}

}  // namespace tributary::net
