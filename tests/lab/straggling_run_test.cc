// SPDX-License-Identifier: Apache-2.0
// Method: the effect of each straggler pattern on a run. The expected time comes from the pattern
// itself if every block waits for all workers, and from the timeouts if not.
#include <gmock/gmock.h>
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

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::four_workers;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run_well;
using ::testing::StartsWith;

TEST(StragglingRun, WaitingSwitchWaitsForTheSlowestWorker) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
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
  const auto pattern = *make_pattern(Straggling::kSlowWorker, scenario, result.typical_iteration);
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

TEST(StragglingRun, QuorumDoesNotWaitForTheSlowestWorker) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  scenario.payload = Payload::kReal;
  const RunResult calm = run_well(scenario);
  scenario.straggler.pattern = Straggling::kFailSlow;
  scenario.straggler.factor = 3;
  scenario.straggler.worker = 1;
  const RunResult waiting = run_well(scenario);
  scenario.mitigation.quorum = 3;
  const RunResult result = run_well(scenario);
  EXPECT_GT(waiting.mean_iteration, milliseconds(30));
  EXPECT_NEAR(as_us(result.mean_iteration), as_us(calm.mean_iteration), 10);
  EXPECT_EQ(result.wrong_sums, 0U);
  EXPECT_EQ(result.degraded_blocks, result.blocks);
  // The slow worker never ends a computation in time: it skips, and receives every sum.
  EXPECT_EQ(result.workers[1].contributions, result.workers[1].contributions_lost);
  EXPECT_EQ(result.workers[1].iterations, scenario.iterations);
  EXPECT_EQ(result.missed_fraction(), 0);
}

TEST(StragglingRun, QuorumSumsAreExactOverBadLinks) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  scenario.payload = Payload::kReal;
  scenario.iterations = 5;
  scenario.mitigation.quorum = 3;
  scenario.host.retransmission = true;
  scenario.link.faults = {.loss = 0.02, .duplicate = 0.02, .reorder_max = microseconds(50)};
  scenario.straggler.pattern = Straggling::kSlowWorker;
  scenario.straggler.probability = 0.3;
  const RunResult result = run_well(scenario);
  EXPECT_GT(result.checked_sums, 0U);
  EXPECT_EQ(result.wrong_sums, 0U);
  EXPECT_GT(result.degraded_blocks, 0U);
  for (const WorkerResult& worker : result.workers) EXPECT_EQ(worker.iterations, 5U);
  EXPECT_EQ(run_well(scenario).digest, result.digest);
}

TEST(StragglingRun, QuorumCompletesWithoutAnAbsentWorker) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  scenario.iterations = 2;
  scenario.straggler.pattern = Straggling::kAbsent;
  scenario.mitigation.quorum = 3;
  const RunResult result = run_well(scenario);
  EXPECT_EQ(result.degraded_blocks, result.blocks);
}

TEST(StragglingRun, BoundedTimeOutIsTheMostThatAStragglerCosts) {
  Scenario scenario = four_workers(Backend::kOptireduce);
  scenario.payload = Payload::kReal;
  scenario.window = 1024;  // Every block of an iteration is in flight at once.
  scenario.mitigation.history = 8;
  scenario.mitigation.timeout = milliseconds(2);
  const RunResult calm = run_well(scenario);
  EXPECT_EQ(calm.degraded_blocks, 0U);
  scenario.straggler.pattern = Straggling::kAbsent;
  const RunResult result = run_well(scenario);
  EXPECT_EQ(result.wrong_sums, 0U);
  EXPECT_EQ(result.degraded_blocks, result.blocks);
  EXPECT_LE(result.mean_iteration, calm.mean_iteration + milliseconds(2));
  EXPECT_GT(result.mean_iteration, calm.mean_iteration + milliseconds(1));
}

TEST(StragglingRun, LocalStepsExchangeOnceInSoMany) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  const RunResult each = run_well(scenario);
  scenario.model.local_steps = 4;
  const RunResult some = run_well(scenario);
  // 10 ms of computation; the time beyond them is communication.
  const Duration beyond = each.total - milliseconds(10) * 20;
  EXPECT_NEAR(as_us(some.total), as_us(milliseconds(10) * 20 + beyond / 4), 1);
  EXPECT_EQ(some.blocks * 4, each.blocks);
  EXPECT_EQ(some.iterations.size(), 20U);
  EXPECT_EQ(some.degraded_blocks, 0U);
  EXPECT_EQ(run_well(scenario).digest, some.digest);
}

TEST(StragglingRun, LocalStepsHideSleepsOfDifferentWorkers) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  scenario.straggler.pattern = Straggling::kSlowWorker;
  scenario.straggler.probability = 0.4;
  scenario.straggler.typical_iteration = milliseconds(10);
  const RunResult each = run_well(scenario);
  scenario.model.local_steps = 4;
  const RunResult some = run_well(scenario);
  EXPECT_LT(some.total, each.total);
}

TEST(StragglingRun, IdealBackEndHasNoStragglers) {
  Scenario scenario = four_workers(Backend::kIdeal);
  scenario.straggler.pattern = Straggling::kSlowWorker;
  scenario.straggler.probability = 1;
  const RunResult result = run_well(scenario);
  for (const WorkerResult& worker : result.workers) EXPECT_EQ(worker.slept, Duration());
}

TEST(StragglingRun, MitigationBoundsEveryBlock) {
  Scenario scenario = four_workers(Backend::kTrioMl);
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
    Scenario scenario = four_workers(Backend::kTrioMl);
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
    // A worker that skips sends nothing that comes too late.
    if (catch_up == CatchUp::kSkip) {
      EXPECT_GT(result.skipped_blocks, 0U);
      EXPECT_EQ(result.skipped_blocks, result.degraded_blocks);
    } else {
      EXPECT_GT(lost, 0U);
      EXPECT_EQ(result.skipped_blocks, 0U);
    }
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

/// Each worker contributes a power of two that names it, so that a sum names its contributors. The
/// tensors of workers that did not compute hold a value that would spoil every sum.
class NamingExchange final : public TensorExchange {
 public:
  explicit NamingExchange(uint32_t workers) : tensors_(workers) {}
  std::span<float> tensor(uint32_t worker, uint32_t iteration, bool computed) override {
    if (computed) computed_[iteration] |= 1U << worker;
    tensors_[worker] = {computed ? static_cast<float>(1U << worker) : 1000.0F};
    return tensors_[worker];
  }
  [[nodiscard]] host::ReduceOp op() const override { return host::ReduceOp::kSum; }
  [[nodiscard]] float scale() const override { return 1; }
  void reduced(uint32_t worker, uint32_t iteration, const host::Outcome& outcome) override {
    EXPECT_EQ(outcome.status, host::Status::kOk);
    const auto contributors = static_cast<uint32_t>(tensors_[worker][0]);
    const auto [known, is_new] = contributors_.try_emplace(iteration, contributors);
    EXPECT_EQ(known->second, contributors) << "iteration " << iteration << ", worker " << worker;
  }
  void iteration_ended(uint32_t, uint32_t, Instant) override {}

  /// By iteration: bit w for worker w.
  [[nodiscard]] const std::map<uint32_t, uint32_t>& computed() const { return computed_; }
  [[nodiscard]] const std::map<uint32_t, uint32_t>& contributors() const { return contributors_; }

 private:
  std::vector<std::vector<float>> tensors_;
  std::map<uint32_t, uint32_t> computed_;
  std::map<uint32_t, uint32_t> contributors_;
};

struct LeavingOut {
  Backend backend;
  CatchUp catch_up;
  uint32_t quorum = 0;
};

TEST(StragglingRun, OnlyComputedGradientsAreAdded) {
  for (const auto& [backend, catch_up, quorum] :
       {LeavingOut{Backend::kTrioMl, CatchUp::kSkip},
        LeavingOut{Backend::kTrioMl, CatchUp::kCompute},
        LeavingOut{Backend::kWaitingSwitch, CatchUp::kSkip, 3},
        LeavingOut{Backend::kWaitingSwitch, CatchUp::kCompute, 2},
        LeavingOut{Backend::kOptireduce, CatchUp::kSkip}}) {
    Scenario scenario = four_workers(backend);
    scenario.mitigation.catch_up = catch_up;
    scenario.mitigation.quorum = quorum;
    scenario.mitigation.timeout = milliseconds(2);
    scenario.model.forward = milliseconds(30);
    scenario.model.backward = milliseconds(70);
    scenario.straggler.pattern = Straggling::kSlowWorker;
    scenario.straggler.probability = 0.2;
    NamingExchange exchange(scenario.workers);
    const auto ran = run_scenario(scenario, &exchange);
    ASSERT_TRUE(ran) << name_of(backend) << ": " << ran.error().text;
    uint32_t lacking = 0;
    for (const auto& [iteration, contributors] : exchange.contributors()) {
      const uint32_t computed = exchange.computed().at(iteration);
      // Each contributor has computed. A worker that came too late has computed, too.
      EXPECT_EQ(contributors & ~computed, 0U) << "iteration " << iteration;
      lacking += contributors + 1 != 1U << scenario.workers ? 1 : 0;
    }
    EXPECT_GT(lacking, 0U);
  }
}

TEST(StragglingRun, TreeExpiresItsStraggler) {
  Scenario scenario = four_workers(Backend::kTrioMl);
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

// The results of the other rack reach the late one, so its workers learn that they are late.
TEST(StragglingRun, LateRackSkipsAsALateWorkerDoes) {
  Scenario scenario = four_workers(Backend::kTrioMl);
  scenario.topology = Topology::kChassis;
  scenario.mitigation.timeout = milliseconds(2);
  scenario.straggler.pattern = Straggling::kPause;
  scenario.straggler.racks = {1};
  scenario.straggler.pause_at = milliseconds(55);
  scenario.straggler.pause_for = milliseconds(300);
  scenario.payload = Payload::kReal;
  const RunResult result = run_well(scenario);
  EXPECT_EQ(result.wrong_sums, 0U);
  EXPECT_GT(result.degraded_blocks, 0U);
  EXPECT_GT(result.skipped_blocks, 0U);
  EXPECT_EQ(result.workers[0].iterations_skipped, 0U);
  EXPECT_GT(result.workers[1].iterations_skipped + result.workers[3].iterations_skipped, 0U);
}

// Whether the worker then skips computation or not, and whether it computed or waited before.
TEST(StragglingRun, StandstillCountsAsSlept) {
  for (const Backend backend : {Backend::kTrioMl, Backend::kWaitingSwitch, Backend::kRing}) {
    for (const int64_t at_ms : {50, 55, 58}) {
      Scenario scenario = four_workers(backend);
      scenario.straggler.pattern = Straggling::kPause;
      scenario.straggler.pause_at = milliseconds(at_ms);
      scenario.straggler.pause_for = milliseconds(70);
      const RunResult result = run_well(scenario);
      const WorkerResult& paused = result.workers[0];
      EXPECT_EQ(paused.slept, milliseconds(70));
      EXPECT_GE(paused.waited, Duration());
      EXPECT_LE(paused.computed, milliseconds(10) * (20 - int64_t{paused.iterations_skipped} + 1));
      EXPECT_EQ(result.workers[1].slept, Duration());
    }
  }
}

TEST(StragglingRun, PauseDelaysTheWaitingWorkers) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  const RunResult without = run_well(scenario);
  scenario.straggler.pattern = Straggling::kPause;
  scenario.straggler.pause_at = milliseconds(25);
  scenario.straggler.pause_for = milliseconds(70);
  const RunResult result = run_well(scenario);
  EXPECT_NEAR(in_seconds(result.total - without.total), 0.070, 20e-6);
  EXPECT_THAT(result.warnings, IsEmpty());

  scenario.straggler.pause_at = without.total;
  const RunResult unaffected = run_well(scenario);
  EXPECT_EQ(unaffected.total, without.total);
  EXPECT_THAT(unaffected.warnings,
              ElementsAre(AllOf(StartsWith("the pause at "), HasSubstr(" ms never began: "))));
}

TEST(StragglingRun, FailSlowWorkerSetsThePace) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  const RunResult without = run_well(scenario);
  scenario.straggler.pattern = Straggling::kFailSlow;
  scenario.straggler.factor = 3;
  const RunResult result = run_well(scenario);
  // Thirty instead of ten milliseconds of computation.
  EXPECT_NEAR(in_seconds(result.mean_iteration - without.mean_iteration), 0.020, 5e-6);
}

TEST(StragglingRun, BackgroundFlowTakesItsShareOfTheLink) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  // Results arrive at the link's rate and the flow at half of it, in one queue. So two thirds of
  // the queue's output are results, and every worker waits for them.
  const double one = testing::slowdown_by_background(scenario);
  EXPECT_NEAR(one, 1.5, 0.05);

  // The links of two workers at the same time cost no more.
  scenario.straggler.workers = {0, 2};
  EXPECT_NEAR(testing::slowdown_by_background(scenario) / one, 1, 0.05);
}

TEST(StragglingRun, LimitErrorNamesUnfinishedWorkers) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  scenario.straggler.pattern = Straggling::kFailSlow;
  scenario.straggler.worker = 3;
  scenario.straggler.factor = 1000;
  scenario.limit = milliseconds(500);
  const auto result = run_scenario(scenario);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().text,
            "worker 3 is not done after 0.500 s of virtual time: it computes iteration 0; limit_s "
            "sets another limit");
}

TEST(StragglingRun, DeadlineErrorNamesTheMissingWorker) {
  Scenario scenario = four_workers(Backend::kTrioMlWait);
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
  void apply_alone(uint32_t, uint32_t iteration) override { alone_[iteration]++; }
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
  [[nodiscard]] bool is_last(uint32_t iteration) const override { return iteration == last_; }

  uint32_t last_ = UINT32_MAX;
  uint32_t computed_ = 0;
  uint32_t degraded_ = 0;
  uint32_t wrong_ = 0;
  std::map<uint32_t, uint32_t> ended_;
  std::map<uint32_t, uint32_t> alone_;  ///< By iteration: workers that applied their own gradients.

 private:
  std::vector<std::vector<float>> tensors_;
};

TEST(StragglingRun, RealTensorsPassBesideElidedOnes) {
  for (Backend backend : {Backend::kTrioMl, Backend::kWaitingSwitch, Backend::kRing}) {
    Scenario scenario = four_workers(backend);
    scenario.iterations = 5;
    Exchange exchange(scenario.workers);
    run_well(scenario, &exchange);
    EXPECT_EQ(exchange.wrong_, 0U) << name_of(backend);
    EXPECT_EQ(exchange.degraded_, 0U) << name_of(backend);
    EXPECT_EQ(exchange.computed_, 20U) << name_of(backend);
    for (uint32_t worker = 0; worker < 4; worker++) EXPECT_EQ(exchange.ended_[worker], 5U);
  }
}

TEST(StragglingRun, TensorsMayEndTheRun) {
  Scenario scenario = four_workers(Backend::kTrioMl);
  scenario.iterations = 8;
  const RunResult whole = run_well(scenario);
  Exchange exchange(scenario.workers);
  exchange.last_ = 4;
  const RunResult result = run_well(scenario, &exchange);
  ASSERT_EQ(result.iterations.size(), 5U);
  EXPECT_LT(result.total, whole.total);
  Duration sum;
  for (const Duration iteration : result.iterations) sum += iteration;
  EXPECT_EQ(result.mean_iteration, sum / 5);
  for (const WorkerResult& worker : result.workers) EXPECT_EQ(worker.iterations, 5U);
}

TEST(StragglingRun, LocalStepsApplyGradientsAlone) {
  Scenario scenario = four_workers(Backend::kWaitingSwitch);
  scenario.iterations = 6;
  scenario.model.local_steps = 3;
  Exchange exchange(scenario.workers);
  run_well(scenario, &exchange);
  EXPECT_EQ(exchange.alone_, (std::map<uint32_t, uint32_t>{{0, 4}, {1, 4}, {3, 4}, {4, 4}}));
  EXPECT_EQ(exchange.computed_, 2U * 4);  // Iterations 2 and 5.
  EXPECT_EQ(exchange.wrong_, 0U);
  for (uint32_t worker = 0; worker < 4; worker++) EXPECT_EQ(exchange.ended_[worker], 6U);
}

}  // namespace
}  // namespace tributary::lab
