// SPDX-License-Identifier: Apache-2.0
// Method:  four workers in one thread. The test adds their lanes as an aggregator would, then with
//          deliberate errors, or without the last rank.
#include "cli/demo/train_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "host/formats/number_format.h"
#include "host/straggler_pattern.h"
#include "tests/support/scratch_directory.h"

namespace tributary::demo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kWorld = 4;
constexpr lab::LanguageModelShape kSmall{.context = 4, .embedding = 8, .hidden = 16};
constexpr uint32_t kElements = kSmall.parameter_count();

std::string text() {
  std::string result;
  while (result.size() < 20'000) result += "all work and no play makes a dull worker. ";
  return result;
}

class TrainWorkerTest : public ::testing::Test {
 protected:
  TrainWorkerTest() {
    const std::string path = scratch_.file("ledger");
    const LedgerShape shape{.world = kWorld, .depth = 4, .elements = kElements};
    const std::vector<std::string> texts{text()};
    corpus_ = std::make_unique<lab::Corpus>(*lab::Corpus::from_texts(texts));
    ledger_ = std::make_unique<SumLedger>(*SumLedger::create(path, shape));
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      workers_.push_back(std::make_unique<TrainWorker>(config_of(rank), *corpus_, *ledger_));
    }
  }

  static TrainConfig config_of(uint32_t rank) {
    return {.shape = kSmall,
            .adam = {.rate = 0.01F},
            .world = kWorld,
            .rank = rank,
            .batch = 16,
            .seed = 1};
  }

  /// Runs one iteration of all workers; `outcome` gives the degraded ranges.
  std::vector<Result<IterationRecord>> iterate(const host::Outcome& outcome = {}) {
    std::vector<std::span<float>> tensors;
    for (auto& worker : workers_) worker->compute_gradients();
    for (auto& worker : workers_) tensors.push_back(worker->record_gradients());
    for (uint32_t i = 0; i < kElements; i++) average(i, sources_of(i, outcome), tensors);
    std::vector<Result<IterationRecord>> records;
    for (auto& worker : workers_) records.push_back(worker->apply(outcome));
    return records;
  }

  static host::SourceSet sources_of(uint32_t element, const host::Outcome& outcome) {
    for (const host::DegradedRange& range : outcome.degraded) {
      if (element >= range.element_first && element < range.element_first + range.element_count) {
        return range.sources;
      }
    }
    return {(1U << kWorld) - 1, 0, 0, 0};
  }

  static void average(uint32_t element, const host::SourceSet& sources,
                      const std::vector<std::span<float>>& tensors) {
    int32_t sum = 0;
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < kWorld; rank++) {
      if (!host::contains(sources, rank)) continue;
      sum += host::to_fixed(tensors[rank][element], kScale);
      count++;
    }
    for (const auto tensor : tensors) tensor[element] = host::from_fixed(sum, kScale, count);
  }

  static constexpr float kScale = TrainConfig{}.scale;
  const testing::ScratchDirectory scratch_;
  std::unique_ptr<lab::Corpus> corpus_;
  std::unique_ptr<SumLedger> ledger_;
  std::vector<std::unique_ptr<TrainWorker>> workers_;
};

TEST_F(TrainWorkerTest, AllRanksLearnTheSameParameters) {
  const double loss_first = workers_[0]->validation_loss(64);
  const uint64_t checksum_first = workers_[0]->checksum();
  for (uint32_t i = 0; i < 60; i++) {
    for (const auto& record : iterate()) {
      ASSERT_TRUE(record) << record.error().text;
      ASSERT_EQ(record->iteration, i);
      ASSERT_EQ(record->degraded_blocks, 0);
    }
  }
  EXPECT_NE(workers_[0]->checksum(), checksum_first);
  EXPECT_LT(workers_[0]->validation_loss(64), 0.75 * loss_first);
  for (const auto& worker : workers_) {
    EXPECT_EQ(worker->checksum(), workers_[0]->checksum());
    EXPECT_EQ(worker->sums(), (SumCheck{.checked = 60 * uint64_t{kElements}}));
  }
}

TEST_F(TrainWorkerTest, DegradedBlocksAreCheckedAgainstTheirSources) {
  host::Outcome outcome;
  outcome.degraded = {{0, 100, {0b0111, 0, 0, 0}}, {200, 50, {0b1001, 0, 0, 0}}};
  for (const auto& record : iterate(outcome)) {
    ASSERT_TRUE(record);
    EXPECT_EQ(record->degraded_blocks, 2);
  }
  for (const auto& worker : workers_) {
    EXPECT_EQ(worker->sums(), (SumCheck{.checked = kElements}));
    EXPECT_EQ(worker->checksum(), workers_[0]->checksum());
  }
}

TEST_F(TrainWorkerTest, LateWorkerResendsItsGradients) {
  const auto gradients_of = [this](uint32_t rank) {
    workers_[rank]->compute_gradients();
    const auto tensor = workers_[rank]->record_gradients();
    return std::vector<float>(tensor.begin(), tensor.end());
  };
  const auto first_of_last = gradients_of(3);
  const auto first_of_other = gradients_of(0);
  host::Outcome without_last;
  without_last.degraded = {{0, kElements, {0b0111, 0, 0, 0}}};
  iterate(without_last);
  EXPECT_TRUE(workers_[3]->was_late());
  EXPECT_FALSE(workers_[0]->was_late());
  EXPECT_EQ(gradients_of(3), first_of_last);
  EXPECT_NE(gradients_of(0), first_of_other);

  iterate();  // On time in this iteration.
  EXPECT_FALSE(workers_[3]->was_late());
  EXPECT_EQ(workers_[3]->late_iterations(), 1);
  EXPECT_NE(gradients_of(3), first_of_last);
  for (const auto& worker : workers_) {
    EXPECT_EQ(worker->checksum(), workers_[0]->checksum());
    EXPECT_EQ(worker->sums(), (SumCheck{.checked = 2 * uint64_t{kElements}}));
  }
}

TEST_F(TrainWorkerTest, PartlyLateWorkerIsNotLate) {
  host::Outcome most;
  most.degraded = {{0, kElements - 1, {0b0111, 0, 0, 0}}};
  iterate(most);
  EXPECT_FALSE(workers_[3]->was_late());
  EXPECT_EQ(workers_[3]->late_iterations(), 0);
}

TEST_F(TrainWorkerTest, WrongSumIsCounted) {
  std::vector<std::span<float>> tensors;
  for (auto& worker : workers_) worker->compute_gradients();
  for (auto& worker : workers_) tensors.push_back(worker->record_gradients());
  for (uint32_t i = 0; i < kElements; i++) average(i, {0b1111, 0, 0, 0}, tensors);
  // The bias of a byte that never occurs in the text has a gradient other than 0. Adam's first step
  // uses only the sign.
  tensors[2][kElements - 1] *= -1.0F;
  for (auto& worker : workers_) ASSERT_TRUE(worker->apply({}));
  EXPECT_EQ(workers_[0]->sums().wrong, 0);
  EXPECT_EQ(workers_[2]->sums().wrong, 1);
  EXPECT_NE(workers_[2]->checksum(), workers_[0]->checksum());
}

TEST_F(TrainWorkerTest, FailedAllReduceNamesRankAndCause) {
  workers_[1]->compute_gradients();
  workers_[1]->record_gradients();
  host::Outcome missing;
  missing.status = host::Status::kPeerMissing;
  missing.text = "rank 3 is missing";
  const auto record = workers_[1]->apply(missing);
  ASSERT_FALSE(record);
  EXPECT_THAT(record.error().text, HasSubstr("rank 1 iteration 0: rank 3 is missing"));
}

/// A loop of one worker with a clock that only sleeps advance. Rank 0's tensor stays as it is, as
/// if the other ranks were missing.
class TrainLoop {
 public:
  explicit TrainLoop(TrainWorker& worker) : worker_(worker) {}

  Result<void> run(uint32_t iterations, uint32_t fail_at = UINT32_MAX) {
    return train(worker_, iterations,
                 {.all_reduce =
                      [&](std::span<float> tensor) {
                        host::Outcome outcome;
                        outcome.degraded = {{0, kElements, {1, 0, 0, 0}}};
                        if (reduced++ == fail_at) outcome.status = host::Status::kClosed;
                        for (float& value : tensor) {
                          constexpr float kScale = TrainConfig{}.scale;
                          value = host::from_fixed(host::to_fixed(value, kScale), kScale, 1);
                        }
                        return outcome;
                      },
                  .now = [&] { return now; },
                  .delay_at =
                      [&](uint64_t point) {
                        points.push_back(point);
                        return milliseconds(point == 4 ? 500 : 0);
                      },
                  .sleep = [&](Duration delay) { now = now + delay; },
                  .report = [&](const IterationRecord& record) { records.push_back(record); }});
  }

  Instant now{seconds(100)};
  uint32_t reduced = 0;
  std::vector<uint64_t> points;
  std::vector<IterationRecord> records;

 private:
  TrainWorker& worker_;
};

TEST_F(TrainWorkerTest, LoopHasThreeDelayPointsAndReportsTime) {
  TrainLoop loop(*workers_[0]);
  ASSERT_TRUE(loop.run(3));
  EXPECT_THAT(loop.points, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  ASSERT_EQ(loop.records.size(), 3);
  EXPECT_EQ(loop.records[0].seconds, 0.0);
  EXPECT_NEAR(loop.records[1].seconds, 0.5, 1e-9);  // Point 4 belongs to iteration 1.
  EXPECT_NEAR(loop.records[2].seconds, 0.5, 1e-9);
  EXPECT_EQ(workers_[0]->sums(), (SumCheck{.checked = 3 * uint64_t{kElements}}));
}

TEST_F(TrainWorkerTest, LoopEndsAtTheFirstFailure) {
  TrainLoop loop(*workers_[0]);
  const auto done = loop.run(10, 2);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().text, HasSubstr("iteration 2"));
  EXPECT_EQ(loop.records.size(), 2);
}

}  // namespace
}  // namespace tributary::demo
