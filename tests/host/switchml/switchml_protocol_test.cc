// SPDX-License-Identifier: Apache-2.0
// Method: one worker with a switch simulated packet by packet (Algorithm 4). Then refusals and
// deadlines.
#include "host/switchml/switchml_protocol.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "host/formats/number_format.h"
#include "tests/host/switchml/switchml_worker.h"

namespace tributary::host {
namespace {

using testing::kSwitch;
using testing::small_config;
using wire::SwitchmlMessage;
using Worker = testing::SwitchmlWorker;

std::vector<int32_t> counted(size_t count, int32_t first) {
  std::vector<int32_t> values(count);
  for (size_t i = 0; i < count; i++) values[i] = first + static_cast<int32_t>(i);
  return values;
}

/// Returns the result of a message when both workers send the same.
SwitchmlMessage doubled(SwitchmlMessage message) {
  for (int32_t& element : message.elements) element *= 2;
  return message;
}

// --- Algorithm 4 by hand -------------------------------------------------------------------------

TEST(SwitchmlProtocol, SlotsAdvanceIndependentlyAndAlternateSets) {
  Worker worker(small_config());
  std::vector<int32_t> tensor = counted(64 * 4 + 10, 100);  // Five blocks, two slots.
  Transfer transfer;
  transfer.integers = tensor;
  worker.protocol.submit(transfer, worker.now);
  auto first = worker.sent();
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].slot, 0);
  EXPECT_EQ(first[1].slot, 1);
  EXPECT_FALSE(first[0].set);
  EXPECT_EQ(first[0].packet_id, 0U);
  EXPECT_EQ(first[1].packet_id, 1U);
  EXPECT_EQ(first[0].elements, counted(64, 100));
  EXPECT_EQ(first[1].elements, counted(64, 164));

  // Slot 1 gets its result. Slot 0 does not, and delays no other slot.
  worker.after(microseconds(7));
  EXPECT_EQ(worker.hear(doubled(first[1])), microseconds(7));
  auto next = worker.sent();
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].slot, 1);
  EXPECT_TRUE(next[0].set);
  EXPECT_EQ(next[0].packet_id, 3U);
  worker.hear(doubled(next[0]));
  EXPECT_TRUE(worker.sent().empty());  // Block 5 does not exist.

  worker.hear(doubled(first[0]));
  next = worker.sent();
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].packet_id, 2U);
  EXPECT_TRUE(next[0].set);
  worker.hear(doubled(next[0]));
  next = worker.sent();
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].packet_id, 4U);
  EXPECT_FALSE(next[0].set);
  EXPECT_EQ(next[0].elements[9], 100 + 265);
  EXPECT_EQ(next[0].elements[10], 0);  // Padding.
  EXPECT_FALSE(transfer.done);
  worker.hear(doubled(next[0]));
  ASSERT_TRUE(transfer.done);
  EXPECT_EQ(transfer.outcome.status, Status::kOk);
  EXPECT_EQ(transfer.outcome.blocks, 5U);
  for (size_t i = 0; i < tensor.size(); i++) {
    EXPECT_EQ(tensor[i], 2 * (100 + static_cast<int32_t>(i)));
  }
  EXPECT_TRUE(worker.protocol.idle());
  EXPECT_EQ(worker.protocol.next_deadline(), Instant::never());
}

TEST(SwitchmlProtocol, NextTensorContinuesAtTheLastSlot) {
  Worker worker(small_config());
  std::vector<int32_t> one = counted(64 * 3, 0);
  std::vector<int32_t> two = counted(64, 1000);
  Transfer first;
  first.integers = one;
  Transfer second;
  second.integers = two;
  second.op = ReduceOp::kMean;
  worker.protocol.submit(first, worker.now);
  worker.protocol.submit(second, worker.now);
  auto sent = worker.sent();
  ASSERT_EQ(sent.size(), 2U);
  worker.hear(doubled(sent[1]));
  // Slot 1, set 1: the second tensor's only block, while the first tensor is incomplete.
  auto next = worker.sent();
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].packet_id, 3U);
  EXPECT_EQ(next[0].job_number, 1);
  EXPECT_EQ(sent[0].job_number, 0);
  worker.hear(doubled(next[0]));
  EXPECT_TRUE(second.done);
  EXPECT_FALSE(first.done);
  EXPECT_EQ(two[5], 1005);  // Mean of two equal tensors.
}

TEST(SwitchmlProtocol, TimeOutRetransmitsTheSamePacket) {
  SwitchmlConfig config = small_config();
  config.timeouts_to_double = 2;
  Worker worker(config);
  std::vector<int32_t> tensor = counted(64, 3);
  Transfer transfer;
  transfer.integers = tensor;
  worker.protocol.submit(transfer, worker.now);
  const auto first = worker.sent();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(worker.protocol.next_deadline(), worker.now + milliseconds(1));
  worker.after(milliseconds(1) - nanoseconds(1));
  EXPECT_TRUE(worker.sent().empty());
  worker.after(nanoseconds(1));
  EXPECT_EQ(worker.sent(), first);  // The worker cannot tell a lost update from a lost result.
  worker.after(milliseconds(1));
  EXPECT_EQ(worker.sent(), first);
  worker.after(milliseconds(1));  // After two timeouts, the next one takes twice as long.
  EXPECT_TRUE(worker.sent().empty());
  worker.after(milliseconds(1));
  EXPECT_EQ(worker.sent(), first);
  EXPECT_EQ(worker.protocol.counters().retransmitted, 3U);
  EXPECT_TRUE(worker.hear(doubled(first[0])).has_value());
  EXPECT_TRUE(transfer.done);
  // The switch answers the retransmissions too.
  EXPECT_FALSE(worker.hear(doubled(first[0])).has_value());
  EXPECT_EQ(worker.protocol.counters().duplicate_results, 1U);
  EXPECT_EQ(tensor[0], 6);
}

TEST(SwitchmlProtocol, LateResultCancelsTheRetransmission) {
  Worker worker(small_config(1));
  std::vector<int32_t> tensor = counted(128, 3);
  Transfer transfer;
  transfer.integers = tensor;
  worker.protocol.submit(transfer, worker.now);
  const auto first = worker.sent();
  worker.after(milliseconds(1));
  worker.protocol.on_time(worker.now);  // Queued for retransmission,
  worker.hear(doubled(first[0]));       // then its result arrives.
  const auto next = worker.sent();
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].packet_id, 1U);
  EXPECT_EQ(worker.protocol.counters().retransmitted, 0U);
}

TEST(SwitchmlProtocol, PatientStartWaitsPoolTimesLonger) {
  SwitchmlConfig config = small_config(4);
  config.patient_start = true;
  Worker worker(config);
  std::vector<int32_t> tensor = counted(64 * 5, 0);
  Transfer transfer;
  transfer.integers = tensor;
  worker.protocol.submit(transfer, worker.now);
  const auto first = worker.sent();
  ASSERT_EQ(first.size(), 4U);
  worker.hear(doubled(first[0]));
  EXPECT_EQ(worker.sent().size(), 1U);
  worker.after(milliseconds(1));
  EXPECT_EQ(worker.sent().size(), 1U);  // Block 4 alone.
  worker.after(milliseconds(3));
  EXPECT_EQ(worker.sent().size(), 4U);
}

TEST(SwitchmlProtocol, NeverRetransmitsWithoutRepair) {
  SwitchmlConfig config = small_config();
  config.repair = false;
  Worker worker(config);
  std::vector<int32_t> tensor = counted(64, 3);
  Transfer transfer;
  transfer.integers = tensor;
  worker.protocol.submit(transfer, worker.now);
  EXPECT_EQ(worker.sent().size(), 1U);
  EXPECT_EQ(worker.protocol.next_deadline(), worker.now + seconds(1));
  worker.after(milliseconds(999));
  EXPECT_TRUE(worker.sent().empty());
  worker.after(milliseconds(1));
  EXPECT_TRUE(worker.sent().empty());
  EXPECT_TRUE(transfer.done);
}

TEST(SwitchmlProtocol, ElidedTensorHasSizesOnly) {
  Worker worker(small_config());
  Transfer transfer;
  transfer.elided_elements = 65;
  worker.protocol.submit(transfer, worker.now);
  std::vector<std::byte> bytes(worker.protocol.packet_bytes_max());
  for (uint32_t i = 0; i < 2; i++) {
    const Outgoing packet = worker.protocol.next_packet(bytes, worker.now);
    EXPECT_EQ(packet.size_bytes, 10U + 256U);
    EXPECT_EQ(packet.stored_bytes, 10U);
    const bool taken = worker.protocol
                           .on_packet({.from = kSwitch,
                                       .stored = std::span(bytes).first(10),
                                       .size_bytes = packet.size_bytes},
                                      worker.now)
                           .has_value();
    EXPECT_TRUE(taken);
  }
  EXPECT_TRUE(transfer.done);
}

// --- Floats --------------------------------------------------------------------------------------

TEST(SwitchmlProtocol, ExponentIsSentOnePoolAhead) {
  Worker worker(small_config(1, 2));
  std::vector<float> tensor(128, 0.0F);
  tensor[0] = 3.0F;     // Block 0: below 4, exponent 2.
  tensor[64] = -0.25F;  // Block 1: below 0.5, exponent -1.
  Transfer transfer;
  transfer.floats = tensor;
  transfer.format = wire::ElementFormat::kBlockExponent;
  worker.protocol.submit(transfer, worker.now);
  auto sent = worker.sent();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].exponent0, 2);
  EXPECT_EQ(sent[0].elements, std::vector<int32_t>(64, 0));
  sent[0].exponent0 = 4;  // The other worker has larger exponents.
  worker.hear(sent[0]);
  sent = worker.sent();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].exponent0, -1);
  EXPECT_EQ(sent[0].elements[0], 3 << 26);  // (2^31 - 1) / (2 x 16), rounded: 2^26.
  worker.hear(doubled(sent[0]));
  sent = worker.sent();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].exponent0, 0);  // No block follows; the published client sends the same.
  EXPECT_EQ(sent[0].elements[0], -(1 << 29));  // -0.25 x 2^31.
  worker.hear(doubled(sent[0]));
  ASSERT_TRUE(transfer.done);
  EXPECT_EQ(tensor[0], 6.0F);
  EXPECT_EQ(tensor[64], -0.5F);
  EXPECT_EQ(tensor[1], 0.0F);
}

TEST(SwitchmlProtocol, BlockOfZerosSumsToZeros) {
  Worker worker(small_config(4, 2));
  std::vector<float> tensor(64, 0.0F);
  tensor[3] = -0.0F;
  Transfer transfer;
  transfer.floats = tensor;
  transfer.format = wire::ElementFormat::kBlockExponent;
  worker.protocol.submit(transfer, worker.now);
  auto sent = worker.sent();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].exponent0, kNoExponent);
  worker.hear(sent[0]);
  sent = worker.sent();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].elements, std::vector<int32_t>(64, 0));
  worker.hear(sent[0]);
  ASSERT_TRUE(transfer.done);
  EXPECT_EQ(transfer.outcome.status, Status::kOk);
  for (const float value : tensor) EXPECT_EQ(value, 0.0F);
}

TEST(SwitchmlProtocol, NonFiniteAndOverflowReachEveryWorker) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 1e9F}) {
    for (const bool block : {true, false}) {
      if (block && std::isfinite(bad)) continue;  // A block's exponent fits every finite value.
      Worker worker(small_config(1, 2));
      std::vector<float> tensor(64, 1.0F);
      tensor[7] = bad;
      Transfer transfer;
      transfer.floats = tensor;
      transfer.format =
          block ? wire::ElementFormat::kBlockExponent : wire::ElementFormat::kFixedScale;
      transfer.scale = 1000;
      worker.protocol.submit(transfer, worker.now);
      auto sent = worker.sent();
      if (block) {
        worker.hear(sent[0]);
        sent = worker.sent();
      }
      ASSERT_EQ(sent.size(), 1U);
      EXPECT_EQ(sent[0].exponent1, std::isfinite(bad) ? 1 : 2);
      worker.hear(sent[0]);
      ASSERT_TRUE(transfer.done);
      EXPECT_EQ(transfer.outcome.status,
                std::isfinite(bad) ? Status::kOverflow : Status::kNotFinite);
      EXPECT_FALSE(transfer.outcome.text.empty());
    }
  }
}

TEST(SwitchmlProtocol, UnderflowIsCountedOnceForEachElement) {
  Worker worker(small_config());
  std::vector<float> tensor(64, 1.0F);
  tensor[3] = 1e-9F;
  tensor[4] = 0.0F;
  Transfer transfer;
  transfer.floats = tensor;
  transfer.format = wire::ElementFormat::kFixedScale;
  transfer.scale = 1000;
  worker.protocol.submit(transfer, worker.now);
  const auto first = worker.sent();
  ASSERT_EQ(first.size(), 1U);
  worker.after(milliseconds(1));
  EXPECT_EQ(worker.sent(), first);  // Sent again.
  worker.hear(first[0]);
  ASSERT_TRUE(transfer.done);
  EXPECT_EQ(transfer.outcome.underflow, (Underflow{.nonzero = 63, .underflowed = 1}));
  EXPECT_EQ(worker.protocol.counters().underflowed, 1U);
}

TEST(SwitchmlProtocol, RefusesHalfFormats) {
  Worker worker(small_config());
  std::vector<uint16_t> bits(10);
  Transfer transfer;
  transfer.halves.bits = bits;
  transfer.format = wire::ElementFormat::kBlockExponent;
  worker.protocol.submit(transfer, worker.now);
  EXPECT_TRUE(transfer.done);
  EXPECT_EQ(transfer.outcome.status, Status::kRefused);
  EXPECT_TRUE(worker.sent().empty());
}

TEST(SwitchmlProtocol, RefusesReceiveOnlyTransfers) {
  Worker worker(small_config());
  std::vector<int32_t> tensor = counted(64, 1);
  Transfer transfer;
  transfer.integers = tensor;
  transfer.receive_only = true;
  worker.protocol.submit(transfer, worker.now);
  EXPECT_TRUE(transfer.done);
  EXPECT_EQ(transfer.outcome.status, Status::kRefused);
  EXPECT_TRUE(worker.sent().empty());
}

TEST(SwitchmlProtocol, RefusesTransfersWithAnOwner) {
  Worker worker(small_config());
  std::vector<int32_t> tensor = counted(64, 1);
  Transfer transfer;
  transfer.integers = tensor;
  transfer.owner = 0;
  worker.protocol.submit(transfer, worker.now);
  EXPECT_EQ(transfer.outcome.status, Status::kRefused);
  EXPECT_EQ(transfer.outcome.text, "SwitchML sends every sum to all ranks: owner");
  EXPECT_TRUE(worker.sent().empty());
}

// --- Refusals and ends ---------------------------------------------------------------------------

TEST(SwitchmlProtocol, CountsForeignPacketsByReason) {
  Worker worker(small_config());
  std::vector<int32_t> tensor = counted(64 * 8, 1);
  const std::vector<int32_t> before = tensor;
  Transfer transfer;
  transfer.integers = tensor;
  worker.protocol.submit(transfer, worker.now);
  const SwitchmlMessage good = worker.sent().at(0);
  const auto& refusals = worker.protocol.refusals();

  worker.hear(std::vector<std::byte>(9));
  EXPECT_EQ(refusals.not_switchml, 1U);
  auto bytes = wire::switchml_payload(good);
  bytes[0] = std::byte{0x21};  // Another message type.
  worker.hear(bytes);
  EXPECT_EQ(refusals.not_switchml, 2U);
  SwitchmlMessage changed = good;
  changed.elements.resize(256);
  worker.hear(changed);
  EXPECT_EQ(refusals.wrong_elements, 1U);
  bytes = wire::switchml_payload(good);
  bytes.pop_back();
  worker.hear(bytes);
  bytes.resize(bytes.size() + 2);
  worker.hear(bytes);
  EXPECT_EQ(refusals.wrong_size, 2U);
  bytes.pop_back();  // The size is right, but only the first bytes are stored.
  worker.protocol.on_packet({.from = kSwitch,
                             .stored = std::span(bytes).first(10),
                             .size_bytes = static_cast<uint32_t>(bytes.size())},
                            worker.now);
  EXPECT_EQ(refusals.wrong_size, 3U);
  changed = good;
  changed.slot = 2;
  worker.hear(changed);
  EXPECT_EQ(refusals.slot_outside_pool, 1U);
  changed = good;
  changed.set = true;
  worker.hear(changed);
  EXPECT_EQ(refusals.not_outstanding, 1U);
  changed = good;
  changed.packet_id = 4;  // Two uses of the slot later.
  worker.hear(changed);
  EXPECT_EQ(refusals.other_packet, 1U);
  changed = good;
  changed.job_number = 9;
  worker.hear(changed);
  EXPECT_EQ(refusals.other_job, 1U);

  EXPECT_EQ(worker.protocol.counters().invalid_packets, 9U);
  EXPECT_EQ(worker.protocol.counters().blocks, 0U);
  EXPECT_EQ(tensor, before);
  EXPECT_TRUE(worker.protocol.accepts_from(kSwitch));
  EXPECT_FALSE(worker.protocol.accepts_from(Endpoint::ipv4(0x0a0000fe, 1)));
  EXPECT_TRUE(worker.hear(doubled(good)).has_value());
}

TEST(SwitchmlProtocol, DeadlineNamesTheSwitchAndThePacket) {
  Worker worker(small_config());
  std::vector<int32_t> tensor = counted(64 * 3, 1);
  Transfer transfer;
  transfer.integers = tensor;
  worker.protocol.submit(transfer, worker.now);
  const auto sent = worker.sent();
  worker.after(milliseconds(600));
  worker.hear(doubled(sent[1]));
  worker.after(milliseconds(400));
  worker.protocol.on_time(worker.now);
  ASSERT_TRUE(transfer.done);
  EXPECT_EQ(transfer.outcome.status, Status::kPeerMissing);
  EXPECT_NE(transfer.outcome.text.find("10.0.0.254:48864"), std::string::npos);
  EXPECT_NE(transfer.outcome.text.find("packet 0 (slot 0, set 0) for 1.0 s"), std::string::npos);
  EXPECT_EQ(worker.protocol.phase(), TensorProtocol::Phase::kEnded);
  EXPECT_TRUE(worker.sent().empty());

  Transfer late;  // Later transfers get the same error.
  late.integers = tensor;
  worker.protocol.submit(late, worker.now);
  EXPECT_TRUE(late.done);
  EXPECT_EQ(late.outcome.status, Status::kPeerMissing);
}

TEST(SwitchmlProtocol, InitialSilenceMeansTheAggregatorIsGone) {
  Worker worker(small_config());
  std::vector<int32_t> tensor = counted(64, 1);
  Transfer transfer;
  transfer.integers = tensor;
  worker.protocol.submit(transfer, worker.now);
  EXPECT_EQ(worker.sent().size(), 1U);
  worker.after(seconds(2));
  worker.protocol.on_time(worker.now);
  EXPECT_EQ(transfer.outcome.status, Status::kAggregatorGone);
}

TEST(SwitchmlProtocol, LeavingEndsPendingTransfers) {
  Worker worker(small_config());
  std::vector<int32_t> tensor = counted(64, 1);
  Transfer transfer;
  transfer.integers = tensor;
  worker.protocol.submit(transfer, worker.now);
  worker.protocol.leave(worker.now);
  EXPECT_TRUE(transfer.done);
  EXPECT_EQ(transfer.outcome.status, Status::kClosed);
  EXPECT_TRUE(worker.sent().empty());
}

}  // namespace
}  // namespace tributary::host
