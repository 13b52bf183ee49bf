// SPDX-License-Identifier: Apache-2.0
/// @file
/// The way of a packet that leaves a PFE: the fabric, a second pass through a PPE thread, and the
/// port (Trio paper §2.1, "Packets arrive at the system through an ingress PFE and exit through an
/// egress PFE"). pfe_egress.cc has the steps.
///
/// Model:   Every PFE of the router gets the same traffic, so one PFE stands for both: each packet
///          that enters the fabric here is matched by one that comes out of it here. A packet
///          leaves once for each destination.
/// Units:   Bytes on an Ethernet cable for ports; bytes of the frame for the fabric.
/// Threads: One.
/// Tests:   tests/engine/model/egress_test.cc
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/endpoint.h"
#include "base/time.h"
#include "engine/model/meter.h"
#include "engine/model/packet_buffer.h"
#include "engine/model/parameters.h"
#include "engine/packet.h"

namespace tributary::engine {

/// Bytes that a frame takes on a cable besides its own: preamble 8, check sequence 4, gap 12.
/// Source: IEEE 802.3.
inline constexpr uint32_t kCableOverheadBytes = 24;
/// The smallest frame on a cable. Source: IEEE 802.3, 64 bytes with its check sequence.
inline constexpr uint32_t kCableBytesMin = 64 + 20;

/// Returns the bytes of a packet's frame.
[[nodiscard]] inline uint32_t frame_bytes(const Parameters& parameters, PacketLayer layer,
                                          uint32_t size_bytes) {
  return layer == PacketLayer::kFrame ? size_bytes : size_bytes + parameters.header_bytes;
}
/// Returns the bytes of a frame on a cable.
[[nodiscard]] constexpr uint32_t cable_bytes(uint32_t frame) {
  return std::max(frame + kCableOverheadBytes, kCableBytesMin);
}

/// Carries one packet at a time: the fabric or the ports of a PFE in one direction.
class Carrier {
 public:
  /// @param gbit_per_s 0: carries any packet in no time.
  /// @param start      Where its measurements begin.
  Carrier(uint32_t gbit_per_s, Instant start) : gbit_per_s_(gbit_per_s), used_(start) {}

  [[nodiscard]] bool is_limited() const { return gbit_per_s_ > 0; }
  /// Returns the time of `count` packets of `size_bytes` each, rounded up to a tick.
  [[nodiscard]] Duration time_of(uint64_t size_bytes, uint32_t count) const;
  /// Carries `count` packets that are ready at `at`, after those before them.
  /// @return when the last bit has passed.
  Instant carry(Instant at, uint64_t size_bytes, uint32_t count);
  /// Records the use by packets that are timed elsewhere, such as arrivals from a link.
  /// Delays none.
  void note(Instant at, uint64_t size_bytes, uint32_t count);

  /// Returns its use in the time since reset(), or since its start.
  [[nodiscard]] const OccupancySeries& used() const { return used_; }
  void reset(Instant now) { used_ = OccupancySeries(now); }

 private:
  uint32_t gbit_per_s_;
  Instant busy_until_;
  OccupancySeries used_;
};

/// A packet on its way out, to one destination.
struct EgressPacket {
  PacketHandle stored = {};  ///< It holds one reference.
  uint32_t size_bytes = 0;
  uint32_t train = 1;
  PacketLayer layer = PacketLayer::kUdpPayload;
  Endpoint destination = {};  ///< Destination; for a forwarded packet, its source instead.
  uint64_t number = 0;        ///< Number of a forwarded packet; 0: the program has made this one.
  Instant entered_at = {};    ///< When the ingress pass had ended.
  bool is_done = false;       ///< Its pass through a PPE has ended.
};

}  // namespace tributary::engine
