// SPDX-License-Identifier: Apache-2.0
#include "io/dpdk/dpdk_side.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>

#include "base/byte_order.h"
#include "io/dpdk/buffer_counts.h"
#include "io/dpdk/eal.h"
#include "io/dpdk/open_dpdk_sides.h"
#include "io/dpdk/preflight.h"
#include "io/dpdk/start_dpdk.h"
#include "io/frames/udp_frame.h"

namespace tributary::io {
namespace {

/// Room for two VLAN tags (IEEE 802.1ad), which do not count in an MTU.
constexpr uint32_t kTagBytes = 8;

// A copy has this room before it.
static_assert(RTE_PKTMBUF_HEADROOM >= engine::kHeadroomBytes);

uint32_t frame_bytes_max(const DpdkDevice& device) {
  return dpdk_frame_bytes(device.mtu()) + kTagBytes;
}

Result<MbufPool> make_send_pool(const DpdkWire& wire, uint32_t core_count) {
  uint32_t descriptors = 0;
  uint32_t bytes = 0;
  for (const auto& device : wire.devices) {
    descriptors += device->tx_queues() * device->tx_descriptors();
    bytes = std::max(bytes, frame_bytes_max(*device));
  }
  return MbufPool::create(send_buffers(descriptors, core_count), bytes,
                          wire.devices.front()->numa_node());
}

}  // namespace

Result<OpenedDpdkSides> open_dpdk_sides(const DpdkSidesConfig& config) {
  const auto spec = join_wire_devices(config.devices);
  if (!spec) return tl::unexpected(spec.error());
  auto warnings = start_dpdk(spec->devices, spec->hugepages, config.core_count);
  if (!warnings) return tl::unexpected(warnings.error());
  OpenedDpdkSides opened;
  opened.warnings = *std::move(warnings);
  const auto wire = std::make_shared<DpdkWire>();
  for (const DpdkDeviceSpec& device : spec->devices) {
    auto made = DpdkDevice::open(device, config.core_count, config.steering);
    if (!made) return tl::unexpected(made.error());
    (*made)->add_warnings_to(opened.warnings);
    wire->devices.push_back(*std::move(made));
  }
  auto sent = make_send_pool(*wire, config.core_count);
  if (!sent) return tl::unexpected(sent.error());
  wire->sent = *std::move(sent);
  opened.sides.resize(config.core_count);
  for (uint32_t core = 0; core < config.core_count; core++) {
    for (uint32_t device = 0; device < wire->devices.size(); device++) {
      opened.sides[core].push_back(std::make_unique<DpdkSide>(wire, device, core));
    }
  }
  return opened;
}

DpdkSide::DpdkSide(std::shared_ptr<DpdkWire> wire, uint32_t device, uint32_t core)
    : wire_(std::move(wire)),
      device_(*wire_->devices[device]),
      queue_(static_cast<uint16_t>(core)),
      frame_bytes_max_(frame_bytes_max(device_)),
      lane_(device_, core, counters_) {}

DpdkSide::~DpdkSide() { free_held(); }

uint32_t DpdkSide::receive(uint32_t count_max) {
  register_dpdk_thread();
  free_held();
  std::array<rte_mbuf*, kFramesEach> arrived;
  const uint16_t got = rte_eth_rx_burst(device_.port_id(), queue_, arrived.data(),
                                        static_cast<uint16_t>(std::min(count_max, kFramesEach)));
  for (uint16_t i = 0; i < got; i++) {
    if (rte_mbuf* const frame = accept(arrived[i])) held_[held_count_++] = frame;
  }
  return held_count_;
}

/// Returns the frame in one buffer. If it is refused, frees and counts it and returns null.
rte_mbuf* DpdkSide::accept(rte_mbuf* frame) {
  const uint32_t bytes = rte_pktmbuf_pkt_len(frame);
  if (bytes < kEthernetHeaderBytes || bytes > frame_bytes_max_) {
    (bytes < kEthernetHeaderBytes ? runt_ : giant_).add(1);
    rte_pktmbuf_free(frame);
    return nullptr;
  }
  rte_mbuf* const whole = device_.in_one_buffer(frame, engine::kHeadroomBytes);
  if (whole == nullptr) no_buffer_.add(1);
  return whole;
}

std::span<std::byte> DpdkSide::frame(uint32_t index) const {
  rte_mbuf* const frame = held_[index];
  return {rte_pktmbuf_mtod(frame, std::byte*), rte_pktmbuf_data_len(frame)};
}

void DpdkSide::free_held() {
  if (held_count_ == 0) return;
  rte_pktmbuf_free_bulk(held_.data(), held_count_);
  held_count_ = 0;
}

rte_mbuf* DpdkSide::complete_copy(const Outgoing& frame) {
  if (frame.notes.gso_type != 0 || frame.bytes.size() > frame_bytes_max_) return nullptr;
  if (!frame.notes.needs_checksum()) return copy_frame(frame.bytes, wire_->sent.get());
  const auto checksum = open_checksum(frame);
  rte_mbuf* const copy = checksum ? copy_frame(frame.bytes, wire_->sent.get()) : nullptr;
  if (copy != nullptr) {
    store_be<uint16_t>(rte_pktmbuf_mtod(copy, std::byte*) + checksum->at, checksum->value);
  }
  return copy;
}

InlineSide::Sent DpdkSide::send(std::span<const Outgoing> frames) {
  const uint64_t packets_before = counters_.tx_packets.value();
  const uint64_t bytes_before = counters_.tx_bytes.value();
  for (const Outgoing& frame : frames) {
    rte_mbuf* const copy = complete_copy(frame);
    if (copy != nullptr) lane_.append(copy, static_cast<uint32_t>(frame.bytes.size()));
  }
  lane_.flush();
  return {.frames = static_cast<uint32_t>(counters_.tx_packets.value() - packets_before),
          .bytes = counters_.tx_bytes.value() - bytes_before};
}

std::optional<uint64_t> DpdkSide::rx_dropped() const {
  // The device counts for all its queues, so one core reports it.
  return no_buffer_.value() + (queue_ == 0 ? device_.missed() : 0);
}

void DpdkSide::visit_counters(const engine::PortQueue::CounterVisitor& visit) const {
  visit("giant", giant_.value());
  visit("runt", runt_.value());
  visit("no_buffer", no_buffer_.value());
  visit("device_missed", queue_ == 0 ? device_.missed() : 0);
}

}  // namespace tributary::io
