// SPDX-License-Identifier: Apache-2.0
#include "io/dpdk/dpdk_transmitter.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/clock.h"

namespace tributary::io {
namespace {

/// Appends `bytes`; there must be room. An empty payload may have a null pointer, which memcpy()
/// does not allow.
void append_bytes(rte_mbuf& frame, std::span<const std::byte> bytes) {
  char* const at = rte_pktmbuf_append(&frame, static_cast<uint16_t>(bytes.size()));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(at));
}

}  // namespace

DpdkTransmitter::DpdkTransmitter(const Config& config,
                                 std::span<const std::unique_ptr<DpdkDevice>> devices,
                                 FrameLink& link, PortCounterCells& counters)
    : config_(config),
      devices_(devices),
      link_(link),
      counters_(counters),
      lanes_(devices.size()) {}

DpdkTransmitter::~DpdkTransmitter() { flush(); }

void DpdkTransmitter::transmit(std::span<const engine::TxPacket> packets, Instant now) {
  while (!packets.empty()) {
    // A payload for many destinations arrives as a run of packets with the same bytes.
    size_t run = 1;
    while (run < packets.size() && packets[run].data == packets[0].data &&
           packets[run].size == packets[0].size && packets[run].layer == packets[0].layer) {
      run++;
    }
    send_payload(packets.first(run), now);
    packets = packets.subspan(run);
  }
  flush();
}

void DpdkTransmitter::send_payload(std::span<const engine::TxPacket> copies, Instant now) {
  const engine::TxPacket& first = copies.front();
  if (first.layer != engine::PacketLayer::kUdpPayload || first.size > config_.payload_bytes_max) {
    counters_.tx_refused.add(copies.size());
    return;
  }
  Payload payload{.bytes = {first.data, first.size}};
  const bool to_group = first.destination.is_multicast();
  if (copies.size() > 1 || (to_group && devices_.size() > 1)) {
    payload.shared = rte_pktmbuf_alloc(config_.payloads);
    if (payload.shared != nullptr) {
      append_bytes(*payload.shared, payload.bytes);
    }
  }
  for (const engine::TxPacket& copy : copies) {
    const auto hop = link_.route(copy.destination, now);
    if (!hop) {
      counters_.tx_refused.add(1);
      continue;
    }
    if (!copy.destination.is_multicast()) {
      send_copy(payload, copy.destination, *hop);
      continue;
    }
    for (uint32_t device = 0; device < devices_.size(); device++) {
      send_copy(payload, copy.destination, {.device = device, .mac = hop->mac});
    }
  }
  if (payload.shared != nullptr) rte_pktmbuf_free(payload.shared);  // Frames hold references.
}

void DpdkTransmitter::send_copy(Payload& payload, const Endpoint& destination, const Hop& hop) {
  rte_mbuf* frame = frame_of(payload, link_.addresses(hop, destination), hop.device);
  if (frame == nullptr) {
    counters_.tx_refused.add(1);
    return;
  }
  append(frame, static_cast<uint32_t>(payload.bytes.size()), hop.device);
}

/// @return null if no buffer is left, or if the destination has another address family.
rte_mbuf* DpdkTransmitter::frame_of(Payload& payload, const UdpFrameAddresses& addresses,
                                    uint32_t device) {
  const auto size = static_cast<uint16_t>(payload.bytes.size());
  const bool separate = payload.shared != nullptr && devices_[device]->tx_segments();
  rte_mbuf* frame = rte_pktmbuf_alloc(separate ? config_.headers : config_.payloads);
  if (frame == nullptr) return nullptr;
  const uint32_t header_bytes =
      addresses.source.is_ipv4() ? kUdpFrameHeaderBytesIpv4 : kUdpFrameHeaderBytesIpv6;
  char* at = nullptr;
  if (separate) {
    at = rte_pktmbuf_append(frame, static_cast<uint16_t>(header_bytes));
  } else {
    append_bytes(*frame, payload.bytes);
    at = rte_pktmbuf_prepend(frame, static_cast<uint16_t>(header_bytes));
  }
  if (write_headers(payload, addresses, device, *frame, reinterpret_cast<std::byte*>(at),
                    header_bytes) == 0) {
    rte_pktmbuf_free(frame);
    return nullptr;
  }
  if (separate) {
    rte_mbuf_refcnt_update(payload.shared, 1);
    frame->next = payload.shared;
    frame->nb_segs = 2;
    frame->pkt_len += size;
  }
  return frame;
}

uint32_t DpdkTransmitter::write_headers(Payload& payload, const UdpFrameAddresses& addresses,
                                        uint32_t device, rte_mbuf& frame, std::byte* at,
                                        uint32_t room) {
  const bool ipv4 = addresses.source.is_ipv4();
  UdpChecksum checksum = UdpChecksum::kComplete;
  if (devices_[device]->tx_checksum()) {
    checksum = UdpChecksum::kPseudoHeader;
    frame.l2_len = kEthernetHeaderBytes;
    frame.l3_len = static_cast<uint16_t>(ipv4 ? kIpv4HeaderBytes : kIpv6HeaderBytes) & 0x1ff;
    frame.ol_flags |= RTE_MBUF_F_TX_UDP_CKSUM | (ipv4 ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6);
  } else if (devices_[device]->is_shared_memory() && ipv4) {
    checksum = UdpChecksum::kNone;
  } else if (!payload.has_sum) {
    payload.sum = word_sum(payload.bytes);
    payload.has_sum = true;
  }
  return write_udp_frame_headers(addresses, static_cast<uint32_t>(payload.bytes.size()),
                                 payload.sum, checksum, {at, room});
}

void DpdkTransmitter::send_frame(std::span<const std::byte> frame, uint32_t device) {
  rte_mbuf* mbuf = rte_pktmbuf_alloc(config_.payloads);
  char* at =
      mbuf == nullptr ? nullptr : rte_pktmbuf_append(mbuf, static_cast<uint16_t>(frame.size()));
  if (at == nullptr) {
    rte_pktmbuf_free(mbuf);
    counters_.tx_refused.add(1);
    return;
  }
  std::memcpy(at, frame.data(), frame.size());
  append(mbuf, kNoPayload, device);
}

void DpdkTransmitter::append(rte_mbuf* frame, uint32_t payload_bytes, uint32_t device) {
  Lane& lane = lanes_[device];
  if (lane.count == kBurst) flush_lane(device);
  lane.payload_bytes[lane.count] = payload_bytes;
  lane.frames[lane.count++] = frame;
}

void DpdkTransmitter::flush() {
  for (uint32_t device = 0; device < devices_.size(); device++) {
    if (lanes_[device].count > 0) flush_lane(device);
  }
}

void DpdkTransmitter::flush_lane(uint32_t device) {
  Lane& lane = lanes_[device];
  const std::span<rte_mbuf*> frames(lane.frames.data(), lane.count);
  uint32_t done = 0;
  Instant full_until = Instant::never();
  while (true) {
    const Offered offered = offer_to(device, frames.subspan(done));
    count_sent({lane.payload_bytes.data() + done, offered.sent});
    done += offered.sent;
    if (offered.refuses_next) drop(frames.subspan(done++, 1));
    const bool moved = offered.sent > 0 || offered.refuses_next;
    if (moved) lane.stuck = false;
    if (done == lane.count || lane.stuck) break;
    const Instant now = monotonic_now();
    if (full_until == Instant::never() || moved) full_until = now + kFullWait;
    if (now >= full_until) {
      lane.stuck = true;
      break;
    }
    if (!offered.refuses_next) sched_yield();  // The process that empties the device may need it.
  }
  drop(frames.subspan(done));
  lane.count = 0;
}

Offered DpdkTransmitter::offer_to(uint32_t device, std::span<rte_mbuf*> frames) {
  DpdkDevice& to = *devices_[device];
  const auto queue = static_cast<uint16_t>(config_.queue_index % to.tx_queues());
  const auto prepare = [&](std::span<rte_mbuf*> all) -> uint32_t {
    const auto count = static_cast<uint16_t>(all.size());
    return to.tx_checksum() ? rte_eth_tx_prepare(to.port_id(), queue, all.data(), count) : count;
  };
  const auto send = [&](std::span<rte_mbuf*> ready) -> uint32_t {
    return rte_eth_tx_burst(to.port_id(), queue, ready.data(), static_cast<uint16_t>(ready.size()));
  };
  if (!to.shares_tx_queues()) return offer(frames, prepare, send);
  const std::lock_guard lock(to.tx_lock(queue));
  return offer(frames, prepare, send);
}

void DpdkTransmitter::count_sent(std::span<const uint32_t> payload_bytes) {
  uint64_t packets = 0;
  uint64_t bytes = 0;
  for (const uint32_t size : payload_bytes) {
    packets += size == kNoPayload ? 0 : 1;
    bytes += size == kNoPayload ? 0 : size;
  }
  counters_.tx_packets.add(packets);
  counters_.tx_bytes.add(bytes);
}

void DpdkTransmitter::drop(std::span<rte_mbuf*> frames) {
  if (frames.empty()) return;
  rte_pktmbuf_free_bulk(frames.data(), static_cast<unsigned>(frames.size()));
  counters_.tx_refused.add(frames.size());
}

}  // namespace tributary::io
