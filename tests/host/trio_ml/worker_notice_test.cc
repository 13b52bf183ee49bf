// SPDX-License-Identifier: Apache-2.0
// Method: notices, and sums of another tensor. The tests check which of them end a worker, and with
// which status and text. Worked by hand against a simulated aggregator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>

#include "host/trio_ml/worker_protocol.h"
#include "tests/host/trio_ml/protocol_bed.h"

namespace tributary::testing {
namespace {

using host::Status;
using host::WorkerProtocol;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;
using wire::ElementFormat;

TEST(WorkerNotice, OnlyNoticesAboutItsSessionEndAWorker) {
  struct Case {
    Reason reason;
    Status status;
    const char* text;
  };
  for (const Case& notice :
       {Case{Reason::kPastCache, Status::kDesynchronised,
             "rank 1 is too far behind: block 1 is no longer kept"},
        Case{Reason::kPeerLeft, Status::kPeerLeft,
             "rank 3 has left job 7 while block 1 waits for it"},
        Case{Reason::kMismatch, Status::kMismatch, "rank 3 and another rank disagree"}}) {
    ProtocolBed bed;
    bed.join();
    IntTransfer tensor({1, 2, 3, 4, 5});
    bed.protocol.submit(tensor.transfer, bed.now);
    (void)bed.take_sent();
    bed.receive(bed.result(0, 4, tensor.transfer), std::array<int32_t, 4>{});
    bed.notice(notice.reason, 0, 3);  // That block is complete: a late repeat.
    bed.notice(notice.reason, 2, 3);  // That block does not exist.
    EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kRunning);
    bed.notice(notice.reason, 1, 3);
    EXPECT_EQ(bed.protocol.status(), notice.status);
    EXPECT_THAT(tensor.transfer.outcome.text, HasSubstr(notice.text));
    const auto sent = bed.take_sent();
    ASSERT_THAT(sent, SizeIs(1));
    EXPECT_EQ(sent[0].type(), MessageType::kLeave);  // The others need not wait for this rank.
  }
}

// Another rank has lost the second aggregator. This one says so to those that wait for it in turn.
TEST(WorkerNotice, LostAggregatorIsPassedOn) {
  host::CommunicatorConfig config = small_config();
  config.aggregators = {{.name = "a:1"}, {.name = "b:2"}};
  ProtocolBed bed(config);
  bed.join();
  IntTransfer tensor({1, 2, 3});
  bed.protocol.submit(tensor.transfer, bed.now);
  (void)bed.take_sent();
  Message notice = bed.control(MessageType::kNotice, 0);
  notice.body.reason = Reason::kPeerLeft;
  notice.body.source = 3;
  notice.body.value = 2;
  bed.receive(notice);
  EXPECT_EQ(bed.protocol.status(), Status::kAggregatorGone);
  EXPECT_EQ(bed.protocol.lost_aggregator(), 2U);
  const auto sent = bed.take_sent();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].type(), MessageType::kLeave);
  EXPECT_EQ(sent[0].message.extension.tensor_elements, 2U);
}

/// Returns the error text of a worker that gets this notice for block 0.
std::string mismatch_text(const Message& notice) {
  ProtocolBed bed;
  bed.join();
  IntTransfer tensor({1, 2, 3});
  bed.protocol.submit(tensor.transfer, bed.now);
  (void)bed.take_sent();
  bed.receive(notice);
  EXPECT_EQ(tensor.transfer.outcome.status, Status::kMismatch);
  return tensor.transfer.outcome.text;
}

TEST(WorkerNotice, MismatchNamesRanksOperationsAndTypes) {
  Message notice = ProtocolBed().control(MessageType::kNotice, 0);
  notice.body.reason = Reason::kMismatch;
  notice.body.mask = mask_of({3});
  notice.body.given = {
      .format = ElementFormat::kInt32, .tensor_elements = 3, .scale_bits = wire::kScaleBitMean};
  notice.extension.flags = wire::kFlagSourceMask;
  notice.extension.tensor_elements = 3;
  notice.mask = mask_of({0, 2});
  EXPECT_EQ(mismatch_text(notice),
            "rank 3 gives the mean of 3 int32 where rank 0, 2 gave the sum of 3 int32 (block 0); "
            "all ranks must make the same calls");

  notice.body.given.scale_bits = std::bit_cast<uint32_t>(2.5F);
  notice.body.given.format = ElementFormat::kFixedScale;
  notice.extension.format = ElementFormat::kBlockExponent;
  notice.extension.scale_bits = wire::kScaleBitMean | 2;
  notice.mask = {};
  for (uint32_t rank = 10; rank < 20; rank++) notice.mask[0] |= uint64_t{1} << rank;
  EXPECT_THAT(mismatch_text(notice),
              HasSubstr("the sum of 3 float32 at scale 2.5 where rank 10, 11, 12, 13, 14, 15, 16, "
                        "17 and 2 more gave the mean of 3 bfloat16"));

  notice.body.given = {.format = notice.extension.format,
                       .tensor_elements = 3,
                       .scale_bits = notice.extension.scale_bits};
  EXPECT_THAT(mismatch_text(notice), HasSubstr("the mean of 3 bfloat16 in another call"));
}

TEST(WorkerNotice, MaskNamesALeaverBehindAnotherAggregator) {
  ProtocolBed bed;
  bed.join();
  IntTransfer tensor({1});
  bed.protocol.submit(tensor.transfer, bed.now);
  (void)bed.take_sent();
  Message notice = bed.control(MessageType::kNotice, 0);
  notice.body.reason = Reason::kPeerLeft;
  notice.body.source = 1;  // Source 1 of the upper aggregator.
  notice.body.mask = mask_of({2, 3});
  bed.receive(notice);
  EXPECT_THAT(tensor.transfer.outcome.text, HasSubstr("rank 2, 3 has left job 7"));
}

// With mitigation, the others may have completed a block without this rank. No aggregator then
// compares this rank's contribution with theirs.
TEST(WorkerNotice, SumOfAnotherTensorWithoutThisRankIsAMismatch) {
  ProtocolBed bed;
  bed.join();
  IntTransfer tensor({1, 2, 3});
  bed.protocol.submit(tensor.transfer, bed.now);
  (void)bed.take_sent();
  Message sum = bed.result(0, 3, tensor.transfer);
  sum.extension.scale_bits |= wire::kScaleBitMean;
  sum.header.degraded = true;
  sum.extension.flags = wire::kFlagSourceMask;
  sum.mask = mask_of({0, 1, 2});
  const std::array lanes{1, 2, 3};
  bed.receive(sum, lanes);  // Names this rank (1) as a source, so it cannot be a sum of its block.
  EXPECT_FALSE(tensor.transfer.done);
  sum.mask = mask_of({0, 2});
  bed.receive(sum, lanes);
  bed.receive(sum, lanes);
  EXPECT_FALSE(tensor.transfer.done);  // The network may have corrupted and duplicated one packet.
  bed.pass(milliseconds(300));
  EXPECT_FALSE(bed.take_sent().empty());
  bed.pass(milliseconds(1));
  bed.receive(sum, lanes);  // The answer to a probe confirms it.
  EXPECT_TRUE(tensor.transfer.done);
  EXPECT_EQ(tensor.transfer.outcome.status, Status::kMismatch);
  EXPECT_THAT(
      tensor.transfer.outcome.text,
      HasSubstr("rank 1 gives the sum of 3 int32 where rank 0, 2 gave the mean of 3 int32"));
  EXPECT_THAT(tensor.tensor, ElementsAre(1, 2, 3));
}

TEST(WorkerNotice, LostSessionEndsAnIdleWorker) {
  ProtocolBed bed;
  bed.join();
  bed.notice(Reason::kSourcePermanent, 0, 1);  // Appears in the results and has no other effect.
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kRunning);
  bed.notice(Reason::kSessionLost, 0);
  EXPECT_EQ(bed.protocol.status(), Status::kSessionLost);
  EXPECT_THAT(bed.protocol.status_text(), HasSubstr("10.0.0.1:12000 was restarted"));
}

// The aggregator notices a killed rank before this worker's own deadline. Idle workers go on: they
// wait for nobody.
TEST(WorkerNotice, SilentPeerEndsAWorkerThatWaits) {
  host::CommunicatorConfig config = small_config();
  config.deadline = seconds(60);
  ProtocolBed bed(config);
  bed.join();
  Message notice = bed.control(MessageType::kNotice, 0);
  notice.body.reason = Reason::kPeerSilent;
  notice.body.source = 3;
  notice.body.value = 3500;  // Milliseconds.
  bed.receive(notice);
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kRunning);
  IntTransfer tensor({1});
  bed.protocol.submit(tensor.transfer, bed.now);
  (void)bed.take_sent();
  bed.receive(notice);
  EXPECT_EQ(tensor.transfer.outcome.status, Status::kPeerMissing);
  EXPECT_EQ(tensor.transfer.outcome.text,
            "rank 3 has sent nothing to the aggregator for 3.5 s (block 0 waits)");
}

TEST(WorkerNotice, StoppedAggregatorEndsAWorkerAtOnce) {
  ProtocolBed bed;
  bed.join();
  bed.notice(Reason::kServerStopped, 0);
  EXPECT_EQ(bed.protocol.status(), Status::kAggregatorGone);
  EXPECT_EQ(bed.protocol.status_text(), "aggregator 10.0.0.1:12000 was stopped");

  ProtocolBed joining;
  wire::ControlBody refusal;
  refusal.reason = Reason::kServerStopped;
  joining.answer_join(MessageType::kRefusal, refusal);
  EXPECT_EQ(joining.protocol.phase(), WorkerProtocol::Phase::kEnded);
  EXPECT_EQ(joining.protocol.status_text(), "aggregator 10.0.0.1:12000 was stopped");
}

TEST(WorkerNotice, OperatorsRemovalEndsAWorkerAtOnce) {
  const auto text_of = [](Reason reason, Status status) {
    ProtocolBed bed;
    bed.join();
    bed.notice(reason, 0);
    EXPECT_EQ(bed.protocol.status(), status);
    ProtocolBed joining;
    wire::ControlBody refusal;
    refusal.reason = reason;
    joining.answer_join(MessageType::kRefusal, refusal);
    EXPECT_EQ(joining.protocol.status(), Status::kRefused);
    EXPECT_THAT(joining.protocol.status_text(), StartsWith(bed.protocol.status_text()));
    return bed.protocol.status_text();
  };
  EXPECT_THAT(text_of(Reason::kJobRemoved, Status::kAggregatorGone),
              HasSubstr("was removed from aggregator 10.0.0.1:12000 by its operator"));
  EXPECT_THAT(text_of(Reason::kEvicted, Status::kSessionLost),
              HasSubstr("by the operator of aggregator 10.0.0.1:12000"));
}

}  // namespace
}  // namespace tributary::testing
