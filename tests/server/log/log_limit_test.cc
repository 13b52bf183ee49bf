// SPDX-License-Identifier: Apache-2.0
// Method: hand-worked windows in virtual time, then more keys and more lines than the limit holds.
#include "server/log/log_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::server {
namespace {

const Instant kStart(seconds(100));

TEST(LogLimitTest, SuppressesAndCountsTheLinesOfABusyKeyOnly) {
  LogLimit limit;
  for (uint32_t i = 0; i < kLogLinesPerKey; i++) EXPECT_TRUE(limit.allow("a", kStart));
  for (uint32_t i = 0; i < 7; i++) EXPECT_FALSE(limit.allow("a", kStart + seconds(1)));
  EXPECT_TRUE(limit.allow("b", kStart + seconds(1)));
  EXPECT_TRUE(limit.take_ended(kStart + kLogWindow - nanoseconds(1)).empty());

  const auto ended = limit.take_ended(kStart + kLogWindow);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].key, "a");
  EXPECT_EQ(ended[0].lines, 7U);
  EXPECT_TRUE(limit.allow("a", kStart + kLogWindow));
  EXPECT_TRUE(limit.take_ended(kStart + kLogWindow + seconds(1)).empty());
}

TEST(LogLimitTest, BoundsTheLinesOfASecond) {
  LogLimit limit;
  uint32_t allowed = 0;
  for (uint32_t i = 0; i < 2 * kLogLinesPerSecond; i++) {
    allowed += limit.allow(std::to_string(i), kStart) ? 1 : 0;
  }
  EXPECT_EQ(allowed, kLogLinesPerSecond);
  EXPECT_TRUE(limit.allow("next", kStart + seconds(1)));
  const auto ended = limit.take_ended(kStart + kLogWindow);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].key, kLogOverflow);
  EXPECT_EQ(ended[0].lines, kLogLinesPerSecond);
}

TEST(LogLimitTest, BoundsItsKeys) {
  LogLimit limit;
  Instant now = kStart;
  uint32_t allowed = 0;
  for (uint32_t i = 0; i < 2 * kLogKeysMax; i++) {
    if (i % kLogLinesPerSecond == 0) now = now + seconds(1);
    allowed += limit.allow(std::to_string(i), now) ? 1 : 0;
  }
  EXPECT_EQ(allowed, kLogKeysMax + kLogLinesPerKey);
}

}  // namespace
}  // namespace tributary::server
