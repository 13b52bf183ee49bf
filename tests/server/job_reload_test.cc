// SPDX-License-Identifier: Apache-2.0
// Method: commands are recorded instead of carried out, and refused as the test says. A random walk
//         compares the jobs that then run with those of the file.
#include "server/job_reload.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/prng.h"
#include "tests/support/seed.h"

namespace tributary::server {
namespace {

using trio_ml::JobConfig;

/// Keeps the jobs that an appliance would have.
class RecordedControl final : public JobControl {
 public:
  std::vector<std::string> commands;
  std::map<uint32_t, JobConfig> jobs;
  std::set<uint32_t> drains;
  bool refuses = false;

  [[nodiscard]] std::optional<RunningJob> find_job(uint32_t id) const override {
    if (!jobs.contains(id)) return {};
    return RunningJob{.config = jobs.at(id), .draining = drains.contains(id)};
  }
  JobResult add_job(const JobConfig& job) override {
    commands.push_back(fmt::format("add {}", job.id));
    if (refuses || jobs.contains(job.id)) return refusal(JobFault::kExists);
    jobs[job.id] = job;
    return {};
  }
  JobResult remove_job(uint32_t, bool) override { return refusal(JobFault::kNotAllowed); }
  JobResult drain_job(uint32_t id) override {
    commands.push_back(fmt::format("drain {}", id));
    if (refuses) return refusal(JobFault::kNotAllowed);
    if (jobs.erase(id) == 0) return refusal(JobFault::kUnknownJob);
    return {};
  }
  JobResult change_job(uint32_t id, const JobChange& change) override {
    std::string command = fmt::format("change {}", id);
    if (change.timeout) command += fmt::format(" {}", in_milliseconds(*change.timeout));
    if (change.silence) command += fmt::format(" {}", trio_ml::to_string(*change.silence));
    commands.push_back(command);
    if (refuses) return refusal(JobFault::kNotAllowed);
    jobs.at(id).timeout = change.timeout.value_or(jobs.at(id).timeout);
    jobs.at(id).silence = change.silence.value_or(jobs.at(id).silence);
    return {};
  }
  JobResult evict_source(uint32_t, uint32_t) override { return refusal(JobFault::kNotAllowed); }

 private:
  static JobResult refusal(JobFault fault) { return tl::unexpected<JobError>({fault, "no"}); }
};

JobConfig job(uint8_t id, uint32_t sources = 2, uint32_t timeout_ms = 10) {
  return {.id = id, .sources = sources, .mitigation = true, .timeout = milliseconds(timeout_ms)};
}

std::vector<std::string> commands_of(const std::vector<JobConfig>& before,
                                     const std::vector<JobConfig>& after) {
  RecordedControl control;
  for (const JobConfig& each : before) control.jobs[each.id] = each;
  JobReload(before, control).apply(after);
  return control.commands;
}

std::vector<uint32_t> ids_of(const std::vector<JobReload::Refused>& refused) {
  std::vector<uint32_t> ids;
  for (const auto& each : refused) ids.push_back(each.job);
  return ids;
}

using Commands = std::vector<std::string>;

TEST(JobReload, CarriesOutOnlyTheDifference) {
  EXPECT_EQ(commands_of({job(1), job(2)}, {job(2), job(1)}), Commands{});
  EXPECT_EQ(commands_of({job(1)}, {job(1), job(3)}), Commands{"add 3"});
  EXPECT_EQ(commands_of({job(1), job(2)}, {job(2)}), Commands{"drain 1"});
  EXPECT_EQ(commands_of({job(1)}, {job(1, 2, 40)}), Commands{"change 1 40"});
  EXPECT_EQ(commands_of({job(1), job(2)}, {job(3), job(1, 2, 5)}),
            (Commands{"drain 2", "add 3", "change 1 5"}));
}

TEST(JobReload, LeavesAJobWithOtherKeysAsItIs) {
  RecordedControl control;
  control.jobs[1] = job(1);
  JobReload reload({job(1)}, control);
  const auto counts = reload.apply({job(1, 4, 40)});
  EXPECT_EQ(control.commands, Commands{});
  EXPECT_EQ(ids_of(counts.refused), std::vector<uint32_t>{1});
  EXPECT_THAT(counts.refused[0].error, ::testing::HasSubstr("only timeout_ms"));
  EXPECT_EQ(reload.apply({job(1)}).unchanged, 1U);
}

TEST(JobReload, TriesARefusedCommandAgain) {
  RecordedControl control;
  control.jobs[1] = job(1);
  control.jobs[2] = job(2);
  JobReload reload({job(1), job(2)}, control);
  control.refuses = true;
  EXPECT_EQ(ids_of(reload.apply({job(1, 2, 30), job(3)}).refused),
            (std::vector<uint32_t>{2, 1, 3}));
  control.refuses = false;
  const auto counts = reload.apply({job(1, 2, 30), job(3)});
  EXPECT_TRUE(counts.refused.empty());
  EXPECT_EQ(counts.added + counts.drained + counts.changed, 3U);
}

TEST(JobReload, AddsAJobAgainThatAnOperatorHasRemoved) {
  RecordedControl control;
  control.jobs[2] = job(2);
  JobReload reload({job(1), job(2)}, control);
  EXPECT_EQ(reload.apply({job(1, 4), job(2)}).added, 1U);  // With other keys than before.
  EXPECT_EQ(control.commands, Commands{"add 1"});
  EXPECT_EQ(control.jobs.at(1).sources, 4U);
  control.jobs.clear();
  control.commands.clear();
  EXPECT_EQ(reload.apply({}).drained, 0U);
  EXPECT_EQ(control.commands, Commands{});
}

TEST(JobReload, UndoesAnOperatorsChange) {
  RecordedControl control;
  control.jobs[1] = job(1, 2, 10);
  JobReload reload({job(1, 2, 10)}, control);
  control.jobs[1].timeout = milliseconds(50);
  EXPECT_EQ(reload.apply({job(1, 2, 10)}).changed, 1U);
  EXPECT_EQ(control.commands, Commands{"change 1 10"});
}

TEST(JobReload, LeavesAnOperatorsJobOfTheSameId) {
  RecordedControl control;
  control.jobs[1] = job(1, 8);  // Removed, and added with other sources.
  JobReload reload({job(1, 2)}, control);
  EXPECT_EQ(ids_of(reload.apply({job(1, 2)}).refused), std::vector<uint32_t>{1});
  EXPECT_EQ(reload.apply({}).drained, 0U);
  EXPECT_EQ(control.commands, Commands{"add 1"});  // Refused: it exists.
}

TEST(JobReload, AddsADrainedJobWhenItIsGone) {
  RecordedControl control;
  control.jobs[1] = job(1);
  control.drains.insert(1);
  JobReload reload({job(1)}, control);
  const auto counts = reload.apply({job(1)});
  EXPECT_EQ(ids_of(counts.refused), std::vector<uint32_t>{1});
  EXPECT_THAT(counts.refused[0].error, ::testing::HasSubstr("reload once more"));
  control.jobs.clear();
  control.drains.clear();
  EXPECT_EQ(reload.apply({job(1)}).added, 1U);
}

TEST(JobReload, SaysThatAJobDrainsWhichTheFileHasAgain) {
  RecordedControl control;
  control.jobs[1] = job(1);
  JobReload reload({job(1)}, control);
  EXPECT_EQ(reload.apply({}).drained, 1U);
  control.jobs[1] = job(1);  // Its workers have not left.
  control.drains.insert(1);
  const auto counts = reload.apply({job(1)});
  EXPECT_EQ(ids_of(counts.refused), std::vector<uint32_t>{1});
  EXPECT_THAT(counts.refused[0].error, ::testing::HasSubstr("the job drains"));
  control.jobs.clear();
  control.drains.clear();
  EXPECT_EQ(reload.apply({job(1)}).added, 1U);
}

TEST(JobReload, RandomFilesEndWithTheirJobs) {
  const uint64_t seed = testing::seed_from_env();
  SCOPED_TRACE(testing::replay_hint(seed));
  Prng draws(seed);
  RecordedControl control;
  JobReload reload({}, control);
  for (int step = 0; step < 300; step++) {
    std::vector<JobConfig> wanted;
    for (uint8_t id = 1; id <= 6; id++) {
      if (draws.below(2) == 0) wanted.push_back(job(id, 2, 1 + draws.below(3)));
    }
    const auto counts = reload.apply(wanted);
    EXPECT_TRUE(counts.refused.empty()) << "step " << step;
    ASSERT_EQ(control.jobs.size(), wanted.size()) << "step " << step;
    for (const JobConfig& each : wanted) EXPECT_EQ(control.jobs.at(each.id), each);
  }
}

}  // namespace
}  // namespace tributary::server
