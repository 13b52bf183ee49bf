// SPDX-License-Identifier: Apache-2.0
// Method: vectors of NIST, then random splits of a message into head and payload against the same
// message in one piece.
#include "auth/gmac.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/hex.h"
#include "tests/support/seed.h"

namespace tributary::auth {
namespace {

using tributary::from_hex;

Key128 key_of(const char* hex) {
  const auto bytes = from_hex(hex);
  Key128 key;
  std::copy_n(bytes.begin(), key.size(), key.begin());
  return key;
}

std::array<std::byte, kGmacNonceBytes> nonce_of(const char* hex) {
  const auto bytes = from_hex(hex);
  std::array<std::byte, kGmacNonceBytes> nonce;
  std::copy_n(bytes.begin(), nonce.size(), nonce.begin());
  return nonce;
}

std::vector<std::byte> tag_of(const Gmac& gmac, const std::array<std::byte, kGmacNonceBytes>& nonce,
                              std::span<const std::byte> head,
                              std::span<const std::byte> payload = {}) {
  std::vector<std::byte> tag(kGmacTagBytes);
  gmac.tag(nonce, head, payload, tag.data());
  return tag;
}

// Source: McGrew and Viega, "The Galois/Counter Mode of Operation", test case 1.
TEST(Gmac, TagsAnEmptyMessage) {
  if (!Gmac::is_available()) GTEST_SKIP() << "built without libipsec-mb";
  const Gmac gmac(Key128{});
  EXPECT_EQ(tag_of(gmac, {}, {}), from_hex("58e2fccefa7e3061367f1d57a4e7455a"));
}

// Source: NIST CAVP, gcmEncryptExtIV128.rsp, PTlen = 0, AADlen = 128, Count = 0.
TEST(Gmac, MatchesAVectorOfNist) {
  if (!Gmac::is_available()) GTEST_SKIP() << "built without libipsec-mb";
  const Gmac gmac(key_of("77be63708971c4e240d1cb79e8d77feb"));
  const auto nonce = nonce_of("e0e00f19fed7ba0136a797f3");
  const auto message = from_hex("7a43ec1d9c0a5a78a0b16533a6213cab");
  EXPECT_EQ(tag_of(gmac, nonce, message), from_hex("209fcc8d3675ed938e9c7166709dd946"));
}

TEST(Gmac, TwoPiecesGiveTheTagOfTheWhole) {
  if (!Gmac::is_available()) GTEST_SKIP() << "built without libipsec-mb";
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  testing::Prng prng(seed);
  const Gmac gmac(first_half(key_of_seed(seed)));
  for (uint32_t step = 0; step < 200; step++) {
    std::vector<std::byte> message(prng.below(5000));
    for (std::byte& byte : message) byte = static_cast<std::byte>(prng.below(256));
    const auto nonce = nonce_of("000000000000000000000001");
    const size_t cut = message.empty() ? 0 : prng.below(static_cast<uint32_t>(message.size()));
    const std::span<const std::byte> whole(message);
    ASSERT_EQ(tag_of(gmac, nonce, whole.first(cut), whole.subspan(cut)), tag_of(gmac, nonce, whole))
        << "step " << step << ", " << message.size() << " bytes cut at " << cut;
  }
}

}  // namespace
}  // namespace tributary::auth
