// SPDX-License-Identifier: Apache-2.0
// Method: published values. Then that order and length count.
#include "base/fnv.h"

#include <gtest/gtest.h>

#include <string_view>

namespace tributary {
namespace {

uint64_t digest_of(std::string_view text) {
  return fnv_bytes(kFnvStart, std::as_bytes(std::span(text)));
}

// Source: IETF draft-eastlake-fnv, appendix C.
TEST(Fnv, MatchesThePublishedValues) {
  EXPECT_EQ(digest_of(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(digest_of("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(digest_of("foobar"), 0x85944171f73967e8ULL);
}

TEST(Fnv, OrderAndLengthCount) {
  EXPECT_NE(digest_of("ab"), digest_of("ba"));
  EXPECT_NE(digest_of("a"), digest_of(std::string_view("a\0", 2)));
}

}  // namespace
}  // namespace tributary
