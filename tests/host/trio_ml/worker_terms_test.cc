// SPDX-License-Identifier: Apache-2.0
// Method: by hand, the terms that a worker agrees with aggregator and peers: the number of
// gradients, the type of float, the exponent after a degraded result. Also its leave before it has
// joined. Virtual time only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "host/formats/number_format.h"
#include "tests/host/trio_ml/protocol_bed.h"

namespace tributary::testing {
namespace {

using host::HalfTensor;
using host::HalfType;
using host::Status;
using host::Transfer;
using host::WorkerProtocol;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::ControlBody;
using wire::ElementFormat;

// --- Joining and leaving ---

TEST(WorkerTerms, LowersFlexibleGradientsAndJoinsAgain) {
  host::CommunicatorConfig config = small_config();
  config.gradients_flexible = true;
  ProtocolBed bed(config);
  (void)bed.take_sent();
  ControlBody body;
  body.reason = Reason::kTooManyGradients;
  body.value = 3;
  bed.answer_join(MessageType::kRefusal, body);
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kJoining);
  const auto sent = bed.take_sent();  // At once, not 50 ms later.
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].type(), MessageType::kJoin);
  EXPECT_EQ(sent[0].message.body.gradients_max, 3U);
  // The same refusal of an earlier request, which was on the way.
  bed.answer_join(MessageType::kRefusal, body);
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kJoining);
  bed.join({.gradients_max = 3});
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kRunning);
}

TEST(WorkerTerms, RefusesAWelcomeWithImpossibleCounts) {
  ProtocolBed bed;
  (void)bed.take_sent();
  ControlBody body;
  body.sources = UINT16_MAX;
  body.window = 4;
  body.gradients_max = 4;
  bed.answer_join(MessageType::kWelcome, body);
  EXPECT_EQ(bed.protocol.phase(), WorkerProtocol::Phase::kJoining);
  EXPECT_EQ(bed.protocol.counters().invalid_packets, 1U);
}

/// The text of the deadline lists the missing ranks; it must not read beyond the mask.
TEST(WorkerTerms, AnImpossibleWorldDoesNotLengthenTheErrorText) {
  ProtocolBed bed;
  IntTransfer sum({1, 2, 3, 4});
  bed.protocol.submit(sum.transfer, bed.now);
  ControlBody body;
  body.sources = UINT16_MAX;
  body.reason = Reason::kWaitingForPeers;
  bed.answer_join(MessageType::kPending, body);
  bed.join(body);
  bed.have(0, {1});
  bed.pass(milliseconds(990));
  bed.have(0, {1});
  bed.pass(milliseconds(20));
  EXPECT_TRUE(sum.transfer.done);
  EXPECT_LT(bed.protocol.status_text().size(), 200U);
}

TEST(WorkerTerms, WithdrawnJoinSendsLeaveWithItsNonce) {
  ProtocolBed bed;
  (void)bed.take_sent();
  ControlBody body;
  body.reason = Reason::kWaitingForPeers;
  body.sources = 4;
  body.mask = mask_of({1});
  bed.answer_join(MessageType::kPending, body);
  bed.pass(seconds(1));
  EXPECT_EQ(bed.protocol.status(), Status::kPeerMissing);
  const auto sent = bed.take_sent();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].type(), MessageType::kLeave);
  EXPECT_EQ(sent[0].message.extension.key, kNonce);
}

// --- Ports ---

TEST(WorkerTerms, OnlyBlocksGoToTheirOwnersPort) {
  host::CommunicatorConfig config = small_config();
  config.window = 300;
  ProtocolBed bed(config);
  ControlBody body;
  body.port_bits = 1;
  body.sources = 4;
  body.window = 300;
  body.gradients_max = 4;
  body.result_key = kResultKey;
  EXPECT_EQ(bed.take_sent().at(0).to.port, 12000);  // The join.
  bed.answer_join(MessageType::kWelcome, body);
  EXPECT_EQ(bed.take_sent().at(0).to.port, 12000);  // A keep-alive.

  std::vector<int32_t> tensor(300 * 4, 1);
  Transfer transfer;
  transfer.integers = tensor;
  bed.protocol.submit(transfer, bed.now);
  const auto sent = bed.take_sent();
  ASSERT_THAT(sent, SizeIs(300));
  for (const SentMessage& packet : sent) {
    const bool second = packet.block() >= 128 && packet.block() < 256;
    EXPECT_EQ(packet.to.port, second ? 12001 : 12000) << packet.block();
  }
  // A later result overtakes blocks of the second port. Blocks from 256 on use the first port.
  bed.receive(bed.result(133, 4, transfer), std::array{4, 4, 4, 4});
  uint32_t asked = 0;
  for (const SentMessage& packet : bed.take_sent()) {
    if (packet.type() != MessageType::kProbe || packet.block() < 128) continue;
    EXPECT_EQ(packet.to.port, 12001) << packet.block();
    asked++;
  }
  EXPECT_EQ(asked, 3U);
  bed.protocol.leave(bed.now);
  EXPECT_EQ(bed.take_sent().at(0).to.port, 12000);
}

// --- Sixteen bits ---

TEST(WorkerTerms, HalvesAreSentWideAndNameTheirType) {
  ProtocolBed bed;
  bed.join();
  std::array<uint16_t, 2> halves{0x3c00, 0xc000};  // 1 and -2 in binary16.
  Transfer transfer;
  transfer.halves = HalfTensor{.bits = halves, .type = HalfType::kFloat16};
  transfer.format = ElementFormat::kBlockExponent;
  EXPECT_EQ(transfer.element_count(), 2U);
  bed.protocol.submit(transfer, bed.now);
  const auto lead = bed.take_sent();
  ASSERT_THAT(lead, SizeIs(1));
  EXPECT_EQ(lead[0].message.extension.exponent, 2);     // 2 < 2^2.
  EXPECT_EQ(lead[0].message.extension.scale_bits, 1U);  // binary16.
  Message agreed = bed.result(0, 0, transfer);
  agreed.extension.exponent = 2;
  bed.receive(agreed);

  const auto scale = host::scale_for_exponent(2, 4);
  const auto sent = bed.take_sent();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_THAT(sent[0].lanes,
              ElementsAre(host::to_fixed(1.0F, scale), host::to_fixed(-2.0F, scale)));
  bed.receive(bed.result(1, 2, transfer),
              std::array{host::to_fixed(1.5F, scale), host::to_fixed(-4.0F, scale)});
  ASSERT_TRUE(transfer.done);
  EXPECT_THAT(halves, ElementsAre(0x3e00, 0xc400));
}

TEST(WorkerTerms, BfloatHasItsOwnType) {
  ProtocolBed bed;
  bed.join();
  std::array<uint16_t, 1> halves{0x3f80};
  Transfer transfer;
  transfer.halves = HalfTensor{.bits = halves, .type = HalfType::kBfloat16};
  transfer.format = ElementFormat::kBlockExponent;
  bed.protocol.submit(transfer, bed.now);
  EXPECT_EQ(bed.take_sent().at(0).message.extension.scale_bits, 2U);
}

// --- Stragglers ---

/// Returns the lane of 1.0 if a degraded or a whole result agreed on exponent `agreed`.
int32_t lane_of_one(int8_t agreed, bool degraded) {
  ProtocolBed bed;
  bed.join();
  std::array<float, 1> tensor{1.0F};
  Transfer transfer;
  transfer.floats = tensor;
  transfer.format = ElementFormat::kBlockExponent;
  bed.protocol.submit(transfer, bed.now);
  (void)bed.take_sent();
  Message result = bed.result(0, 0, transfer);
  result.extension.exponent = agreed;
  result.header.degraded = degraded;
  bed.receive(result);
  return bed.take_sent().at(0).lanes.at(0);
}

TEST(WorkerTerms, ExponentLeavesHeadroomForAStraggler) {
  const int32_t whole = lane_of_one(1, false);
  EXPECT_EQ(whole, host::to_fixed(1.0F, host::scale_for_exponent(1, 4)));
  EXPECT_EQ(lane_of_one(1, true), whole / 256);
  // All zero without the straggler: treated as if the largest value were below one.
  EXPECT_EQ(lane_of_one(host::kNoExponent, true), lane_of_one(8, false));
  EXPECT_EQ(lane_of_one(127, true), lane_of_one(127, false));  // The largest exponent.
}

}  // namespace
}  // namespace tributary::testing
