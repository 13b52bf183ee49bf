// SPDX-License-Identifier: Apache-2.0
#include "microcode/frame_pool.h"

#include "base/assert.h"

namespace tributary::microcode {

FramePool::FramePool(uint32_t frame_count) : slots_(new Slot[frame_count]) {
  for (uint32_t i = frame_count; i > 0; i--) {
    slots_[i - 1].owner = this;
    slots_[i - 1].next_free = first_free_;
    first_free_ = &slots_[i - 1];
  }
  free_count_ = frame_count;
}

void* FramePool::take(size_t size_bytes) {
  TRIB_ASSERT(size_bytes <= kFrameBytesMax);  // The program keeps more than a PPE thread has.
  TRIB_ASSERT(first_free_ != nullptr);  // More threads or deeper calls than were provided for.
  Slot* slot = first_free_;
  first_free_ = slot->next_free;
  free_count_--;
  return slot->frame;
}

void FramePool::give_back(void* frame) noexcept {
  auto* slot = reinterpret_cast<Slot*>(static_cast<std::byte*>(frame) - offsetof(Slot, frame));
  FramePool* pool = slot->owner;
  slot->next_free = pool->first_free_;
  pool->first_free_ = slot;
  pool->free_count_++;
}

}  // namespace tributary::microcode
