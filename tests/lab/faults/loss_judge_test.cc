// SPDX-License-Identifier: Apache-2.0
// Method: a degraded result by hand, once for each condition of the rule.
#include "lab/faults/loss_judge.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

namespace tributary::lab {
namespace {

using wire::MessageType;

constexpr Duration kRound = milliseconds(4);
constexpr Duration kTimeout = milliseconds(10);

class LossJudgeRule : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = memory::SharedMemory::create({.sram_size_bytes = 0, .dram_size_bytes = 1 << 20});
    ASSERT_TRUE(made.has_value());
    memory_.emplace(*std::move(made));
    auto window = trio_ml::BlockWindow::create(config(), 1, *memory_);
    ASSERT_TRUE(window.has_value());
    job_.emplace(config(), session_, *std::move(window), /*job_parameters=*/nullptr, /*lane=*/0,
                 Instant());
    for (const uint8_t source :
         std::array<uint8_t, 3>{0, 1, 0}) {  // The third join confirms the first.
      wire::Message join;
      join.header = {.job_id = 1, .extended = true, .src_id = source};
      join.extension = {.type = MessageType::kJoin, .key = 100U + source};
      static_cast<void>(session_.join(join, Endpoint::ipv4(1 + source, 1), Instant()));
    }
    job_->adopt(session_.number());
    ASSERT_NE(job_->adopted(), 0U);
  }
  static trio_ml::JobConfig config() {
    trio_ml::JobConfig job{.id = 1, .sources = 2, .block_cnt_max = 8, .block_grad_max = 4};
    job.mitigation = true;
    job.timeout = kTimeout;
    return job;
  }
  static std::vector<std::byte> bytes_of(const wire::Message& message) {
    std::vector<std::byte> bytes(wire::kControlMessageBytes);
    bytes.resize(encode_message(message, bytes.data()) + size_t{message.header.grad_cnt} * 4);
    return bytes;
  }
  /// Source 1 contributes `waited` before block 0 ends without it; its cable loses `losses`
  /// packets.
  /// @return the number of verdicts.
  size_t verdicts_after(Duration waited, uint64_t losses, bool degraded = true) {
    LossJudge judge(kRound);
    const Instant end(seconds(1));
    wire::Message contribution;
    contribution.header = {.job_id = 1, .extended = true, .src_id = 1, .grad_cnt = 1};
    contribution.extension = {.key = job_->key_of(1)};
    judge.on_sent(bytes_of(contribution), 0, end - waited);
    wire::Message result;
    result.header = {.job_id = 1, .degraded = degraded, .extended = true, .src_cnt = 1};
    result.extension = {
        .type = MessageType::kResult, .flags = wire::kFlagSourceMask, .key = job_->result_key()};
    result.mask = {degraded ? 0b01U : 0b11U};
    const std::vector<std::byte> bytes = bytes_of(result);
    const auto lost_of = [losses](uint32_t) { return losses; };
    judge.on_departure(*job_, bytes, lost_of, end);
    judge.on_departure(*job_, bytes, lost_of, end);  // Its retransmission does not count.
    return judge.verdicts().size();
  }

  std::optional<memory::SharedMemory> memory_;
  trio_ml::Session session_{config(), auth::key_of_seed(1)};
  std::optional<trio_ml::Job> job_;
};

TEST_F(LossJudgeRule, OneLossWithTimeForTwoRoundsCounts) {
  EXPECT_EQ(verdicts_after(kTimeout, 1), 1U);
  EXPECT_EQ(verdicts_after(kTimeout, 0), 1U);
  EXPECT_EQ(verdicts_after(kTimeout * 2, 4), 1U);  // Five rounds of 4 ms.
}

TEST_F(LossJudgeRule, RepairThatCannotBeInTimeDoesNotCount) {
  EXPECT_EQ(verdicts_after(kTimeout - microseconds(1), 1), 0U);  // Sent too late.
  EXPECT_EQ(verdicts_after(kTimeout, 2), 0U);                    // Three rounds take 12 ms.
  EXPECT_EQ(verdicts_after(kTimeout * 2, 5), 0U);
}

TEST_F(LossJudgeRule, CompleteBlocksDoNotCount) {
  EXPECT_EQ(verdicts_after(kTimeout, 1, /*degraded=*/false), 0U);
}

TEST(LossJudge, JudgesRunsWithFaultsOfLinksOnly) {
  FaultPlan plan;
  plan.kinds.add(FaultKind::kLoss);
  plan.kinds.add(FaultKind::kForger);
  EXPECT_TRUE(LossJudge::judges(plan));
  plan.kinds.add(FaultKind::kWorkerPause);
  EXPECT_FALSE(LossJudge::judges(plan));
}

TEST(LossJudge, ARoundGrowsWithTheSlowestRoundTrip) {
  FaultPlan plan;
  plan.propagation = microseconds(5);
  EXPECT_EQ(LossJudge::round_of(plan), kRtoMin * 2 + microseconds(20));
  plan.links.reorder_max = milliseconds(5);
  EXPECT_GT(LossJudge::round_of(plan), milliseconds(20));
}

}  // namespace
}  // namespace tributary::lab
