// SPDX-License-Identifier: Apache-2.0
// Method: reports made by hand, and the lateness that follows from their times.
#include "server/control/begin_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/trio_ml/records.h"

namespace tributary::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Instant at_ms(int64_t time_ms) { return Instant() + milliseconds(time_ms); }

/// A job of three ranks, in session 1.
class BeginHistoryTest : public ::testing::Test {
 protected:
  BeginHistoryTest() {
    job_.session = 1;
    job_.sources.resize(3);
  }
  /// A rank reports that it begins an all-reduce.
  void begin(uint32_t source, uint32_t number, int64_t time_ms) {
    auto& report = job_.sources[source].report;
    if (!report) report.emplace();
    report->take({.begun = number}, at_ms(time_ms));
  }
  void lack(uint32_t source) {
    job_.blocks = {{.block_id = 9, .referenced_at = Instant()}};
    trio_ml::include(job_.blocks[0].missing, source);
  }
  BeginTable look(int64_t time_ms) {
    history_.add(job_, at_ms(time_ms));
    return history_.table();
  }

  server::JobSnapshot job_;
  BeginHistory history_;
};

TEST_F(BeginHistoryTest, LatenessCountsFromTheFirstRank) {
  begin(0, 1, 1000);
  begin(1, 1, 1030);
  begin(2, 1, 990);
  begin(0, 2, 1500);
  begin(1, 2, 1500);
  begin(2, 2, 1900);
  const BeginTable table = look(2000);
  EXPECT_THAT(table.numbers, ElementsAre(1, 2));
  EXPECT_THAT(table.lateness[0], ElementsAre(milliseconds(10), Duration()));
  EXPECT_THAT(table.lateness[1], ElementsAre(milliseconds(40), Duration()));
  EXPECT_THAT(table.lateness[2], ElementsAre(Duration(), milliseconds(400)));
}

TEST_F(BeginHistoryTest, RankThatOthersWaitForIsLateUntilNow) {
  for (uint32_t rank = 0; rank < 3; rank++) begin(rank, 1, 1000);
  begin(0, 2, 1500);
  begin(1, 2, 1600);
  EXPECT_THAT(look(2000).lateness[2], ElementsAre(Duration(), std::nullopt));  // No block lacks it.
  lack(2);
  EXPECT_THAT(look(3000).lateness[2], ElementsAre(Duration(), milliseconds(1500)));
  begin(2, 2, 3100);
  EXPECT_THAT(look(4000).lateness[2], ElementsAre(Duration(), milliseconds(1600)));
}

TEST_F(BeginHistoryTest, RankWithoutReportsIsUnknown) {
  begin(0, 1, 1000);
  begin(1, 1, 1000);
  lack(2);
  EXPECT_THAT(look(2000).lateness[2], ElementsAre(std::nullopt));
}

// Rank 1 reports every second one only.
TEST_F(BeginHistoryTest, AllReducesThatARankLeavesOutAreNotShown) {
  begin(2, 4, 1000);
  for (uint32_t number = 1; number <= 4; number++) begin(0, number, 1000 + number);
  begin(1, 2, 1002);
  begin(1, 4, 1004);
  EXPECT_THAT(look(2000).numbers, ElementsAre(4));
}

TEST_F(BeginHistoryTest, NewSessionStartsAgain) {
  begin(0, 7, 1000);
  EXPECT_THAT(look(1100).numbers, ElementsAre(7));
  // The core has not noticed the new session, and then it has.
  begin(0, 8, 1900);
  job_.session = 2;
  EXPECT_THAT(look(2000).numbers, IsEmpty());
  job_.sources[0].report.reset();
  begin(0, 1, 2500);
  EXPECT_THAT(look(3000).numbers, ElementsAre(1));
  // What remains of an ended session stays until the next one.
  job_.session = 0;
  EXPECT_THAT(look(4000).numbers, ElementsAre(1));
  job_.session = 3;
  EXPECT_THAT(look(5000).numbers, IsEmpty());
  job_.sources[0].report.reset();
  begin(0, 1, 4500);  // Not older than the last look without a session.
  EXPECT_THAT(look(6000).numbers, ElementsAre(1));
}

// A rank may state any number.
TEST_F(BeginHistoryTest, IsBounded) {
  begin(1, UINT32_MAX, 1);
  for (uint32_t number = 1; number <= 1000; number++) {
    begin(0, number, number * 10);
    (void)look(number * 10 + 5);
  }
  const BeginTable table = history_.table();
  EXPECT_THAT(table.numbers, IsEmpty());  // Rank 1 claims to be far ahead.
  job_.sources[1].report.reset();
  job_.session = 2;
  (void)look(20'001);
  for (uint32_t number = 1; number <= 1000; number++) {
    begin(0, number, 30'000 + number * 10);
    (void)look(30'005 + number * 10);
  }
  EXPECT_THAT(history_.table().numbers, SizeIs(kAllReducesMax));
  EXPECT_EQ(history_.table().numbers.back(), 1000U);
}

}  // namespace
}  // namespace tributary::control
