// SPDX-License-Identifier: Apache-2.0
#include "cli/demo/worker_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::demo {
namespace {

using ::testing::HasSubstr;

TEST(WorkerMessages, IterationSurvivesARoundTrip) {
  const IterationRecord sent{
      .iteration = 7, .seconds = 1.0 / 3, .loss = 2.718281828459045, .degraded_blocks = 3};
  const auto received = decode(encode(sent));
  ASSERT_TRUE(received);
  const auto& record = std::get<IterationRecord>(*received);
  EXPECT_EQ(record.iteration, sent.iteration);
  EXPECT_EQ(record.seconds, sent.seconds);
  EXPECT_EQ(record.loss, sent.loss);
  EXPECT_EQ(record.degraded_blocks, sent.degraded_blocks);
}

TEST(WorkerMessages, ReportSurvivesARoundTrip) {
  const WorkerReport sent{.rank = 3,
                          .parameter_checksum = 0xfedc'ba98'7654'3210,  // Needs all 64 bits.
                          .validation_loss = 1.5,
                          .late_iterations = 9,
                          .sums = {10, 2, 1},
                          .counters = {.packets_sent = 1,
                                       .packets_received = 2,
                                       .retransmitted = 3,
                                       .probes = 4,
                                       .blocks = 5,
                                       .degraded_blocks = 6,
                                       .duplicate_results = 7,
                                       .invalid_packets = 8}};
  const auto received = decode(encode(sent));
  ASSERT_TRUE(received);
  const auto& report = std::get<WorkerReport>(*received);
  EXPECT_EQ(report.rank, 3);
  EXPECT_EQ(report.parameter_checksum, sent.parameter_checksum);
  EXPECT_EQ(report.validation_loss, 1.5);
  EXPECT_EQ(report.late_iterations, 9);
  EXPECT_EQ(report.sums, sent.sums);
  EXPECT_EQ(report.counters.packets_sent, 1);
  EXPECT_EQ(report.counters.packets_received, 2);
  EXPECT_EQ(report.counters.retransmitted, 3);
  EXPECT_EQ(report.counters.probes, 4);
  EXPECT_EQ(report.counters.blocks, 5);
  EXPECT_EQ(report.counters.degraded_blocks, 6);
  EXPECT_EQ(report.counters.duplicate_results, 7);
  EXPECT_EQ(report.counters.invalid_packets, 8);
}

TEST(WorkerMessages, JoinedSurvivesARoundTrip) {
  const auto received = decode(encode(WorkerJoined{2}));
  ASSERT_TRUE(received);
  EXPECT_EQ(std::get<WorkerJoined>(*received).rank, 2);
}

TEST(WorkerMessages, RefusalQuotesAnUnknownMessage) {
  for (const char* line :
       {"", "hello", "{}", "[1]", "{\"joined\":3}", "{\"joined\":{}}", "{\"other\":{}}",
        "{\"joined\":{\"rank\":\"2\"}}", "{\"iteration\":{\"iteration\":1}}",
        "{\"joined\":{\"rank\":1},\"report\":{}}", "{\"joined\":{\"rank\":1}"}) {
    const auto message = decode(line);
    ASSERT_FALSE(message) << line;
    EXPECT_THAT(message.error().text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace tributary::demo
