// SPDX-License-Identifier: Apache-2.0
#include "io/dpdk/dpdk_queue.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sched.h>

#include <algorithm>
#include <ctime>

#include "base/clock.h"
#include "io/dpdk/eal.h"
#include "io/dpdk/preflight.h"
#include "io/idle_nap.h"

namespace tributary::io {
namespace {

void nap(Duration length) {
  timespec time{};
  time.tv_nsec = in_nanoseconds(length);
  ::nanosleep(&time, nullptr);
}

VerifiedByHardware verified_of(const rte_mbuf& frame) {
  const uint64_t ip = frame.ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK;
  const uint64_t udp = frame.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
  // NONE means that the checksum in the packet is wrong, but that the card knows its bytes to be
  // intact. BAD is checked in software, because some cards report it for a missing checksum.
  return {.ip_checksum = ip == RTE_MBUF_F_RX_IP_CKSUM_GOOD || ip == RTE_MBUF_F_RX_IP_CKSUM_NONE,
          .udp_checksum = udp == RTE_MBUF_F_RX_L4_CKSUM_GOOD || udp == RTE_MBUF_F_RX_L4_CKSUM_NONE};
}

}  // namespace

DpdkQueue::DpdkQueue(const Config& config, const FrameLinkConfig& link, NeighbourTable& neighbours,
                     std::span<const std::unique_ptr<DpdkDevice>> devices)
    : config_(config),
      devices_(devices),
      link_(link, neighbours),
      transmitter_(config.transmitter, devices, link_, counters_),
      reply_(std::max(config.frame_bytes_max, kLinkFrameBytesMax)),
      now_(monotonic_now()),
      busy_at_(now_) {}

DpdkQueue::~DpdkQueue() {
  free_held();
  for (uint32_t i = 0; i < received_count_; i++) rte_pktmbuf_free(received_[i].frame);
}

uint32_t DpdkQueue::receive(std::span<engine::Packet> burst) {
  register_dpdk_thread();
  free_held();
  now_ = monotonic_now();
  const auto room = static_cast<uint32_t>(std::min<size_t>(burst.size(), received_.size()));
  if (received_count_ == 0) received_count_ = poll_devices(room);
  const uint32_t looked_at = std::min(received_count_, room);
  uint32_t filled = 0;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < looked_at; i++) {
    if (!take(received_[i], burst[filled])) continue;
    bytes += burst[filled].size;
    filled++;
  }
  std::copy(received_.begin() + looked_at, received_.begin() + received_count_, received_.begin());
  received_count_ -= looked_at;
  if (looked_at > 0) busy_at_ = now_;
  send_own_frames();
  counters_.rx_packets.add(filled);
  counters_.rx_bytes.add(bytes);
  return filled;
}

uint32_t DpdkQueue::poll_devices(uint32_t room) {
  uint32_t count = 0;
  std::array<rte_mbuf*, engine::kBurstPackets> frames;
  const auto sources = static_cast<uint32_t>(config_.sources.size());
  for (uint32_t i = 0; i < sources && count < room; i++) {
    const Source& source = config_.sources[source_next_];
    source_next_ = source_next_ + 1 == sources ? 0 : source_next_ + 1;
    const uint16_t got =
        rte_eth_rx_burst(devices_[source.device]->port_id(), static_cast<uint16_t>(source.queue),
                         frames.data(), static_cast<uint16_t>(room - count));
    for (uint16_t k = 0; k < got; k++) received_[count++] = {frames[k], source.device};
  }
  return count;
}

/// Returns the frame in one buffer. If it is too large, frees and counts it and returns null.
rte_mbuf* DpdkQueue::in_one_piece(const ReceivedFrame& received) {
  const DpdkDevice& device = *devices_[received.device];
  rte_mbuf* whole = nullptr;
  if (rte_pktmbuf_pkt_len(received.frame) <= dpdk_frame_bytes(device.mtu())) {
    whole = device.in_one_buffer(received.frame);
  } else {
    link_.count(FrameOutcome::kGiant);
    rte_pktmbuf_free(received.frame);
  }
  if (whole == nullptr) counters_.rx_truncated.add(1);
  return whole;
}

/// Inspects a frame. @return true if `packet` is a payload for the engine; the frame is then held.
bool DpdkQueue::take(const ReceivedFrame& received, engine::Packet& packet) {
  rte_mbuf* frame = in_one_piece(received);
  if (frame == nullptr) return false;
  auto* data = rte_pktmbuf_mtod(frame, std::byte*);
  const Arrival arrival = link_.receive({data, rte_pktmbuf_data_len(frame)}, received.device,
                                        verified_of(*frame), now_, reply_);
  if (arrival.reply_bytes > 0) {
    transmitter_.send_frame({reply_.data(), arrival.reply_bytes}, received.device);
  }
  if (arrival.outcome != FrameOutcome::kDelivered) {
    rte_pktmbuf_free(frame);
    return false;
  }
  held_[held_count_++] = frame;
  packet.data = data + arrival.offset;
  packet.size = arrival.size;
  packet.layer = engine::PacketLayer::kUdpPayload;
  packet.source = arrival.source;
  return true;
}

void DpdkQueue::free_held() {
  if (held_count_ == 0) return;
  rte_pktmbuf_free_bulk(held_.data(), held_count_);
  held_count_ = 0;
}

void DpdkQueue::send_own_frames() {
  while (link_.next_due() <= now_) {
    const OwnFrame own = link_.next_frame(reply_, now_);
    if (own.bytes > 0) transmitter_.send_frame({reply_.data(), own.bytes}, own.device);
  }
  transmitter_.flush();
}

void DpdkQueue::transmit(std::span<const engine::TxPacket> packets) {
  transmitter_.transmit(packets, now_);
}

void DpdkQueue::wait(Duration at_most) {
  const Instant began = monotonic_now();
  const Instant until = std::min(began + at_most, link_.next_due());
  for (Instant now = began;; now = monotonic_now()) {
    // Acquire pairs with the release in wake(): this thread sees everything the waker did before.
    if (woken_.exchange(false, std::memory_order_acquire)) return;
    if (received_count_ == 0) received_count_ = poll_devices(engine::kBurstPackets);
    if (received_count_ > 0 || now >= until) return;
    const Duration length = std::min(idle_nap(now - busy_at_), until - now);
    if (config_.poll) continue;
    if (length < kNapMin) {
      sched_yield();  // Another process may have the core meanwhile.
    } else {
      counters_.system_calls.add(1);
      nap(length);
    }
  }
}

void DpdkQueue::visit_counters(const CounterVisitor& visit) const { link_.visit_counters(visit); }

void DpdkQueue::leave_groups() {
  now_ = monotonic_now();
  link_.leave_all(now_);
  send_own_frames();
}

}  // namespace tributary::io
