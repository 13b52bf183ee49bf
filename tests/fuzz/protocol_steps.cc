// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/protocol_steps.h"

#include <memory>
#include <numeric>

namespace tributary::fuzz {
namespace {

using host::Transfer;

constexpr uint32_t kStepsMax = 64;
constexpr uint32_t kTransfersMax = 8;
constexpr uint32_t kPacketBytesMax = 1200;
/// Packets of a step: every position once, with its probe, and control messages.
constexpr uint32_t kControlPacketsMax = 8;

/// A transfer that owns its tensor, of one of four types.
struct Tensor {
  Tensor(uint32_t elements, uint32_t type) {
    transfer.op = type >= 4 ? host::ReduceOp::kMean : host::ReduceOp::kSum;
    switch (type % 4) {
      case 0:
        integers.assign(elements, 3);
        transfer.integers = integers;
        break;
      case 1:
        transfer.elided_elements = elements;
        break;
      case 2:
        floats.assign(elements, 1.5F);
        transfer.floats = floats;
        transfer.format = wire::ElementFormat::kFixedScale;
        transfer.scale = 1e4F;
        break;
      default:
        floats.assign(elements, -2.5F);
        transfer.floats = floats;
        transfer.format = wire::ElementFormat::kBlockExponent;
    }
  }
  std::vector<int32_t> integers;
  std::vector<float> floats;
  Transfer transfer;
};

class Steps {
 public:
  Steps(InputReader& in, host::TensorProtocol& protocol, const Peers& peers,
        const ProtocolLimits& limits)
      : in_(in), protocol_(protocol), peers_(peers), limits_(limits) {}

  void run() {
    for (uint32_t i = 0; i < kStepsMax && !in_.at_end(); i++) {
      step();
      drain();
      check();
    }
    protocol_.leave(now_);
    // The leaves.
    for (uint32_t i = 0; i < 100 && protocol_.next_deadline() != Instant::never(); i++) {
      now_ = std::max(now_, protocol_.next_deadline());
      drain();
    }
    EXPECT_EQ(protocol_.next_deadline(), Instant::never());
    EXPECT_EQ(protocol_.phase(), host::TensorProtocol::Phase::kEnded);
    for (const auto& tensor : tensors_) EXPECT_TRUE(tensor->transfer.done);
    check();
  }

 private:
  void step() {
    switch (static_cast<ProtocolStep>(in_.below(kProtocolSteps))) {
      case ProtocolStep::kRaw: {
        const Endpoint& from = peer();
        return receive(in_.bytes(kPacketBytesMax), from);
      }
      case ProtocolStep::kPacket: {
        const Endpoint& from = peer();
        std::vector<std::byte> packet = peers_.packet(in_);
        in_.damage(packet);
        return receive(packet, from);
      }
      case ProtocolStep::kSubmit: {
        const uint32_t elements = in_.take<uint8_t>();
        const uint32_t type = in_.below(8);
        if (tensors_.size() == kTransfersMax) return;
        tensors_.push_back(std::make_unique<Tensor>(elements, type));
        return protocol_.submit(tensors_.back()->transfer, now_);
      }
      case ProtocolStep::kWait:
        now_ = now_ + microseconds(100) * in_.take<uint16_t>();
    }
  }

  const Endpoint& peer() {
    return peers_.addresses[in_.below(static_cast<uint32_t>(peers_.addresses.size()))];
  }

  void receive(const std::vector<std::byte>& packet, const Endpoint& from) {
    if (!protocol_.accepts_from(from)) return;
    (void)protocol_.on_packet(
        {.from = from, .stored = packet, .size_bytes = static_cast<uint32_t>(packet.size())}, now_);
  }

  /// Sends all that is due.
  void drain() {
    protocol_.on_time(now_);
    const uint32_t packets_max =
        2 * limits_.window + kControlPacketsMax * static_cast<uint32_t>(peers_.addresses.size());
    uint32_t packets = 0;
    for (;; packets++) {
      ASSERT_LE(protocol_.packet_bytes_max(), limits_.packet_bytes);
      std::vector<std::byte> out(protocol_.packet_bytes_max());  // So that the sanitizer sees it.
      const host::Outgoing sent = protocol_.next_packet(out, now_);
      if (sent.size_bytes == 0) break;
      EXPECT_LE(sent.size_bytes, out.size());
      EXPECT_LE(sent.stored_bytes, sent.size_bytes);
      peers_.on_sent(std::span(out).first(sent.stored_bytes));
      ASSERT_LT(packets, packets_max);
    }
  }

  void check() const {
    EXPECT_LE(protocol_.window(), limits_.window);
    EXPECT_LE(protocol_.status_text().size(), kTextBytesMax);
    for (const auto& tensor : tensors_) {
      const host::Outcome& outcome = tensor->transfer.outcome;
      EXPECT_LE(outcome.text.size(), kTextBytesMax);
      EXPECT_LE(outcome.degraded.size(), tensor->transfer.element_count());
    }
  }

  InputReader& in_;
  host::TensorProtocol& protocol_;
  const Peers& peers_;
  const ProtocolLimits& limits_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  Instant now_{seconds(10)};
};

}  // namespace

void run_steps(InputReader& in, host::TensorProtocol& protocol, const Peers& peers,
               const ProtocolLimits& limits) {
  Steps(in, protocol, peers, limits).run();
}

}  // namespace tributary::fuzz
