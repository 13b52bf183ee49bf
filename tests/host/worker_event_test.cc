// SPDX-License-Identifier: Apache-2.0
// Method: waits, degraded results and stragglers worked by hand against a simulated aggregator: the
// events that a rank announces, and the reports that it sends. Virtual time only.
#include "host/worker_event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/host/trio_ml/protocol_bed.h"

namespace tributary::testing {
namespace {

using host::SourceSet;
using host::WaitAnnouncer;
using host::WorkerEvent;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Kind = WorkerEvent::Kind;

Instant at_ms(int64_t ms) { return Instant(milliseconds(ms)); }

TEST(WaitAnnouncer, AnnouncesEachWaitOnceAndNotTooOften) {
  WaitAnnouncer announcer;
  EXPECT_EQ(announcer.due_at(5, at_ms(100)), at_ms(1100));
  announcer.note(5, at_ms(1100));
  EXPECT_EQ(announcer.due_at(5, at_ms(100)), Instant::never());
  // The next wait: at the earliest ten seconds after the first announcement.
  EXPECT_EQ(announcer.due_at(6, at_ms(2000)), at_ms(11'100));
}

/// A rank of four that keeps its events.
class WorkerEvents : public ::testing::Test {
 protected:
  static host::CommunicatorConfig config_for(std::vector<WorkerEvent>& events) {
    host::CommunicatorConfig config = small_config();
    config.deadline = seconds(60);
    config.on_event = [&events](const WorkerEvent& event) { events.push_back(event); };
    return config;
  }
  /// Passes time in steps, and drops all packets that are sent.
  void pass(Duration length) {
    const Instant until = bed_.now + length;
    while (bed_.now < until) {
      bed_.pass(std::min(milliseconds(50), until - bed_.now));
      (void)bed_.take_sent();
    }
  }
  std::vector<WorkerEvent> take_events() { return std::exchange(events_, {}); }

  std::vector<WorkerEvent> events_;
  uint16_t gen_id_ = 0;  ///< gen_id of the next tensor.
  ProtocolBed bed_{config_for(events_)};
};

TEST_F(WorkerEvents, AWaitNamesTheMissingRanksOnce) {
  bed_.join();
  IntTransfer tensor({1, 2, 3});
  bed_.protocol.submit(tensor.transfer, bed_.now);
  (void)bed_.take_sent();
  pass(milliseconds(500));
  bed_.have(0, {0, 1});
  pass(milliseconds(499));
  EXPECT_THAT(events_, IsEmpty());
  pass(milliseconds(1));
  auto events = take_events();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].kind, Kind::kWaiting);
  EXPECT_EQ(events[0].ranks, mask_of({2, 3}));
  EXPECT_EQ(events[0].waited, seconds(1));
  EXPECT_EQ(events[0].text,
            "rank 2, 3 has not contributed to block 0 for 1.0 s (aggregator 10.0.0.1:12000 "
            "answers)");
  for (uint32_t i = 0; i < 50; i++) {
    bed_.have(0, {0, 1});
    pass(milliseconds(400));
  }
  EXPECT_THAT(events_, IsEmpty());
}

TEST_F(WorkerEvents, AWorkerThatWasStoppedItselfAccusesNobody) {
  bed_.join();
  IntTransfer tensor({1, 2, 3});
  bed_.protocol.submit(tensor.transfer, bed_.now);
  (void)bed_.take_sent();
  pass(milliseconds(500));
  bed_.have(0, {0, 1});
  bed_.pass(seconds(5));  // One step: the process did not run.
  pass(milliseconds(500));
  bed_.have(0, {0, 1});
  pass(milliseconds(499));
  EXPECT_THAT(events_, IsEmpty());
  pass(milliseconds(1));
  ASSERT_THAT(events_, SizeIs(1));
  EXPECT_EQ(events_[0].waited, seconds(1));
}

TEST_F(WorkerEvents, AWaitForASilentAggregatorNamesIt) {
  bed_.join();
  bed_.pass(milliseconds(1));
  IntTransfer tensor({1});
  bed_.protocol.submit(tensor.transfer, bed_.now);
  (void)bed_.take_sent();
  pass(seconds(1));
  ASSERT_THAT(events_, SizeIs(1));
  EXPECT_THAT(events_[0].text, HasSubstr("aggregator 10.0.0.1:12000 has not answered for 0."));
  EXPECT_EQ(events_[0].ranks, SourceSet{});
  pass(seconds(20));
  EXPECT_THAT(events_, SizeIs(1));
}

// Whatever the time to a result was, the name comes within a second of the last packet.
TEST_F(WorkerEvents, AnAggregatorThatStopsInMidOperationIsNamedWithinASecond) {
  bed_.join();
  uint32_t block = 0;
  for (const int64_t result_ms : {1, 3, 12, 40, 99, 100, 150}) {
    IntTransfer tensor(std::vector<int32_t>(80, 1));  // 20 blocks of 4 lanes.
    bed_.protocol.submit(tensor.transfer, bed_.now);
    (void)bed_.take_sent();
    for (uint32_t i = 0; i < 8; i++) {
      pass(milliseconds(result_ms));
      bed_.receive(bed_.result(block + i, 4, tensor.transfer, gen_id_), std::array<int32_t, 4>{});
    }
    EXPECT_THAT(take_events(), IsEmpty()) << result_ms;
    const Instant heard_at = bed_.now;
    while (events_.empty() && bed_.now < heard_at + seconds(3)) {
      bed_.pass(bed_.protocol.next_deadline() - bed_.now);
      (void)bed_.take_sent();
    }
    ASSERT_THAT(events_, SizeIs(1)) << result_ms;
    EXPECT_LE(in_milliseconds(bed_.now - heard_at), 900) << result_ms;
    EXPECT_GE(bed_.now - heard_at, host::kSilenceAnnouncedAfter) << result_ms;
    EXPECT_THAT(take_events()[0].text, HasSubstr("aggregator 10.0.0.1:12000 has not answered for"));
    for (uint32_t i = 8; i < 20; i++) {  // It goes on.
      (void)bed_.take_sent();
      bed_.receive(bed_.result(block + i, 4, tensor.transfer, gen_id_), std::array<int32_t, 4>{});
    }
    ASSERT_TRUE(tensor.transfer.done) << result_ms;
    EXPECT_EQ(tensor.transfer.outcome.status, host::Status::kOk);
    block += 20;
    gen_id_++;
  }
}

TEST_F(WorkerEvents, ASlowAggregatorIsNotNamedAsSilent) {
  bed_.join();
  IntTransfer tensor({1});
  bed_.protocol.submit(tensor.transfer, bed_.now);
  (void)bed_.take_sent();
  for (uint32_t i = 0; i < 20; i++) {  // It answers one of several questions.
    pass(host::kSilenceAnnouncedAfter - milliseconds(10));
    bed_.have(0, {0, 1, 3});
  }
  ASSERT_THAT(events_, SizeIs(1));
  EXPECT_THAT(events_[0].text, HasSubstr("rank 2 has not contributed"));
}

// A worker that gets no core for a while has asked nothing, so nobody has left a question open.
TEST_F(WorkerEvents, APauseOfTheWorkerIsNoSilenceOfTheAggregator) {
  bed_.join();
  IntTransfer tensor({1});
  bed_.protocol.submit(tensor.transfer, bed_.now);
  (void)bed_.take_sent();
  pass(milliseconds(20));
  bed_.have(0, {0, 1, 3});
  bed_.pass(seconds(9));
  (void)bed_.take_sent();
  bed_.have(0, {0, 1, 3});
  for (const WorkerEvent& event : events_) {
    EXPECT_THAT(event.text, Not(HasSubstr("has not answered")));
  }
}

TEST_F(WorkerEvents, AWaitForAnUpperAggregatorNamesIt) {
  bed_.join();
  IntTransfer tensor({1});
  bed_.protocol.submit(tensor.transfer, bed_.now);
  (void)bed_.take_sent();
  pass(milliseconds(400));
  bed_.have(0, {0, 1, 2, 3});
  pass(milliseconds(500));
  bed_.have(0, {0, 1, 2, 3});
  Message notice = bed_.control(MessageType::kNotice, 0);
  notice.body.reason = Reason::kUpstreamSilent;
  notice.body.group = Endpoint::ipv4(0x0a000009, 12000);
  notice.body.timeout_us = 1'600'000;
  bed_.receive(notice);
  pass(milliseconds(100));
  ASSERT_THAT(events_, SizeIs(1));
  EXPECT_THAT(events_[0].text, HasSubstr("upper aggregator 10.0.0.9:12000 (above 10.0.0.1:12000) "
                                         "has not answered for 1.7 s"));
}

TEST_F(WorkerEvents, TheDriverIsWokenForTheAnnouncement) {
  bed_.join();
  IntTransfer tensor({1});
  bed_.protocol.submit(tensor.transfer, bed_.now);
  const Instant sent_at = bed_.now;
  (void)bed_.take_sent();
  for (uint32_t i = 0; i < 1000 && events_.empty(); i++) {
    const Instant next = bed_.protocol.next_deadline();
    ASSERT_GE(next, bed_.now);
    bed_.pass(next - bed_.now);
    if (!bed_.take_sent().empty()) bed_.have(0, {0, 1, 2});
  }
  EXPECT_EQ(bed_.now, sent_at + seconds(1));
}

TEST_F(WorkerEvents, ADegradedResultNamesTheMissingRanks) {
  bed_.join();
  IntTransfer tensor({1, 2, 3, 4, 5});
  bed_.protocol.submit(tensor.transfer, bed_.now);
  (void)bed_.take_sent();
  Message result = bed_.result(0, 4, tensor.transfer);
  result.header.degraded = true;
  result.header.src_cnt = 3;
  result.extension.flags = wire::kFlagSourceMask;
  result.mask = mask_of({0, 1, 3});
  bed_.receive(result, std::array<int32_t, 4>{});
  EXPECT_THAT(events_, IsEmpty());
  bed_.receive(bed_.result(1, 1, tensor.transfer), std::array<int32_t, 1>{});
  ASSERT_THAT(events_, SizeIs(1));
  EXPECT_EQ(events_[0].kind, Kind::kDegraded);
  EXPECT_EQ(events_[0].ranks, mask_of({2}));
  EXPECT_EQ(events_[0].blocks, 1U);
  EXPECT_EQ(events_[0].text, "1 of 2 blocks lack rank 2");
  EXPECT_TRUE(tensor.transfer.done);
}

TEST_F(WorkerEvents, StragglersAreAnnouncedOnceAndTheirReturn) {
  bed_.join();
  bed_.notice(Reason::kSourcePermanent, 0, 3);
  bed_.notice(Reason::kSourcePermanent, 0, 3);  // A copy.
  auto events = take_events();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].kind, Kind::kStraggler);
  EXPECT_EQ(events[0].ranks, mask_of({3}));
  EXPECT_EQ(events[0].text, "blocks do not wait for rank 3");
  // A result that it is part of brings it back.
  IntTransfer tensor({1});
  bed_.protocol.submit(tensor.transfer, bed_.now);
  (void)bed_.take_sent();
  bed_.receive(bed_.result(0, 1, tensor.transfer), std::array<int32_t, 1>{});
  events = take_events();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].kind, Kind::kReturned);
  EXPECT_EQ(events[0].text, "blocks wait for rank 3 as before");
}

/// Returns the report among these packets; fails the test if there is not exactly one.
wire::WorkerReport report_in(const std::vector<SentMessage>& sent) {
  std::vector<wire::WorkerReport> reports;
  for (const SentMessage& packet : sent) {
    if (packet.type() == MessageType::kReport) reports.push_back(packet.message.body.report);
  }
  EXPECT_THAT(reports, SizeIs(1));
  return reports.empty() ? wire::WorkerReport() : reports[0];
}

TEST_F(WorkerEvents, ReportsItsCountsEverySecondAndAtTheEnd) {
  bed_.join({.reports = true});
  IntTransfer tensor({1, 2, 3, 4, 5});
  bed_.protocol.submit(tensor.transfer, bed_.now);
  (void)bed_.take_sent();
  bed_.receive(bed_.result(0, 4, tensor.transfer), std::array<int32_t, 4>{});
  pass(milliseconds(900));
  bed_.have(1, {1});
  bed_.pass(milliseconds(100));
  wire::WorkerReport report = report_in(bed_.take_sent());
  EXPECT_EQ(report.blocks, 1U);
  EXPECT_EQ(report.bytes, 16U);
  EXPECT_EQ(report.waited_ms, 1000U);
  EXPECT_EQ(report.waits_for, mask_of({0, 2, 3}));
  EXPECT_GT(report.probes, 0U);

  bed_.receive(bed_.result(1, 1, tensor.transfer), std::array<int32_t, 1>{});
  bed_.protocol.leave(bed_.now);
  const auto sent = bed_.take_sent();
  report = report_in(sent);
  EXPECT_EQ(sent.front().type(), MessageType::kReport);  // Before the leave.
  EXPECT_EQ(sent.back().type(), MessageType::kLeave);
  EXPECT_EQ(report.blocks, 2U);
  EXPECT_EQ(report.bytes, 20U);
  EXPECT_EQ(report.waited_ms, 0U);
}

// The second part of an all-reduce and one that follows within 200 ms make no report.
TEST_F(WorkerEvents, ReportsTheBeginningOfAnAllReduceBeforeItsBlocks) {
  bed_.join({.reports = true});
  std::array tensors{IntTransfer({1}), IntTransfer({2}), IntTransfer({3}), IntTransfer({4})};
  const std::array<uint32_t, 4> numbers{1, 1, 2, 4};
  const std::array<int64_t, 4> pauses_ms{0, 0, 50, 150};
  std::vector<uint32_t> begun;
  for (uint32_t i = 0; i < 4; i++) {
    bed_.pass(milliseconds(pauses_ms[i]));
    tensors[i].transfer.all_reduce = numbers[i];
    bed_.protocol.submit(tensors[i].transfer, bed_.now);
    const auto sent = bed_.take_sent();
    ASSERT_FALSE(sent.empty());
    if (sent[0].type() == MessageType::kReport) begun.push_back(sent[0].message.body.report.begun);
    EXPECT_EQ(sent.back().type(), MessageType::kContribution);
    bed_.receive(bed_.result(i, 1, tensors[i].transfer), std::array<int32_t, 1>{});
  }
  EXPECT_THAT(begun, ElementsAre(1, 4));
  bed_.pass(seconds(1));  // The report of each second states no beginning.
  EXPECT_EQ(report_in(bed_.take_sent()).begun, 0U);
}

TEST_F(WorkerEvents, AnOlderAggregatorGetsNoReport) {
  bed_.join();
  IntTransfer tensor({1});
  tensor.transfer.all_reduce = 1;
  bed_.protocol.submit(tensor.transfer, bed_.now);
  EXPECT_EQ(bed_.take_sent().front().type(), MessageType::kContribution);
  bed_.receive(bed_.result(0, 1, tensor.transfer), std::array<int32_t, 1>{});
  for (uint32_t i = 0; i < 40; i++) {
    bed_.pass(milliseconds(100));
    for (const SentMessage& packet : bed_.take_sent()) {
      EXPECT_EQ(packet.type(), MessageType::kKeepAlive);
    }
  }
  bed_.protocol.leave(bed_.now);
  EXPECT_EQ(bed_.take_sent().front().type(), MessageType::kLeave);
}

}  // namespace
}  // namespace tributary::testing
