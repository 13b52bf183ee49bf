// SPDX-License-Identifier: Apache-2.0
// Method: requests by hand, byte by byte and at once; then what never ends; then random cuts.
#include "server/control/request_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/seed.h"

namespace tributary::control {
namespace {

constexpr std::string_view kPost = "POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";

/// Returns after how many of the bytes, one by one, the request can be answered; 0: after none.
size_t bytes_until_whole(std::string_view bytes) {
  RequestReader reader;
  for (size_t i = 0; i < bytes.size(); i++) {
    if (reader.add(bytes.substr(i, 1))) return i + 1;
  }
  return 0;
}

TEST(RequestReader, RequestWithoutABodyEndsWithItsEmptyLine) {
  const std::string get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_EQ(bytes_until_whole(get + "more"), get.size());
  EXPECT_EQ(bytes_until_whole("GET / HTTP/1.1\r\nHost: x\r\n"), 0U);
  // Methods that take no body: what follows does not belong to the request.
  const std::string with_length = "GET / HTTP/1.1\r\nContent-Length: 9\r\n\r\n";
  EXPECT_EQ(bytes_until_whole(with_length), with_length.size());
}

TEST(RequestReader, RequestWithABodyEndsWithTheBody) {
  EXPECT_EQ(bytes_until_whole(kPost), kPost.size());
  const std::string other_case = "PATCH / HTTP/1.1\r\nA: b\r\ncontent-length:\t2 \r\n\r\n{}";
  EXPECT_EQ(bytes_until_whole(other_case), other_case.size());
  RequestReader reader;
  EXPECT_TRUE(reader.add(kPost));
  EXPECT_EQ(reader.take(), kPost);
  EXPECT_TRUE(reader.is_empty());
}

TEST(RequestReader, BodiesThatTheServerRefusesAreNotAwaited) {
  for (const char* length : {"8193", "-1", "x", "", "99999999999999999999", "2, 2"}) {
    const std::string head =
        "POST / HTTP/1.1\r\nContent-Length: " + std::string(length) + "\r\n\r\n";
    EXPECT_EQ(bytes_until_whole(head), head.size()) << length;
  }
  const std::string no_length = "PUT / HTTP/1.1\r\nX-Content-Length: 5\r\n\r\n";
  EXPECT_EQ(bytes_until_whole(no_length), no_length.size());
}

TEST(RequestReader, LinesOfGarbageEndARequest) {
  EXPECT_EQ(bytes_until_whole("\n"), 1U);
  EXPECT_EQ(bytes_until_whole("\r\n"), 2U);
  EXPECT_EQ(bytes_until_whole("x\n\n"), 3U);
  EXPECT_EQ(bytes_until_whole("x\r\n\n"), 4U);
  EXPECT_EQ(bytes_until_whole(std::string(1000, 'x')), 0U);
  EXPECT_EQ(bytes_until_whole(std::string(1000, '\r')), 0U);
}

TEST(RequestReader, RequestWithoutAnEndIsAnsweredWhenItIsTooLarge) {
  RequestReader reader;
  EXPECT_FALSE(reader.add(std::string(kRequestBytesMax - 1, 'x')));
  EXPECT_EQ(reader.room(), 1U);
  EXPECT_TRUE(reader.add("x"));
  EXPECT_EQ(reader.take().size(), kRequestBytesMax);
}

TEST(RequestReader, ExpectationIsTakenOnce) {
  const std::string head = "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";
  RequestReader reader;
  EXPECT_FALSE(reader.add(head));
  EXPECT_TRUE(reader.take_expectation());
  EXPECT_FALSE(reader.take_expectation());
  EXPECT_TRUE(reader.add("x"));
  RequestReader whole;
  EXPECT_TRUE(whole.add(head + "x"));
  EXPECT_FALSE(whole.take_expectation());
}

TEST(RequestReader, CutsDoNotMatter) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng prng(seed);
  for (uint32_t round = 0; round < 1000; round++) {
    RequestReader reader;
    size_t given = 0;
    while (given < kPost.size()) {
      const size_t count = 1 + prng.below(static_cast<uint32_t>(kPost.size() - given));
      given += count;
      ASSERT_EQ(reader.add(kPost.substr(given - count, count)), given == kPost.size());
    }
    ASSERT_EQ(reader.take(), kPost);
  }
}

}  // namespace
}  // namespace tributary::control
