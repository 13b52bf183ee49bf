// SPDX-License-Identifier: Apache-2.0
/// @file
/// Coroutine frames for PPE threads, from a fixed pool: a packet never causes a heap allocation.
///
/// Model:   A frame holds the state that a PPE thread keeps between external transactions. Its
///          size is bounded by a PPE thread's storage: 32 64-bit registers and 1.25 KB of local
///          memory (Trio paper §2.2). A program that needs more stops at its first packet.
///          On machines that suspend threads, see kSuspendingFrameBytesMax.
/// Threads: Owned by one engine thread. Nothing here is atomic.
/// Memory:  All of it is taken in the constructor, except for frames above kFrameBytesMax.
/// Tests:   tests/microcode/thread_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/assert.h"
#include "microcode/rule.h"

namespace tributary::microcode {

/// Per-thread local storage of a PPE. Source: Trio paper §2.2.
inline constexpr uint32_t kRegisterCount = 32;
inline constexpr uint32_t kRegisterBytes = 8;
inline constexpr uint32_t kLmemBytes = 1280;
/// Subroutine nesting of a PPE. Source: Trio paper §2.2 ("nested up to eight levels deep").
inline constexpr uint32_t kCallDepthMax = 8;

/// First bytes of a packet, its head, which a thread finds in its local memory at the start. The
/// rest is the tail. Source: Trio paper §4 ("head, which holds the first 192 bytes").
inline constexpr uint32_t kHeadBytes = 192;
/// Bytes before the head in local memory, for headers that a program prepends. Assumed: enough for
/// Ethernet, IPv6 and a tunnel's header of 10 bytes.
inline constexpr uint32_t kHeadroomBytes = 64;
static_assert(kHeadroomBytes + kHeadBytes <= kLmemBytes);

/// The largest frame: all registers and all local memory.
inline constexpr uint32_t kFrameBytesMax = kRegisterCount * kRegisterBytes + kLmemBytes;
static_assert(kFrameBytesMax == 1536);

/// The largest frame on a machine that suspends threads. There the compiler also keeps the request
/// and the reply of each co_await, in a place of its own for each, which no PPE thread stores. So
/// the limit there has room for 40 of them (tests/programs/packet_program_test.cc).
inline constexpr uint32_t kSuspendingFrameBytesMax = 8 * kFrameBytesMax;

/// Alignment of every frame. A coroutine's operator new does not receive the frame's alignment. A
/// program may keep a copy of a shared-memory record there, and a record has a cache line's
/// alignment.
inline constexpr uint32_t kFrameAlignment = 64;

class FramePool {
 public:
  /// @param frame_count Most frames in use at once: threads times their call depth.
  explicit FramePool(uint32_t frame_count);

  /// Takes a free frame, or memory of the heap if it is larger than the pool's.
  /// @param limit_bytes kFrameBytesMax or more. A larger frame stops the process with a line that
  ///                    has the program, the frame's size, the limit and the remedy.
  /// @param coroutine   Names the coroutine's parameters in that line.
  /// @pre a frame is free; else the process stops.
  [[nodiscard]] void* take(size_t size_bytes, size_t limit_bytes = kFrameBytesMax,
                           const char* coroutine = "") {
    if (size_bytes > kFrameBytesMax) return take_large(size_bytes, limit_bytes, coroutine);
    TRIB_REQUIRE(first_free_ != nullptr, rule::kCallDepth);  // Or too many threads for frame_count.
    Slot* slot = first_free_;
    first_free_ = slot->next_free;
    free_count_--;
    return slot->frame;
  }

  /// Returns a frame to the pool it was taken from.
  static void give_back(void* frame) noexcept {
    auto* slot = reinterpret_cast<Slot*>(static_cast<std::byte*>(frame) - offsetof(Slot, frame));
    FramePool* pool = slot->owner;
    if (pool == nullptr) return free_large(slot);
    slot->next_free = pool->first_free_;
    pool->first_free_ = slot;
    pool->free_count_++;
  }

  [[nodiscard]] uint32_t free_count() const { return free_count_; }

 private:
  struct Slot {
    FramePool* owner;  ///< Null: the frame is larger than kFrameBytesMax and from the heap.
    Slot* next_free;
    alignas(kFrameAlignment) std::byte frame[kFrameBytesMax];
  };
  [[nodiscard]] static void* take_large(size_t size_bytes, size_t limit_bytes,
                                        const char* coroutine);
  static void free_large(Slot* slot) noexcept;

  std::unique_ptr<Slot[]> slots_;
  Slot* first_free_ = nullptr;
  uint32_t free_count_ = 0;
};

}  // namespace tributary::microcode
