// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reports every datagram of an attacker that an aggregator or a worker accepts.
///
/// Model:   A live aggregator reads each attacker's datagram in a burst of its own. Counters that
///          only accepted datagrams raise must not change then. A worker must not accept it as a
///          message of its session. A modelled PFE serves several packets at once, so there only
///          the replies to attackers and the workers are judged.
/// Threads: One.
/// Errors:  Journal::breach(), kForged.
/// Tests:   tests/lab/faults/attackers_test.cc
#pragma once

#include <array>
#include <functional>
#include <unordered_map>

#include "lab/faults/fault_world.h"
#include "lab/faults/journal.h"

namespace tributary::lab {

class AttackJudge final : public LiveHost::Watch, public WorkerNode::Watch {
 public:
  /// Called with each datagram of another party: that an aggregator has read (`worker` is null), or
  /// that a worker has accepted.
  using Listener = std::function<void(const net::PacketRef& packet, const WorkerNode* worker)>;

  AttackJudge(FaultWorld& world, Journal& journal);
  ~AttackJudge();

  void set_listener(Listener listener) { listener_ = std::move(listener); }
  /// Marks a datagram as an attacker's.
  void mark(const net::PacketRef& packet) { marked_.emplace(&*packet, packet); }
  /// Releases all datagrams. @pre None of them is in flight.
  void release() { marked_.clear(); }

 private:
  using Counts = std::array<uint64_t, trio_ml::kOutcomeCount>;

  bool is_apart(LiveHost& host, const net::Packet& packet) override;
  void on_burst(LiveHost& host, std::span<const net::PacketRef> burst) override;
  void on_taken(WorkerNode& worker, const net::Packet& packet, bool accepted) override;
  [[nodiscard]] Counts counts_at(const LiveHost& host);
  [[nodiscard]] bool is_marked(const net::Packet& packet) const {
    return marked_.contains(&packet);
  }

  FaultWorld& world_;
  Journal& journal_;
  Listener listener_;
  /// Their references keep the addresses valid. Used for look-ups only; its order has no effect.
  std::unordered_map<const net::Packet*, net::PacketRef> marked_;
  Counts before_{};  ///< Before the burst of the datagram that is read apart.
};

/// Returns a line about a message: its type, job and source.
[[nodiscard]] std::string describe_message(const net::Packet& packet);

}  // namespace tributary::lab
