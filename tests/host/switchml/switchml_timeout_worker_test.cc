// SPDX-License-Identifier: Apache-2.0
// Method: SwitchML's worker with a switch that times out (docs/tofino.md). Partial results by hand,
// a late worker that rejoins the others, then refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/byte_order.h"
#include "tests/host/switchml/switchml_worker.h"

namespace tributary::host {
namespace {

using ::testing::HasSubstr;
using testing::small_config;
using wire::SwitchmlHeader;
using wire::SwitchmlMessage;
using Worker = testing::SwitchmlWorker;

SwitchmlConfig timing_out(uint32_t pool = 2, uint32_t world = 3) {
  SwitchmlConfig config = small_config(pool, world);
  config.switch_times_out = true;
  return config;
}

uint32_t id_of(const SwitchmlMessage& message) { return byte_swapped(message.packet_id); }

/// Returns the result of a phase that ended early, or, with count 0, the notice that a phase has
/// started.
std::vector<std::byte> closed(uint32_t id, uint32_t count, int32_t value, uint32_t pool = 2) {
  SwitchmlMessage message{.job_number = static_cast<uint8_t>(count),
                          .packet_id = byte_swapped(id),
                          .set = id / pool % 2 != 0,
                          .slot = static_cast<uint16_t>(id % pool)};
  message.elements.assign(64, value);
  auto bytes = wire::switchml_payload(message);
  SwitchmlHeader::Degraded::store(bytes.data(), 1);
  return bytes;
}

TEST(SwitchmlTimeoutWorker, IdsRiseInNetworkOrder) {
  Worker worker(timing_out());
  std::vector<int32_t> tensor(64 * 4, 5);
  Transfer transfer;
  transfer.integers = tensor;
  worker.protocol.submit(transfer, worker.now);
  const auto sent = worker.sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(id_of(sent[1]), 1U);
  const auto bytes = wire::switchml_payload(sent[1]);
  EXPECT_EQ(std::to_integer<int>(bytes[2]), 0);
  EXPECT_EQ(std::to_integer<int>(bytes[5]), 1);
  worker.hear(sent[1]);
  EXPECT_EQ(id_of(worker.sent().at(0)), 3U);
}

TEST(SwitchmlTimeoutWorker, MeanDividesByTheCountOfAPartialSum) {
  for (const bool mean : {false, true}) {
    Worker worker(timing_out());
    std::vector<int32_t> tensor(64 + 10, 1);
    Transfer transfer;
    transfer.integers = tensor;
    transfer.op = mean ? ReduceOp::kMean : ReduceOp::kSum;
    worker.protocol.submit(transfer, worker.now);
    const auto sent = worker.sent();
    EXPECT_TRUE(worker.hear(closed(1, 2, 12)).has_value());
    SwitchmlMessage whole = sent[0];
    whole.elements.assign(64, 30);
    EXPECT_TRUE(worker.hear(whole).has_value());
    ASSERT_TRUE(transfer.done);
    EXPECT_EQ(transfer.outcome.status, Status::kOk);
    EXPECT_EQ(tensor[0], mean ? 10 : 30);  // Of three workers,
    EXPECT_EQ(tensor[64], mean ? 6 : 12);  // and of two.
    ASSERT_EQ(transfer.outcome.degraded.size(), 1U);
    EXPECT_EQ(transfer.outcome.degraded[0].element_first, 64U);
    EXPECT_EQ(transfer.outcome.degraded[0].element_count, 10U);
    EXPECT_EQ(transfer.outcome.degraded[0].contributors, 2U);
    EXPECT_EQ(transfer.outcome.degraded[0].sources, SourceSet{});
    EXPECT_EQ(worker.protocol.counters().degraded_blocks, 1U);
  }
}

TEST(SwitchmlTimeoutWorker, LateWorkerContinuesAtTheOthersPhase) {
  Worker worker(timing_out(1));  // One slot: positions follow each other.
  std::vector<int32_t> tensor(64 * 8, 7);
  Transfer transfer;
  transfer.integers = tensor;
  worker.protocol.submit(transfer, worker.now);
  EXPECT_EQ(id_of(worker.sent().at(0)), 0U);
  // Phase 4 has started: the sums of 0, 1 and 2 are lost, and the sum of 3 is in the other set.
  EXPECT_FALSE(worker.hear(closed(4, 0, 99, 1)).has_value());
  EXPECT_EQ(worker.protocol.progress().heard, 4U);
  EXPECT_EQ(worker.protocol.refusals().not_outstanding, 0U);
  auto sent = worker.sent();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(id_of(sent[0]), 3U);
  EXPECT_TRUE(sent[0].set);
  EXPECT_TRUE(worker.hear(closed(3, 2, 10, 1)).has_value());
  for (uint32_t id = 4; id < 8; id++) {
    sent = worker.sent();
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(id_of(sent[0]), id);
    sent[0].elements.assign(64, 21);
    EXPECT_TRUE(worker.hear(sent[0]).has_value());
  }
  ASSERT_TRUE(transfer.done);
  EXPECT_EQ(transfer.outcome.status, Status::kDesynchronised);
  EXPECT_THAT(transfer.outcome.text, HasSubstr("3 of 8 blocks were summed without this rank"));
  EXPECT_EQ(tensor[0], 7);  // Unchanged.
  EXPECT_EQ(tensor[64 * 3], 10);
  EXPECT_EQ(tensor[64 * 7], 21);
  ASSERT_EQ(transfer.outcome.degraded.size(), 4U);
  EXPECT_EQ(transfer.outcome.degraded[2].contributors, 0U);
  EXPECT_EQ(transfer.outcome.degraded[3].contributors, 2U);
  // The worker continues with the next transfer.
  EXPECT_EQ(worker.protocol.phase(), TensorProtocol::Phase::kRunning);
  Transfer next;
  next.integers = tensor;
  worker.protocol.submit(next, worker.now);
  EXPECT_EQ(id_of(worker.sent().at(0)), 8U);
}

TEST(SwitchmlTimeoutWorker, ResultsHeardWhileComputingAreLost) {
  Worker worker(timing_out(2));
  // Receives the others' results of six phases of both slots, in order, before any submission.
  for (uint32_t id = 0; id < 12; id++) EXPECT_FALSE(worker.hear(closed(id, 2, 1)).has_value());
  EXPECT_EQ(worker.protocol.progress().submitted, 0U);
  EXPECT_EQ(worker.protocol.progress().heard, 12U);
  std::vector<int32_t> first(64 * 7, 7);
  std::vector<int32_t> second(64 * 7, 7);
  Transfer one;
  one.integers = first;
  Transfer two;
  two.integers = second;
  worker.protocol.submit(one, worker.now);
  EXPECT_TRUE(one.done);  // None of its blocks can be requested any longer.
  EXPECT_EQ(one.outcome.status, Status::kDesynchronised);
  EXPECT_TRUE(worker.sent().empty());
  worker.protocol.submit(two, worker.now);
  const auto sent = worker.sent();
  ASSERT_EQ(sent.size(), 2U);
  // Slot 0 has 8 and 10, slot 1 has 9 and 11.
  EXPECT_EQ(std::min(id_of(sent[0]), id_of(sent[1])), 8U);
  EXPECT_EQ(std::max(id_of(sent[0]), id_of(sent[1])), 9U);
  EXPECT_FALSE(two.done);
}

TEST(SwitchmlTimeoutWorker, RefusesImpossibleSettings) {
  SwitchmlConfig large = timing_out();
  large.elements = 256;
  EXPECT_THAT(check(large).error().text, HasSubstr("elements=256 is not allowed"));

  Worker worker(timing_out());
  std::vector<float> floats(64, 1.0F);
  Transfer agreed;
  agreed.floats = floats;
  agreed.format = wire::ElementFormat::kBlockExponent;
  worker.protocol.submit(agreed, worker.now);
  EXPECT_EQ(agreed.outcome.status, Status::kRefused);
  EXPECT_THAT(agreed.outcome.text, HasSubstr("fixed scale"));

  std::vector<int32_t> tensor(64, 1);
  Transfer transfer;
  transfer.integers = tensor;
  worker.protocol.submit(transfer, worker.now);
  EXPECT_EQ(worker.sent().size(), 1U);
  worker.hear(closed(0, 3, 9));  // A sum of all three is not partial.
  EXPECT_EQ(worker.protocol.refusals().degraded, 1U);
  // Ids that belong to another slot or to no phase change nothing.
  auto odd = closed(4, 0, 9);
  SwitchmlHeader::Slot::store(odd.data(), 1);
  worker.hear(odd);
  worker.hear(closed(0x8000'0000, 0, 9));
  EXPECT_EQ(worker.protocol.progress().heard, 1U);
  EXPECT_FALSE(transfer.done);

  Worker plain(small_config(2, 3));
  Transfer other;
  other.integers = tensor;
  plain.protocol.submit(other, plain.now);
  EXPECT_EQ(plain.sent().size(), 1U);
  plain.hear(closed(0, 2, 9));
  EXPECT_EQ(plain.protocol.refusals().degraded, 1U);
  EXPECT_FALSE(other.done);
}

}  // namespace
}  // namespace tributary::host
