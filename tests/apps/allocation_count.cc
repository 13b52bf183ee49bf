// SPDX-License-Identifier: Apache-2.0
#include "tests/apps/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<uint64_t> count{0};

}  // namespace

// Not inlined: GCC 12 would take malloc and free for a mismatched pair (PR 103993).
[[gnu::noinline]] void* operator new(size_t size) {
  // Relaxed: read by the thread that counts its own allocations.
  count.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace tributary::testing {

uint64_t allocation_count() { return count.load(); }

}  // namespace tributary::testing
