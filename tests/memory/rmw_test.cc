// SPDX-License-Identifier: Apache-2.0
// Method: one hand-worked word for each operation, then a random walk in which the model computes
// every bit separately.
#include "memory/rmw.h"

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace tributary::memory {
namespace {

template <class T>
class RmwWords : public ::testing::Test {};
using WordTypes = ::testing::Types<uint32_t, uint64_t>;
TYPED_TEST_SUITE(RmwWords, WordTypes);

TYPED_TEST(RmwWords, FetchReturnsTheOldWord) {
  using T = TypeParam;
  T word = 0b1100;
  EXPECT_EQ(fetch_and_and(word, T{0b1010}), T{0b1100});
  EXPECT_EQ(word, T{0b1000});
  EXPECT_EQ(fetch_and_or(word, T{0b0011}), T{0b1000});
  EXPECT_EQ(word, T{0b1011});
  EXPECT_EQ(fetch_and_xor(word, T{0b0110}), T{0b1011});
  EXPECT_EQ(word, T{0b1101});
  EXPECT_EQ(fetch_and_clear(word, T{0b0101}), T{0b1101});
  EXPECT_EQ(word, T{0b1000});
  EXPECT_EQ(fetch_and_add(word, T{7}), T{8});
  EXPECT_EQ(word, T{15});
  EXPECT_EQ(fetch_and_swap(word, T{3}), T{15});
  EXPECT_EQ(word, T{3});
}

TYPED_TEST(RmwWords, AddWraps) {
  using T = TypeParam;
  T word = static_cast<T>(~T{0});
  EXPECT_EQ(fetch_and_add(word, T{2}), static_cast<T>(~T{0}));
  EXPECT_EQ(word, T{1});
}

TYPED_TEST(RmwWords, RandomOperationsMatchSingleBits) {
  using T = TypeParam;
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  T word = static_cast<T>(prng.any_u64());
  for (uint32_t step = 0; step < 20'000; step++) {
    const T before = word;
    const T mask = static_cast<T>(prng.any_u64());
    const T value = static_cast<T>(prng.any_u64());
    const uint32_t operation = prng.below(5);
    T fetched = before;
    if (operation == 0) fetched = fetch_and_and(word, mask);
    if (operation == 1) fetched = fetch_and_or(word, mask);
    if (operation == 2) fetched = fetch_and_xor(word, mask);
    if (operation == 3) fetched = fetch_and_clear(word, mask);
    if (operation == 4) masked_write(word, value, mask);
    ASSERT_EQ(fetched, before);
    for (uint32_t bit = 0; bit < sizeof(T) * 8; bit++) {
      const bool was = before >> bit & 1, m = mask >> bit & 1, v = value >> bit & 1;
      const bool expected[] = {was && m, was || m, was != m, was && !m, m ? v : was};
      ASSERT_EQ(static_cast<bool>(word >> bit & 1), expected[operation])
          << "step " << step << " operation " << operation << " bit " << bit;
    }
  }
}

TEST(Rmw, Add32Wraps) {
  int32_t word = INT32_MAX;
  add32(word, 1);
  EXPECT_EQ(word, INT32_MIN);
  add32(word, -1);
  EXPECT_EQ(word, INT32_MAX);
}

TEST(PacketByteCounter, CountsPacketsAndBytes) {
  PacketByteCounter counter;
  count_packet(counter, 64);
  count_packet(counter, 1500);
  EXPECT_EQ(counter, (PacketByteCounter{.packets = 2, .bytes = 1564}));
  counter.bytes = UINT64_MAX;
  count_packet(counter, 2);
  EXPECT_EQ(counter.bytes, 1u);
}

}  // namespace
}  // namespace tributary::memory
