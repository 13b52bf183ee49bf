// SPDX-License-Identifier: Apache-2.0
/// @file
/// The allocations of one owner, which return to the shared memory when the owner ends.
///
/// Threads: As SharedMemory: the thread that allocates and releases. The owner's destructor runs
///          there, too.
/// Errors:  allocate() returns an Error as SharedMemory does. Earlier allocations stay.
/// Tests:   tests/memory/held_memory_test.cc
#pragma once

#include <utility>
#include <vector>

#include "memory/shared_memory.h"

namespace tributary::memory {

class HeldMemory {
 public:
  /// @param memory Must outlive this object, and must not move meanwhile.
  explicit HeldMemory(SharedMemory& memory) : memory_(&memory) {}
  ~HeldMemory() { release(); }
  HeldMemory(HeldMemory&& other) noexcept
      : memory_(other.memory_), held_(std::exchange(other.held_, {})) {}
  HeldMemory& operator=(HeldMemory&& other) noexcept {
    if (this == &other) return *this;
    release();
    memory_ = other.memory_;
    held_ = std::exchange(other.held_, {});
    return *this;
  }
  HeldMemory(const HeldMemory&) = delete;
  HeldMemory& operator=(const HeldMemory&) = delete;

  /// As SharedMemory::allocate(). @return the first byte.
  [[nodiscard]] Result<std::byte*> allocate(Range range, uint64_t size_bytes,
                                            uint64_t align_bytes) {
    const Result<Address> address = memory_->allocate(range, size_bytes, align_bytes);
    if (!address) return tl::unexpected(address.error());
    held_.push_back(*address);
    return memory_->at(*address);
  }

 private:
  void release() {
    for (const Address address : held_) memory_->release(address);
    held_.clear();
  }

  SharedMemory* memory_;
  std::vector<Address> held_;
};

}  // namespace tributary::memory
