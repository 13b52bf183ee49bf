// SPDX-License-Identifier: Apache-2.0
// Method: sums by hand, then random bytes against the sum of one 16-bit word at a time.
#include "base/internet_checksum.h"

#include <gtest/gtest.h>

#include "base/prng.h"
#include "tests/support/hex.h"
#include "tests/support/seed.h"

namespace tributary {
namespace {

TEST(Checksum, SumsMatchHandWorkedValues) {
  EXPECT_EQ(word_sum({}), 0);
  EXPECT_EQ(word_sum(from_hex("12")), 0x1200);  // An odd last byte is the high byte.
  EXPECT_EQ(word_sum(from_hex("12 34 56")), 0x1234 + 0x5600);
  EXPECT_EQ(word_sum(from_hex("ff ff 00 01")), 1);  // 10000 folds to 1.
  EXPECT_EQ(word_sum(from_hex("ff ff ff ff")), 0xffff);
  // Ten bytes exceed the eight that are added at once: 1+2+3+4+5 = f.
  EXPECT_EQ(word_sum(from_hex("00 01 00 02 00 03 00 04 00 05")), 0xf);
  EXPECT_EQ(internet_checksum(from_hex("00 01"), 0x2fffd), 0xffff - (1 + 0xfffd + 2) % 0xffff);
}

uint16_t word_by_word(std::span<const std::byte> bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes.size(); i++) {
    sum += std::to_integer<uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
    if (sum > 0xffff) sum -= 0xffff;
  }
  return static_cast<uint16_t>(sum);
}

TEST(Checksum, MatchesAPlainSumAtAnyLengthAndAlignment) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  Bytes bytes(9100);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.any_u32());
  for (uint32_t step = 0; step < 3000; step++) {
    const uint32_t offset = prng.below(16);
    const auto part = std::span(bytes).subspan(offset, prng.below(step < 2000 ? 70 : 9000));
    ASSERT_EQ(word_sum(part), word_by_word(part)) << offset << " + " << part.size();
  }
}

TEST(Checksum, PartsOfEvenLengthAddUp) {
  const Bytes all = from_hex("de ad be ef 01 02 03 04 05 06 07");
  const std::span<const std::byte> bytes(all);
  EXPECT_EQ(fold_sum(word_sum(bytes.first(6)) + word_sum(bytes.subspan(6))), word_sum(bytes));
}

}  // namespace
}  // namespace tributary
