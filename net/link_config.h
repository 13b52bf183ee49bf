// SPDX-License-Identifier: Apache-2.0
/// @file
/// The properties of one direction of a cable (rate, delay, queue and faults) and its counters.
///
/// Units:  Rates in bit/s, sizes in bytes on the wire (headers and gaps included), probabilities
///         for each packet.
/// Errors: check() returns one line with the key, its value and the allowed values.
/// Tests:  tests/net/network_test.cc, tests/net/link_faults_test.cc
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/time.h"

namespace tributary::net {

/// Limits of a link.
inline constexpr uint64_t kRateBitsPerSecondMax = 10'000'000'000'000;
inline constexpr Duration kDelayMax = seconds(3600);

/// The faults of a link, with probabilities for each packet. All of them happen on the wire: the
/// packet has taken its time in the queue and on the link.
struct LinkFaults {
  double loss = 0;
  double loss_run = 1;      ///< Mean number of packets lost in a row; 1: each by itself. Above 1, a
                            ///< two-state chain (Gilbert, 1960) loses the same share of packets.
  double corrupt = 0;       ///< A bit flips. Unless undetected, UDP's checksum finds it, and the
                            ///< packet is lost and counted separately.
  double undetected = 0;    ///< Share of the corrupted packets that pass the checksum. They are
                            ///< delivered with one bit of a stored byte flipped, drawn from the
                            ///< range below. A packet without such a byte is lost.
  uint32_t flip_begin = 0;  ///< First byte of the payload that an undetected flip may hit.
  uint32_t flip_end = UINT32_MAX;  ///< One past the last such byte.
  double duplicate = 0;  ///< Delivered twice; each copy has its own jitter and reordering.
  double reorder = 0;    ///< Held back by up to reorder_max, past later packets; never lost.
  Duration jitter = Duration();       ///< Added to the delay, uniform from 0; keeps the order.
  Duration reorder_max = Duration();  ///< At least one tick if reorder is above 0.

  friend bool operator==(const LinkFaults&, const LinkFaults&) = default;
};

struct LinkConfig {
  uint64_t rate_bits_per_s = 100'000'000'000;
  Duration propagation = nanoseconds(500);
  /// Bound on the bytes waiting or being sent, in bytes on the wire. A packet that would exceed it
  /// is dropped. An idle link accepts any packet.
  uint64_t queue_bytes_max = uint64_t{16} << 20;
  uint64_t ecn_bytes = UINT64_MAX;  ///< A packet that finds more than this queued is marked.
  LinkFaults faults{};
};

/// A packet of train k counts k times; bytes are the sum over all k.
struct LinkCounters {
  uint64_t packets = 0;  ///< Put on the wire, or in the queue before it.
  uint64_t bytes = 0;    ///< Bytes of these packets, each with kWireOverheadBytes.
  uint64_t tail_dropped = 0;
  uint64_t marked = 0;
  uint64_t lost = 0;
  uint64_t corrupted = 0;
  uint64_t undetected = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t cut = 0;               ///< Lost because the cable is cut.
  uint64_t lost_bytes = 0;        ///< Bytes of packets that were put on the wire and lost there.
  uint64_t duplicated_bytes = 0;  ///< Bytes of the second copies.
  uint64_t queue_bytes_peak = 0;
};

/// Returns an Error for the first fault parameter that is not allowed.
[[nodiscard]] Result<void> check(const LinkFaults& faults);
/// Returns an Error for the first property that is not allowed: the rate (1 bit/s to
/// kRateBitsPerSecondMax), the delay (0 to kDelayMax) or a fault.
[[nodiscard]] Result<void> check(const LinkConfig& link);

}  // namespace tributary::net
