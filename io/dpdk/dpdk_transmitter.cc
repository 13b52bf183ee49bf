// SPDX-License-Identifier: Apache-2.0
#include "io/dpdk/dpdk_transmitter.h"

#include <rte_mbuf.h>

#include <algorithm>

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
    : config_(config), devices_(devices), link_(link), counters_(counters) {
  for (const auto& device : devices) lanes_.emplace_back(*device, config.queue_index, counters);
}

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
  lanes_[hop.device].append(frame, static_cast<uint32_t>(payload.bytes.size()));
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
  rte_mbuf* mbuf = copy_frame(frame, config_.payloads);
  if (mbuf == nullptr) {
    counters_.tx_refused.add(1);
    return;
  }
  lanes_[device].append(mbuf, TxLane::kNoPayload);
}

void DpdkTransmitter::flush() {
  for (TxLane& lane : lanes_) lane.flush();
}

}  // namespace tributary::io
