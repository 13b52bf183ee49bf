// SPDX-License-Identifier: Apache-2.0
/// @file
/// Buffers for messages in shared memory. A timer thread takes one, fills it, sends it and gives it
/// back.
///
/// Model:   First in, first out: a buffer rests as long as possible after it was sent. A buffer
///          that may still be on its way out is released by the machine before its next use
///          (release_payload() in microcode/machine.h).
/// Threads: Owned by one core; take() and give_back() are services of XTXNs.
/// Errors:  take() returns nothing if all buffers are in use.
/// Memory:  kCount buffers, given by the owner.
/// Tests:   tests/apps/telemetry/message_pool_test.cc
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"

namespace tributary::telemetry {

class MessagePool {
 public:
  /// Assumed: more than the timer threads that export at the same time on one core.
  static constexpr uint32_t kCount = 64;

  struct Taken {
    std::span<std::byte> buffer;  ///< Empty if all are in use.
    bool needs_release = false;   ///< Its last message may not have left.
  };

  /// @param buffers kCount buffers of equal size.
  explicit MessagePool(std::span<std::byte> buffers)
      : buffers_(buffers), buffer_bytes_(buffers.size() / kCount) {
    for (uint32_t i = 0; i < kCount; i++) free_[i] = i;
  }

  [[nodiscard]] Taken take() {
    if (free_count_ == 0) return {};
    const uint32_t index = free_[first_];
    first_ = (first_ + 1) % kCount;
    free_count_--;
    return {buffers_.subspan(index * buffer_bytes_, buffer_bytes_), sent_in_[index] == period_};
  }
  /// Takes back a buffer that was sent, or not used.
  void give_back(std::span<const std::byte> buffer, bool was_sent) {
    TRIB_ASSERT(free_count_ < kCount);
    const auto index = static_cast<uint32_t>((buffer.data() - buffers_.data()) /
                                             static_cast<ptrdiff_t>(buffer_bytes_));
    sent_in_[index] = was_sent ? period_ : 0;
    free_[(first_ + free_count_) % kCount] = index;
    free_count_++;
  }
  /// Notes that all messages sent so far have left.
  void all_released() { period_++; }
  [[nodiscard]] uint32_t free_count() const { return free_count_; }

 private:
  std::span<std::byte> buffers_;
  size_t buffer_bytes_;
  std::array<uint32_t, kCount> free_{};  ///< A ring from first_ on.
  uint32_t first_ = 0;
  uint32_t free_count_ = kCount;
  uint64_t period_ = 1;                     ///< Counts the calls of all_released().
  std::array<uint64_t, kCount> sent_in_{};  ///< Period of each buffer's last send; 0: none.
};

}  // namespace tributary::telemetry
