// SPDX-License-Identifier: Apache-2.0
// Method: lists of waits made by hand, and the times at which files are allowed.
#include "server/recording/stall_watch.h"

#include <gtest/gtest.h>

namespace tributary::server {
namespace {

Wait wait(uint32_t job, uint32_t rank, Duration since) {
  return {.job = job, .block = 7, .missing = {rank}, .since = since};
}

TEST(StallWatch, StallIsFoundOnceAndAgainAfterItsEnd) {
  StallWatch watch(seconds(5));
  const std::vector<Wait> young{wait(1, 2, milliseconds(4999))};
  const std::vector<Wait> old{wait(1, 2, seconds(5))};
  EXPECT_EQ(watch.find_new(young).size(), 0U);
  EXPECT_EQ(watch.find_new(old).size(), 1U);
  EXPECT_EQ(watch.find_new(old).size(), 0U);
  EXPECT_EQ(watch.find_new({}).size(), 0U);
  EXPECT_EQ(watch.find_new(old).size(), 1U);
}

TEST(StallWatch, RanksAndJobsStallByThemselves) {
  StallWatch watch(seconds(5));
  const std::vector<Wait> first{wait(1, 2, seconds(6))};
  const std::vector<Wait> more{wait(1, 2, seconds(7)), wait(1, 3, seconds(6)),
                               wait(2, 2, seconds(6))};
  EXPECT_EQ(watch.find_new(first).size(), 1U);
  const auto found = watch.find_new(more);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].missing, std::vector<uint32_t>{3});
  EXPECT_EQ(found[1].job, 2U);
}

TEST(StallWatch, WaitWithoutABlockIsNoStall) {
  StallWatch watch(seconds(5));
  Wait before_session = wait(1, 2, seconds(60));
  before_session.block.reset();
  EXPECT_EQ(watch.find_new(std::vector<Wait>{before_session}).size(), 0U);
}

TEST(StallWatch, ZeroIsNever) {
  StallWatch watch{Duration()};
  EXPECT_EQ(watch.find_new(std::vector<Wait>{wait(1, 2, seconds(1000))}).size(), 0U);
}

TEST(StallWatch, SilenceThatEndsASessionIsFoundOnce) {
  StallWatch watch(seconds(5));
  EXPECT_FALSE(watch.has_silence_ended(0));
  EXPECT_TRUE(watch.has_silence_ended(2));
  EXPECT_FALSE(watch.has_silence_ended(2));
  EXPECT_FALSE(watch.has_silence_ended(1));  // A job was removed, and its counters with it.
  EXPECT_TRUE(watch.has_silence_ended(2));
  StallWatch never{Duration()};
  EXPECT_FALSE(never.has_silence_ended(1));
}

TEST(StallWatch, SilenceAndStallsShareTheirFiles) {
  StallWatch watch(seconds(5));
  EXPECT_TRUE(watch.has_silence_ended(1));
  EXPECT_TRUE(watch.take_file(Instant(seconds(1))));
  EXPECT_EQ(watch.find_new(std::vector<Wait>{wait(1, 2, seconds(6))}).size(), 1U);
  EXPECT_FALSE(watch.take_file(Instant(seconds(7))));
}

TEST(StallWatch, FilesKeepTheirDistance) {
  StallWatch watch(seconds(5));
  EXPECT_TRUE(watch.take_file(Instant(seconds(1))));
  EXPECT_FALSE(watch.take_file(Instant(seconds(30))));
  EXPECT_TRUE(watch.take_file(Instant(seconds(31))));
}

}  // namespace
}  // namespace tributary::server
