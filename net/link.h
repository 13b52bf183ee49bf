// SPDX-License-Identifier: Apache-2.0
/// @file
/// One direction of a cable at work. Part of the network (net/network.h), which owns it.
///
/// Model:   A *fused port*: the queue before a packet is the time until the link is free. So send()
///          computes departure and arrival at once, and a hop costs one event.
/// Depths:  Compared as times: bytes x time per byte. This is exact if a byte takes whole ticks
///          (every Ethernet rate from 10 to 800 Gbit/s); otherwise it rounds up to a tick.
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

/// Called with each packet when the link knows when its last bit leaves the sender, in the order of
/// these times (pcap, traces).
using Tap = std::function<void(Instant leaves_at, const Packet& packet)>;

/// The two ends of a link.
struct LinkEnds {
  uint32_t from_node = 0;
  uint32_t from_port = 0;
  uint32_t to_node = 0;
  uint32_t to_port = 0;
};

/// Packets in flight wait in a ring in order of arrival, and only the first has an event pending.
/// Packets that faults hold back have one event each.
///
/// A node may pass on the k packets of a train within receive(). They keep the spacing in which
/// they arrived (`spread`: first to last). The last packet leaves at the latest of three times: k
/// packet times after the queue is empty, k packet times after the first packet arrived, and one
/// packet time after the last packet arrived.
class Link final : public EventTarget {
 public:
  /// @pre check(config) is good.
  Link(Network& network, uint32_t id, const LinkEnds& ends, Node& receiver,
       const LinkConfig& config, uint64_t seed);

  /// Accepts a packet at the present time. @param spread 0, or the spread of a train passed on.
  void send(PacketRef packet, Duration spread);
  /// Returns the time from a train's first packet to its last at this link's rate.
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
  /// A packet in flight.
  struct InFlight {
    Instant arrives_at;
    PacketRef packet;
  };
  static constexpr uint64_t kFirstInRing = UINT64_MAX;  ///< Else: index into held_back_.

  /// Returns the bytes of a packet, or of its whole train, on the wire.
  [[nodiscard]] uint64_t wire_bytes_of(const Packet& packet) const {
    return uint64_t{packet.size_bytes + kWireOverheadBytes} * train_;
  }
  [[nodiscard]] Duration time_of(uint64_t wire_bytes);
  [[nodiscard]] Duration time_of_slowly(uint64_t wire_bytes) const;
  [[nodiscard]] uint64_t bytes_in(Duration time) const;
  void mark(PacketRef& packet);
  void propagate(InFlight sent, Duration spread);
  void propagate_with_faults(InFlight sent, Duration spread);
  void hold_back(InFlight sent, Duration spread);
  void grow_ring();
  void deliver(PacketRef packet, Duration spread);
  /// Counts a packet that is lost on the wire in `count`, one of the counters.
  void lose(uint64_t& count, const Packet& packet);
  [[nodiscard]] bool loses_next();
  [[nodiscard]] bool corrupts(PacketRef& packet);
  [[nodiscard]] Duration drawn_below(Duration bound);
  void update_special();

  // Hot: read or written by every packet.
  Network& network_;
  EventCore& core_;
  Node& receiver_;
  Instant free_at_;       ///< When the last packet's last bit leaves.
  Instant arrives_last_;  ///< Latest arrival of the packets not held back.
  Duration propagation_;
  Duration queue_max_;  ///< queue_bytes_max as time.
  Duration ecn_;
  int64_t ticks_per_byte_;  ///< 0 if it is not whole.
  uint64_t packets_ = 0;    ///< Simulated ones.
  uint64_t bytes_ = 0;
  Duration peak_;
  std::vector<InFlight> ring_;  ///< Shape [ring_mask_ + 1], a power of two.
  uint32_t ring_mask_;
  uint32_t ring_begin_ = 0;  ///< Only grows; the index is this & ring_mask_.
  uint32_t ring_end_ = 0;
  uint32_t train_;
  LinkEnds ends_;
  bool special_ = false;  ///< Cut, tapped or faulty: the only branch that faults cost.
  bool cut_ = false;

  // Cold.
  uint64_t sized_bytes_ = 0;  ///< The last size that time_of() computed slowly …
  Duration sized_time_;       ///< … and its result. Equal sizes come in runs.
  uint32_t id_;
  bool faulty_ = false;
  bool in_loss_run_ = false;
  Prng draws_;
  LinkConfig config_;
  LinkCounters counters_;  ///< Rare events, by simulated packet; the other counters are above.
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
