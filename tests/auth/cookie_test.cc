// SPDX-License-Identifier: Apache-2.0
// Method: one good cookie, then owners that differ in one field, then times by hand, then guesses.
#include "auth/cookie.h"

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace tributary::auth {
namespace {

const Instant kStart{seconds(1000)};  // 40 s into the period from 960 s to 1020 s.

CookieOwner owner() {
  return {.address = Endpoint::ipv4(0x0a000001, 40000), .nonce = 77, .job_id = 3, .source = 5};
}

TEST(Cookie, IsGoodForItsOwnerOnly) {
  const CookieJar jar(key_of_seed(1));
  const uint64_t cookie = jar.make(owner(), kStart);
  EXPECT_NE(cookie, 0U);
  EXPECT_TRUE(jar.is_valid(cookie, owner(), kStart));

  CookieOwner other = owner();
  other.address = Endpoint::ipv4(0x0a000002, 40000);
  EXPECT_FALSE(jar.is_valid(cookie, other, kStart));
  other = owner();
  other.address = Endpoint::ipv4(0x0a000001, 40001);
  EXPECT_FALSE(jar.is_valid(cookie, other, kStart));
  other = owner();
  other.address.scope_id = 1;
  EXPECT_FALSE(jar.is_valid(cookie, other, kStart));
  other = owner();
  other.nonce++;
  EXPECT_FALSE(jar.is_valid(cookie, other, kStart));
  other = owner();
  other.nonce ^= uint64_t{1} << 63;
  EXPECT_FALSE(jar.is_valid(cookie, other, kStart));
  other = owner();
  other.job_id++;
  EXPECT_FALSE(jar.is_valid(cookie, other, kStart));
  other = owner();
  other.source++;
  EXPECT_FALSE(jar.is_valid(cookie, other, kStart));
}

TEST(Cookie, IsGoodForOneToTwoPeriods) {
  const CookieJar jar(key_of_seed(1));
  const Instant period_begin{kCookiePeriod * 10};
  const Instant period_end{kCookiePeriod * 11};
  const Duration tick = nanoseconds(1);
  const uint64_t early = jar.make(owner(), period_begin);
  const uint64_t late = jar.make(owner(), period_end - tick);
  EXPECT_EQ(early, late);  // The period counts, not the time in it.
  EXPECT_FALSE(jar.is_valid(early, owner(), period_begin - tick));
  EXPECT_TRUE(jar.is_valid(early, owner(), period_begin));
  EXPECT_TRUE(jar.is_valid(early, owner(), period_end));
  EXPECT_TRUE(jar.is_valid(early, owner(), period_end + kCookiePeriod - tick));
  EXPECT_FALSE(jar.is_valid(early, owner(), period_end + kCookiePeriod));
}

TEST(Cookie, IsGoodAtTheStartOfTheClock) {
  const CookieJar jar(key_of_seed(1));
  EXPECT_TRUE(jar.is_valid(jar.make(owner(), Instant()), owner(), Instant()));
}

TEST(Cookie, AnotherServersCookiesAreBad) {
  const CookieJar jar(key_of_seed(1));
  const CookieJar restarted(key_of_seed(2));
  EXPECT_FALSE(restarted.is_valid(jar.make(owner(), kStart), owner(), kStart));
}

TEST(Cookie, GuessesAreBad) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  const CookieJar jar(key_of_seed(seed));
  EXPECT_FALSE(jar.is_valid(0, owner(), kStart));
  const uint64_t cookie = jar.make(owner(), kStart);
  for (uint32_t bit = 0; bit < 64; bit++) {
    EXPECT_FALSE(jar.is_valid(cookie ^ uint64_t{1} << bit, owner(), kStart)) << bit;
  }
  for (uint32_t i = 0; i < 10'000; i++) EXPECT_FALSE(jar.is_valid(prng.any_u64(), owner(), kStart));
}

}  // namespace
}  // namespace tributary::auth
