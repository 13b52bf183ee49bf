// SPDX-License-Identifier: Apache-2.0
/// @file
/// The default number of gradients and the default window of a worker.
///
/// Units:   Elements, packets, bytes.
/// Threads: Pure functions.
/// Errors:  None.
/// Source:  Measured with four `tributary worker` on loopback and 17 MB tensors (docs/c-api.md).
/// Tests:   tests/host/auto_terms_test.cc
#pragma once

#include <algorithm>
#include <cstdint>

#include "wire/path_room.h"
#include "wire/trio_ml.h"

namespace tributary::host {

/// Most elements per packet, and the default limit of a job. Twice as many were no faster, and a
/// lost packet costs twice as much.
inline constexpr uint32_t kAutoGradientsMax = 2048;

/// Returns the number of elements that fit an unfragmented packet to the aggregator.
[[nodiscard]] constexpr uint32_t auto_gradients(uint32_t path_mtu_bytes, bool ipv4,
                                                auth::Mode mode = auth::Mode::kNone) {
  return std::min(wire::gradients_in(path_mtu_bytes, ipv4, mode), kAutoGradientsMax);
}
static_assert(auto_gradients(1500, true) == 352);                     // (1500 - 20 - 8 - 64) / 4
static_assert(auto_gradients(1500, false) == 347);                    // (1500 - 40 - 8 - 64) / 4
static_assert(auto_gradients(1500, true, auth::Mode::kFull) == 346);  // … - 24
static_assert(auto_gradients(65536, true) == kAutoGradientsMax);

/// Bytes around an IP packet on an Ethernet cable: preamble 8, header 14, checksum 4, gap 12.
inline constexpr uint32_t kEthernetBytes = 38;

/// Returns the bytes on an Ethernet cable for each byte of gradients, in packets with
/// auto_gradients(). Contributions and complete results have no source mask.
[[nodiscard]] constexpr double auto_wire_ratio(uint32_t path_mtu_bytes, bool ipv4,
                                               auth::Mode mode = auth::Mode::kNone) {
  const uint32_t gradient_bytes = auto_gradients(path_mtu_bytes, ipv4, mode) * wire::kGradientBytes;
  const uint32_t other_bytes = kEthernetBytes +
                               (ipv4 ? wire::Ipv4Header::kBytes : wire::Ipv6Header::kBytes) +
                               wire::UdpHeader::kBytes + wire::TrioMlHeader::kBytes +
                               wire::kExtensionBytes + auth::seal_bytes(mode);
  return 1.0 + static_cast<double>(other_bytes) / gradient_bytes;
}
static_assert(auto_wire_ratio(1500, true) == 1 + 98.0 / 1408);  // 38 + 20 + 8 + 12 + 20
static_assert(auto_wire_ratio(9000, true) == 1 + 98.0 / 8192);

/// Default socket buffer of `tributary serve` (--buffer-mb 4): the bytes that all workers together
/// may have in flight.
inline constexpr uint32_t kAutoJobBytes = 4U << 20;
/// Bytes in flight with which a worker keeps its aggregator busy.
inline constexpr uint32_t kAutoWorkerBytes = 768U << 10;
inline constexpr uint32_t kAutoWindowMin = 16;
inline constexpr uint32_t kAutoWindowMax = 512;
/// Packets in flight of all workers together. A kernel that handles packets one by one queues
/// net.core.netdev_max_backlog = 1000 for each core before it drops. With 2048 packets of four
/// workers none was lost; with 3072 packets of six workers one in 500 was.
inline constexpr uint32_t kAutoJobPackets = 2048;

/// Returns the packets in flight of each of `world` workers.
[[nodiscard]] constexpr uint32_t auto_window(uint32_t gradients, uint32_t world) {
  const uint32_t packet_bytes = wire::kUnsealedHeadBytesMax + gradients * wire::kGradientBytes;
  const uint32_t worker_bytes = std::min(kAutoJobBytes / std::max(world, 1U), kAutoWorkerBytes);
  const uint32_t packets = std::min(kAutoWindowMax, kAutoJobPackets / std::max(world, 1U));
  return std::clamp(worker_bytes / packet_bytes, kAutoWindowMin, std::max(packets, kAutoWindowMin));
}
static_assert(auto_window(352, 4) == kAutoWindowMax);    // 786432 / 1472 = 534
static_assert(auto_window(352, 6) == 341);               // 2048 / 6
static_assert(auto_window(2048, 4) == 95);               // 786432 / 8256
static_assert(auto_window(2048, 32) == kAutoWindowMin);  // 131072 / 8256 = 15

/// Limit on the sum of a worker's windows to several aggregators, as a multiple of its window to a
/// single one. Assumed: the sum is then 12 ms of a link of 1 Gbit/s. Switches buffer about as much
/// for each port.
inline constexpr uint32_t kAutoWindowsMax = 2;

/// Returns the window of the channel to one of several aggregators. On a shared link the rate of a
/// channel follows its window. So windows follow weights, and all parts of a tensor end together.
/// @param window Towards a single aggregator.
[[nodiscard]] constexpr uint32_t weighted_window(uint32_t window, uint32_t weight,
                                                 uint64_t weight_sum) {
  const uint64_t own = uint64_t{window} * kAutoWindowsMax * weight / weight_sum;
  return static_cast<uint32_t>(std::clamp<uint64_t>(own, std::min(window, kAutoWindowMin), window));
}
static_assert(weighted_window(512, 1, 1) == 512);
static_assert(weighted_window(512, 1, 4) == 256);
static_assert(weighted_window(512, 3, 10) == 307);
static_assert(weighted_window(512, 1, 10) == 102);
static_assert(weighted_window(512, 1, 65535) == kAutoWindowMin);

}  // namespace tributary::host
