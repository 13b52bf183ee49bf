// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked addresses, then refusals, then a random walk of allocations and releases
// against a byte map of a small range.
#include "memory/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "memory/rmw.h"
#include "tests/support/seed.h"

namespace tributary::memory {
namespace {

using ::testing::HasSubstr;

SharedMemory memory_of(uint64_t sram_size_bytes, uint64_t dram_size_bytes) {
  auto memory = SharedMemory::create(
      {.sram_size_bytes = sram_size_bytes, .dram_size_bytes = dram_size_bytes});
  EXPECT_TRUE(memory.has_value());
  return std::move(*memory);
}

TEST(SharedMemory, RangesShareOneSpaceWithoutOverlap) {
  SharedMemory memory = memory_of(4096, 8192);
  EXPECT_EQ(*memory.allocate(Range::kSram, 8, 8), kSramBase);
  EXPECT_EQ(*memory.allocate(Range::kDram, 8, 8), kDramBase);
  EXPECT_EQ(SharedMemory::range_of(kSramBase + 4095), Range::kSram);
  EXPECT_EQ(SharedMemory::range_of(kDramBase), Range::kDram);
  EXPECT_EQ(memory.size_bytes(Range::kSram), 4096u);
  EXPECT_EQ(memory.size_bytes(Range::kDram), 8192u);
}

TEST(SharedMemory, AlignmentMovesTheNextAllocationUp) {
  SharedMemory memory = memory_of(4096, 0);
  EXPECT_EQ(*memory.allocate(Range::kSram, 10, 1), kSramBase);
  EXPECT_EQ(*memory.allocate(Range::kSram, 64, 64), kSramBase + 64);
  EXPECT_EQ(*memory.allocate(Range::kSram, 4, 4), kSramBase + 12);  // The gap is still free.
  EXPECT_EQ(memory.used_bytes(Range::kSram), 78u);
}

TEST(SharedMemory, PointersAndAddressesAreInverse) {
  SharedMemory memory = memory_of(4096, 4096);
  for (const Range range : {Range::kSram, Range::kDram}) {
    const Address address = *memory.allocate(range, 100, 8) + 17;
    EXPECT_EQ(memory.address_of(memory.at(address)), address);
  }
  const int elsewhere = 0;
  EXPECT_TRUE(memory.address_of(&elsewhere).is_null());
  EXPECT_TRUE(memory.address_of(nullptr).is_null());
}

TEST(SharedMemory, BytesAreZeroAtStartAndAfterRelease) {
  SharedMemory memory = memory_of(0, 64 << 10);
  const uint64_t size_bytes = 20'000;  // Neither end lies on a page boundary.
  ASSERT_TRUE(memory.allocate(Range::kDram, 100, 1));
  for (uint32_t round = 0; round < 2; round++) {
    const Address address = *memory.allocate(Range::kDram, size_bytes, 1);
    std::byte* const bytes = memory.at(address);
    EXPECT_TRUE(
        std::all_of(bytes, bytes + size_bytes, [](std::byte b) { return b == std::byte{}; }));
    std::fill(bytes, bytes + size_bytes, std::byte{0xee});
    memory.release(address);
  }
}

TEST(SharedMemory, UntouchedMemoryCostsNothing) {
  // More than most machines have. A test that touched all of it would not return.
  constexpr uint64_t kSize = uint64_t{64} << 30;
  SharedMemory memory = memory_of(8 << 20, kSize);
  const Address last = *memory.allocate(Range::kDram, kSize, 8) + (kSize - 8);
  uint64_t& word = *memory.at_as<uint64_t>(last);
  EXPECT_EQ(fetch_and_add(word, uint64_t{5}), 0u);
  EXPECT_EQ(word, 5u);
}

TEST(SharedMemory, HugePagesAreOptional) {
  auto memory = SharedMemory::create(
      {.sram_size_bytes = 0, .dram_size_bytes = uint64_t{16} << 20, .huge_pages = true});
  ASSERT_TRUE(memory);
  const Address address = *memory->allocate(Range::kDram, uint64_t{5} << 20, 64);
  *memory->at(address + (uint64_t{3} << 20)) = std::byte{1};
  memory->release(address);
  EXPECT_EQ(*memory->at(address + (uint64_t{3} << 20)), std::byte{0});
}

TEST(SharedMemory, MovedMemoryKeepsItsBytes) {
  SharedMemory first = memory_of(4096, 0);
  const Address address = *first.allocate(Range::kSram, 8, 8);
  *first.at(address) = std::byte{42};
  SharedMemory second = std::move(first);
  EXPECT_EQ(*second.at(address), std::byte{42});
  EXPECT_EQ(second.used_bytes(Range::kSram), 8u);
}

TEST(SharedMemory, RefusalNamesRequestedAndFreeBytes) {
  SharedMemory memory = memory_of(1000, 0);
  ASSERT_TRUE(memory.allocate(Range::kSram, 900, 1));
  const auto refused = memory.allocate(Range::kSram, 101, 1);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text, HasSubstr("101 bytes"));
  EXPECT_THAT(refused.error().text, HasSubstr("of SRAM: 100 of 1000 are free"));
  EXPECT_EQ(memory.used_bytes(Range::kSram), 900u);
  EXPECT_TRUE(memory.allocate(Range::kSram, 100, 1));
  EXPECT_FALSE(memory.allocate(Range::kDram, 1, 1));
}

TEST(SharedMemory, RefusesImpossibleSettings) {
  SharedMemory memory = memory_of(1000, 0);
  EXPECT_FALSE(memory.allocate(Range::kSram, 0, 8));
  EXPECT_FALSE(memory.allocate(Range::kSram, 8, 0));
  EXPECT_FALSE(memory.allocate(Range::kSram, 8, 24));
  EXPECT_FALSE(memory.allocate(Range::kSram, 8, uint64_t{4} << 20));
  EXPECT_FALSE(memory.allocate(Range::kSram, UINT64_MAX, 64));  // No sum may wrap.
  EXPECT_EQ(memory.used_bytes(Range::kSram), 0u);
  EXPECT_FALSE(SharedMemory::create({.sram_size_bytes = uint64_t{1} << 40, .dram_size_bytes = 0}));
  EXPECT_FALSE(SharedMemory::create({.sram_size_bytes = 0, .dram_size_bytes = UINT64_MAX}));
}

TEST(SharedMemory, ContainsChecksOneRange) {
  const SharedMemory memory = memory_of(100, 200);
  EXPECT_TRUE(memory.contains(kSramBase, 100));
  EXPECT_FALSE(memory.contains(kSramBase, 101));
  EXPECT_FALSE(memory.contains(kSramBase + 100, 0));
  EXPECT_TRUE(memory.contains(kDramBase + 199, 1));
  EXPECT_FALSE(memory.contains(kDramBase + 199, UINT64_MAX));
  EXPECT_FALSE(memory.contains(Address(), 1));
}

TEST(SharedMemoryDeathTest, RejectsAnAddressOutsideTheMemory) {
  SharedMemory memory = memory_of(100, 200);
  EXPECT_DEATH(static_cast<void>(memory.at(Address())), "bug");
  EXPECT_DEATH(static_cast<void>(memory.at(kSramBase + 100)), "bug");
  EXPECT_DEATH(static_cast<void>(memory.at_as<uint64_t>(kSramBase + 4)), "bug");
  EXPECT_DEATH(memory.release(kSramBase), "bug");
}

TEST(SharedMemory, RandomAllocationsMatchAByteMap) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  constexpr uint64_t kSize = 512;
  SharedMemory memory = memory_of(kSize, 0);
  std::vector<bool> taken(kSize, false);
  std::vector<std::pair<Address, uint64_t>> held;

  const auto fits = [&](uint64_t begin, uint64_t size_bytes) {
    for (uint64_t i = begin; i < begin + size_bytes; i++) {
      if (i >= kSize || taken[i]) return false;
    }
    return true;
  };
  for (uint32_t step = 0; step < 20'000; step++) {
    if (prng.chance(0.55)) {
      const uint64_t size_bytes = 1 + prng.below(40);
      const uint64_t align_bytes = uint64_t{1} << prng.below(6);
      uint64_t expected = 0;
      while (expected < kSize && !fits(expected, size_bytes)) expected += align_bytes;
      const auto got = memory.allocate(Range::kSram, size_bytes, align_bytes);
      ASSERT_EQ(got.has_value(), expected < kSize) << "step " << step;
      if (!got) continue;
      ASSERT_EQ(*got, kSramBase + expected) << "step " << step;
      std::fill_n(taken.begin() + static_cast<int64_t>(expected), size_bytes, true);
      std::fill_n(memory.at(*got), size_bytes, std::byte{0xff});
      held.emplace_back(*got, size_bytes);
    } else if (!held.empty()) {
      std::swap(held[prng.below(static_cast<uint32_t>(held.size()))], held.back());
      const auto [address, size_bytes] = held.back();
      held.pop_back();
      memory.release(address);
      std::fill_n(taken.begin() + static_cast<int64_t>(address - kSramBase), size_bytes, false);
    }
    const auto used = static_cast<uint64_t>(std::count(taken.begin(), taken.end(), true));
    ASSERT_EQ(memory.used_bytes(Range::kSram), used) << "step " << step;
    for (uint64_t i = 0; i < kSize; i++) {  // Free bytes are zero, held ones untouched.
      ASSERT_EQ(*memory.at(kSramBase + i) == std::byte{0xff}, taken[i]) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace tributary::memory
