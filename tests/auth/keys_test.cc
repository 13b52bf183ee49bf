// SPDX-License-Identifier: Apache-2.0
// Method: SipHash against its paper; then derived keys that must differ, in pairs that differ in
// one input.
#include "auth/keys.h"

#include <gtest/gtest.h>

#include <set>

namespace tributary::auth {
namespace {

constexpr std::array<uint64_t, 1> kZero{};

/// The bytes 0, 1, 2, ...
template <size_t N>
std::array<std::byte, N> counting_bytes() {
  std::array<std::byte, N> bytes{};
  for (size_t i = 0; i < N; i++) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", appendix A.
TEST(Keys, SipHashMatchesThePaper) {
  EXPECT_EQ(siphash(counting_bytes<16>(), counting_bytes<15>()), 0xa129ca6149be45e5U);
}

// Source: RFC 7693 gives BLAKE2b-512 only. These are the first bytes of BLAKE2b-256 of no bytes.
TEST(Keys, HashIsBlake2b) {
  const Key256 key = hash({});
  constexpr std::array<uint8_t, 8> kExpected{0x0e, 0x57, 0x51, 0xc0, 0x26, 0xe5, 0x43, 0xb2};
  for (size_t i = 0; i < kExpected.size(); i++) {
    EXPECT_EQ(std::to_integer<uint8_t>(key[i]), kExpected[i]) << i;
  }
  EXPECT_NE(hash(counting_bytes<3>()), hash(counting_bytes<4>()));
}

TEST(Keys, RandomValuesDiffer) {
  std::set<uint64_t> values;
  std::set<Key256> keys;
  for (uint32_t i = 0; i < 1000; i++) {
    const uint64_t value = random_u64();
    EXPECT_NE(value, 0U);
    values.insert(value);
    keys.insert(random_key());
  }
  EXPECT_EQ(values.size(), 1000U);
  EXPECT_EQ(keys.size(), 1000U);
}

TEST(Keys, SeedDeterminesTheKey) {
  EXPECT_EQ(key_of_seed(7), key_of_seed(7));
  EXPECT_NE(key_of_seed(7), key_of_seed(8));
}

TEST(Keys, DerivedKeysDifferInEveryInput) {
  const Key256 parent = key_of_seed(1);
  const std::array<uint64_t, 2> context{3, 4};
  const std::array<uint64_t, 2> swapped{4, 3};
  const std::array<uint64_t, 3> longer{3, 4, 0};
  const Key256 key = derive(parent, "label", context);
  EXPECT_EQ(derive(parent, "label", context), key);
  const std::set<Key256> keys{key,
                              derive(key_of_seed(2), "label", context),
                              derive(parent, "labem", context),
                              derive(parent, "labe", context),
                              derive(parent, "", context),
                              derive(parent, "label", swapped),
                              derive(parent, "label", longer),
                              derive(parent, "label", {}),
                              derive(parent, "label", kZero),
                              parent};
  EXPECT_EQ(keys.size(), 10U);
}

// The label has a field of its own, so its end cannot pass for the begin of the context.
TEST(Keys, LabelsAndContextsDoNotRunTogether) {
  const Key256 parent = key_of_seed(1);
  const std::array<uint64_t, 1> letters{0x6161616161616161};  // "aaaaaaaa".
  EXPECT_NE(derive(parent, "aaaaaaaa", {}), derive(parent, "", letters));
  EXPECT_NE(derive(parent, "aaaaaaaa", letters), derive(parent, "aaaaaaaaaaaaaaaa", {}));
}

TEST(Keys, DerivedNumbersAreTheKeysFirstBytes) {
  const Key256 parent = key_of_seed(1);
  const Key256 key = derive(parent, "number", {});
  uint64_t number = 0;
  for (size_t i = 0; i < 8; i++) number = number << 8 | std::to_integer<uint64_t>(key[i]);
  EXPECT_EQ(derive_u64(parent, "number", {}), number);
}

TEST(Keys, HalvesMakeTheWhole) {
  const auto key = counting_bytes<32>();
  EXPECT_EQ(first_half(key), counting_bytes<16>());
  EXPECT_EQ(second_half(key)[0], std::byte{16});
  EXPECT_EQ(second_half(key)[15], std::byte{31});
}

}  // namespace
}  // namespace tributary::auth
