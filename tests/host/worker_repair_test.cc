// SPDX-License-Identifier: Apache-2.0
// Method: when a worker asks again, for what, and when it gives up, worked by hand from the first
// time-out (20 ms, before any sample) on. Virtual time only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/host/protocol_bed.h"

namespace tributary::testing {
namespace {

using host::RttEstimator;
using host::Status;
using host::WorkerProtocol;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::ControlBody;

constexpr std::array<int32_t, 4> kZeros{};

static_assert(RttEstimator::kInitial == milliseconds(20), "the times below are worked from it");
static_assert(RttEstimator::kMax == milliseconds(100), "the times below are worked from it");

/// When the protocol sends something, in ms, until `until_ms`; what it sends is not answered.
std::vector<int64_t> sending_times_ms(ProtocolBed& bed, int64_t until_ms) {
  std::vector<int64_t> times;
  while (bed.protocol.next_deadline() <= Instant(milliseconds(until_ms))) {
    bed.pass(bed.protocol.next_deadline() - bed.now);
    if (bed.take_sent().empty()) continue;
    times.push_back(in_nanoseconds(bed.now.since_start()) / 1'000'000);
  }
  return times;
}

std::vector<uint32_t> blocks(const std::vector<SentMessage>& sent) {
  std::vector<uint32_t> numbers;
  for (const SentMessage& packet : sent) numbers.push_back(packet.block());
  return numbers;
}

class Repair : public ::testing::Test {
 protected:
  /// A transfer of so many blocks of four, the first window of which is sent.
  void begin(uint32_t blocks, uint32_t straggler_timeout_us = 0) {
    ControlBody body;
    body.timeout_us = straggler_timeout_us;
    bed.join(body);
    tensor.emplace(std::vector<int32_t>(size_t{blocks} * 4, 1));
    bed.protocol.submit(tensor->transfer, bed.now);
    (void)bed.take_sent();
  }
  void result(uint32_t block) { bed.receive(bed.result(block, 4, tensor->transfer), kZeros); }

  ProtocolBed bed;
  std::optional<IntTransfer> tensor;
};

TEST_F(Repair, ProbesAnOverdueBlockWithoutGradients) {
  begin(1);
  bed.pass(milliseconds(19));
  EXPECT_THAT(bed.take_sent(), IsEmpty());
  bed.pass(milliseconds(1));
  const auto sent = bed.take_sent();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].type(), MessageType::kProbe);
  EXPECT_EQ(sent[0].block(), 0U);
  EXPECT_EQ(sent[0].message.header.grad_cnt, 4);
  EXPECT_THAT(sent[0].lanes, IsEmpty());
  EXPECT_EQ(bed.protocol.counters().probes, 1U);
}

TEST_F(Repair, ProbesBackOff) {
  begin(1);
  // 20, then twice as long each time, at most 100.
  EXPECT_THAT(sending_times_ms(bed, 400), ElementsAre(20, 60, 140, 240, 340));
}

TEST_F(Repair, RetransmitsGradientsOnlyIfTheAggregatorLacksThem) {
  begin(1);
  bed.pass(milliseconds(20));
  (void)bed.take_sent();
  bed.have(0, {0, 2});  // Not rank 1.
  const auto sent = bed.take_sent();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].type(), MessageType::kContribution);
  EXPECT_TRUE(sent[0].is_repeat());
  EXPECT_THAT(sent[0].lanes, ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(bed.protocol.counters().retransmitted, 1U);
  bed.have(0, {0, 1, 2});
  EXPECT_THAT(bed.take_sent(), IsEmpty());
}

TEST_F(Repair, ProbesAnArrivedContributionMoreRarely) {
  begin(1);
  bed.pass(milliseconds(20));
  (void)bed.take_sent();
  bed.have(0, {1});
  // Twice 20, twice that as it was asked before: 80 after the question, then at most 100.
  EXPECT_THAT(sending_times_ms(bed, 350), ElementsAre(100, 200, 300));
}

TEST_F(Repair, EightProbesFitIntoATimeoutWithMitigation) {
  begin(1, /*straggler_timeout_us=*/16'000);
  EXPECT_THAT(sending_times_ms(bed, 8), ElementsAre(2, 4, 6, 8));
  bed.have(0, {1});  // Held: whoever misses a result is late for the next window, so no rest.
  EXPECT_THAT(sending_times_ms(bed, 14), ElementsAre(10, 12, 14));
}

TEST_F(Repair, ThreeLaterResultsProveALoss) {
  begin(4);
  result(1);
  result(2);
  EXPECT_THAT(bed.take_sent(), IsEmpty());
  result(3);
  const auto sent = bed.take_sent();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].type(), MessageType::kProbe);
  EXPECT_EQ(sent[0].block(), 0U);
  EXPECT_THAT(sending_times_ms(bed, 19), IsEmpty());  // Once; from then on its time-out counts.
}

// --- Overtaken: what was sent later has its answer ---

/// A window of 16. Results 4, 5 and 6 have come, so 0 to 3 are asked about; these questions are the
/// packets 16 to 19, counted from 0.
class Overtaken : public ::testing::Test {
 protected:
  static host::CommunicatorConfig wide_config() {
    host::CommunicatorConfig config = small_config();
    config.window = 16;
    return config;
  }
  Overtaken() {
    bed.join();
    bed.protocol.submit(tensor.transfer, bed.now);
    (void)bed.take_sent();
    results({4, 5, 6});
    EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(0, 1, 2, 3));
  }
  void results(std::initializer_list<uint32_t> of) {
    for (const uint32_t block : of) bed.receive(bed.result(block, 4, tensor.transfer), kZeros);
  }

  ProtocolBed bed{wide_config()};
  IntTransfer tensor{std::vector<int32_t>(size_t{64} * 4, 1)};
};

TEST_F(Overtaken, ThreeLaterAnswersOvertakeAProbe) {
  bed.have(1, {0, 1});
  bed.have(2, {0, 1});
  EXPECT_THAT(bed.take_sent(), IsEmpty());
  bed.have(3, {0, 1});
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(0));
}

TEST_F(Overtaken, ResultsOfLaterPacketsOvertakeAProbe) {
  results({0, 1, 2, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(16, 17, 18));
  results({16, 17});
  EXPECT_THAT(bed.take_sent(), IsEmpty());
  results({18});
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(3));
}

TEST_F(Overtaken, ResultsOfEarlierPacketsDoNotOvertakeAProbe) {
  results({7, 8, 9, 10, 11});
  EXPECT_THAT(bed.take_sent(), IsEmpty());
}

TEST_F(Overtaken, AmbiguousResultsDoNotOvertakeAProbe) {
  results({3});  // To the question, packet 19, or to the contribution, packet 3?
  EXPECT_THAT(bed.take_sent(), IsEmpty());
}

TEST_F(Overtaken, ResultsOfLaterPacketsOvertakeAHeldBlock) {
  results({7, 8, 9, 10, 11, 12, 13, 14, 15});
  for (const uint32_t block : {0U, 1U, 2U, 3U}) bed.have(block, {0, 1});
  results({0, 1, 2});
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(16, 17, 18));
  results({16, 17});
  EXPECT_THAT(bed.take_sent(), IsEmpty());
  results({18});
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(3));
}

TEST_F(Overtaken, AggregatorAnswersDoNotOvertakeAHeldBlock) {
  for (const uint32_t block : {0U, 1U, 2U, 3U}) bed.have(block, {0, 1});
  // A peer is late: its blocks are asked about in turn, which says nothing about block 0.
  for (const uint32_t block : {7U, 8U, 9U, 10U}) bed.have(block, {0, 1});
  EXPECT_THAT(bed.take_sent(), IsEmpty());
}

TEST_F(Overtaken, ResultsOfLaterPacketsOvertakeARetransmission) {
  results({7, 8, 9, 10, 11, 12, 13, 14, 15});
  for (const uint32_t block : {0U, 1U, 2U}) bed.have(block, {0, 1});
  bed.have(3, {0, 2});
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(3));
  results({0, 1, 2});
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(16, 17, 18));
  results({16, 17});
  EXPECT_THAT(bed.take_sent(), IsEmpty());
  results({18});
  const auto sent = bed.take_sent();
  ASSERT_THAT(blocks(sent), ElementsAre(3));
  EXPECT_EQ(sent[0].type(), MessageType::kProbe);
}

TEST_F(Overtaken, ResultsOfLowerPositionsOvertakeNothing) {
  results({0, 1, 2});
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(16, 17, 18));
  bed.have(3, {0, 2});
  (void)bed.take_sent();  // Sent after 16, but peers who lack block 3 cannot send 19 to 22.
  results({3});
  for (const SentMessage& packet : bed.take_sent()) {
    EXPECT_EQ(packet.type(), MessageType::kContribution);
  }
}

TEST_F(Repair, TimeOutsFollowTheRoundTripTime) {
  begin(2);
  bed.pass(milliseconds(3));
  result(0);  // Took 3 ms, so 6 ms is overdue; all are looked at again 6 ms from here.
  EXPECT_THAT(sending_times_ms(bed, 9), ElementsAre(9));
}

TEST_F(Repair, AmbiguousAnswersGiveNoRoundTripTime) {
  begin(2);
  bed.pass(milliseconds(20));
  EXPECT_THAT(bed.take_sent(), SizeIs(1));
  bed.pass(milliseconds(1));
  result(0);  // To the first or to the second question?
  // Block 1 is overdue and asked about, and again after twice 20 ms, not after twice 2.
  EXPECT_THAT(sending_times_ms(bed, 61), ElementsAre(21, 61));
}

// --- Late or lost ---

TEST_F(Repair, ProbesTheOldestBlockOfALateWindow) {
  begin(4);
  bed.pass(milliseconds(20));
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(0));
  bed.pass(milliseconds(39));
  EXPECT_THAT(bed.take_sent(), IsEmpty());
  bed.pass(milliseconds(1));
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(0));
}

TEST_F(Repair, EachProvenLossDoublesTheProbes) {
  begin(4);
  bed.pass(milliseconds(20));
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(0));
  bed.have(0, {0, 1});  // Nothing lost: all wait for a peer, and the next one is asked about.
  bed.pass(Duration());
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(1));
  bed.have(1, {0, 2});  // Lacks it: the contribution, and two are in doubt, 1 and 2.
  bed.pass(Duration());
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(1, 2));
  bed.have(2, {0, 2});
  bed.pass(Duration());
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(2, 3));
}

TEST_F(Repair, ResultSoonerThanTheRoundTripTimeWasNotLost) {
  begin(4);
  bed.pass(milliseconds(3));
  result(0);  // 3 ms: nothing is answered sooner. 6 ms are overdue.
  bed.pass(milliseconds(6));
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(1));
  bed.pass(milliseconds(2));
  result(1);
  bed.pass(Duration());
  EXPECT_THAT(bed.take_sent(), IsEmpty());  // So are those behind it.
  bed.pass(milliseconds(6));
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(2));  // One, not two.
}

TEST_F(Repair, UnpromptedResultsShowThatTheRestIsLate) {
  begin(4);
  bed.pass(milliseconds(20));
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(0));
  bed.have(0, {0, 1});
  result(1);  // 20 ms are the median now: 40 are overdue.
  bed.pass(milliseconds(20));
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(2));
}

TEST(RepairOfAWindow, PausedAggregatorGetsFewProbes) {
  constexpr uint32_t kWindow = 256;
  constexpr uint32_t kRounds = 20;
  host::CommunicatorConfig config = small_config();
  config.window = kWindow;
  ProtocolBed bed(config);
  bed.join();
  IntTransfer tensor(std::vector<int32_t>(size_t{kWindow} * kRounds * 4, 1));
  bed.protocol.submit(tensor.transfer, bed.now);
  for (uint32_t round = 0; round < kRounds; round++) {
    (void)bed.take_sent();
    // Every fifth time it is away for 12 ms, four times as long as usual.
    const uint32_t away_ms = round % 5 == 4 ? 12 : 3;
    for (uint32_t i = 0; i < away_ms; i++) {
      bed.pass(milliseconds(1));
      (void)bed.take_sent();
    }
    for (uint32_t i = 0; i < kWindow; i++) {
      bed.receive(bed.result(round * kWindow + i, 4, tensor.transfer), kZeros);
    }
  }
  EXPECT_TRUE(tensor.transfer.done);
  // One question each time that it is late, four times in all; all of the window would be 256.
  EXPECT_GE(bed.protocol.counters().probes, 4U);
  EXPECT_LE(bed.protocol.counters().probes, 8U);
}

// --- An aggregator that answers ---

TEST_F(Repair, ProbesBackOffOnceWhileTheAggregatorAnswers) {
  begin(1);
  std::vector<int64_t> times;
  while (bed.now < Instant(milliseconds(220))) {
    bed.pass(milliseconds(1));
    bed.notice(Reason::kSourcePermanent, 0);  // Anything that is heard.
    if (!bed.take_sent().empty())
      times.push_back(in_nanoseconds(bed.now.since_start()) / 1'000'000);
  }
  // Every 40 ms, twice the time-out, where silence would have made it 80 and 100.
  EXPECT_THAT(times, ElementsAre(20, 60, 100, 140, 180, 220));
}

TEST_F(Repair, AggregatorIsProbedSoonAfterItIsHeard) {
  begin(1);
  EXPECT_THAT(sending_times_ms(bed, 150), ElementsAre(20, 60, 140));
  bed.pass(Instant(milliseconds(150)) - bed.now);
  bed.notice(Reason::kSourcePermanent, 0);
  EXPECT_THAT(sending_times_ms(bed, 200), ElementsAre(180));  // 140 + 40, not 140 + 100.
}

TEST_F(Repair, HeldBlockBehindLaterResultsBacksOffOnce) {
  begin(2);
  bed.pass(milliseconds(3));
  result(1);  // 3 ms are the median: 6 are overdue. Block 0 is held, and its result may be lost.
  bed.have(0, {1});
  std::vector<int64_t> times;
  while (bed.now < Instant(milliseconds(75))) {
    bed.pass(milliseconds(1));
    bed.notice(Reason::kSourcePermanent, 0);
    if (!bed.take_sent().empty())
      times.push_back(in_nanoseconds(bed.now.since_start()) / 1'000'000);
  }
  // 2 x 6 ms, and twice that as it counts as asked: every 24 ms from time 0 on.
  EXPECT_THAT(times, ElementsAre(24, 48, 72));
}

TEST_F(Repair, HeldBlockWithoutLaterResultsBacksOffFully) {
  begin(2);
  bed.have(0, {1});
  bed.have(1, {1});
  std::vector<int64_t> times;
  while (bed.now < Instant(milliseconds(400))) {
    bed.pass(milliseconds(1));
    bed.notice(Reason::kSourcePermanent, 0);
    if (!bed.take_sent().empty())
      times.push_back(in_nanoseconds(bed.now.since_start()) / 1'000'000);
  }
  // 2 x 20 x 2, then the longest; one at a time, so the other one is asked 20 ms later.
  EXPECT_THAT(times, ElementsAre(80, 101, 180, 201, 280, 301, 380));
}

// --- Giving up ---

TEST_F(Repair, SilentAggregatorIsReportedAtTheDeadline) {
  begin(1);
  const auto times = sending_times_ms(bed, 999);
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kRunning);
  bed.pass(Instant(seconds(1)) - bed.now);
  EXPECT_EQ(bed.protocol.status(), Status::kAggregatorGone);
  EXPECT_EQ(tensor->transfer.outcome.text, "aggregator 10.0.0.1:12000 has not answered for 1.0 s");
}

TEST_F(Repair, MissingPeerIsNamedAtTheDeadline) {
  begin(3);
  bed.pass(milliseconds(900));
  bed.have(0, {0, 1});
  bed.have(1, {1, 2, 3});  // A later block's answer must not hide the oldest one's.
  bed.have(2, {0, 1, 2, 3});
  bed.pass(milliseconds(100));
  EXPECT_EQ(bed.protocol.status(), Status::kPeerMissing);
  EXPECT_EQ(tensor->transfer.outcome.text,
            "rank 2, 3 has not contributed to block 0 for 1.0 s "
            "(aggregator 10.0.0.1:12000 answers)");
  EXPECT_THAT(bed.take_sent(), SizeIs(1));  // Good-bye.
}

TEST(RepairBelowATree, NamesRanksByTheirNumberInTheWholeJob) {
  host::CommunicatorConfig config = small_config();
  config.rank = 2;
  config.source = 0;
  ProtocolBed bed(config);
  ControlBody body;
  body.sources = 2;  // Ranks 2 and 3.
  body.value = 2;
  bed.join(body);
  IntTransfer tensor({1});
  bed.protocol.submit(tensor.transfer, bed.now);
  (void)bed.take_sent();
  bed.pass(milliseconds(900));
  bed.have(0, {0});
  bed.pass(milliseconds(100));
  EXPECT_THAT(bed.protocol.status_text(), ::testing::StartsWith("rank 3 has not contributed"));
}

}  // namespace
}  // namespace tributary::testing
