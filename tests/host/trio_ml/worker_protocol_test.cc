// SPDX-License-Identifier: Apache-2.0
// Method: every packet and every time worked by hand against a simulated aggregator. Virtual time
// only. worker_repair_test.cc tests the repair of losses and worker_notice_test.cc notices;
// tests/lab/faults/ has random walks against the real aggregator.
#include "host/trio_ml/worker_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "host/formats/number_format.h"
#include "tests/host/trio_ml/protocol_bed.h"

namespace tributary::testing {
namespace {

using host::ReduceOp;
using host::Status;
using host::Transfer;
using host::WorkerProtocol;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::ControlBody;
using wire::ElementFormat;

// --- Joining ---

TEST(WorkerProtocol, RepeatsItsJoinEveryFiftyMilliseconds) {
  ProtocolBed bed;
  const auto first = bed.take_sent();
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].type(), MessageType::kJoin);
  EXPECT_EQ(first[0].message.header.job_id, 7);
  EXPECT_EQ(first[0].message.header.src_id, 1);
  EXPECT_EQ(first[0].message.extension.key, kNonce);
  EXPECT_EQ(first[0].message.body.key, 0U);  // It has no cookie yet.
  EXPECT_EQ(first[0].message.body.sources, 4);
  EXPECT_EQ(first[0].message.body.window, 4U);
  EXPECT_EQ(first[0].message.body.gradients_max, 4U);

  EXPECT_EQ(bed.protocol.next_deadline(), Instant(milliseconds(50)));
  bed.pass(milliseconds(49));
  EXPECT_THAT(bed.take_sent(), IsEmpty());
  bed.pass(milliseconds(1));
  EXPECT_THAT(bed.take_sent(), SizeIs(1));
}

TEST(WorkerProtocol, SourceDiffersFromTheRankBelowATree) {
  host::CommunicatorConfig config = small_config();
  config.source = 0;
  ProtocolBed bed(config);
  EXPECT_EQ(bed.take_sent().at(0).message.header.src_id, 0);
}

TEST(WorkerProtocol, WelcomeSetsTheTermsAndIsConfirmedAtOnce) {
  ProtocolBed bed;
  (void)bed.take_sent();
  // Answers another worker's join.
  bed.answer_join(MessageType::kWelcome, ControlBody{}, kNonce + 1);
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kJoining);
  EXPECT_EQ(bed.protocol.counters().invalid_packets, 1U);

  ControlBody body;
  body.window = 2;
  body.gradients_max = 3;
  body.group = Endpoint::ipv4(0xe8000001, 12000);
  bed.answer_join(MessageType::kWelcome, body);
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kRunning);
  EXPECT_EQ(bed.protocol.window(), 2U);     // The worker asked for four.
  EXPECT_EQ(bed.protocol.gradients(), 3U);  // The worker asked for four.
  EXPECT_EQ(bed.protocol.group(), body.group);
  const auto sent = bed.take_sent();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].type(), MessageType::kKeepAlive);

  body.window = 1;  // A repeated welcome changes nothing.
  bed.answer_join(MessageType::kWelcome, body);
  EXPECT_EQ(bed.protocol.window(), 2U);
}

TEST(WorkerProtocol, RefusalsNameReasonAndAllowedValues) {
  struct Case {
    Reason reason;
    uint32_t value;
    const char* text;
  };
  for (const Case& refusal :
       {Case{Reason::kUnknownJob, 0, "aggregator 10.0.0.1:12000 has no job 7"},
        Case{Reason::kSourceOutsideJob, 1,
             "rank 1 is outside job 7 at 10.0.0.1:12000: its sources are 0 to 0"},
        Case{Reason::kWrongWorld, 3, "job 7 at 10.0.0.1:12000 has 3 ranks, not 4"},
        Case{Reason::kTooManyGradients, 2,
             "job 7 at 10.0.0.1:12000 takes at most 2 gradients a packet, not 4"},
        Case{Reason::kNone, 0, "aggregator 10.0.0.1:12000 refuses rank 1 of job 7"}}) {
    ProtocolBed bed;
    IntTransfer early({1, 2});
    bed.protocol.submit(early.transfer, bed.now);
    (void)bed.take_sent();
    ControlBody body;
    body.reason = refusal.reason;
    body.value = refusal.value;
    bed.answer_join(MessageType::kRefusal, body);

    EXPECT_EQ(bed.protocol.status(), Status::kRefused);
    EXPECT_EQ(bed.protocol.status_text(), refusal.text);
    EXPECT_TRUE(early.transfer.done);
    EXPECT_EQ(early.transfer.outcome.text, refusal.text);
    IntTransfer late({3});
    bed.protocol.submit(late.transfer, bed.now);
    EXPECT_TRUE(late.transfer.done);
    EXPECT_EQ(late.transfer.outcome.status, Status::kRefused);
    EXPECT_THAT(bed.take_sent(), IsEmpty());  // It was never a member, so it sends no leave.
    EXPECT_EQ(bed.protocol.next_deadline(), Instant::never());
  }
}

TEST(WorkerProtocol, JoinTimeOutNamesTheAggregatorsOtherVersion) {
  ProtocolBed bed;
  std::vector<std::byte> bytes(wire::kControlMessageBytes);
  Message refusal;
  refusal.header = {.job_id = 7, .extended = true};
  refusal.extension.type = MessageType::kRefusal;
  encode_message(refusal, bytes.data());
  bytes[wire::TrioMlHeader::kBytes] = std::byte{0x97};  // Version 9.
  bed.protocol.on_packet(bytes, bed.now);
  EXPECT_EQ(bed.protocol.counters().invalid_packets, 1U);
  bed.pass(seconds(1));
  EXPECT_EQ(bed.protocol.status(), Status::kAggregatorGone);
  EXPECT_EQ(bed.protocol.status_text(),
            "aggregator 10.0.0.1:12000 has version 9 of the protocol, and this worker version 2; "
            "run the same release on both");
}

TEST(WorkerProtocol, JoinTimeOutNamesTheMissingRanks) {
  struct Case {
    Reason reason;
    Status status;
    const char* text;
  };
  for (const Case& last : {Case{Reason::kNone, Status::kAggregatorGone,
                                "aggregator 10.0.0.1:12000 does not answer (waited 1.0 s)"},
                           Case{Reason::kWaitingForPeers, Status::kPeerMissing,
                                "rank 0, 3 has not joined job 7 within 1.0 s"},
                           Case{Reason::kRankTaken, Status::kRefused,
                                "rank 1 of job 7 is taken by another worker, which the aggregator "
                                "has heard lately"},
                           Case{Reason::kSessionRunning, Status::kPeerMissing,
                                "job 7 is still in use by another session"}}) {
    ProtocolBed bed;
    (void)bed.take_sent();
    ControlBody body;
    body.reason = last.reason;
    body.sources = 4;
    body.mask = mask_of({1, 2});
    if (last.reason != Reason::kNone) bed.answer_join(MessageType::kPending, body);
    bed.pass(milliseconds(999));
    EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kJoining);
    bed.pass(milliseconds(1));
    EXPECT_EQ(bed.protocol.status(), last.status);
    EXPECT_EQ(bed.protocol.status_text(), last.text);
  }
}

// --- The stream ---

TEST(WorkerProtocol, BlocksMatchHandWorkedMessages) {
  ProtocolBed bed;
  IntTransfer early({1, -2, 3, 4, 5});  // Two blocks: four elements and one.
  bed.protocol.submit(early.transfer, bed.now);
  (void)bed.take_sent();
  ControlBody body;
  body.sources = 4;
  body.window = 64;
  body.gradients_max = 64;
  body.key = kKey;
  body.result_key = kResultKey;
  bed.answer_join(MessageType::kWelcome, body);
  const auto sent = bed.take_sent();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_THAT(sent[0].lanes, ElementsAre(1, -2, 3, 4));
  EXPECT_THAT(sent[1].lanes, ElementsAre(5));
  const wire::TrioMlFields& header = sent[1].message.header;
  EXPECT_EQ(header.job_id, 7);
  EXPECT_EQ(header.block_id, 1U);
  EXPECT_EQ(header.src_id, 1);
  EXPECT_EQ(header.src_cnt, 1);
  EXPECT_EQ(header.grad_cnt, 1);
  EXPECT_EQ(sent[1].message.extension.key, kKey);
  EXPECT_EQ(sent[1].message.extension.tensor_elements, 5U);
  EXPECT_FALSE(sent[1].is_repeat());

  bed.receive(bed.result(1, 1, early.transfer), std::array{50});
  EXPECT_FALSE(early.transfer.done);
  bed.receive(bed.result(0, 4, early.transfer), std::array{10, -20, 30, 40});
  EXPECT_TRUE(early.transfer.done);
  EXPECT_EQ(early.transfer.outcome.status, Status::kOk);
  EXPECT_EQ(early.transfer.outcome.blocks, 2U);
  EXPECT_THAT(early.transfer.outcome.degraded, IsEmpty());
  EXPECT_THAT(early.tensor, ElementsAre(10, -20, 30, 40, 50));
  EXPECT_TRUE(bed.protocol.idle());

  // The next tensor continues the block ids and has another generation.
  IntTransfer next({1});
  bed.protocol.submit(next.transfer, bed.now);
  const auto more = bed.take_sent();
  ASSERT_THAT(more, SizeIs(1));
  EXPECT_EQ(more[0].block(), 2U);
  EXPECT_EQ(more[0].message.header.gen_id, 1);
}

TEST(WorkerProtocol, OnlyTheOldestResultAdvancesTheWindow) {
  ProtocolBed bed;
  bed.join();
  IntTransfer tensor(std::vector<int32_t>(28, 1));  // Seven blocks, a window of four.
  bed.protocol.submit(tensor.transfer, bed.now);
  EXPECT_THAT(bed.take_sent(), SizeIs(4));
  const std::array<int32_t, 4> lanes{};
  bed.receive(bed.result(1, 4, tensor.transfer), lanes);
  EXPECT_THAT(bed.take_sent(), IsEmpty());  // Block 4 needs block 0's slot, block 5 block 1's.
  bed.receive(bed.result(0, 4, tensor.transfer), lanes);
  const auto sent = bed.take_sent();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_EQ(sent[0].block(), 4U);
  EXPECT_EQ(sent[1].block(), 5U);
}

TEST(WorkerProtocol, LaterTransferMayCompleteFirst) {
  ProtocolBed bed;
  bed.join();
  IntTransfer first({1});
  auto second = std::make_unique<IntTransfer>(std::vector<int32_t>{2});
  bed.protocol.submit(first.transfer, bed.now);
  bed.protocol.submit(second->transfer, bed.now);
  EXPECT_THAT(bed.take_sent(), SizeIs(2));
  bed.receive(bed.result(1, 1, second->transfer, 1), std::array{20});
  ASSERT_TRUE(second->transfer.done);
  EXPECT_THAT(second->tensor, ElementsAre(20));
  second.reset();  // Its owner may free it.
  bed.protocol.leave(bed.now);
  EXPECT_EQ(first.transfer.outcome.status, Status::kClosed);
}

TEST(WorkerProtocol, EmptyTensorCompletesAtOnce) {
  ProtocolBed bed;
  IntTransfer empty({});
  bed.protocol.submit(empty.transfer, bed.now);
  EXPECT_TRUE(empty.transfer.done);
  EXPECT_EQ(empty.transfer.outcome.status, Status::kOk);
  EXPECT_TRUE(bed.protocol.idle());
}

// --- Results ---

TEST(WorkerProtocol, MeanDividesByItsContributors) {
  ProtocolBed bed;
  bed.join();
  IntTransfer tensor({1, 1, 1, 1, 1});
  tensor.transfer.op = ReduceOp::kMean;
  bed.protocol.submit(tensor.transfer, bed.now);
  (void)bed.take_sent();
  bed.receive(bed.result(0, 4, tensor.transfer), std::array{8, -7, 4, 3});  // Of all four.
  Message partial = bed.result(1, 1, tensor.transfer);
  partial.header.src_cnt = 3;
  partial.header.degraded = true;
  partial.extension.flags = wire::kFlagSourceMask;
  partial.mask = mask_of({0, 1, 3});
  bed.receive(partial, std::array{9});
  EXPECT_THAT(tensor.tensor, ElementsAre(2, -1, 1, 0, 3));  // Toward zero; 9 / 3.
  ASSERT_THAT(tensor.transfer.outcome.degraded, SizeIs(1));
  EXPECT_EQ(tensor.transfer.outcome.degraded[0].element_first, 4U);
  EXPECT_EQ(tensor.transfer.outcome.degraded[0].element_count, 1U);
  EXPECT_EQ(tensor.transfer.outcome.degraded[0].sources, mask_of({0, 1, 3}));
  EXPECT_EQ(bed.protocol.counters().degraded_blocks, 1U);
}

TEST(WorkerProtocol, SourceCountZeroMeans256) {
  host::CommunicatorConfig config = small_config();
  config.world = 256;
  ProtocolBed bed(config);
  bed.join();
  IntTransfer tensor({1});
  tensor.transfer.op = ReduceOp::kMean;
  bed.protocol.submit(tensor.transfer, bed.now);
  (void)bed.take_sent();
  Message result = bed.result(0, 1, tensor.transfer);
  result.header.src_cnt = 0;
  bed.receive(result, std::array{512});
  EXPECT_THAT(tensor.tensor, ElementsAre(2));
}

TEST(WorkerProtocol, DegradedRangesAreSortedByElement) {
  ProtocolBed bed;
  bed.join();
  IntTransfer tensor(std::vector<int32_t>(12, 1));
  bed.protocol.submit(tensor.transfer, bed.now);
  (void)bed.take_sent();
  for (const uint32_t block : {2U, 0U, 1U}) {
    Message result = bed.result(block, 4, tensor.transfer);
    result.header.degraded = block != 1;
    result.extension.flags = wire::kFlagSourceMask;
    result.mask = mask_of({block});
    bed.receive(result, std::array<int32_t, 4>{});
  }
  ASSERT_THAT(tensor.transfer.outcome.degraded, SizeIs(2));
  EXPECT_EQ(tensor.transfer.outcome.degraded[0].element_first, 0U);
  EXPECT_EQ(tensor.transfer.outcome.degraded[0].sources, mask_of({0}));
  EXPECT_EQ(tensor.transfer.outcome.degraded[1].element_first, 8U);
  EXPECT_EQ(tensor.transfer.outcome.degraded[1].sources, mask_of({2}));
}

TEST(WorkerProtocol, OverflowIsReportedOnEveryRank) {
  for (const bool not_finite : {false, true}) {
    ProtocolBed bed;
    bed.join();
    std::vector<float> values{1.0F, 1e9F, 1.0F, 1.0F, 1.0F};
    Transfer transfer;
    transfer.floats = values;
    transfer.format = ElementFormat::kFixedScale;
    transfer.scale = 100.0F;
    bed.protocol.submit(transfer, bed.now);
    const auto sent = bed.take_sent();
    ASSERT_THAT(sent, SizeIs(2));
    EXPECT_EQ(sent[0].message.extension.flags, wire::kFlagOverflow);
    EXPECT_EQ(sent[0].lanes[0], 100);
    EXPECT_EQ(sent[1].message.extension.flags, 0);

    Message result = bed.result(0, 4, transfer);
    result.extension.flags = wire::kFlagOverflow;
    bed.receive(result, std::array{400, 0, 0, 0});
    Message last = bed.result(1, 1, transfer);
    if (not_finite) last.extension.flags = wire::kFlagNotFinite;
    bed.receive(last, std::array{0});
    ASSERT_TRUE(transfer.done);
    EXPECT_EQ(transfer.outcome.status, not_finite ? Status::kNotFinite : Status::kOverflow);
    EXPECT_THAT(transfer.outcome.text, HasSubstr(not_finite ? "NaN" : "smaller scale"));
    EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kRunning);  // The worker continues.
  }
}

TEST(WorkerProtocol, UnderflowIsCountedOnceForEachElement) {
  ProtocolBed bed;
  bed.join();
  std::vector<float> values{1.0F, 1e-9F, 0.0F, -1e-9F, 2.0F};
  Transfer transfer;
  transfer.floats = values;
  transfer.format = ElementFormat::kFixedScale;
  transfer.scale = 100.0F;
  bed.protocol.submit(transfer, bed.now);
  (void)bed.take_sent();
  bed.have(0, {});  // The first contribution was lost.
  const auto repeats = bed.take_sent();
  ASSERT_THAT(repeats, SizeIs(1));
  EXPECT_TRUE(repeats[0].is_repeat());
  bed.receive(bed.result(0, 4, transfer), std::array{400, 0, 0, 0});
  bed.receive(bed.result(1, 1, transfer), std::array{800});
  ASSERT_TRUE(transfer.done);
  EXPECT_EQ(transfer.outcome.underflow, (host::Underflow{.nonzero = 4, .underflowed = 2}));
  EXPECT_EQ(bed.protocol.counters().underflowed, 2U);
}

// Window 2, three blocks of two: exponents travel two positions ahead of their gradients.
//   position   0     1     2     3     4
//   gradients  -     -     b0    b1    b2
//   exponent   b0    b1    b2    -     -
TEST(WorkerProtocol, ExponentsAreSentOneWindowAhead) {
  host::CommunicatorConfig config = small_config();
  config.window = 2;
  config.gradients = 2;
  ProtocolBed bed(config);
  bed.join();
  std::vector<float> values{1.5F, 0.0F, -3.0F, 0.25F, 0.0F, 0.0F};
  Transfer transfer;
  transfer.floats = values;
  transfer.format = ElementFormat::kBlockExponent;
  bed.protocol.submit(transfer, bed.now);

  const auto lead = bed.take_sent();
  ASSERT_THAT(lead, SizeIs(2));
  EXPECT_THAT(lead[0].lanes, IsEmpty());
  EXPECT_EQ(lead[0].message.extension.exponent, 1);  // 1.5 < 2^1.
  EXPECT_EQ(lead[1].message.extension.exponent, 2);  // 3 < 2^2.

  Message agreed = bed.result(0, 0, transfer);
  agreed.extension.exponent = 3;  // Another rank has up to 8.
  bed.receive(agreed);
  const auto first = bed.take_sent();
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].block(), 2U);
  EXPECT_EQ(first[0].message.extension.exponent, host::kNoExponent);  // All zeros.
  const double scale = host::scale_for_exponent(3, 4);
  EXPECT_THAT(first[0].lanes, ElementsAre(host::to_fixed(1.5F, scale), 0));

  agreed = bed.result(1, 0, transfer);
  agreed.extension.exponent = 2;
  bed.receive(agreed);
  (void)bed.take_sent();
  Message sum = bed.result(2, 2, transfer);
  sum.extension.exponent = host::kNoExponent;
  bed.receive(sum, std::array{host::to_fixed(6.0F, scale), 0});
  EXPECT_EQ(values[0], 6.0F);
  EXPECT_THAT(bed.take_sent(), SizeIs(1));
  bed.receive(bed.result(3, 2, transfer), std::array{0, 0});
  bed.receive(bed.result(4, 2, transfer), std::array{0, 0});
  EXPECT_TRUE(transfer.done);
  EXPECT_EQ(transfer.outcome.blocks, 3U);
}

TEST(WorkerProtocol, GradientsWaitForTheirExponent) {
  ProtocolBed bed;
  bed.join();
  std::vector<float> values{1.0F};
  Transfer transfer;
  transfer.floats = values;
  transfer.format = ElementFormat::kBlockExponent;
  bed.protocol.submit(transfer, bed.now);
  EXPECT_THAT(bed.take_sent(), SizeIs(1));  // A window of four, but only one block.
  Message agreed = bed.result(0, 0, transfer);
  agreed.extension.exponent = 1;
  bed.receive(agreed);
  EXPECT_THAT(bed.take_sent(), SizeIs(1));
}

// --- Packets that must have no effect ---

TEST(WorkerProtocol, ForeignPacketsAreCountedAndChangeNothing) {
  ProtocolBed bed;
  bed.join();
  IntTransfer tensor({5, 6});
  bed.protocol.submit(tensor.transfer, bed.now);
  (void)bed.take_sent();
  const std::array lanes{50, 60};

  std::vector<Message> wrong(8, bed.result(0, 2, tensor.transfer));
  wrong[0].header.job_id = 8;
  wrong[1].header.extended = false;
  wrong[2].extension.key = kResultKey + 1;
  wrong[3].header.gen_id = 9;
  wrong[4].extension.tensor_elements = 3;
  wrong[5].extension.format = ElementFormat::kFixedScale;
  wrong[6].extension.type = MessageType::kKeepAlive;  // Only workers send it, and without lanes.
  wrong[7].extension.scale_bits = 1;
  for (const Message& message : wrong) bed.receive(message, lanes);
  EXPECT_EQ(bed.protocol.counters().invalid_packets, wrong.size());
  Message one_lane = bed.result(0, 1, tensor.transfer);
  bed.receive(one_lane, std::array{1});
  bed.protocol.on_packet({}, bed.now);
  EXPECT_EQ(bed.protocol.counters().invalid_packets, wrong.size() + 2);
  EXPECT_FALSE(tensor.transfer.done);
  EXPECT_THAT(tensor.tensor, ElementsAre(5, 6));
  EXPECT_THAT(bed.take_sent(), IsEmpty());

  bed.receive(bed.result(9, 2, tensor.transfer), lanes);  // Never sent.
  bed.receive(bed.result(0, 2, tensor.transfer), lanes);
  bed.receive(bed.result(0, 2, tensor.transfer), std::array{7, 7});
  EXPECT_EQ(bed.protocol.counters().duplicate_results, 2U);
  EXPECT_THAT(tensor.tensor, ElementsAre(50, 60));
}

// --- The end ---

TEST(WorkerProtocol, SendsAKeepAliveEverySecond) {
  ProtocolBed bed;
  bed.join();
  bed.pass(milliseconds(999));
  EXPECT_THAT(bed.take_sent(), IsEmpty());
  EXPECT_EQ(bed.protocol.next_deadline(), Instant(milliseconds(1000)));
  bed.pass(milliseconds(1));
  const auto sent = bed.take_sent();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].type(), MessageType::kKeepAlive);
  EXPECT_EQ(sent[0].message.extension.key, kKey);
}

TEST(WorkerProtocol, SendsLeaveFiveTimes) {
  ProtocolBed bed;
  bed.join();
  IntTransfer tensor({1});
  bed.protocol.submit(tensor.transfer, bed.now);
  bed.protocol.leave(bed.now);
  EXPECT_TRUE(tensor.transfer.done);
  EXPECT_EQ(tensor.transfer.outcome.status, Status::kClosed);
  // At 0, 1, 3, 7 and 15 ms, so that a socket that is full for a while does not drop them all.
  std::vector<int64_t> times_ms;
  for (int64_t ms = 0; ms <= 10'000; ms++, bed.pass(milliseconds(1))) {
    for (const SentMessage& packet : bed.take_sent()) {
      EXPECT_EQ(packet.type(), MessageType::kLeave);
      times_ms.push_back(ms);
    }
  }
  EXPECT_THAT(times_ms, ElementsAre(0, 1, 3, 7, 15));
  EXPECT_EQ(bed.protocol.next_deadline(), Instant::never());
}

}  // namespace
}  // namespace tributary::testing
