// SPDX-License-Identifier: Apache-2.0
#include "io/memory/replay_port.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/assert.h"
#include "base/byte_order.h"
#include "io/counter_cells.h"
#include "io/udp/udp_port_config.h"

namespace tributary::io {

static_assert(std::is_trivially_copyable_v<engine::Packet>);

class alignas(128) ReplayPort::Queue final : public engine::PortQueue {
 public:
  explicit Queue(const ReplaySource& source) : source_(source), left_(source.packet_count) {}

  uint32_t receive(std::span<engine::Packet> burst) override {
    // Stops at the end of the prepared packets, so that one copy loop is enough.
    const uint64_t round_left = source_.packets.size() - next_;
    const uint64_t filled = std::min({uint64_t{burst.size()}, round_left, left_});
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < filled; i++) {
      const engine::Packet& packet = source_.packets[next_ + i];
      // Copies the whole struct with its padding: three vector moves instead of one per field.
      std::memcpy(&burst[i], &packet, sizeof packet);
      bytes += packet.size;
    }
    next_ = filled == round_left ? 0 : next_ + filled;
    left_ -= filled;
    counters_.rx_packets.add(filled);
    counters_.rx_bytes.add(bytes);
    return static_cast<uint32_t>(filled);
  }

  void transmit(std::span<const engine::TxPacket> packets) override {
    uint64_t bytes = 0;
    uint64_t sum = 0;
    for (const engine::TxPacket& packet : packets) {
      bytes += packet.size;
      if (packet.size >= sizeof(uint64_t)) sum += load_be<uint64_t>(packet.data);
    }
    checksum_ += sum + bytes;
    counters_.tx_packets.add(packets.size());
    counters_.tx_bytes.add(bytes);
  }

  void wait(Duration) override {}
  void wake() override {}
  engine::PortCounters counters() const override { return counters_.read(); }

  bool done() const { return left_ == 0; }
  uint64_t checksum() const { return checksum_; }

 private:
  const ReplaySource source_;
  uint64_t left_;
  uint64_t next_ = 0;
  uint64_t checksum_ = 0;
  PortCounterCells counters_;
};

ReplayPort::ReplayPort(std::span<const ReplaySource> sources, const Endpoint& local)
    : local_(local) {
  TRIB_ASSERT(!sources.empty());
  for (const ReplaySource& source : sources) {
    TRIB_ASSERT(!source.packets.empty() || source.packet_count == 0);
    queues_.push_back(std::make_unique<Queue>(source));
  }
}

ReplayPort::~ReplayPort() = default;

uint32_t ReplayPort::queue_count() const { return static_cast<uint32_t>(queues_.size()); }

uint32_t ReplayPort::payload_bytes_max() const { return kUdpPayloadBytesMax; }

ReplayPort::Queue& ReplayPort::at(uint32_t index) const {
  TRIB_ASSERT(index < queues_.size());
  return *queues_[index];
}

engine::PortQueue& ReplayPort::queue(uint32_t index) { return at(index); }

bool ReplayPort::done(uint32_t queue_index) const { return at(queue_index).done(); }

uint64_t ReplayPort::checksum(uint32_t queue_index) const { return at(queue_index).checksum(); }

}  // namespace tributary::io
