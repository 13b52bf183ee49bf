// SPDX-License-Identifier: Apache-2.0
// Method: files read by hand, placement by hand, each refusal with its line, and whole files
// through text and back.
#include "lab/shared_scenario_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scratch_directory.h"

namespace tributary::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<SharedScenario> read(const std::string& text, std::vector<WrittenKey> settings = {}) {
  const testing::ScratchDirectory scratch;
  auto scenario = read_shared_scenario(scratch.file("mix.toml", text), settings);
  if (scenario) return scenario;
  const std::string& error = scenario.error().text;
  return failure(error.substr(std::min(error.find("mix.toml"), error.size())));
}

SharedScenario accepted(const std::string& text, std::vector<WrittenKey> settings = {}) {
  const auto scenario = read(text, std::move(settings));
  if (scenario) return *scenario;
  ADD_FAILURE() << scenario.error().text;
  return {};
}

std::string refusal(const std::string& text) {
  const auto scenario = read(text);
  return scenario ? "accepted" : scenario.error().text;
}

constexpr char kTwoJobs[] = R"(topology = "leaf-spine"
workers = 8
leaves = 2
iterations = 5
train = 8

[link]
slow_workers = [1, 6]

[[job]]
name = "vision"
workers = 4
racks = [0, 1]
window = 512
[job.model]
name = "vgg11"
[job.straggler]
pattern = "fail-slow"
racks = [1]

[[job]]
name = "text"
backend = "ring"
hosts = "2,6-7"
start_ms = 2.5
iterations = 9
seed = 4
)";

TEST(SharedScenarioFile, JobsHaveTheirOwnKeysOverThoseOfTheFile) {
  const SharedScenario scenario = accepted(kTwoJobs);
  EXPECT_EQ(scenario.network.workers, 8U);
  ASSERT_EQ(scenario.jobs.size(), 2U);
  const SharedJob& text = scenario.jobs[0];  // By name.
  EXPECT_EQ(text.name, "text");
  EXPECT_EQ(text.scenario.backend, Backend::kRing);
  EXPECT_THAT(text.hosts, ElementsAre(2, 6, 7));
  EXPECT_EQ(text.scenario.workers, 3U);
  EXPECT_EQ(text.start, microseconds(2500));
  EXPECT_EQ(text.scenario.iterations, 9U);
  EXPECT_EQ(text.scenario.seed, 4U);
  EXPECT_THAT(text.scenario.slow_links.workers, ElementsAre(1));  // Host 6.
  const SharedJob& vision = scenario.jobs[1];
  EXPECT_EQ(vision.scenario.model.kind, Model::kVgg11);
  EXPECT_EQ(vision.scenario.iterations, 5U);
  EXPECT_EQ(vision.scenario.train, 8U);
  EXPECT_EQ(vision.scenario.window, 512U);
  // In turn the lowest free host of racks 0 and 1: 0, 4, 1, 5.
  EXPECT_THAT(vision.hosts, ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(vision.scenario.straggler.workers, ElementsAre(2, 3));  // Those in rack 1.
  EXPECT_TRUE(vision.scenario.straggler.racks.empty());
  EXPECT_THAT(vision.scenario.slow_links.workers, ElementsAre(1));  // Host 1.
}

TEST(SharedScenarioFile, OrderOfTheJobsDoesNotMatter) {
  const std::string top = "workers = 8\n";
  const std::string a = "[[job]]\nname = \"a\"\nworkers = 3\n";
  const std::string b = "[[job]]\nname = \"b\"\nworkers = 2\nbackend = \"ring\"\n";
  const std::string c = "[[job]]\nname = \"c\"\nhosts = [1]\n";
  const SharedScenario one = accepted(top + a + b + c);
  EXPECT_EQ(shared_scenario_text(one), shared_scenario_text(accepted(top + c + b + a)));
  EXPECT_THAT(one.jobs[0].hosts, ElementsAre(0, 2, 3));
  EXPECT_THAT(one.jobs[1].hosts, ElementsAre(4, 5));
  EXPECT_NE(one.jobs[0].scenario.seed, one.jobs[1].scenario.seed);
  // A job's seed does not depend on the other jobs.
  EXPECT_EQ(accepted(top + b).jobs[0].scenario.seed, one.jobs[1].scenario.seed);
}

TEST(SharedScenarioFile, FlagsWinOverEveryJob) {
  const SharedScenario scenario =
      accepted(kTwoJobs, {{.name = "iterations", .text = "2", .where = ""},
                          {.name = "workers", .text = "10", .where = ""}});
  EXPECT_EQ(scenario.network.workers, 10U);
  EXPECT_EQ(scenario.jobs[0].scenario.iterations, 2U);
  EXPECT_EQ(scenario.jobs[0].scenario.workers, 3U);
}

TEST(SharedScenarioFile, KeysAboveTheJobsAndFlagsHaveAnEffectInAJob) {
  const std::string jobs =
      "[[job]]\nname = \"a\"\nworkers = 2\n[[job]]\nname = \"b\"\nworkers = 2\n";
  const auto flags_refusal = [&](const std::string& text, std::vector<WrittenKey> flags) {
    const auto scenario = read_shared_scenario(
        testing::ScratchDirectory().file("mix.toml", "workers = 4\n" + text), flags);
    return scenario ? "accepted" : scenario.error().text;
  };
  const WrittenKey factor{.name = "straggler.factor", .text = "5", .where = "--straggler.factor"};
  const WrittenKey pool{.name = "switchml.pool", .text = "7", .where = "--switchml.pool"};
  EXPECT_EQ(flags_refusal(jobs, {factor}),
            "--straggler.factor: straggler.factor=5 has no effect in any job; allowed: any with "
            "straggler.pattern=fail-slow");
  EXPECT_THAT(flags_refusal(jobs, {pool}), HasSubstr("switchml.pool=7 has no effect in any job"));
  EXPECT_EQ(refusal("workers = 4\nstraggler.factor = 7\n" + jobs),
            "mix.toml:2: straggler.factor=7 has no effect in any job; allowed: any with "
            "straggler.pattern=fail-slow");
  EXPECT_THAT(refusal("workers = 4\nspines = 3\n" + jobs),
              HasSubstr("mix.toml:2: spines=3 has no effect in any job"));
  // One job in which it has an effect is enough.
  const std::string slow = "straggler.pattern = \"fail-slow\"\n";
  EXPECT_EQ(flags_refusal(jobs + slow, {factor}), "accepted");
  EXPECT_EQ(refusal("workers = 4\nstraggler.factor = 7\n" + jobs + slow), "accepted");
  EXPECT_EQ(refusal("workers = 4\ntopology = \"leaf-spine\"\nspines = 3\n" + jobs), "accepted");
}

TEST(SharedScenarioFile, TextReadsBackAsTheSameScenario) {
  const SharedScenario scenario = accepted(kTwoJobs);
  const std::string text = shared_scenario_text(scenario);
  EXPECT_EQ(shared_scenario_text(accepted(text)), text);
}

TEST(SharedScenarioFile, FileIsOfSeveralJobsIfItHasATableJob) {
  const testing::ScratchDirectory scratch;
  EXPECT_TRUE(*names_jobs(scratch.file("a.toml", kTwoJobs)));
  EXPECT_FALSE(*names_jobs(scratch.file("b.toml", "workers = 3\n")));
  EXPECT_THAT(names_jobs(scratch.path() / "none.toml").error().text, HasSubstr("cannot be read"));
}

TEST(SharedScenarioFile, RefusesByNameAndLine) {
  const auto with = [](const std::string& job) {
    return refusal("workers = 4\n[[job]]\nname = \"a\"\nhosts = [0, 1]\n[[job]]\nname = \"b\"\n" +
                   job);
  };
  EXPECT_EQ(with("hosts = [1, 2]\n"),
            "mix.toml:5: job 'b': hosts=1 is not allowed; allowed: hosts without a worker; 'a' has "
            "this one");
  EXPECT_EQ(with("workers = 3\n"),
            "mix.toml:5: job 'b': workers=3 is not allowed; allowed: up to 2, the hosts that other "
            "jobs leave");
  EXPECT_EQ(with("workers = 0\n"),
            "mix.toml:7: workers=0 is out of range; allowed: a whole number from 1 to 1024");
  EXPECT_THAT(with("workers = 2\nstart_ms = -1\n"),
              HasSubstr("mix.toml:8: start_ms=-1 is out of range; allowed: a number from 0"));
  EXPECT_THAT(with("workers = 2\nbackend = \"rung\"\n"), HasSubstr("did you mean 'ring'?"));
  EXPECT_THAT(with("workers = 2\nbackend = \"live\"\n"),
              HasSubstr("mix.toml:5: job 'b': backend=live is not allowed; allowed: trio-ml"));
  EXPECT_EQ(with(""), "mix.toml:5: job 'b': it has no workers; allowed: workers = N, or hosts");
  EXPECT_EQ(with("workers = 1\nleaves = 2\n"),
            "mix.toml:8: leaves concerns the network; allowed: above the first [[job]]");
  EXPECT_EQ(with("workers = 1\n[job.link]\nloss = 0.1\n"),
            "mix.toml:9: link.loss concerns the network; allowed: above the first [[job]]");
  EXPECT_THAT(with("workers = 1\nracks = [0]\n"),
              HasSubstr("job 'b': racks=0 is not allowed; allowed: topology chassis"));
  EXPECT_THAT(with("workers = 1\nracks = [0]\nhosts = [3]\n"),
              HasSubstr("job 'b': it has hosts and racks; allowed: one of them"));
  EXPECT_THAT(with("hosts = \"3-2\"\n"), HasSubstr("hosts='3-2' is not a list"));
  EXPECT_THAT(with("hosts = \"2,2\"\n"), HasSubstr("hosts='2' is not a list"));
  EXPECT_THAT(with("hosts = \"2-\"\n"), HasSubstr("hosts='2-' is not a list"));
  EXPECT_THAT(with("hosts = \"0-4294967297\"\n"), HasSubstr("is not a list"));
  EXPECT_THAT(with("workers = 2\nstraggler.pattern = \"pause\"\nstraggler.worker = 2\n"),
              HasSubstr("job 'b': straggler.worker=2 is not allowed; allowed: 0 to 1"));
  EXPECT_THAT(refusal("job = 3\n"), HasSubstr("mix.toml:1: job is not a list of tables"));
  EXPECT_THAT(refusal("workers = 1025\n[[job]]\nname = \"a\"\nworkers = 1\n"),
              HasSubstr("workers=1025 is out of range; allowed: a whole number from 1 to 1024"));
  EXPECT_THAT(refusal("workers = 4\n[[job]]\nworkers = 1\n"), HasSubstr("name"));
}

}  // namespace
}  // namespace tributary::lab
