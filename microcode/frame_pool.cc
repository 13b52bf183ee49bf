// SPDX-License-Identifier: Apache-2.0
#include "microcode/frame_pool.h"

#include <cstdio>
#include <cstdlib>
#include <new>

#include "base/running_program.h"

namespace tributary::microcode {

FramePool::FramePool(uint32_t frame_count) : slots_(new Slot[frame_count]) {
  for (uint32_t i = frame_count; i > 0; i--) {
    slots_[i - 1].owner = this;
    slots_[i - 1].next_free = first_free_;
    first_free_ = &slots_[i - 1];
  }
  free_count_ = frame_count;
}

namespace {

[[noreturn]] void refuse_frame(size_t size_bytes, size_t limit_bytes, const char* coroutine) {
  std::fputs("tributary: the packet program", stderr);
  const RunningProgram* const running = running_program();
  if (running != nullptr && !running->program.empty()) {
    std::fprintf(stderr, " '%.*s'", static_cast<int>(running->program.size()),
                 running->program.data());
  }
  std::fprintf(stderr,
               " keeps %zu bytes across its XTXNs; allowed: at most %zu; keep fewer values across "
               "co_await, or move XTXNs into a subroutine\n",
               size_bytes, limit_bytes);
  if (*coroutine != '\0') std::fprintf(stderr, "tributary: the coroutine is in: %s\n", coroutine);
  if (running != nullptr && running->instruction != nullptr) {
    std::fprintf(stderr, "tributary: it was called after instruction '%s' at %s:%u\n",
                 running->instruction, running->place.file_name(), running->place.line());
  }
  std::abort();
}

}  // namespace

void* FramePool::take_large(size_t size_bytes, size_t limit_bytes, const char* coroutine) {
  if (size_bytes > limit_bytes) refuse_frame(size_bytes, limit_bytes, coroutine);
  void* memory =
      ::operator new (offsetof(Slot, frame) + size_bytes, std::align_val_t{alignof(Slot)});
  Slot* slot = ::new (memory) Slot;
  slot->owner = nullptr;
  return slot->frame;
}

void FramePool::free_large(Slot* slot) noexcept {
  ::operator delete (slot, std::align_val_t{alignof(Slot)});
}

}  // namespace tributary::microcode
