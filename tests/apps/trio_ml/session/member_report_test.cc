// SPDX-License-Identifier: Apache-2.0
// Method: rates by hand; then reports of members and of strangers at an aggregator.
#include "apps/trio_ml/session/member_report.h"

#include <gtest/gtest.h>

#include "tests/apps/trio_ml/bed.h"

namespace tributary::trio_ml {
namespace {

Instant at_ms(int64_t ms) { return Instant(milliseconds(ms)); }

TEST(MemberReport, RatesAreOfTheLastTwoReports) {
  MemberReport report;
  EXPECT_FALSE(report.has_arrived());
  report.take({.retransmitted = 4, .bytes = 1000}, at_ms(1000));
  EXPECT_TRUE(report.has_arrived());
  EXPECT_EQ(report.bytes_per_s, 0);
  report.take({.retransmitted = 5, .bytes = 3000}, at_ms(1500));
  EXPECT_DOUBLE_EQ(report.bytes_per_s, 4000);
  EXPECT_DOUBLE_EQ(report.retransmitted_per_s, 2);
  EXPECT_EQ(report.totals.bytes, 3000U);
}

TEST(MemberReport, ATotalThatFallsIsNoGrowth) {
  MemberReport report;
  report.take({.bytes = UINT64_MAX}, at_ms(1000));
  report.take({.bytes = 7}, at_ms(2000));
  EXPECT_EQ(report.bytes_per_s, 0);
}

TEST(MemberReport, ReportsThatArriveTogetherKeepTheRate) {
  MemberReport report;
  report.take({.bytes = 1000}, at_ms(1000));
  report.take({.bytes = 2000}, at_ms(2000));
  report.take({.bytes = 9000}, at_ms(2001));
  EXPECT_DOUBLE_EQ(report.bytes_per_s, 1000);
  EXPECT_EQ(report.totals.bytes, 9000U);
}

TEST(MemberReport, KeepsTheNewestBeginnings) {
  MemberReport report;
  for (uint32_t number = 1; number <= kBeginsMax + 1; number++) {
    report.take({.begun = number}, at_ms(number));
    report.take({}, at_ms(number));
  }
  EXPECT_EQ(report.begins[report.next_begin % kBeginsMax].number, 2U);
  EXPECT_EQ(report.begins[0].number, kBeginsMax + 1);
  EXPECT_EQ(report.begins[0].at, at_ms(kBeginsMax + 1));
}

JobConfig job_with(bool reports) {
  return {.id = 1, .sources = 2, .block_cnt_max = 8, .block_grad_max = 16, .reports = reports};
}

Bytes report_bytes(const Member& member, uint64_t blocks) {
  Message message = member.message(MessageType::kReport, 0);
  message.body.report.blocks = blocks;
  return encoded(message);
}

TEST(MemberReport, AnAggregatorKeepsTheLastReportOfEachMember) {
  Bed bed(job_with(true));
  const auto members = join_all(bed);
  bed.advance(seconds(1));
  bed.deliver(report_bytes(members[1], 12), worker(1));
  EXPECT_EQ(bed.counted(Outcome::kReport), 1U);
  ASSERT_EQ(bed.job().reports.size(), 2U);
  EXPECT_FALSE(bed.job().reports[0].has_arrived());
  EXPECT_EQ(bed.job().reports[1].totals.blocks, 12U);
  // It stays when the session has ended, and goes with the next one.
  for (uint32_t source = 0; source < 2; source++) {
    bed.deliver(encoded(members[source].message(MessageType::kLeave, 0)), worker(source));
  }
  EXPECT_EQ(bed.session().number(), 0U);
  EXPECT_EQ(bed.job().reports[1].totals.blocks, 12U);
  static_cast<void>(join_all(bed, /*nonce_base=*/2000));
  EXPECT_FALSE(bed.job().reports[1].has_arrived());
}

TEST(MemberReport, OnlyAMemberMayReport) {
  Bed bed(job_with(true));
  auto members = join_all(bed);
  members[1].key++;
  bed.deliver(report_bytes(members[1], 12), worker(1));
  EXPECT_EQ(bed.counted(Outcome::kWrongKey), 1U);
  EXPECT_EQ(bed.counted(Outcome::kReport), 0U);
  EXPECT_FALSE(bed.job().reports[1].has_arrived());
}

TEST(MemberReport, AJobThatAsksForNoneRefusesThem) {
  Bed bed(job_with(false));
  const auto members = join_all(bed);
  expect_refused(bed, report_bytes(members[1], 12), worker(1), Outcome::kNotExpectedHere);
}

TEST(MemberReport, TheWelcomeAsksForReports) {
  for (const bool reports : {false, true}) {
    Bed bed(job_with(reports));
    static_cast<void>(join_all(bed));
    EXPECT_EQ(bed.session().welcome_body(0).reports, reports);
  }
}

}  // namespace
}  // namespace tributary::trio_ml
