// SPDX-License-Identifier: Apache-2.0
// Method:  a whole appliance in this process and workers over loopback sockets. Each command of an
//          operator, with what its workers are told, and each refusal. Waits only in socket calls
//          and for the thread that removes drained jobs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "host/communicator.h"
#include "server/appliance.h"
#include "tests/support/sanitized.h"

namespace tributary::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

/// Longest wait for anything; only a failure takes this long.
constexpr std::chrono::seconds kPatience{20};

trio_ml::JobConfig small_job(uint8_t id, uint32_t sources = 1) {
  return {.id = id, .sources = sources, .block_cnt_max = 256, .block_grad_max = 8};
}

/// A job of 16 MB, two of which fit into the memory.
trio_ml::JobConfig large_job(uint8_t id) {
  return {.id = id, .sources = 1, .block_cnt_max = 1024, .block_grad_max = 2048};
}

class ApplianceJobs : public ::testing::TestWithParam<uint32_t> {
 protected:
  ApplianceJobs() {
    auto started = Appliance::start({.listen = Endpoint::ipv4(0x7f000001, 0),
                                     .cores = GetParam(),
                                     .memory_mb = 40,
                                     .jobs = {small_job(1)}});
    if (started) {
      appliance_ = *std::move(started);
    } else {
      ADD_FAILURE() << started.error().text;
    }
  }

  [[nodiscard]] host::CommunicatorConfig worker_of(uint8_t job_id) const {
    host::CommunicatorConfig config;
    config.server = appliance_->local();
    config.job_id = job_id;
    config.gradients = 8;
    config.local = host::LocalUse::kOff;
    return config;
  }
  /// Lets the only worker of a job join.
  std::unique_ptr<host::Communicator> join(uint8_t job_id) {
    auto joined = host::Communicator::join(worker_of(job_id));
    if (joined) return *std::move(joined);
    ADD_FAILURE() << joined.error().text;
    return nullptr;
  }
  static host::Outcome reduce(host::Communicator& worker) {
    std::array<int32_t, 1000> tensor{};
    tensor.fill(3);
    const host::Outcome outcome = worker.all_reduce(tensor);
    if (outcome.status == host::Status::kOk) {
      EXPECT_THAT(tensor, ::testing::Each(3));
    }
    return outcome;
  }
  std::vector<uint32_t> job_ids() {
    std::vector<uint32_t> ids;
    for (const JobSnapshot& job : appliance_->snapshot().jobs) ids.push_back(job.config.id);
    return ids;
  }
  static void expect_refused(const JobResult& result, JobFault fault, const std::string& text) {
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_EQ(result.error().fault, fault) << result.error().text;
    EXPECT_THAT(result.error().text, HasSubstr(text));
  }

  std::unique_ptr<Appliance> appliance_;
};

INSTANTIATE_TEST_SUITE_P(Cores, ApplianceJobs, ::testing::Values(1, 2),
                         ::testing::PrintToStringParamName());

TEST_P(ApplianceJobs, AddedJobServesAtOnceAndARemovedOneIsUnknown) {
  ASSERT_TRUE(appliance_->add_job(small_job(9)).has_value());
  EXPECT_THAT(job_ids(), ElementsAre(1, 9));
  auto worker = join(9);
  ASSERT_NE(worker, nullptr);
  EXPECT_EQ(reduce(*worker).status, host::Status::kOk);
  worker.reset();
  // The leaves are on their way.
  const auto deadline = Clock::now() + kPatience;
  while (!appliance_->remove_job(9, /*force=*/false) && Clock::now() < deadline) {
  }
  EXPECT_THAT(job_ids(), ElementsAre(1));
  EXPECT_THAT(host::Communicator::join(worker_of(9)).error().text, HasSubstr("has no job 9"));
  const auto other = join(1);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(reduce(*other).status, host::Status::kOk);
}

TEST_P(ApplianceJobs, RemovedJobsReturnTheirMemory) {
  for (uint32_t i = 0; i < 5; i++) {
    ASSERT_TRUE(appliance_->add_job(large_job(9)).has_value()) << i;
    expect_refused(appliance_->add_job({.id = 10, .block_grad_max = 4095}), JobFault::kNoMemory,
                   "--memory-mb 40 has");
    ASSERT_TRUE(appliance_->remove_job(9, /*force=*/false).has_value()) << i;
  }
  EXPECT_THAT(job_ids(), ElementsAre(1));
}

TEST_P(ApplianceJobs, RefusesJobsThatCannotBeAdded) {
  trio_ml::JobConfig channels = small_job(3);
  channels.channels = 4;
  ASSERT_TRUE(appliance_->add_job(channels).has_value());
  EXPECT_THAT(job_ids(), ElementsAre(1, 3, 4, 5, 6));
  expect_refused(appliance_->add_job(small_job(1)), JobFault::kExists, "job 1 exists already");
  expect_refused(appliance_->add_job(small_job(5)), JobFault::kExists,
                 "job 5 exists already (job 3 with channels=4 takes the ids 3 to 6)");
  channels.id = 0;
  expect_refused(appliance_->add_job(channels), JobFault::kExists,
                 "job 1 exists already (job 0 with channels=4 takes the ids 0 to 3)");
  trio_ml::JobConfig circle = small_job(9);
  circle.upstream = appliance_->local();
  expect_refused(appliance_->add_job(circle), JobFault::kNotAllowed, "is this server");
  EXPECT_THAT(job_ids(), ElementsAre(1, 3, 4, 5, 6));
}

TEST_P(ApplianceJobs, ChannelsGoWithTheirJob) {
  trio_ml::JobConfig channels = small_job(3);
  channels.channels = 2;
  ASSERT_TRUE(appliance_->add_job(channels).has_value());
  expect_refused(appliance_->remove_job(4, /*force=*/true), JobFault::kNotAllowed,
                 "job 4 is a channel of job 3; give the id 3");
  EXPECT_TRUE(appliance_->remove_job(3, /*force=*/false).has_value());
  EXPECT_THAT(job_ids(), ElementsAre(1));
}

TEST_P(ApplianceJobs, CommandsNeedAJobThatExists) {
  for (const uint32_t id : {2U, 255U, 257U, UINT32_MAX}) {
    const std::string text = fmt::format("job {} does not exist; jobs: 1", id);
    expect_refused(appliance_->remove_job(id, false), JobFault::kUnknownJob, text);
    expect_refused(appliance_->drain_job(id), JobFault::kUnknownJob, text);
    expect_refused(appliance_->change_job(id, {.timeout = milliseconds(5)}), JobFault::kUnknownJob,
                   text);
    expect_refused(appliance_->evict_source(id, 0), JobFault::kUnknownJob, text);
  }
}

TEST_P(ApplianceJobs, JobInUseGoesOnlyByForceAndItsWorkerLearnsIt) {
  ASSERT_TRUE(appliance_->add_job(small_job(9)).has_value());
  const auto worker = join(9);
  ASSERT_NE(worker, nullptr);
  EXPECT_EQ(reduce(*worker).status, host::Status::kOk);
  expect_refused(appliance_->remove_job(9, /*force=*/false), JobFault::kInUse, "job 9 is in use");
  EXPECT_EQ(reduce(*worker).status, host::Status::kOk);
  ASSERT_TRUE(appliance_->remove_job(9, /*force=*/true).has_value());
  const host::Outcome outcome = reduce(*worker);
  EXPECT_EQ(outcome.status, host::Status::kAggregatorGone);
  EXPECT_THAT(outcome.text, HasSubstr("job 9 was removed from aggregator 127.0.0.1:"));
}

TEST_P(ApplianceJobs, DrainedJobGoesWhenItsWorkersHaveLeft) {
  ASSERT_TRUE(appliance_->add_job(small_job(9)).has_value());
  auto worker = join(9);
  ASSERT_NE(worker, nullptr);
  ASSERT_TRUE(appliance_->drain_job(9).has_value());
  ASSERT_TRUE(appliance_->drain_job(9).has_value());  // Once more has no further effect.
  const Snapshot drains = appliance_->snapshot();
  ASSERT_EQ(drains.jobs.size(), 2U);
  EXPECT_TRUE(drains.jobs[1].draining);
  EXPECT_EQ(reduce(*worker).status, host::Status::kOk);
  EXPECT_THAT(host::Communicator::join(worker_of(9)).error().text,
              HasSubstr("job 9 was removed from aggregator"));
  EXPECT_EQ(reduce(*worker).status, host::Status::kOk);
  worker.reset();
  const auto deadline = Clock::now() + kPatience;
  while (job_ids().size() > 1 && Clock::now() < deadline) {
  }
  EXPECT_THAT(job_ids(), ElementsAre(1));
  EXPECT_TRUE(appliance_->add_job(small_job(9)).has_value());
}

TEST_P(ApplianceJobs, UnusedJobIsDrainedAtOnce) {
  ASSERT_TRUE(appliance_->drain_job(1).has_value());
  EXPECT_TRUE(job_ids().empty());
  expect_refused(appliance_->drain_job(1), JobFault::kUnknownJob, "jobs: none");
  ASSERT_TRUE(appliance_->add_job(small_job(1)).has_value());
  const auto other = join(1);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(reduce(*other).status, host::Status::kOk);
}

TEST_P(ApplianceJobs, TimeoutOfAJobWithMitigationChanges) {
  trio_ml::JobConfig job = small_job(9);
  job.mitigation = true;
  ASSERT_TRUE(appliance_->add_job(job).has_value());
  ASSERT_TRUE(appliance_->change_job(9, {.timeout = milliseconds(70)}).has_value());
  const Snapshot changed = appliance_->snapshot();
  ASSERT_EQ(changed.jobs.size(), 2U);
  EXPECT_EQ(changed.jobs[1].config.timeout, milliseconds(70));
  const auto worker = join(9);
  ASSERT_NE(worker, nullptr);
  EXPECT_EQ(worker->straggler_timeout(), milliseconds(70));
  EXPECT_EQ(reduce(*worker).status, host::Status::kOk);
  const JobChange both{.timeout = milliseconds(70), .silence = trio_ml::Silence::kWait};
  expect_refused(appliance_->change_job(1, both), JobFault::kNotAllowed,
                 "job 1: timeout_ms needs mitigation=on");
  EXPECT_NE(appliance_->find_job(1)->config.silence, trio_ml::Silence::kWait);
  EXPECT_EQ(appliance_->find_job(9)->config.timeout, milliseconds(70));
  EXPECT_FALSE(appliance_->find_job(2).has_value());
}

TEST_P(ApplianceJobs, EvictedWorkerLearnsIt) {
  expect_refused(appliance_->evict_source(1, 1), JobFault::kUnknownSource,
                 "job 1 has no source 1; its sources are 0 to 0");
  expect_refused(appliance_->evict_source(1, 0), JobFault::kUnknownSource,
                 "job 1: source 0 has not joined, or has left");
  const auto worker = join(1);
  ASSERT_NE(worker, nullptr);
  EXPECT_EQ(reduce(*worker).status, host::Status::kOk);
  ASSERT_TRUE(appliance_->evict_source(1, 0).has_value());
  const host::Outcome outcome = reduce(*worker);
  EXPECT_EQ(outcome.status, host::Status::kSessionLost);
  EXPECT_THAT(outcome.text, HasSubstr("rank 0 was removed from job 1 by the operator"));
  const auto other = join(1);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(reduce(*other).status, host::Status::kOk);
}

TEST_P(ApplianceJobs, ServerThatHasStoppedTakesNoCommands) {
  appliance_->stop();
  expect_refused(appliance_->add_job(small_job(9)), JobFault::kEnding, "the server ends");
  expect_refused(appliance_->remove_job(1, true), JobFault::kEnding, "the server ends");
  EXPECT_THAT(job_ids(), ElementsAre(1));
}

TEST_P(ApplianceJobs, ServerMayStopWhileAJobDrains) {
  const auto worker = join(1);
  ASSERT_NE(worker, nullptr);
  ASSERT_TRUE(appliance_->drain_job(1).has_value());
  appliance_->stop();
  EXPECT_THAT(job_ids(), ElementsAre(1));
}

// Several threads change jobs and read the state while a worker reduces.
TEST_P(ApplianceJobs, CommandsFromSeveralThreadsTakeTurns) {
  constexpr uint32_t kRounds = testing::kIsSanitized ? 10 : 50;
  const auto worker = join(1);
  ASSERT_NE(worker, nullptr);
  std::atomic<uint32_t> failures{0};
  std::vector<std::thread> operators;
  for (uint8_t id = 10; id < 13; id++) {
    operators.emplace_back([this, id, &failures] {
      for (uint32_t i = 0; i < kRounds; i++) {
        if (!appliance_->add_job(small_job(id))) failures++;
        if (appliance_->snapshot().jobs.empty()) failures++;
        if (!(i % 2 == 0 ? appliance_->remove_job(id, false) : appliance_->drain_job(id))) {
          failures++;
        }
      }
    });
  }
  for (uint32_t i = 0; i < kRounds; i++) EXPECT_EQ(reduce(*worker).status, host::Status::kOk);
  for (std::thread& each : operators) each.join();
  EXPECT_EQ(failures.load(), 0U);
  EXPECT_THAT(job_ids(), ElementsAre(1));
}

}  // namespace
}  // namespace tributary::server
