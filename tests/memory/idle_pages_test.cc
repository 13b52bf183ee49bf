// SPDX-License-Identifier: Apache-2.0
// Method: bytes are written before a return. The kernel has taken exactly the pages whose bytes
// read as zero afterwards.
#include "memory/idle_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace tributary::memory {
namespace {

/// Private memory that begins at a multiple of a slice, filled with ones.
class IdlePagesTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kSlice = IdlePages::kSliceBytes;
  static constexpr uint64_t kSlices = 4;

  void SetUp() override {
    mapping_ = mmap(nullptr, (kSlices + 1) * kSlice, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(mapping_, MAP_FAILED);
    const auto begin = reinterpret_cast<uint64_t>(mapping_);
    const uint64_t gap = (kSlice - begin % kSlice) % kSlice;
    bytes_ = {static_cast<std::byte*>(mapping_) + gap, kSlices * kSlice};
    std::ranges::fill(bytes_, std::byte{1});
  }
  void TearDown() override { munmap(mapping_, (kSlices + 1) * kSlice); }
  /// Returns the number of zero bytes, which a return has made.
  [[nodiscard]] uint64_t zeros() const {
    return static_cast<uint64_t>(std::ranges::count(bytes_, std::byte{0}));
  }

  const uint64_t page_ = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  void* mapping_ = nullptr;
  std::span<std::byte> bytes_;
  IdlePages pages_;
};

TEST_F(IdlePagesTest, ReturnsOneSliceForEachCall) {
  pages_.add(bytes_);
  for (uint64_t slice = 1; slice <= kSlices; slice++) {
    ASSERT_FALSE(pages_.is_done());
    pages_.return_slice();
    EXPECT_EQ(zeros(), slice * kSlice);
  }
  EXPECT_TRUE(pages_.is_done());
}

TEST_F(IdlePagesTest, KeepsThePagesThatItSharesWithOthers) {
  // From the middle of page 1 to the middle of the last page but one.
  const uint64_t half = page_ / 2;
  pages_.add(bytes_.subspan(page_ + half, bytes_.size() - 3 * page_));
  uint32_t calls = 0;
  for (; !pages_.is_done(); calls++) pages_.return_slice();
  EXPECT_EQ(calls, kSlices);
  EXPECT_EQ(zeros(), bytes_.size() - 4 * page_);
  EXPECT_EQ(bytes_[2 * page_ - 1], std::byte{1});
  EXPECT_EQ(bytes_[2 * page_], std::byte{0});
  EXPECT_EQ(bytes_[bytes_.size() - 2 * page_], std::byte{1});
}

TEST_F(IdlePagesTest, HasNothingToReturnOfLessThanAPage) {
  pages_.add(bytes_.subspan(1, page_));
  pages_.add({});
  EXPECT_TRUE(pages_.is_done());
}

TEST_F(IdlePagesTest, ReturnsAllRangesAndNoneAfterClear) {
  pages_.add(bytes_.subspan(0, page_));
  pages_.add(bytes_.subspan(2 * page_, page_));
  pages_.return_slice();
  EXPECT_EQ(zeros(), page_);
  pages_.clear();
  EXPECT_TRUE(pages_.is_done());
  EXPECT_EQ(zeros(), page_);
  pages_.add(bytes_);
  while (!pages_.is_done()) pages_.return_slice();
  EXPECT_EQ(zeros(), bytes_.size());
}

}  // namespace
}  // namespace tributary::memory
