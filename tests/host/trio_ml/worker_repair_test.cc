// SPDX-License-Identifier: Apache-2.0
// Method: when a worker probes or retransmits, which blocks, and when it ends, worked by hand from
// the first timeout (20 ms, before any sample). Virtual time only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/host/trio_ml/protocol_bed.h"

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

/// Returns the times in ms, up to `until_ms`, at which the protocol sends. Answers no packet.
std::vector<int64_t> sending_times_ms(ProtocolBed& bed, int64_t until_ms) {
  std::vector<int64_t> times;
  while (bed.protocol.next_deadline() <= Instant(milliseconds(until_ms))) {
    bed.pass(bed.protocol.next_deadline() - bed.now);
    if (bed.take_sent().empty()) continue;
    times.push_back(in_milliseconds(bed.now.since_start()));
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
  /// Submits a transfer of `blocks` blocks of four and sends its first window.
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
  // 20 ms, then twice as long each time, at most 100.
  EXPECT_THAT(sending_times_ms(bed, 400), ElementsAre(20, 60, 140, 240, 340));
}

TEST_F(Repair, RetransmitsGradientsOnlyIfTheAggregatorLacksThem) {
  begin(1);
  bed.pass(milliseconds(20));
  (void)bed.take_sent();
  bed.have(0, {0, 2});  // Rank 1 is missing.
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
  // Twice 20 ms, doubled because one probe was sent: 80 ms after that probe, then at most 100.
  EXPECT_THAT(sending_times_ms(bed, 350), ElementsAre(100, 200, 300));
}

TEST_F(Repair, EightProbesFitIntoATimeoutWithMitigation) {
  begin(1, /*straggler_timeout_us=*/16'000);
  EXPECT_THAT(sending_times_ms(bed, 8), ElementsAre(2, 4, 6, 8));
  // Held. A worker that misses a result is late for the next window, so the rate stays.
  bed.have(0, {1});
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
  EXPECT_THAT(sending_times_ms(bed, 19), IsEmpty());  // One probe only. Then its timeout applies.
}

// --- Overtaken: later packets have been answered ---

/// A window of 16. Results 4, 5 and 6 have arrived, so 0 to 3 are probed. These probes are packets
/// 16 to 19, counted from 0.
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
  results({3});  // Answers either the probe (packet 19) or the contribution (packet 3).
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
  // A peer is late. The answers to probes of its blocks prove nothing about block 0.
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
  (void)bed.take_sent();  // Sent after 16, but peers that lack block 3 cannot send 19 to 22.
  results({3});
  for (const SentMessage& packet : bed.take_sent()) {
    EXPECT_EQ(packet.type(), MessageType::kContribution);
  }
}

TEST_F(Repair, TimeOutsFollowTheRoundTripTime) {
  begin(2);
  bed.pass(milliseconds(3));
  result(0);  // Took 3 ms, so 6 ms is overdue. The next scan of all blocks is 6 ms later.
  EXPECT_THAT(sending_times_ms(bed, 9), ElementsAre(9));
}

TEST_F(Repair, AmbiguousAnswersGiveNoRoundTripTime) {
  begin(2);
  bed.pass(milliseconds(20));
  EXPECT_THAT(bed.take_sent(), SizeIs(1));
  bed.pass(milliseconds(1));
  result(0);  // Answers either the contribution or the probe.
  // Block 1 is overdue and probed. The next probe follows after twice 20 ms, not after twice 2.
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
  bed.have(0, {0, 1});  // Nothing is lost: all wait for a peer. The next block is probed.
  bed.pass(Duration());
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(1));
  bed.have(1, {0, 2});  // Missing: retransmits block 1, and probes two blocks, 2 and 3.
  bed.pass(Duration());
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(1, 2, 3));
  bed.have(2, {0, 2});
  bed.pass(Duration());
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(2));
}

TEST(RepairOfAWindow, OneProbeRepairsAllLossesOfARun) {
  host::CommunicatorConfig config = small_config();
  config.window = 64;
  ProtocolBed bed(config);
  bed.join();
  IntTransfer tensor(std::vector<int32_t>(size_t{64} * 4, 1));
  bed.protocol.submit(tensor.transfer, bed.now);
  (void)bed.take_sent();
  bed.pass(milliseconds(20));
  const auto probes = bed.take_sent();
  ASSERT_THAT(blocks(probes), ElementsAre(0));
  EXPECT_NE(probes[0].message.extension.flags & wire::kFlagRun, 0);
  Message have = bed.control(MessageType::kHave, 0);
  have.extension.flags = wire::kFlagRun;
  have.extension.tensor_elements = probes[0].message.extension.tensor_elements;
  have.body.mask = mask_of({1});
  have.body.present = {~(uint64_t{1} << 9 | uint64_t{1} << 40), 0};
  bed.receive(have);
  const auto sent = bed.take_sent();
  EXPECT_THAT(blocks(sent), ElementsAre(9, 40));
  for (const SentMessage& packet : sent) EXPECT_EQ(packet.type(), MessageType::kContribution);
}

TEST_F(Repair, ResultSoonerThanTheRoundTripTimeWasNotLost) {
  begin(4);
  bed.pass(milliseconds(3));
  result(0);  // No answer comes sooner than 3 ms; 6 ms is overdue.
  bed.pass(milliseconds(6));
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(1));
  bed.pass(milliseconds(2));
  result(1);
  bed.pass(Duration());
  EXPECT_THAT(bed.take_sent(), IsEmpty());  // The blocks behind it are late too.
  bed.pass(milliseconds(6));
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(2));  // One probe, not two.
}

TEST_F(Repair, UnpromptedResultsShowThatTheRestIsLate) {
  begin(4);
  bed.pass(milliseconds(20));
  EXPECT_THAT(blocks(bed.take_sent()), ElementsAre(0));
  bed.have(0, {0, 1});
  result(1);  // The median is 20 ms, so 40 ms is overdue.
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
    // Every fifth time the aggregator pauses for 12 ms, four times as long as usual.
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
  // One probe for each of the four pauses. Probing the whole window would take 256.
  EXPECT_GE(bed.protocol.counters().probes, 4U);
  EXPECT_LE(bed.protocol.counters().probes, 8U);
}

// --- An aggregator that answers ---

TEST_F(Repair, ProbesBackOffOnceWhileTheAggregatorAnswers) {
  begin(1);
  std::vector<int64_t> times;
  while (bed.now < Instant(milliseconds(220))) {
    bed.pass(milliseconds(1));
    bed.notice(Reason::kSourcePermanent, 0);  // Any message counts as a sign of life.
    if (!bed.take_sent().empty()) times.push_back(in_milliseconds(bed.now.since_start()));
  }
  // Every 40 ms, twice the timeout. After silence it would be 80 and 100.
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
  result(1);  // The median is 3 ms: 6 ms is overdue. Block 0 is held; its result may be lost.
  bed.have(0, {1});
  std::vector<int64_t> times;
  while (bed.now < Instant(milliseconds(75))) {
    bed.pass(milliseconds(1));
    bed.notice(Reason::kSourcePermanent, 0);
    if (!bed.take_sent().empty()) times.push_back(in_milliseconds(bed.now.since_start()));
  }
  // 2 x 6 ms, doubled because the block counts as probed: every 24 ms from time 0.
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
    if (!bed.take_sent().empty()) times.push_back(in_milliseconds(bed.now.since_start()));
  }
  // 2 x 20 x 2, then the longest timeout. One block at a time, so the other is probed 20 ms later.
  EXPECT_THAT(times, ElementsAre(80, 101, 180, 201, 280, 301, 380));
}

// --- The end ---

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
  bed.have(1, {1, 2, 3});  // A later block's answer must not replace the oldest one's.
  bed.have(2, {0, 1, 2, 3});
  bed.pass(milliseconds(100));
  EXPECT_EQ(bed.protocol.status(), Status::kPeerMissing);
  EXPECT_EQ(tensor->transfer.outcome.text,
            "rank 2, 3 has not contributed to block 0 for 1.0 s "
            "(aggregator 10.0.0.1:12000 answers)");
  EXPECT_THAT(bed.take_sent(), SizeIs(1));  // The leave.
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
