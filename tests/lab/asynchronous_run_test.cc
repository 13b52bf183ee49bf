// SPDX-License-Identifier: Apache-2.0
// Method: workers push numbers, so the parameters are known: the initial values and every push,
// added once. Then the time of a fast worker beside a slow one, worked by hand; then refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lab/backends/backend.h"
#include "lab/run.h"
#include "tests/lab/run_bed.h"

namespace tributary::lab {
namespace {

using testing::run_well;

constexpr uint32_t kElements = 1000;
constexpr uint32_t kIterations = 5;

Scenario small(uint32_t workers) {
  Scenario scenario;
  scenario.backend = Backend::kAsynchronous;
  scenario.workers = workers;
  scenario.iterations = kIterations;
  scenario.gradients = 256;
  scenario.window = 64;
  scenario.payload = Payload::kReal;
  scenario.model = {.kind = Model::kCustom,
                    .bucket_bytes = {kElements * 4},
                    .forward = milliseconds(1),
                    .backward = milliseconds(2)};
  return scenario;
}

/// Worker w pushes w + 1 in each iteration; worker 0 adds initial values of 100 to its first push.
class Pushes final : public TensorExchange {
 public:
  explicit Pushes(uint32_t workers) : tensors_(workers, std::vector<float>(kElements)) {}

  std::span<float> tensor(uint32_t worker, uint32_t iteration, bool /*computed*/) override {
    const float initial = worker == 0 && iteration == 0 ? 100.0F : 0.0F;
    std::fill(tensors_[worker].begin(), tensors_[worker].end(),
              static_cast<float>(worker + 1) + initial);
    return tensors_[worker];
  }
  [[nodiscard]] host::ReduceOp op() const override { return host::ReduceOp::kSum; }
  [[nodiscard]] float scale() const override { return 1024; }
  void reduced(uint32_t worker, uint32_t /*iteration*/, const host::Outcome& outcome) override {
    EXPECT_EQ(outcome.status, host::Status::kOk) << outcome.text;
    for (uint32_t i = 0; i < kElements; i++) {
      highest_[i] = std::max(highest_[i], tensors_[worker][i]);
    }
  }
  void iteration_ended(uint32_t /*worker*/, uint32_t /*iteration*/, Instant /*at*/) override {}

  /// Returns the parameters after all pushes: no push lowers one.
  [[nodiscard]] const std::vector<float>& last() const { return highest_; }

 private:
  std::vector<std::vector<float>> tensors_;
  std::vector<float> highest_ = std::vector<float>(kElements);
};

TEST(AsynchronousRun, LastResultHasEveryPushOnce) {
  Pushes pushes(3);
  const RunResult result = run_well(small(3), &pushes);
  EXPECT_EQ(pushes.last(), std::vector<float>(kElements, 100 + (1 + 2 + 3) * kIterations));
  EXPECT_EQ(result.blocks, 4U * kIterations * 3);  // 1000 parameters in blocks of 256.
  EXPECT_EQ(result.degraded_blocks, 0U);
}

TEST(AsynchronousRun, LossChangesNoParameter) {
  Scenario scenario = small(3);
  scenario.link.faults.loss = 0.05;
  scenario.host.retransmission = true;
  Pushes pushes(3);
  const RunResult result = run_well(scenario, &pushes);
  EXPECT_EQ(pushes.last(), std::vector<float>(kElements, 100 + (1 + 2 + 3) * kIterations));
  uint64_t repeated = 0;
  for (const WorkerResult& worker : result.workers) repeated += worker.retransmissions;
  EXPECT_GT(repeated, 0U);
}

TEST(AsynchronousRun, FastWorkersDoNotWaitForASlowOne) {
  Scenario scenario = small(3);
  const Duration calm = run_well(scenario).workers[0].finished_at;
  scenario.straggler.pattern = Straggling::kFailSlow;
  scenario.straggler.worker = 2;
  scenario.straggler.factor = 4;
  Pushes pushes(3);
  const RunResult result = run_well(scenario, &pushes);
  // Worker 0 sends the initial values, so nobody waits for worker 2. The links are less busy.
  EXPECT_LE(result.workers[0].finished_at, calm);
  EXPECT_EQ(result.workers[2].computed, milliseconds(12) * kIterations);
  EXPECT_EQ(pushes.last(), std::vector<float>(kElements, 100 + (1 + 2 + 3) * kIterations));
  // A first answer counts no pushes before it. Worker 2 pushes first about when the others push for
  // the fourth time. Their other pushes, one or two each, come before its second answer.
  EXPECT_GE(result.workers[2].staleness.pushes_max, 2U);
  EXPECT_LE(result.workers[2].staleness.pushes_max, 4U);
}

TEST(AsynchronousRun, RefusesWhatItCannotRun) {
  Scenario several = small(2);
  several.model.bucket_bytes = {4096, 4096};
  Scenario network = small(2);
  network.model = {};
  Scenario elided = small(2);
  elided.payload = Payload::kElided;
  const std::vector<std::pair<Scenario, std::string>> refused{
      {several, "2 buckets are not allowed with backend=asynchronous"},
      {network, "0 buckets are not allowed with backend=asynchronous"},
      {elided, "payload=elided"}};
  for (const auto& [scenario, text] : refused) {
    const auto refusal = find_refusal(scenario);
    ASSERT_TRUE(refusal.has_value()) << text;
    EXPECT_NE(refusal->text.find(text), std::string::npos) << refusal->text;
  }
}

}  // namespace
}  // namespace tributary::lab
