// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/attack_node.h"

#include <fmt/format.h>

#include <algorithm>

#include "wire/trio_ml.h"

namespace tributary::lab {

using wire::MessageType;

AttackNode::AttackNode(FaultWorld& world, AttackJudge& judge, Journal& journal)
    : world_(world),
      judge_(judge),
      journal_(journal),
      id_(world.network().add_node(*this, "attackers")) {
  constexpr uint32_t kNet = 10U << 24 | 201U << 16;
  for (uint32_t i = 0; i < kAddresses; i++) {
    own_[i] = Endpoint::ipv4(kNet | (i + 1), wire::kTrioMlPort);
  }
  for (uint32_t i = 0; i < world.aggregator_count(); i++) {
    world.connect_stranger(id_, i, i, own_);
  }
}

void AttackNode::send(uint32_t aggregator, const Endpoint& from, const Endpoint& to,
                      std::span<const std::byte> bytes) {
  const auto owner = std::find(own_.begin(), own_.end(), from);
  if (owner != own_.end()) bytes_[owner - own_.begin()].sent += bytes.size();
  net::PacketRef packet =
      world_.network().packets().make(from, to, static_cast<uint32_t>(bytes.size()), bytes);
  judge_.mark(packet);
  world_.network().transmit(id_, aggregator, std::move(packet));
}

void AttackNode::receive(uint32_t port, net::PacketRef packet) {
  const auto owner = std::find(own_.begin(), own_.end(), packet->destination);
  if (owner == own_.end()) return;
  bytes_[owner - own_.begin()].received += packet->size_bytes;
  wire::Message message;
  const bool decoded =
      decode_message(packet->stored, packet->size_bytes, message) == wire::DecodeStatus::kOk;
  const MessageType type = message.extension.type;
  const bool is_harmless = decoded && message.header.extended &&
                           (type == MessageType::kCookie || type == MessageType::kReset ||
                            type == MessageType::kRefusal);
  if (!is_harmless) {
    journal_.breach(Breach::kForged, fmt::format("a stranger gets {}", describe_message(*packet)));
  } else if (type == MessageType::kCookie && on_cookie_) {
    on_cookie_(port, *packet, message);
  }
}

void AttackNode::check_bytes() {
  for (uint32_t i = 0; i < kAddresses; i++) {
    if (bytes_[i].received <= bytes_[i].sent) continue;
    journal_.breach(Breach::kForged,
                    fmt::format("a stranger at {} sent {} bytes and got {}", own_[i].to_string(),
                                bytes_[i].sent, bytes_[i].received));
  }
}

}  // namespace tributary::lab
