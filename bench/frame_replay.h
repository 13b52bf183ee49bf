// SPDX-License-Identifier: Apache-2.0
/// @file
/// A port that replays frames from memory and counts the frames sent.
///
/// Shapes:  Each frame takes a stride of 64 bytes.
/// Threads: One.
/// Memory:  All frames; receive() and transmit() do not allocate.
/// Tests:   tests/bench/programs_bench_test.cc, tests/bench/parts_bench_test.cc
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "engine/port.h"

namespace tributary::bench {

class FrameReplay final : public engine::PortQueue {
 public:
  static constexpr uint32_t kFrameBytes = 60;  ///< Ethernet's minimum, without checksum.

  /// @param fill_frame Writes the frame of an index into its kFrameBytes zeroed bytes.
  template <class F>
  FrameReplay(uint32_t frame_count, F&& fill_frame) : bytes_(size_t{frame_count} * kStride) {
    packets_.reserve(frame_count);
    for (uint32_t i = 0; i < frame_count; i++) {
      packets_.push_back(
          {&bytes_[size_t{i} * kStride], kFrameBytes, engine::PacketLayer::kFrame, {}});
    }
    fill(fill_frame);
  }

  /// Writes all frames anew. @param fill_frame As in the constructor.
  template <class F>
  void fill(F&& fill_frame) {
    std::ranges::fill(bytes_, std::byte());
    for (uint32_t i = 0; i < packets_.size(); i++) {
      fill_frame(i, std::span<std::byte>(packets_[i].data, kFrameBytes));
    }
  }

  void rewind() { next_ = 0; }
  [[nodiscard]] bool done() const { return next_ == packets_.size(); }
  [[nodiscard]] uint64_t frame_count() const { return packets_.size(); }
  [[nodiscard]] uint64_t sent() const { return sent_; }

  uint32_t receive(std::span<engine::Packet> burst) override {
    const size_t count = std::min(burst.size(), packets_.size() - next_);
    std::memcpy(burst.data(), &packets_[next_], count * sizeof(engine::Packet));
    next_ += count;
    return static_cast<uint32_t>(count);
  }
  void transmit(std::span<const engine::TxPacket> packets) override {
    for (const engine::TxPacket& packet : packets) sent_ += packet.size == kFrameBytes ? 1 : 0;
  }
  void wait(Duration) override {}
  void wake() override {}
  [[nodiscard]] engine::PortCounters counters() const override { return {}; }

 private:
  static constexpr uint32_t kStride = 64;
  std::vector<std::byte> bytes_;
  std::vector<engine::Packet> packets_;
  size_t next_ = 0;
  uint64_t sent_ = 0;
};

/// Sends a received frame back, as LiveMachine::forward() does.
inline void forward(const engine::Packet& from, engine::TxPacket& to) {
  to.data = from.data;
  to.size = from.size;
  to.layer = from.layer;
  to.destination = from.source;
}

}  // namespace tributary::bench
