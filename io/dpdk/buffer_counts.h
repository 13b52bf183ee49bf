// SPDX-License-Identifier: Apache-2.0
/// @file
/// How many packet buffers a DPDK port has, and so how much memory: once, for those who make them
/// and for those who look beforehand whether they can be had.
///
/// Shapes:  Each device has a pool for what it receives; a port has one for payloads that it sends
///          and one for headers in front of shared payloads.
/// Units:   Counts are buffers, bytes are bytes.
/// Tests:   tests/io/dpdk/preflight_test.cc (growth), tests/io/dpdk/dpdk_port_test.cc (that they
///          suffice)
#pragma once

#include <cstdint>

#include "engine/port.h"

namespace tributary::io {

/// Descriptors of a queue, before the driver has had its say. A window of 256 packets of four
/// workers fits.
inline constexpr uint16_t kDescriptors = 1024;
/// Buffers that each core's cache keeps; DPDK lets it grow to half as many again.
inline constexpr uint32_t kCacheBuffers = 256;
/// Buffers of a core that are neither in a ring nor in a cache: two bursts in the program's hands.
inline constexpr uint32_t kHeldBuffers = 2 * engine::kBurstPackets;
/// Buffers of a core for what it sends: in its hands and in its cache.
inline constexpr uint32_t kCoreSendBuffers = 1024;

/// Buffers that net_af_xdp takes for a queue, whatever its descriptors: to receive into, and as
/// many for copies of what it sends, which come from the same pool. Source: DPDK 22.11,
/// rte_eth_af_xdp.c, ETH_AF_XDP_DFLT_NUM_DESCS.
inline constexpr uint32_t kAfXdpQueueBuffers = 2 * 2048;

/// @param descriptors Of a queue.
constexpr uint32_t receive_buffers(uint32_t descriptors, uint32_t queues, uint32_t cores) {
  return descriptors * queues + cores * (kCacheBuffers * 3 / 2 + kHeldBuffers);
}

/// @param descriptors Of all transmit queues of all devices: what they may hold until it is sent.
constexpr uint32_t send_buffers(uint32_t descriptors, uint32_t cores) {
  return descriptors + cores * kCoreSendBuffers;
}

/// Memory of a buffer that holds `bytes`, with what DPDK puts around it: its head (rte_mbuf, 128),
/// the room in front of a packet (128), the pool's own head and padding to spread the buffers over
/// memory channels (up to 192). Source: DPDK 22.11, rte_mbuf_core.h and rte_mempool.c.
constexpr uint64_t buffer_memory_bytes(uint32_t bytes) { return uint64_t{bytes} + 128 + 128 + 192; }

/// Memory of a pool beside its buffers: a cache of 8 KB for each of DPDK's 128 cores, and a ring.
inline constexpr uint64_t kPoolMemoryBytes = 2 << 20;
/// Of DPDK itself and of a device, with room for pages that are not filled. Assumed; measured were
/// 3 and 9 MB beside the buffers of one and four vhost devices, pools included.
inline constexpr uint64_t kEalMemoryBytes = 16 << 20;
inline constexpr uint64_t kDeviceMemoryBytes = 2 << 20;

}  // namespace tributary::io
