// SPDX-License-Identifier: Apache-2.0
#include "io/memory/in_memory_port.h"

#include <cstring>
#include <mutex>

#include "base/assert.h"
#include "io/counter_cells.h"
#include "io/memory/packet_ring.h"

namespace tributary::io {

using engine::PacketLayer;

class alignas(128) InMemoryPort::Queue final : public engine::PortQueue {
 public:
  explicit Queue(const InMemoryPortConfig& config)
      : config_(config),
        received_(config.rx_packets_max, config.payload_bytes_max + kUdpFrameHeaderBytesIpv6),
        sent_(config.tx_packets_max, config.payload_bytes_max + kUdpFrameHeaderBytesIpv6) {}

  uint32_t receive(std::span<engine::Packet> burst) override {
    const std::scoped_lock lock(mutex_);
    received_.reclaim();
    uint32_t filled = 0;
    uint64_t bytes = 0;
    while (filled < burst.size()) {
      const PacketRing::Slot* slot = received_.lend();
      if (slot == nullptr) break;
      engine::Packet& packet = burst[filled++];
      packet = {.data = slot->data,
                .size = slot->size,
                .layer = config_.layer,
                .source = config_.layer == PacketLayer::kFrame ? Endpoint{} : slot->endpoint};
      bytes += packet.size;
    }
    counters_.rx_packets.add(filled);
    counters_.rx_bytes.add(bytes);
    return filled;
  }

  void transmit(std::span<const engine::TxPacket> packets) override {
    const std::scoped_lock lock(mutex_);
    for (const engine::TxPacket& packet : packets) {
      const std::span<std::byte> slot = sent_.free_slot();
      const bool fits = !slot.empty() && can_take(packet, slot);
      const uint32_t size = fits ? write(packet, slot) : 0;
      if (!fits || (size == 0 && config_.layer == PacketLayer::kFrame)) {
        counters_.tx_refused.add(1);
        continue;
      }
      sent_.push(size, packet.destination);
      counters_.tx_packets.add(1);
      counters_.tx_bytes.add(size);
    }
  }

  void wait(Duration) override {}
  void wake() override {}
  engine::PortCounters counters() const override { return counters_.read(); }

  bool inject(std::span<const std::byte> bytes, const Endpoint& from) {
    const std::scoped_lock lock(mutex_);
    const std::span<std::byte> slot = received_.free_slot();
    if (slot.empty()) return false;
    if (bytes.size() > slot.size()) {
      counters_.rx_truncated.add(1);
      return false;
    }
    if (!bytes.empty()) std::memcpy(slot.data(), bytes.data(), bytes.size());
    received_.push(static_cast<uint32_t>(bytes.size()), from);
    return true;
  }

  bool inject_payload(std::span<const std::byte> payload, const Endpoint& from) {
    if (config_.layer != PacketLayer::kFrame) return inject(payload, from);
    const std::scoped_lock lock(mutex_);
    const std::span<std::byte> slot = received_.free_slot();
    if (slot.empty()) return false;
    const uint32_t size = build_udp_frame({.source_mac = config_.remote_mac,
                                           .destination_mac = config_.local_mac,
                                           .source = from,
                                           .destination = config_.local},
                                          payload, slot);
    if (size == 0) {
      counters_.rx_truncated.add(1);
      return false;
    }
    received_.push(size, from);
    return true;
  }

  std::vector<SentPacket> take_sent() {
    const std::scoped_lock lock(mutex_);
    std::vector<SentPacket> taken;
    taken.reserve(sent_.filled_count());
    while (const PacketRing::Slot* slot = sent_.lend()) {
      taken.push_back({{slot->data, slot->data + slot->size}, slot->endpoint});
    }
    sent_.reclaim();
    return taken;
  }

  uint32_t waiting_count() const {
    const std::scoped_lock lock(mutex_);
    return received_.filled_count();
  }

 private:
  /// Returns true if the packet fits. Only a kFrame port can send a whole frame.
  bool can_take(const engine::TxPacket& packet, std::span<std::byte> slot) const {
    if (packet.layer == PacketLayer::kUdpPayload) return packet.size <= config_.payload_bytes_max;
    return config_.layer == PacketLayer::kFrame && packet.size <= slot.size();
  }

  /// Writes the packet to `slot`.
  /// @return bytes written; 0 for an empty payload, and for a frame that cannot be built.
  uint32_t write(const engine::TxPacket& packet, std::span<std::byte> slot) const {
    const std::span<const std::byte> bytes(packet.data, packet.size);
    if (config_.layer == PacketLayer::kFrame && packet.layer == PacketLayer::kUdpPayload) {
      return build_udp_frame({.source_mac = config_.local_mac,
                              .destination_mac = config_.remote_mac,
                              .source = config_.local,
                              .destination = packet.destination},
                             bytes, slot);
    }
    if (!bytes.empty()) std::memcpy(slot.data(), bytes.data(), bytes.size());
    return packet.size;
  }

  const InMemoryPortConfig& config_;
  mutable std::mutex mutex_;  ///< Guards all members below.
  PacketRing received_;
  PacketRing sent_;
  PortCounterCells counters_;
};

InMemoryPort::InMemoryPort(const InMemoryPortConfig& config) : config_(config) {
  TRIB_ASSERT(config.queue_count > 0 && config.rx_packets_max > 0 && config.tx_packets_max > 0);
  for (uint32_t i = 0; i < config.queue_count; i++) {
    queues_.push_back(std::make_unique<Queue>(config_));
  }
}

InMemoryPort::~InMemoryPort() = default;

uint32_t InMemoryPort::queue_count() const { return config_.queue_count; }

InMemoryPort::Queue& InMemoryPort::at(uint32_t index) const {
  TRIB_ASSERT(index < queues_.size());
  return *queues_[index];
}

engine::PortQueue& InMemoryPort::queue(uint32_t index) { return at(index); }

bool InMemoryPort::inject(uint32_t queue_index, std::span<const std::byte> bytes,
                          const Endpoint& from) {
  return at(queue_index).inject(bytes, from);
}

bool InMemoryPort::inject_payload(uint32_t queue_index, std::span<const std::byte> payload,
                                  const Endpoint& from) {
  return at(queue_index).inject_payload(payload, from);
}

std::vector<SentPacket> InMemoryPort::take_sent(uint32_t queue_index) {
  return at(queue_index).take_sent();
}

uint32_t InMemoryPort::waiting_count(uint32_t queue_index) const {
  return at(queue_index).waiting_count();
}

}  // namespace tributary::io
