// SPDX-License-Identifier: Apache-2.0
// Method: two jobs by hand, on separate links and on one link. Then the promises: exact sums in
// every job, no effect of one job's stragglers on another, and the same run in any order and on any
// number of threads.
#include "lab/shared_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lab/run.h"
#include "tests/lab/run_bed.h"

namespace tributary::lab {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBlockBytes = 4096;
constexpr uint64_t kBlocks = 256;

/// A job that only communicates: one bucket, three iterations.
SharedJob job_of(const std::string& name, Backend backend, std::vector<uint32_t> hosts) {
  SharedJob job;
  job.name = name;
  job.scenario.backend = backend;
  job.scenario.workers = static_cast<uint32_t>(hosts.size());
  job.scenario.iterations = 3;
  job.scenario.window = 256;
  job.scenario.mitigation.history = 8;
  job.scenario.model = {.kind = Model::kCustom, .bucket_bytes = {kBlockBytes * kBlocks}};
  job.hosts = std::move(hosts);
  return job;
}

SharedScenario star_of(uint32_t hosts, std::vector<SharedJob> jobs) {
  SharedScenario scenario;
  scenario.network.workers = hosts;
  scenario.jobs = std::move(jobs);
  return scenario;
}

SharedResult run_well(const SharedScenario& scenario, const SharedRunOptions& options = {}) {
  auto result = run_shared(scenario, options);
  if (!result) {
    ADD_FAILURE() << result.error().text;
    return {};
  }
  return *std::move(result);
}

std::string error_of(const SharedScenario& scenario) {
  const auto result = run_shared(scenario);
  return result ? "accepted" : result.error().text;
}

/// Two leaves with two hosts each, joined by one spine. Every cable has 100 Gbit/s.
SharedScenario two_leaves(std::vector<SharedJob> jobs) {
  SharedScenario scenario = star_of(4, std::move(jobs));
  scenario.network.topology = Topology::kLeafSpine;
  scenario.network.spines = 1;
  scenario.network.fabric.rate_bits_per_s = scenario.network.link.rate_bits_per_s;
  return scenario;
}

// --- By hand -------------------------------------------------------------------------------------

/// A job's place among the aggregator's jobs decides on the buckets and banks of its records, so a
/// Trio-ML job alone and beside another one differ by this much.
constexpr double kPlacement = 0.005;

TEST(SharedRun, JobsOnSeparateLinksTakeTheirTimeAlone) {
  for (const Backend other : {Backend::kRing, Backend::kTrioMl, Backend::kPsColocated}) {
    const SharedScenario scenario =
        star_of(4, {job_of("a", Backend::kRing, {0, 1}), job_of("b", other, {2, 3})});
    const SharedResult both = run_well(scenario);
    for (size_t i = 0; i < 2; i++) {
      const SharedResult alone = run_well(scenario.alone(i));
      EXPECT_EQ(both.jobs[i].alone, alone.jobs[0].run.mean_iteration);
      if (i == 1 && other == Backend::kTrioMl) {
        EXPECT_NEAR(*both.jobs[i].slowdown(), 1.0, kPlacement);
        continue;
      }
      EXPECT_EQ(both.jobs[i].run.iterations, alone.jobs[0].run.iterations) << name_of(other);
      EXPECT_EQ(both.jobs[i].slowdown(), 1.0);
    }
  }
}

TEST(SharedRun, JobsOnOneLinkShareItsRate) {
  // Both rings cross the cables between leaves and spine.
  const SharedResult both = run_well(
      two_leaves({job_of("a", Backend::kRing, {0, 2}), job_of("b", Backend::kRing, {1, 3})}));
  // In a ring of two, a rank sends its neighbour the whole tensor. A packet has 12 bytes of head
  // and 66 around it: (4096 + 12 + 66) x 8 / 100 = 333.92 ns.
  const double least_s = in_seconds(picoseconds(333'920)) * kBlocks;
  for (const JobResult& job : both.jobs) {
    ASSERT_TRUE(job.alone);
    EXPECT_GE(in_seconds(*job.alone), least_s);
    EXPECT_LE(in_seconds(*job.alone), least_s * 1.3);
    EXPECT_GE(in_seconds(job.run.mean_iteration), least_s * 1.8);
    EXPECT_LE(in_seconds(job.run.mean_iteration), least_s * 2.4);
    EXPECT_NEAR(*job.slowdown(), 2, 0.2);
  }
}

TEST(SharedRun, LinkOfTwiceTheRateHasRoomForBoth) {
  SharedScenario scenario =
      two_leaves({job_of("a", Backend::kRing, {0, 2}), job_of("b", Backend::kRing, {1, 3})});
  scenario.network.fabric.rate_bits_per_s *= 2;
  for (const JobResult& job : run_well(scenario).jobs) EXPECT_NEAR(*job.slowdown(), 1, 0.1);
}

TEST(SharedRun, JobOnAllHostsRunsAsItDoesWithoutTheOthers) {
  SharedJob job = job_of("only", Backend::kTrioMl, {0, 1, 2, 3});
  job.scenario.seed = 7;
  SharedScenario scenario = star_of(4, {job});
  scenario.network.seed = 7;
  const SharedResult shared = run_well(scenario, {.alone = false});
  const RunResult plain = testing::run_well(job.scenario);
  EXPECT_EQ(shared.digest, plain.digest);
  EXPECT_EQ(shared.jobs[0].run.iterations, plain.iterations);
  EXPECT_FALSE(shared.jobs[0].slowdown());
}

TEST(SharedRun, LaterJobLeavesTheFirstIterationsAlone) {
  SharedScenario scenario =
      two_leaves({job_of("a", Backend::kRing, {0, 2}), job_of("b", Backend::kRing, {1, 3})});
  scenario.jobs[0].scenario.iterations = 20;
  scenario.jobs[1].start = microseconds(500);
  const SharedResult both = run_well(scenario);
  EXPECT_EQ(both.jobs[0].began_at, Duration());
  EXPECT_GE(both.jobs[1].began_at, microseconds(500));
  const SharedResult alone = run_well(scenario.alone(0));
  // An iteration takes about 0.1 ms: the first three end before b begins.
  for (size_t i = 0; i < 3; i++) {
    EXPECT_EQ(both.jobs[0].run.iterations[i], alone.jobs[0].run.iterations[i]) << i;
  }
  EXPECT_GT(both.jobs[0].run.iterations[7], alone.jobs[0].run.iterations[7]);
}

// --- Promises ------------------------------------------------------------------------------------

/// Two jobs on the modelled PFEs and one ring, with real gradients.
SharedScenario three_jobs(Topology topology) {
  SharedScenario scenario = star_of(
      8, {job_of("a", Backend::kTrioMl, {0, 1, 4}), job_of("b", Backend::kTrioMlWait, {2, 6}),
          job_of("c", Backend::kRing, {3, 5, 7})});
  scenario.network.topology = topology;
  for (SharedJob& job : scenario.jobs) {
    job.scenario.payload = Payload::kReal;
    job.scenario.model.bucket_bytes = {kBlockBytes * 40, kBlockBytes * 3 + 4};
    job.scenario.seed = 3;
  }
  return scenario;
}

TEST(SharedRun, EveryJobGetsItsOwnSums) {
  for (const Topology topology :
       {Topology::kStar, Topology::kChassis, Topology::kTwoLevel, Topology::kLeafSpine}) {
    const SharedResult result = run_well(three_jobs(topology));
    ASSERT_EQ(result.jobs.size(), 3U);
    for (const JobResult& job : result.jobs) {
      // Each worker checks every element in each of three iterations.
      const uint64_t elements = 1024 * 43 + 1;
      EXPECT_EQ(job.run.checked_sums, elements * job.run.workers.size() * 3) << job.name;
      EXPECT_EQ(job.run.wrong_sums, 0U) << job.name;
      EXPECT_EQ(job.run.degraded_blocks, 0U) << job.name;
      EXPECT_GE(job.run.mean_iteration, *job.alone) << job.name;
    }
  }
}

TEST(SharedRun, JobInsideOneRackNeedsNoTop) {
  SharedScenario scenario =
      star_of(4, {job_of("a", Backend::kTrioMl, {0, 1}), job_of("b", Backend::kTrioMl, {2, 3})});
  scenario.network.topology = Topology::kTwoLevel;
  const SharedResult result = run_well(scenario);
  for (const LinkResult& link : result.links) {
    if (link.name.find("top") == std::string::npos) continue;
    EXPECT_EQ(link.packets, 0U) << link.name;
  }
  for (const JobResult& job : result.jobs) EXPECT_NEAR(*job.slowdown(), 1.0, kPlacement);
}

TEST(SharedRun, StragglersDegradeTheirOwnJobOnly) {
  SharedScenario scenario = star_of(
      6, {job_of("a", Backend::kTrioMl, {0, 1, 2}), job_of("b", Backend::kTrioMl, {3, 4, 5})});
  scenario.jobs[1].scenario.straggler.pattern = Straggling::kAbsent;
  scenario.jobs[1].scenario.straggler.worker = 2;
  const SharedResult result = run_well(scenario);
  EXPECT_EQ(result.jobs[0].run.degraded_blocks, 0U);
  EXPECT_EQ(result.jobs[1].run.degraded_blocks, result.jobs[1].run.blocks);
  EXPECT_GT(result.jobs[1].run.blocks, 0U);
}

TEST(SharedRun, EveryBackEndThatSharesRunsBesideAnother) {
  uint32_t shared = 0;
  for (const Choice& choice : backends()) {
    const auto backend = static_cast<Backend>(&choice - backends().data());
    SharedScenario scenario =
        star_of(5, {job_of("a", Backend::kTrioMl, {0, 3}), job_of("b", backend, {1, 2, 4})});
    if (!check(scenario)) continue;  // It cannot share.
    shared++;
    for (SharedJob& job : scenario.jobs) {
      job.scenario.payload = Payload::kReal;
      job.scenario.model.bucket_bytes = {kBlockBytes * 20};
    }
    const SharedResult result = run_well(scenario);
    for (const JobResult& job : result.jobs) {
      EXPECT_GT(job.run.checked_sums, 0U) << choice.name;
      EXPECT_EQ(job.run.wrong_sums, 0U) << choice.name;
    }
  }
  EXPECT_EQ(shared, 7U);  // As docs/experiments.md lists them.
}

TEST(SharedRun, DigestDependsOnTheScenarioAlone) {
  SharedScenario scenario = three_jobs(Topology::kLeafSpine);
  scenario.jobs[0].scenario.straggler.pattern = Straggling::kSlowWorker;
  scenario.jobs[0].scenario.straggler.probability = 0.5;
  const SharedResult one = run_well(scenario, {.threads = 1});
  const SharedResult two = run_well(scenario, {.threads = 2});
  EXPECT_EQ(one.digest, two.digest);
  for (size_t i = 0; i < one.jobs.size(); i++) {
    EXPECT_EQ(one.jobs[i].alone, two.jobs[i].alone);
    EXPECT_EQ(one.jobs[i].run.iterations, two.jobs[i].run.iterations);
  }
  scenario.jobs[0].scenario.seed++;
  EXPECT_NE(run_well(scenario).digest, one.digest);
}

// --- Refusals and errors -------------------------------------------------------------------------

TEST(SharedRun, RefusesBadJobs) {
  const SharedScenario good =
      star_of(4, {job_of("a", Backend::kTrioMl, {0, 1}), job_of("b", Backend::kRing, {2, 3})});
  SharedScenario bad = good;
  bad.jobs[1].hosts = {1, 3};
  EXPECT_EQ(error_of(bad),
            "job 'b': hosts=1 is not allowed; allowed: hosts without a worker; 'a' has this one");
  bad = good;
  bad.jobs[1].hosts = {2, 4};
  EXPECT_EQ(error_of(bad), "job 'b': hosts=4 is not allowed; allowed: 0 to 3");
  bad = good;
  bad.jobs[1].scenario.workers = 3;
  EXPECT_EQ(error_of(bad),
            "job 'b': workers=3 is not allowed; allowed: 2, the number of its hosts");
  bad = good;
  bad.jobs[1].name = "a";
  EXPECT_EQ(error_of(bad), "job 'a': name='a' is not allowed; allowed: a name once");
  bad.jobs[1].name = "B.1";
  EXPECT_THAT(error_of(bad), HasSubstr("allowed: 1 to 32 lower-case letters, digits and dashes"));
  bad = good;
  bad.jobs[0].scenario.backend = Backend::kSwitchml64;
  EXPECT_THAT(error_of(bad), HasSubstr("job 'a': backend=switchml-64 is not allowed; allowed: "
                                       "trio-ml, trio-ml-wait, ps-dedicated"));
  bad = good;
  bad.jobs[0].start = Duration::from_ticks(-1);
  EXPECT_THAT(error_of(bad), HasSubstr("job 'a': start_ms"));
  bad = good;
  bad.jobs.clear();
  EXPECT_EQ(error_of(bad), "0 jobs are not allowed; allowed: 1 to 32");
  bad = good;
  bad.network.topology = Topology::kTwoLevel;
  bad.network.leaves = 3;
  EXPECT_EQ(error_of(bad), "leaves=3 is not allowed; allowed: a number that divides workers=4");
  bad = good;
  bad.jobs[0].scenario.window = 65'536;
  bad.jobs[0].scenario.mitigation.history = 64;
  EXPECT_THAT(error_of(bad), HasSubstr("job 'a': window=65536"));
}

TEST(SharedRun, ErrorNamesTheJobThatHangs) {
  SharedScenario scenario =
      star_of(4, {job_of("a", Backend::kRing, {0, 1}), job_of("b", Backend::kRing, {2, 3})});
  scenario.jobs[1].scenario.limit = microseconds(50);
  EXPECT_THAT(error_of(scenario), HasSubstr("job 'b': worker"));
}

}  // namespace
}  // namespace tributary::lab
