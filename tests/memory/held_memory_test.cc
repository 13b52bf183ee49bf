// SPDX-License-Identifier: Apache-2.0
// Method: counts the bytes in use after allocations, moves and ends of owners.
#include "memory/held_memory.h"

#include <gtest/gtest.h>

namespace tributary::memory {
namespace {

constexpr uint64_t kPage = 4096;

class HeldMemoryTest : public ::testing::Test {
 protected:
  [[nodiscard]] uint64_t used() const { return memory_.used_bytes(Range::kDram); }

  SharedMemory memory_ =
      *SharedMemory::create({.sram_size_bytes = 0, .dram_size_bytes = 4 * kPage});
};

TEST_F(HeldMemoryTest, ReturnsAllAllocationsAtItsEnd) {
  {
    HeldMemory held(memory_);
    const auto first = held.allocate(Range::kDram, kPage, 64);
    ASSERT_TRUE(first.has_value());
    **first = std::byte{7};
    ASSERT_TRUE(held.allocate(Range::kDram, 100, 64).has_value());
    EXPECT_EQ(used(), kPage + 100);
    EXPECT_FALSE(held.allocate(Range::kDram, 8 * kPage, 64).has_value());
    EXPECT_EQ(used(), kPage + 100);
  }
  EXPECT_EQ(used(), 0U);
  HeldMemory next(memory_);
  EXPECT_EQ(**next.allocate(Range::kDram, kPage, 64), std::byte{0});  // Zeroed again.
}

TEST_F(HeldMemoryTest, AMoveTakesTheAllocationsAlong) {
  HeldMemory target(memory_);
  ASSERT_TRUE(target.allocate(Range::kDram, 10, 64).has_value());
  {
    HeldMemory source(memory_);
    ASSERT_TRUE(source.allocate(Range::kDram, 20, 64).has_value());
    HeldMemory between(std::move(source));
    EXPECT_EQ(used(), 30U);
    target = std::move(between);
    EXPECT_EQ(used(), 20U);
  }
  EXPECT_EQ(used(), 20U);
}

}  // namespace
}  // namespace tributary::memory
