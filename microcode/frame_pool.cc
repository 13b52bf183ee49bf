// SPDX-License-Identifier: Apache-2.0
#include "microcode/frame_pool.h"

namespace tributary::microcode {

FramePool::FramePool(uint32_t frame_count) : slots_(new Slot[frame_count]) {
  for (uint32_t i = frame_count; i > 0; i--) {
    slots_[i - 1].owner = this;
    slots_[i - 1].next_free = first_free_;
    first_free_ = &slots_[i - 1];
  }
  free_count_ = frame_count;
}

}  // namespace tributary::microcode
