// SPDX-License-Identifier: Apache-2.0
/// @file
/// The number of packet buffers of a DPDK port and the memory that they need. Both the code that
/// creates the buffers and the check before the start use these numbers.
///
/// Shapes:  Each device has a pool for received packets. A port has one pool for payloads that it
///          sends, and one for headers in front of shared payloads.
/// Units:   Counts are in buffers, sizes in bytes.
/// Tests:   tests/io/dpdk/preflight_test.cc (growth), tests/io/dpdk/dpdk_port_test.cc (that they
///          suffice)
#pragma once

#include <cstdint>

#include "engine/port.h"

namespace tributary::io {

/// Descriptors that a queue asks for; the driver may adjust the number. A window of 256 packets of
/// four workers fits.
inline constexpr uint16_t kDescriptors = 1024;
/// Buffers that each core's cache keeps; DPDK lets it grow by half.
inline constexpr uint32_t kCacheBuffers = 256;
/// Buffers of a core that are neither in a ring nor in a cache: the program holds two bursts.
inline constexpr uint32_t kHeldBuffers = 2 * engine::kBurstPackets;
/// Buffers of a core for sending: held by the program and in the core's cache.
inline constexpr uint32_t kCoreSendBuffers = 1024;

/// Buffers that net_af_xdp takes for a queue, whatever its descriptors: one half to receive into,
/// one half for copies of sent frames, which come from the same pool. Source: DPDK 22.11,
/// rte_eth_af_xdp.c, ETH_AF_XDP_DFLT_NUM_DESCS.
inline constexpr uint32_t kAfXdpQueueBuffers = 2 * 2048;

/// Returns the receive buffers of a device.
/// @param descriptors Number of descriptors of one queue.
constexpr uint32_t receive_buffers(uint32_t descriptors, uint32_t queues, uint32_t cores) {
  return descriptors * queues + cores * (kCacheBuffers * 3 / 2 + kHeldBuffers);
}

/// Returns the send buffers of a port.
/// @param descriptors Number of descriptors of all transmit queues of all devices; they may all
///                    hold unsent buffers.
constexpr uint32_t send_buffers(uint32_t descriptors, uint32_t cores) {
  return descriptors + cores * kCoreSendBuffers;
}

/// Returns the memory of a buffer that holds `bytes`, with DPDK's additions: the buffer's head
/// (rte_mbuf, 128), the room in front of a packet (128), and the pool's own head with the padding
/// that spreads buffers over memory channels (up to 192). Source: DPDK 22.11, rte_mbuf_core.h and
/// rte_mempool.c.
constexpr uint64_t buffer_memory_bytes(uint32_t bytes) { return uint64_t{bytes} + 128 + 128 + 192; }

/// Memory of a pool without its buffers: a ring, and a cache of 8 KB for each of DPDK's 128 cores.
inline constexpr uint64_t kPoolMemoryBytes = 2 << 20;
/// Memory of DPDK itself and of a device, with room for partly filled pages. Assumed; without the
/// buffers, one vhost device needed 3 MB and four needed 9 MB, pools included (measured).
inline constexpr uint64_t kEalMemoryBytes = 16 << 20;
inline constexpr uint64_t kDeviceMemoryBytes = 2 << 20;

}  // namespace tributary::io
