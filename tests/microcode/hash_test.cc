// SPDX-License-Identifier: Apache-2.0
// Method: the properties of a good load-balancing hash. It distinguishes fields and their order,
// spreads evenly, and changes about half of its bits for each bit of input.
#include "microcode/hash.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <set>
#include <vector>

#include "tests/support/seed.h"
#include "wire/headers.h"

namespace tributary::microcode {
namespace {

uint64_t hash_of(std::initializer_list<uint32_t> values, uint64_t seed = 0) {
  FieldHash hash(seed);
  for (const uint32_t value : values) hash.include(value);
  return hash.value();
}

TEST(FieldHash, HashDependsOnlyOnItsFields) {
  EXPECT_EQ(hash_of({1, 2, 3}), hash_of({1, 2, 3}));
  EXPECT_NE(hash_of({1, 2, 3}), hash_of({1, 2, 4}));
}

TEST(FieldHash, OrderAndNumberOfFieldsChangeTheHash) {
  EXPECT_NE(hash_of({1, 2}), hash_of({2, 1}));
  EXPECT_NE(hash_of({0}), hash_of({0, 0}));
  EXPECT_NE(hash_of({}), hash_of({0}));
}

TEST(FieldHash, SeedsGiveDifferentFunctions) { EXPECT_NE(hash_of({1, 2}, 1), hash_of({1, 2}, 2)); }

TEST(FieldHash, HeaderFieldIsHashedByValue) {
  std::array<std::byte, wire::UdpHeader::kBytes> bytes{};
  wire::MutableView<wire::UdpHeader>(bytes.data()).set<wire::UdpHeader::SourcePort>(12345);
  const wire::View<wire::UdpHeader> view(bytes.data());
  EXPECT_EQ(FieldHash().include<wire::UdpHeader::SourcePort>(view).value(), hash_of({12345}));
}

TEST(FieldHash, EveryByteChangesTheHash) {
  std::vector<uint8_t> bytes(18, 1);  // Not a multiple of a word.
  const uint64_t plain = FieldHash().include_bytes(bytes).value();
  for (uint8_t& byte : bytes) {
    byte = 2;
    EXPECT_NE(FieldHash().include_bytes(bytes).value(), plain);
    byte = 1;
  }
  EXPECT_EQ(FieldHash().include_bytes(bytes).value(), plain);
}

TEST(FieldHash, HashIsConstexpr) {
  constexpr uint64_t kValue = FieldHash(7).include(1).include(2).value();
  EXPECT_EQ(kValue, hash_of({1, 2}, 7));
}

TEST(FieldHash, NearbyInputsDoNotCollide) {
  std::set<uint64_t> seen;
  for (uint32_t a = 0; a < 100; a++) {
    for (uint32_t b = 0; b < 100; b++) seen.insert(hash_of({a, b}));
  }
  EXPECT_EQ(seen.size(), 10'000U);
}

TEST(FieldHash, OneInputBitChangesHalfOfTheOutput) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  constexpr uint32_t kSamples = 2000;
  // For each input bit: 2000 samples x 64 bits, each flipped with probability 1/2. The mean number
  // of flips is 32, with a standard deviation of 4 / sqrt(2000) = 0.09; 0.9 is ten times that.
  for (uint32_t bit = 0; bit < 64; bit++) {
    uint64_t flips = 0;
    for (uint32_t i = 0; i < kSamples; i++) {
      const uint32_t a = prng.any_u32();
      const uint32_t b = prng.any_u32();
      const uint32_t mask = 1U << (bit % 32);
      const uint64_t changed = bit < 32 ? hash_of({a, b}) ^ hash_of({a ^ mask, b})
                                        : hash_of({a, b}) ^ hash_of({a, b ^ mask});
      flips += static_cast<uint64_t>(std::popcount(changed));
    }
    EXPECT_NEAR(static_cast<double>(flips) / kSamples, 32.0, 0.9) << "input bit " << bit;
  }
}

TEST(FieldHash, ConsecutiveValuesSpreadEvenly) {
  std::array<uint32_t, 16> low{};
  std::array<uint32_t, 16> high{};
  constexpr uint32_t kValues = 16'000;
  for (uint32_t value = 0; value < kValues; value++) {
    const uint64_t hash = hash_of({value});
    low[hash % low.size()]++;
    high[hash >> 60]++;
  }
  // The mean is 1000, the standard deviation about 31.
  for (uint32_t i = 0; i < 16; i++) {
    EXPECT_NEAR(low[i], 1000, 200) << i;
    EXPECT_NEAR(high[i], 1000, 200) << i;
  }
}

}  // namespace
}  // namespace tributary::microcode
