// SPDX-License-Identifier: Apache-2.0
// Method: the effect of each straggler pattern on a run. The expected time comes from the pattern
// itself if every block waits for all workers, and from the timeouts if not.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "host/straggler_pattern.h"
#include "lab/run.h"
#include "lab/workload/straggler.h"
#include "tests/lab/run_bed.h"

namespace tributary::lab {
namespace {

using testing::run_well;

/// Four workers, 10 ms of computation, eight windows of gradients.
Scenario small(Backend backend) {
  Scenario scenario;
  scenario.backend = backend;
  scenario.workers = 4;
  scenario.iterations = 20;
  scenario.window = 64;
  scenario.mitigation.history = 64;
  scenario.model = {.kind = Model::kCustom,
                    .bucket_bytes = {4096 * 256, 4096 * 256},
                    .forward = milliseconds(3),
                    .backward = milliseconds(7)};
  return scenario;
}

TEST(StragglingRun, WaitingSwitchWaitsForTheSlowestWorker) {
  Scenario scenario = small(Backend::kWaitingSwitch);
  scenario.straggler.pattern = Straggling::kSlowWorker;
  scenario.straggler.probability = 0.4;
  const RunResult result = run_well(scenario);
  Scenario calm = scenario;
  calm.straggler.pattern = Straggling::kNone;
  const RunResult without = run_well(calm);
  EXPECT_EQ(result.typical_iteration, without.iterations[1]);

  // An iteration takes its time without delays, plus the longest sum of one worker's delays in it.
  // The other workers' delays are hidden, except a small part that ends later than the slowest
  // one's.
  const auto pattern =
      straggler_kind(Straggling::kSlowWorker).make(scenario, result.typical_iteration);
  for (uint32_t i = 0; i < scenario.iterations; i++) {
    Duration longest;
    for (uint32_t worker = 0; worker < scenario.workers; worker++) {
      Duration sum;
      for (uint32_t p = 0; p < host::kDelayPoints; p++) {
        sum += pattern->delay_at(worker, uint64_t{i} * host::kDelayPoints + p);
      }
      longest = std::max(longest, sum);
    }
    const double expected = in_seconds(without.iterations[1] + longest);
    EXPECT_NEAR(in_seconds(result.iterations[i]), expected, 3e-6) << "iteration " << i;
  }
  EXPECT_EQ(result.degraded_blocks, 0U);
}

TEST(StragglingRun, IdealBackEndHasNoStragglers) {
  Scenario scenario = small(Backend::kIdeal);
  scenario.straggler.pattern = Straggling::kSlowWorker;
  scenario.straggler.probability = 1;
  const RunResult result = run_well(scenario);
  for (const WorkerResult& worker : result.workers) EXPECT_EQ(worker.slept, Duration());
}

TEST(StragglingRun, MitigationBoundsEveryBlock) {
  Scenario scenario = small(Backend::kTrioMl);
  scenario.straggler.pattern = Straggling::kAbsent;
  scenario.straggler.worker = 2;
  scenario.iterations = 3;
  scenario.payload = Payload::kReal;
  const RunResult result = run_well(scenario);
  EXPECT_EQ(result.wrong_sums, 0U);
  EXPECT_EQ(result.checked_sums, 2U * 256 * 1024 * 3 * 3);  // By the three that contribute.
  EXPECT_EQ(result.degraded_blocks, result.blocks);
  // Twice the timeout after the last contribution (Trio paper §5), and the time of the packets.
  EXPECT_LE(result.block_latency.max, scenario.mitigation.timeout * 2 + milliseconds(1));
  EXPECT_GT(result.block_latency.min, scenario.mitigation.timeout);
  EXPECT_EQ(result.workers[2].iterations, 0U);
}

TEST(StragglingRun, LateWorkersCatchUpAndOthersLoseNothing) {
  for (const CatchUp catch_up : {CatchUp::kSkip, CatchUp::kCompute}) {
    Scenario scenario = small(Backend::kTrioMl);
    scenario.mitigation.catch_up = catch_up;
    scenario.mitigation.timeout = milliseconds(2);
    scenario.model.forward = milliseconds(30);
    scenario.model.backward = milliseconds(70);
    scenario.straggler.pattern = Straggling::kSlowWorker;
    scenario.straggler.probability = 0.1;
    scenario.payload = Payload::kReal;
    scenario.model.bucket_bytes = {4096 * 16, 4096 * 16};
    scenario.window = 8;
    const RunResult result = run_well(scenario);
    EXPECT_EQ(result.wrong_sums, 0U);
    EXPECT_GT(result.degraded_blocks, 0U);
    uint32_t skipped = 0;
    uint64_t lost = 0;
    for (const WorkerResult& worker : result.workers) {
      EXPECT_EQ(worker.iterations, scenario.iterations);
      EXPECT_FALSE(worker.dropped_out);
      EXPECT_GE(worker.waited, Duration());
      if (worker.slept == Duration()) {
        EXPECT_EQ(worker.contributions_lost, 0U);
      }
      skipped += worker.iterations_skipped;
      lost += worker.contributions_lost;
    }
    EXPECT_GT(lost, 0U);
    // An iteration's end is the median worker's: the second of four.
    std::vector<Duration> finished;
    Duration iterations;
    for (const WorkerResult& worker : result.workers) finished.push_back(worker.finished_at);
    for (const Duration iteration : result.iterations) iterations += iteration;
    std::sort(finished.begin(), finished.end());
    EXPECT_EQ(iterations, finished[1]);
    EXPECT_EQ(skipped > 0, catch_up == CatchUp::kSkip);

    Scenario waiting = scenario;
    waiting.backend = Backend::kTrioMlWait;
    EXPECT_LT(result.mean_iteration, run_well(waiting).mean_iteration);
  }
}

TEST(StragglingRun, TreeExpiresItsStraggler) {
  Scenario scenario = small(Backend::kTrioMl);
  scenario.topology = Topology::kChassis;
  scenario.straggler.pattern = Straggling::kAbsent;
  scenario.iterations = 2;
  scenario.payload = Payload::kReal;
  const RunResult result = run_well(scenario);
  EXPECT_EQ(result.wrong_sums, 0U);
  EXPECT_EQ(result.degraded_blocks, result.blocks);
  EXPECT_EQ(result.workers[1].contributions_lost, 0U);
  EXPECT_EQ(result.workers[3].contributions_lost, 0U);
}

/// A worker that pauses until its results are evicted: a small cache, and no worker waits for it.
Scenario forgetful() {
  Scenario scenario = small(Backend::kTrioMl);
  scenario.model.bucket_bytes = {4096 * 32, 4096 * 32};
  scenario.window = 16;
  scenario.mitigation.history = 1;
  scenario.mitigation.timeout = milliseconds(1);
  scenario.mitigation.permanent_after = milliseconds(10);
  scenario.straggler.pattern = Straggling::kPause;
  scenario.straggler.worker = 1;
  scenario.straggler.pause_at = milliseconds(25);
  scenario.straggler.pause_for = milliseconds(200);
  scenario.iterations = 40;
  return scenario;
}

TEST(StragglingRun, WorkerPastTheCacheDropsOut) {
  const RunResult result = run_well(forgetful());
  EXPECT_TRUE(result.workers[1].dropped_out);
  EXPECT_LT(result.workers[1].iterations, 40U);
  EXPECT_EQ(result.workers[0].iterations, 40U);
  EXPECT_EQ(result.iterations.size(), 40U);
}

TEST(StragglingRun, WorkerPastTheCacheMayStopTheRun) {
  Scenario scenario = forgetful();
  scenario.mitigation.on_desynchronised = OnDesynchronised::kStop;
  const auto result = run_scenario(scenario);
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().text.find("worker 1"), std::string::npos) << result.error().text;
  EXPECT_NE(result.error().text.find("desynchronised"), std::string::npos);
}

TEST(StragglingRun, PauseDelaysTheWaitingWorkers) {
  Scenario scenario = small(Backend::kWaitingSwitch);
  const RunResult without = run_well(scenario);
  scenario.straggler.pattern = Straggling::kPause;
  scenario.straggler.pause_at = milliseconds(25);
  scenario.straggler.pause_for = milliseconds(70);
  const RunResult result = run_well(scenario);
  EXPECT_NEAR(in_seconds(result.total - without.total), 0.070, 20e-6);
}

TEST(StragglingRun, FailSlowWorkerSetsThePace) {
  Scenario scenario = small(Backend::kWaitingSwitch);
  const RunResult without = run_well(scenario);
  scenario.straggler.pattern = Straggling::kFailSlow;
  scenario.straggler.factor = 3;
  const RunResult result = run_well(scenario);
  // Thirty instead of ten milliseconds of computation.
  EXPECT_NEAR(in_seconds(result.mean_iteration - without.mean_iteration), 0.020, 5e-6);
}

TEST(StragglingRun, BackgroundFlowTakesItsShareOfTheLink) {
  Scenario scenario = small(Backend::kWaitingSwitch);
  scenario.model.forward = Duration();
  scenario.model.backward = Duration();
  scenario.model.bucket_bytes = {4096 * 4096};
  scenario.window = 1024;
  scenario.iterations = 2;
  const RunResult without = run_well(scenario);
  scenario.straggler.pattern = Straggling::kBackgroundFlow;
  scenario.straggler.worker = 2;
  scenario.straggler.background_share = 0.5;
  const RunResult result = run_well(scenario);
  // Results arrive at the link's rate and the flow at half of it, in one queue. So two thirds of
  // the queue's output are results, and every worker waits for them.
  const double ratio = in_seconds(result.mean_iteration) / in_seconds(without.mean_iteration);
  EXPECT_NEAR(ratio, 1.5, 0.05);
}

TEST(StragglingRun, LimitErrorNamesUnfinishedWorkers) {
  Scenario scenario = small(Backend::kWaitingSwitch);
  scenario.straggler.pattern = Straggling::kFailSlow;
  scenario.straggler.worker = 3;
  scenario.straggler.factor = 1000;
  scenario.limit = milliseconds(500);
  const auto result = run_scenario(scenario);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().text,
            "worker 3 is not done after 0.500 s of virtual time: it computes iteration 0");
}

TEST(StragglingRun, DeadlineErrorNamesTheMissingWorker) {
  Scenario scenario = small(Backend::kTrioMlWait);
  scenario.straggler.pattern = Straggling::kFailSlow;
  scenario.straggler.worker = 3;
  scenario.straggler.factor = 1000;
  scenario.host.deadline = seconds(1);
  scenario.host.retransmission = true;
  const auto result = run_scenario(scenario);
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().text.find("worker "), std::string::npos) << result.error().text;
  EXPECT_NE(result.error().text.find("rank 3 has not contributed"), std::string::npos)
      << result.error().text;
}

// --- Real tensors beside the scenario's ----------------------------------------------------------

/// Each worker contributes its rank + 1 plus the iteration. Checks the means that it gets.
class Exchange final : public TensorExchange {
 public:
  static constexpr size_t kElements = 3000;

  explicit Exchange(uint32_t workers) : tensors_(workers, std::vector<float>(kElements)) {}

  std::span<float> tensor(uint32_t worker, uint32_t iteration, bool computed) override {
    computed_ += computed ? 1 : 0;
    const auto value = static_cast<float>(worker + 1 + iteration);
    std::fill(tensors_[worker].begin(), tensors_[worker].end(), value);
    return tensors_[worker];
  }
  float scale() const override { return 65'536.0F; }
  void reduced(uint32_t worker, uint32_t iteration, const host::Outcome& outcome) override {
    EXPECT_EQ(outcome.status, host::Status::kOk);
    if (!outcome.degraded.empty()) {
      degraded_++;
      return;
    }
    const auto workers = static_cast<float>(tensors_.size());
    const float mean = (workers + 1) / 2 + static_cast<float>(iteration);
    for (const float value : tensors_[worker]) wrong_ += value == mean ? 0 : 1;
  }
  void iteration_ended(uint32_t worker, uint32_t iteration, Instant) override {
    EXPECT_EQ(ended_[worker]++, iteration);
  }

  uint32_t computed_ = 0;
  uint32_t degraded_ = 0;
  uint32_t wrong_ = 0;
  std::map<uint32_t, uint32_t> ended_;

 private:
  std::vector<std::vector<float>> tensors_;
};

TEST(StragglingRun, RealTensorsPassBesideElidedOnes) {
  for (Backend backend : {Backend::kTrioMl, Backend::kWaitingSwitch}) {
    Scenario scenario = small(backend);
    scenario.iterations = 5;
    Exchange exchange(scenario.workers);
    run_well(scenario, &exchange);
    EXPECT_EQ(exchange.wrong_, 0U) << name_of(backend);
    EXPECT_EQ(exchange.degraded_, 0U) << name_of(backend);
    EXPECT_EQ(exchange.computed_, 20U) << name_of(backend);
    for (uint32_t worker = 0; worker < 4; worker++) EXPECT_EQ(exchange.ended_[worker], 5U);
  }
}

}  // namespace
}  // namespace tributary::lab
