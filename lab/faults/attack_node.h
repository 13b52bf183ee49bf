// SPDX-License-Identifier: Apache-2.0
/// @file
/// The attackers' host: sends datagrams under any address, and judges the aggregators' replies.
///
/// Model:   It has a cable without faults to each aggregator. It owns some addresses. A stranger
///          must get only cookies, resets and refusals, and no more bytes than it sent.
/// Threads: One.
/// Errors:  Journal::breach(), kForged.
/// Tests:   tests/lab/faults/attackers_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "lab/faults/attack_judge.h"

namespace tributary::lab {

class AttackNode final : public net::Node {
 public:
  static constexpr uint32_t kAddresses = 8;

  AttackNode(FaultWorld& world, AttackJudge& judge, Journal& journal);

  [[nodiscard]] const Endpoint& address(uint32_t index) const { return own_[index]; }
  /// Sends a datagram by the cable to an aggregator, which forwards it if `to` is another host's.
  void send(uint32_t aggregator, const Endpoint& from, const Endpoint& to,
            std::span<const std::byte> bytes);
  /// Calls `listener` with each cookie that it gets.
  void set_cookie_listener(
      std::function<void(uint32_t aggregator, const net::Packet&, const wire::Message&)> listener) {
    on_cookie_ = std::move(listener);
  }
  /// Checks the sums of bytes. @pre All replies have arrived.
  void check_bytes();

  void receive(uint32_t port, net::PacketRef packet) override;

 private:
  struct Bytes {
    uint64_t sent = 0;
    uint64_t received = 0;
  };

  FaultWorld& world_;
  AttackJudge& judge_;
  Journal& journal_;
  net::NodeId id_;
  std::array<Endpoint, kAddresses> own_;
  std::array<Bytes, kAddresses> bytes_{};
  std::function<void(uint32_t, const net::Packet&, const wire::Message&)> on_cookie_;
};

}  // namespace tributary::lab
