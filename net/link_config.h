// SPDX-License-Identifier: Apache-2.0
/// @file
/// What one direction of a cable is like: rate, delay, queue and faults, and what it has counted.
///
/// Units:  Rates in bit/s, sizes in bytes on the wire (headers and gaps included), probabilities of
///         each packet.
/// Errors: check() returns one line that names the key, its value and what is allowed.
/// Tests:  tests/net/network_test.cc, tests/net/link_faults_test.cc
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/time.h"

namespace tributary::net {

/// What a link does to packets beside carrying them; probabilities of each packet. All of it
/// happens on the wire: the packet has taken its time in the queue and on the link.
struct LinkFaults {
  double loss = 0;
  double loss_run = 1;    ///< Mean number of packets lost in a row; 1: each by itself. Above 1, a
                          ///< two-state chain (Gilbert, 1960) with the same share lost.
  double corrupt = 0;     ///< A bit flips. UDP's checksum finds it and the packet is lost, counted
                          ///< apart, unless it is undetected.
  double undetected = 0;  ///< Of the corrupted: the checksum is right all the same; delivered with
                          ///< one of the stored bytes' bits flipped, drawn from the range below.
                          ///< A packet that has no such byte is lost.
  uint32_t flip_begin = 0;         ///< First byte of the payload that an undetected flip may hit,
  uint32_t flip_end = UINT32_MAX;  ///< and the first that it may not.
  double duplicate = 0;  ///< Delivered twice; each copy has its own jitter and reordering.
  double reorder = 0;    ///< Held back by up to reorder_max, past later ones. Never lost by it.
  Duration jitter = Duration();       ///< Added to the delay, uniform from 0; keeps the order.
  Duration reorder_max = Duration();  ///< At least one tick where reorder is above 0.

  friend bool operator==(const LinkFaults&, const LinkFaults&) = default;
};

struct LinkConfig {
  uint64_t rate_bits_per_s = 100'000'000'000;
  Duration propagation = nanoseconds(500);
  /// Bound on what waits or is being sent, in bytes on the wire; a packet that would go over it is
  /// dropped. A link that is idle takes any packet.
  uint64_t queue_bytes_max = uint64_t{16} << 20;
  uint64_t ecn_bytes = UINT64_MAX;  ///< A packet that finds more than this before it is marked.
  LinkFaults faults{};
};

/// With train = k a packet here stands for k; bytes are those of all k.
struct LinkCounters {
  uint64_t packets = 0;  ///< Put on the wire.
  uint64_t bytes = 0;    ///< Likewise, with kWireOverheadBytes each.
  uint64_t tail_dropped = 0;
  uint64_t marked = 0;
  uint64_t lost = 0;
  uint64_t corrupted = 0;
  uint64_t undetected = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t cut = 0;  ///< Lost because the cable is cut.
  uint64_t queue_bytes_peak = 0;
};

/// A line that says what is wrong with these faults, if anything.
[[nodiscard]] Result<void> check(const LinkFaults& faults);
/// Likewise of a link: its rate (1 bit/s to 10 Tbit/s), delay (not negative, below an hour),
/// faults.
[[nodiscard]] Result<void> check(const LinkConfig& link);

}  // namespace tributary::net
