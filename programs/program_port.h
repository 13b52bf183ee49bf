// SPDX-License-Identifier: Apache-2.0
/// @file
/// The port of a program on live traffic, around the port that moves its packets. Counts the frames
/// that the program forwards, as the output ports of the chip do, and copies its messages to a
/// relay.
///
/// Units:   Frame bytes.
/// Threads: As engine::PortQueue; forwarded() belongs to the queue's thread, too.
/// Tests:   tests/programs/program_port_test.cc
#pragma once

#include <memory>
#include <utility>

#include "base/assert.h"
#include "engine/port.h"
#include "memory/rmw.h"
#include "programs/message_relay.h"

namespace tributary::programs {

class ProgramPort final : public engine::Port, private engine::PortQueue {
 public:
  /// @param inner Has one queue.
  /// @param relay Receives the messages; null: they only go to the inner port.
  ProgramPort(std::unique_ptr<engine::Port> inner, MessageRelay* relay)
      : inner_(std::move(inner)), queue_(inner_->queue(0)), relay_(relay) {
    TRIB_ASSERT(inner_->queue_count() == 1);
  }

  [[nodiscard]] uint32_t queue_count() const override { return 1; }
  [[nodiscard]] engine::PortQueue& queue(uint32_t) override { return *this; }
  [[nodiscard]] Endpoint local() const override { return inner_->local(); }
  [[nodiscard]] uint32_t payload_bytes_max() const override { return inner_->payload_bytes_max(); }

  /// Returns the number of messages that the program has made.
  [[nodiscard]] uint64_t messages() const { return messages_; }
  /// Returns the frames given to the inner port, which may refuse some of them.
  [[nodiscard]] const memory::PacketByteCounter& forwarded() const { return forwarded_; }

 private:
  uint32_t receive(std::span<engine::Packet> burst) override { return queue_.receive(burst); }
  void transmit(std::span<const engine::TxPacket> packets) override {
    for (const engine::TxPacket& packet : packets) {
      if (packet.layer == engine::PacketLayer::kFrame) {
        forwarded_.packets++;
        forwarded_.bytes += packet.size;
        continue;
      }
      messages_++;
      if (relay_ != nullptr) relay_->push({packet.data, packet.size});
    }
    queue_.transmit(packets);
  }
  void wait(Duration at_most) override { queue_.wait(at_most); }
  void wake() override { queue_.wake(); }
  [[nodiscard]] engine::PortCounters counters() const override { return queue_.counters(); }
  [[nodiscard]] std::optional<uint64_t> rx_dropped() const override { return queue_.rx_dropped(); }
  void visit_counters(const CounterVisitor& visit) const override { queue_.visit_counters(visit); }

  const std::unique_ptr<engine::Port> inner_;
  engine::PortQueue& queue_;
  MessageRelay* const relay_;
  memory::PacketByteCounter forwarded_;
  uint64_t messages_ = 0;
};

}  // namespace tributary::programs
