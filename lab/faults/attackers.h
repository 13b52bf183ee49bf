// SPDX-License-Identifier: Apache-2.0
/// @file
/// The attackers of a campaign run, and the promise that they achieve nothing (docs/security.md).
///
/// Model:   Each kind acts at its own interval until calm_at, with a generator of its own.
///          Attackers know the configuration of every job: addresses, ids, ranks, tensors.
///          FaultKind states the further knowledge of each kind. The tamperer is in the cables
///          (FaultWire).
/// Judged:  AttackJudge: no datagram of theirs is accepted. AttackNode: the replies. All other
///          judges hold under attack as well.
/// Threads: One.
/// Tests:   tests/lab/faults/attackers_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/prng.h"
#include "lab/faults/attack_judge.h"
#include "lab/faults/attack_node.h"
#include "lab/faults/fault_plan.h"

namespace tributary::lab {

class Attackers {
 public:
  /// @pre The plan has attackers.
  Attackers(const FaultPlan& plan, FaultWorld& world, Journal& journal);

  void start();
  /// Checks the replies, and releases all datagrams. @pre None is in flight.
  void finish();
  /// Returns the number of datagrams sent, by kind.
  [[nodiscard]] const std::array<uint64_t, kFaultKindCount>& counts() const { return counts_; }

 private:
  /// A place to attack: a job at an aggregator, or one of its workers.
  struct Target {
    uint32_t job = 0;
    uint32_t aggregator = 0;
    uint32_t source = 0;                ///< The job's source number at the aggregator.
    std::optional<uint32_t> rank = {};  ///< Set if the target is the worker with this rank.
  };
  /// A datagram that a replayer has recorded.
  struct Recorded {
    net::PacketRef packet;
    uint32_t aggregator = 0;
    uint32_t job = 0;
    bool to_worker = false;
    bool is_result = false;
    bool is_have = false;
  };
  /// A cookie that a stranger has received.
  struct Cookie {
    Endpoint address;
    uint32_t aggregator = 0;
    wire::Message reply;
  };

  void step_later(FaultKind kind);
  void step(FaultKind kind, Prng& draws);
  void forge(Prng& draws);
  void replay(Prng& draws);
  void flood(Prng& draws);
  void join_half(Prng& draws);
  void attack_as_member(Prng& draws);
  void record(const net::PacketRef& packet, const WorkerNode* worker);

  [[nodiscard]] Target draw_target(Prng& draws) const;
  [[nodiscard]] const Endpoint& own_address(Prng& draws) const {
    return node_.address(draws.below(AttackNode::kAddresses));
  }
  /// Returns an address under which a datagram for the target looks most genuine.
  [[nodiscard]] Endpoint genuine_address(const Target& target) const;
  /// Returns the target's own address, or its job's multicast group.
  [[nodiscard]] Endpoint destination_of(const Target& target, Prng& draws) const;
  [[nodiscard]] wire::Message draw_message(const Target& target, wire::MessageType type,
                                           Prng& draws) const;
  /// Returns the bytes of a message; its gradients and its seal are random.
  [[nodiscard]] static std::vector<std::byte> bytes_of(const wire::Message& message, Prng& draws);
  void send(FaultKind kind, const Target& target, const Endpoint& from, const Endpoint& to,
            std::span<const std::byte> bytes);

  const FaultPlan& plan_;
  FaultWorld& world_;
  AttackJudge judge_;
  AttackNode node_;
  std::array<Prng, kFaultKindCount> draws_;
  std::vector<Recorded> recorded_;
  uint64_t recorded_count_ = 0;
  Prng recording_;
  std::vector<Cookie> cookies_;
  std::array<uint64_t, kFaultKindCount> counts_{};
};

}  // namespace tributary::lab
