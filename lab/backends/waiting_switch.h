// SPDX-License-Identifier: Apache-2.0
/// @file
/// A switch that aggregates at the rate of its ports and waits for all workers, for a quorum of
/// them, or for a bounded time: in-network aggregation without limits of computation.
///
/// Model:   Each datagram leaves kPipelineLatency after its arrival, at any load. A place of the
///          window keeps one result (SwitchML's two pools, SwitchML paper §4.5), or `history`
///          results if blocks may complete early: at the k-th contribution (quorum k), or one
///          timeout after the first (mitigation). Contributions that come later are counted,
///          dropped and answered. docs/aggregation-protocol.md describes the protocol.
/// Threads: One.
/// Errors:  Counts and drops datagrams that are malformed, foreign or of another session.
/// Tests:   tests/lab/backends/waiting_switch_test.cc
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "apps/trio_ml/records.h"
#include "apps/trio_ml/session/session.h"
#include "lab/backends/aggregator_node.h"

namespace tributary::lab {

class WaitingSwitch : public AggregatorNode, private EventTarget {
 public:
  /// From a datagram's arrival to its result's departure. Assumed: SwitchML-256 passes four
  /// pipelines of a Tofino (Trio paper §6.1). Each pass takes about 520 ns, which SwitchML's
  /// authors measured for an additional one.
  static constexpr Duration kPipelineLatency = nanoseconds(4 * 520);

  WaitingSwitch(net::Network& network, const AggregatorSpec& spec,
                Duration latency = kPipelineLatency);

  [[nodiscard]] AggregatorResult result(Duration elapsed) const override;
  [[nodiscard]] uint64_t invalid() const { return invalid_; }
  /// Returns the contributions that came after their block was complete.
  [[nodiscard]] uint64_t late() const { return late_; }

 protected:
  void aggregate(net::PacketRef packet) override;
  /// Called for each datagram that leaves, so that a derived class can charge for it.
  virtual void note_sent() {}
  [[nodiscard]] uint64_t packets() const { return packets_; }

 private:
  struct Slot {
    bool used = false;
    bool complete = false;
    bool published = false;  ///< The result has left.
    uint32_t block_id = 0;
    uint32_t received = 0;
    Instant expires_at;  ///< If the job mitigates.
    trio_ml::SourceMask mask{};
    wire::Message result;  ///< Head of the result.
    bool elided = true;
    std::vector<int32_t> lanes;  ///< Sums; empty if elided.
  };

  /// A channel of the job (trio_ml::channel_of).
  struct Channel {
    Channel(const trio_ml::JobConfig& job, uint32_t kept, uint64_t seed);

    trio_ml::Session session;
    std::vector<Slot> slots;       ///< Shape [kept x block_cnt_max].
    std::vector<Endpoint> to_all;  ///< Every source, or the group.

    [[nodiscard]] Slot& slot_of(uint32_t block_id) { return slots[block_id % slots.size()]; }
    [[nodiscard]] wire::Message control(const wire::Message& about, wire::MessageType type) const;
  };

  /// Completes a block whose time is over.
  class Timer final : public EventTarget {
   public:
    explicit Timer(WaitingSwitch& owner) : owner_(owner) {}
    void on_event(uint64_t slot_number) override { owner_.expire(slot_number); }

   private:
    WaitingSwitch& owner_;
  };

  void on_event(uint64_t slot_number) override;
  void expire(uint64_t slot_number);
  [[nodiscard]] Slot& slot_at(uint64_t slot_number);
  /// Returns the number of a block's slot, across all channels, which have as many each.
  [[nodiscard]] uint64_t slot_number(const Channel& channel, uint32_t block_id) const;

  void serve_join(Channel& channel, const wire::Message& message, const Endpoint& from);
  void ask_to_confirm(Channel& channel, const wire::Message& pending);
  void serve_contribution(Channel& channel, const wire::Message& message,
                          const net::Packet& packet);
  void serve_probe(Channel& channel, const wire::Message& message, const Endpoint& from);
  void begin(const Channel& channel, Slot& slot, const wire::Message& message, bool elided);
  void add(Slot& slot, const wire::Message& message, const net::Packet& packet);
  void complete(Slot& slot, uint64_t slot_number);
  void tell_past_cache(const Channel& channel, const wire::Message& about, const Endpoint& to);
  void send_control(const wire::Message& message, const Endpoint& to);
  void send_result(const Slot& slot, const Endpoint& to);
  /// Returns null for another job's.
  [[nodiscard]] Channel* channel_of(const wire::Message& message);

  const Duration latency_;
  const uint32_t needed_;       ///< Contributions that complete a block.
  const bool leaves_out_late_;  ///< Blocks may complete without a source.
  Timer timer_;
  std::deque<Channel> channels_;    ///< A session does not move.
  std::vector<std::byte> message_;  ///< The message being written.
  uint64_t packets_ = 0;
  uint64_t invalid_ = 0;
  uint64_t late_ = 0;
};

}  // namespace tributary::lab
