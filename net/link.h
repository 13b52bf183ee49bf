// SPDX-License-Identifier: Apache-2.0
/// @file
/// One direction of a cable at work. Part of the network (net/network.h), which owns it.
///
/// Model:   A *fused port*: when a packet is sent, the queue before it is known exactly, as the
/// time
///          until the link is free, so its departure and arrival are computed at once and one event
///          a hop is enough. Packets on their way stand in a ring in the order of arrival; only the
///          first of them has an event pending. Those that faults hold back have one each.
///          Depths are compared as times: bytes x time per byte, exact where a byte takes whole
///          ticks (every Ethernet rate from 10 to 800 Gbit/s), else rounded up to a tick.
/// Trains:  The k packets of a train that a node passes on within receive() are still spaced as
///          they came in (`spread`: first to last). They leave at the latest of three bounds: all k
///          after the queue, all k after the first came, the last one after it came.
/// Threads: One.
/// Tests:   tests/net/network_test.cc, tests/net/link_faults_test.cc, tests/net/train_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/event_core.h"
#include "base/prng.h"
#include "net/link_config.h"
#include "net/packet.h"

namespace tributary::net {

class Network;
class Node;

/// Called with each packet when the time at which its last bit leaves the sender is known, in the
/// order of these times (pcap, traces).
using Tap = std::function<void(Instant leaves_at, const Packet& packet)>;

/// Where a link leads.
struct LinkEnds {
  uint32_t from_node = 0;
  uint32_t from_port = 0;
  uint32_t to_node = 0;
  uint32_t to_port = 0;
};

class Link final : public EventTarget {
 public:
  /// @pre check(config) is good.
  Link(Network& network, uint32_t id, const LinkEnds& ends, Node& receiver,
       const LinkConfig& config, uint64_t seed);

  /// Takes a packet now. `spread` is 0, or that of a train which is passed on.
  void send(PacketRef packet, Duration spread);
  /// From a train's first packet to its last one at this link's rate.
  [[nodiscard]] Duration train_spread(uint32_t size_bytes) const;
  void on_event(uint64_t argument) override;

  void set_faults(const LinkFaults& faults);
  void set_cut(bool cut);
  void set_tap(Tap tap);

  [[nodiscard]] uint32_t id() const { return id_; }
  [[nodiscard]] const LinkEnds& ends() const { return ends_; }
  [[nodiscard]] const LinkConfig& config() const { return config_; }
  [[nodiscard]] LinkCounters counters() const;
  [[nodiscard]] uint64_t queue_bytes(Instant now) const;

 private:
  /// A packet on its way.
  struct Flying {
    Instant arrives_at;
    PacketRef packet;
  };
  static constexpr uint64_t kFirstInRing = UINT64_MAX;  ///< Else: index into held_back_.

  [[nodiscard]] Duration time_of(uint64_t wire_bytes);
  [[nodiscard]] Duration time_of_slowly(uint64_t wire_bytes) const;
  [[nodiscard]] uint64_t bytes_in(Duration time) const;
  void mark(PacketRef& packet);
  void fly(Flying flying, Duration spread);
  void fly_with_faults(Flying flying, Duration spread);
  void hold_back(Flying flying, Duration spread);
  void grow_ring();
  void deliver(PacketRef packet, Duration spread);
  [[nodiscard]] bool loses_next();
  [[nodiscard]] bool corrupts(PacketRef& packet);
  [[nodiscard]] Duration drawn_below(Duration bound);
  void update_special();

  // Hot: read or written by every packet.
  Network& network_;
  EventCore& core_;
  Node& receiver_;
  Instant free_at_;       ///< The last packet's last bit leaves.
  Instant arrives_last_;  ///< Of those in order.
  Duration propagation_;
  Duration queue_max_;  ///< queue_bytes_max as time.
  Duration ecn_;
  int64_t ticks_per_byte_;  ///< 0 where that is not whole.
  uint64_t packets_ = 0;
  uint64_t bytes_ = 0;
  Duration peak_;
  std::vector<Flying> ring_;  ///< Shape [ring_mask_ + 1], a power of two.
  uint32_t ring_mask_;
  uint32_t ring_begin_ = 0;  ///< Counts on; the place is this & ring_mask_.
  uint32_t ring_end_ = 0;
  uint32_t train_;
  LinkEnds ends_;
  bool special_ = false;  ///< Cut, tapped or faulty: the one branch that faults cost.
  bool cut_ = false;

  // Cold.
  uint64_t sized_bytes_ = 0;  ///< The last size that time_of() computed slowly,
  Duration sized_time_;       ///< and its result: sizes come in runs.
  uint32_t id_;
  bool faulty_ = false;
  bool in_loss_run_ = false;
  Prng draws_;
  LinkConfig config_;
  LinkCounters counters_;  ///< What is counted seldom; the rest is above.
  Tap tap_;
  std::vector<Duration> spreads_;  ///< Shape [ring_] with trains, else empty.
  struct HeldBack {
    PacketRef packet;
    Duration spread;
  };
  std::vector<HeldBack> held_back_;
  std::vector<uint32_t> held_back_free_;
};

}  // namespace tributary::net
