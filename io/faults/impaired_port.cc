// SPDX-License-Identifier: Apache-2.0
#include "io/faults/impaired_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "io/faults/fault_lane.h"
#include "io/frames/udp_frame.h"

namespace tributary::io {

using engine::kBurstPackets;

class alignas(128) ImpairedPort::Queue final : public engine::PortQueue, public engine::WaitSource {
 public:
  Queue(engine::PortQueue& inner, const ImpairmentConfig& config, uint32_t index,
        uint32_t slot_bytes)
      : inner_(inner),
        rx_(config.rx, config, uint64_t{index} * 2, slot_bytes),
        tx_(config.tx, config, uint64_t{index} * 2 + 1, slot_bytes) {}

  uint32_t receive(std::span<engine::Packet> burst) override {
    call_passed();
    flush_due_tx();
    rx_.held.reclaim();  // The caller has finished with the packets of the previous call.
    Received out{burst, 0, 0};
    release_due(out);
    if (out.room() == 0) return out.count;
    // Asks for half of the room, so that duplicates and released packets have room too.
    const uint32_t wanted = std::clamp(out.room() / 2, 1U, kBurstPackets);
    const uint32_t count = inner_.receive(std::span(arrived_).first(wanted));
    out.reserved = count;
    for (uint32_t i = 0; i < count; i++) {
      out.reserved--;
      pass_received(arrived_[i], out);
    }
    return out.count;
  }

  void transmit(std::span<const engine::TxPacket> packets) override {
    call_passed();
    for (const engine::TxPacket& packet : packets) {
      make_room_tx(2);
      pass_sent(packet);
      push_due_tx();
    }
    flush_due_tx();
  }

  void wait(Duration at_most) override {
    if (release_held()) inner_.wait(at_most);
  }

  bool begin_wait(std::vector<pollfd>& polled) override {
    return release_held() && inner_.wait_source()->begin_wait(polled);
  }
  void end_wait(std::span<const pollfd> polled) override { inner_.wait_source()->end_wait(polled); }
  engine::WaitSource* wait_source() override {
    return inner_.wait_source() != nullptr ? this : nullptr;
  }

  void wake() override { inner_.wake(); }
  engine::PortCounters counters() const override { return inner_.counters(); }
  std::optional<uint64_t> rx_dropped() const override { return inner_.rx_dropped(); }
  bool is_send_crowded() const override { return inner_.is_send_crowded(); }

  FaultCounts rx_faults() const { return rx_.counts(); }
  FaultCounts tx_faults() const { return tx_.counts(); }

 private:
  /// The burst being filled. `reserved` packets of the inner burst still need room in it.
  struct Received {
    std::span<engine::Packet> burst;
    uint32_t count;
    uint32_t reserved;
    uint32_t room() const { return static_cast<uint32_t>(burst.size()) - count - reserved; }
    void push(const engine::Packet& packet) { burst[count++] = packet; }
  };

  /// Ends the holding of packets before a wait.
  /// @return false if the next receive() has a packet to return.
  bool release_held() {
    tx_.held.make_all_due();
    flush_due_tx();
    if (!rx_.held.holds_any()) return true;
    rx_.held.make_all_due();
    return false;
  }

  void call_passed() {
    rx_.held.call_passed();
    tx_.held.call_passed();
  }

  // --- receiving ---

  void pass_received(engine::Packet packet, Received& out) {
    const Fate fate = rx_.draw();
    if (fate.lost) return rx_.lost.add(1);
    if (fate.corrupted && packet.size != 0) rx_.corrupt(packet.data, packet.size);
    std::optional<uint32_t> copy;
    if (fate.reordered || fate.duplicated) {
      copy = rx_.held.copy(packet.bytes(), packet.layer, packet.source);
    }
    const bool held = copy && fate.reordered;
    const bool doubled = copy && fate.duplicated;
    if (!held || doubled) {
      out.push(packet);
      rx_.held.packet_passed();
    }
    if (held) {
      rx_.hold(*copy);
      rx_.reordered.add(1);
    }
    if (doubled) rx_.duplicated.add(1);
    if (doubled && !held) {
      if (out.room() != 0) {
        out.push(as_packet(rx_.held.slot(*copy)));
      } else {
        rx_.held.hold(*copy, 0, 0);  // Due at once: the next call returns it first.
      }
    }
    release_due(out);
  }

  void release_due(Received& out) {
    while (out.room() != 0) {
      const auto due = rx_.held.take_due();
      if (!due) return;
      out.push(as_packet(rx_.held.slot(*due)));
    }
  }

  static engine::Packet as_packet(const HeldPackets::Slot& slot) {
    return {.data = slot.data, .size = slot.size, .layer = slot.layer, .source = slot.endpoint};
  }

  // --- sending ---

  /// Passes one packet on; it pushes at most two packets.
  void pass_sent(const engine::TxPacket& packet) {
    const Fate fate = tx_.draw();
    if (fate.lost) return tx_.lost.add(1);
    const bool corrupted = fate.corrupted && packet.size != 0;
    engine::TxPacket passed = packet;
    std::optional<uint32_t> copy;
    if (fate.reordered || corrupted) {
      copy = tx_.held.copy({packet.data, packet.size}, engine::PacketLayer::kUdpPayload,
                           packet.destination);
      if (copy) passed.data = tx_.held.slot(*copy).data;
    }
    if (copy && corrupted) tx_.corrupt(tx_.held.slot(*copy).data, packet.size);
    const bool held = copy && fate.reordered;
    if (!held || fate.duplicated) {
      push_sent(passed);
      tx_.held.packet_passed();
    }
    if (held) {
      tx_.hold(*copy);
      tx_.reordered.add(1);
    }
    if (fate.duplicated) tx_.duplicated.add(1);
    if (fate.duplicated && !held) push_sent(passed);
  }

  /// Flushes the collected packets unless there is room for `packet_count` more and a free slot for
  /// a copy. Only make_room_tx() and flush_tx() free lent slots, so a pointer into a lent slot is
  /// valid until the next call of either.
  void make_room_tx(uint32_t packet_count) {
    if (leaving_.size() - leaving_count_ < packet_count || !tx_.held.has_free()) flush_tx();
  }

  void push_sent(const engine::TxPacket& packet) { leaving_[leaving_count_++] = packet; }

  void push_due_tx() {
    for (;;) {
      make_room_tx(1);
      const auto due = tx_.held.take_due();
      if (!due) return;
      const HeldPackets::Slot& slot = tx_.held.slot(*due);
      push_sent({.data = slot.data, .size = slot.size, .destination = slot.endpoint});
    }
  }

  void flush_due_tx() {
    push_due_tx();
    flush_tx();
  }

  void flush_tx() {
    if (leaving_count_ != 0) inner_.transmit(std::span(leaving_).first(leaving_count_));
    leaving_count_ = 0;
    tx_.held.reclaim();
  }

  engine::PortQueue& inner_;
  FaultLane rx_;
  FaultLane tx_;
  std::array<engine::Packet, kBurstPackets> arrived_;
  std::array<engine::TxPacket, 4 * kBurstPackets> leaving_;
  uint32_t leaving_count_ = 0;
};

namespace {

Result<bool> check_rates(const FaultRates& rates, std::string_view direction) {
  const auto check = [&](double rate, std::string_view name) -> Result<bool> {
    if (rate >= 0 && rate <= 1) return true;  // A NaN fails this test.
    return failure(
        fmt::format("{}.{} {} is not allowed; it must be 0 to 1", direction, name, rate));
  };
  for (const auto& [rate, name] : {std::pair{rates.loss, "loss"},
                                   {rates.corrupt, "corrupt"},
                                   {rates.reorder, "reorder"},
                                   {rates.duplicate, "duplicate"}}) {
    if (const auto checked = check(rate, name); !checked) return checked;
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<ImpairedPort>> ImpairedPort::make(std::unique_ptr<engine::Port> inner,
                                                         const ImpairmentConfig& config) {
  TRIB_ASSERT(inner != nullptr);
  if (const auto rx = check_rates(config.rx, "rx"); !rx) return tl::unexpected(rx.error());
  if (const auto tx = check_rates(config.tx, "tx"); !tx) return tl::unexpected(tx.error());
  if (config.reorder_packets_max == 0 || config.hold_calls_max == 0) {
    return failure(
        fmt::format("reorder_packets_max {} and hold_calls_max {} must both be at least 1",
                    config.reorder_packets_max, config.hold_calls_max));
  }
  return std::unique_ptr<ImpairedPort>(new ImpairedPort(std::move(inner), config));
}

ImpairedPort::ImpairedPort(std::unique_ptr<engine::Port> inner, const ImpairmentConfig& config)
    : inner_(std::move(inner)) {
  const uint32_t slot_bytes = inner_->payload_bytes_max() + kUdpFrameHeaderBytesIpv6;
  for (uint32_t i = 0; i < inner_->queue_count(); i++) {
    queues_.push_back(std::make_unique<Queue>(inner_->queue(i), config, i, slot_bytes));
  }
}

ImpairedPort::~ImpairedPort() = default;

uint32_t ImpairedPort::queue_count() const { return static_cast<uint32_t>(queues_.size()); }

engine::PortQueue& ImpairedPort::queue(uint32_t index) {
  TRIB_ASSERT(index < queues_.size());
  return *queues_[index];
}

FaultCounts ImpairedPort::rx_faults(uint32_t queue_index) const {
  TRIB_ASSERT(queue_index < queues_.size());
  return queues_[queue_index]->rx_faults();
}

FaultCounts ImpairedPort::tx_faults(uint32_t queue_index) const {
  TRIB_ASSERT(queue_index < queues_.size());
  return queues_[queue_index]->tx_faults();
}

}  // namespace tributary::io
