// SPDX-License-Identifier: Apache-2.0
// Method:  the facts about the machine are an argument, so plans are compared word by word. Only
//          scripts, for their first lines, are real files.
#include "cli/launch/launch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tests/support/scratch_directory.h"

namespace tributary::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

HostFacts facts() {
  return {.program = "/opt/bin/tributary",
          .library = "/opt/lib/libtributary.so.0",
          .python_package = "/opt/python",
          .search_path = "/nowhere:/bin",
          .secret = "0123456789abcdef0123456789abcdef",
          .aggregator_ports = {1200},
          .master_port = 2900,
          .variables_set = {},
          .python_path = "",
          .cpus = {0, 1, 2, 3}};
}

std::string refusal(const LaunchConfig& config) {
  const auto plan = plan_launch(config, facts());
  return plan ? "" : plan.error().text;
}

// The aggregator and its ranks share a new secret, which no command line shows.
TEST(LaunchPlan, AuthenticationGivesAggregatorAndRanksOneSecret) {
  const auto plan =
      plan_launch({.processes = 2, .command = {"sh"}, .auth = auth::Mode::kHeader}, facts());
  ASSERT_TRUE(plan) << plan.error().text;
  const std::string secret = "TRIBUTARY_SECRET=" + facts().secret;
  EXPECT_THAT(plan->aggregators[0].environment, ::testing::Contains(secret));
  EXPECT_THAT(plan->aggregators[0].arguments, Contains(HasSubstr("auth=header")));
  for (const ProgramPlan& rank : plan->ranks) {
    EXPECT_THAT(rank.environment, ::testing::Contains(secret));
    EXPECT_THAT(rank.environment, ::testing::Contains(HasSubstr("?auth=header")));
  }
  for (const std::string& argument : plan->aggregators[0].arguments) {
    EXPECT_THAT(argument, Not(HasSubstr(facts().secret)));
  }
}

TEST(LaunchPlan, SetsTheVariablesOfEachRank) {
  const auto plan = plan_launch({.processes = 2, .command = {"sh", "-c", "true"}}, facts());
  ASSERT_TRUE(plan) << plan.error().text;
  ASSERT_EQ(plan->ranks.size(), 2U);
  const ProgramPlan& rank = plan->ranks[1];
  EXPECT_EQ(rank.name, "rank 1");
  EXPECT_EQ(rank.program, "/bin/sh");
  EXPECT_THAT(rank.arguments, ElementsAre("-c", "true"));
  EXPECT_THAT(rank.environment,
              IsSupersetOf({"RANK=1", "LOCAL_RANK=1", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2",
                            "MASTER_ADDR=127.0.0.1", "MASTER_PORT=2900", "OMP_NUM_THREADS=1",
                            "TRIBUTARY_BACKEND=tributary", "PYTHONPATH=/opt/python",
                            "TRIBUTARY_LIBRARY=/opt/lib/libtributary.so.0",
                            "TRIBUTARY_URL=tributary://127.0.0.1:1200/job/1"}));
}

TEST(LaunchPlan, StartsAnAggregatorForItsRanks) {
  const auto plan = plan_launch({.processes = 3,
                                 .command = {"/bin/true"},
                                 .job_id = 7,
                                 .straggler_timeout = milliseconds(20),
                                 .permanent_after = milliseconds(500),
                                 .serve_json_path = "serve.json",
                                 .job_options = {"pin=on"},
                                 .url_options = {"format=fixed", "scale=100"}},
                                facts());
  ASSERT_TRUE(plan) << plan.error().text;
  ASSERT_EQ(plan->aggregators.size(), 1U);
  EXPECT_EQ(plan->aggregators[0].program, "/opt/bin/tributary");
  EXPECT_THAT(plan->aggregators[0].arguments,
              ElementsAre("serve", "--listen", "127.0.0.1:1200", "--job",
                          "id=7,sources=3,window=4096,block_grad_max=4095,history=4,"
                          "mitigation=on,timeout_ms=20,silence=end,permanent_ms=500,pin=on",
                          "--log-level", "warn", "--json", "serve.json"));
  EXPECT_THAT(plan->ranks[0].environment,
              Contains("TRIBUTARY_URL=tributary://127.0.0.1:1200/job/7?format=fixed&scale=100"));
}

TEST(LaunchPlan, AJobOptionReplacesTheEffectOfSilence) {
  const auto plan = plan_launch({.processes = 3,
                                 .command = {"/bin/true"},
                                 .straggler_timeout = milliseconds(20),
                                 .job_options = {"pin=on,silence=exclude"}},
                                facts());
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_THAT(plan->aggregators[0].arguments[4],
              AllOf(HasSubstr(",pin=on,silence=exclude"), Not(HasSubstr("silence=end"))));
}

TEST(LaunchPlan, StartsSeveralAggregatorsHere) {
  HostFacts two = facts();
  const LaunchConfig config{.processes = 2,
                            .command = {"/bin/true"},
                            .aggregators = "2",
                            .serve_json_path = "out/serve.json"};
  ASSERT_EQ(free_ports_wanted(config), 2U);
  two.aggregator_ports = {1200, 1201};
  const auto plan = plan_launch(config, two);
  ASSERT_TRUE(plan) << plan.error().text;
  ASSERT_EQ(plan->aggregators.size(), 2U);
  EXPECT_EQ(plan->aggregators[1].name, "aggregator 1");
  EXPECT_THAT(plan->aggregators[1].arguments,
              ElementsAre("serve", "--listen", "127.0.0.1:1201", "--job",
                          "id=1,sources=2,window=4096,block_grad_max=4095,history=4", "--log-level",
                          "warn", "--json", "out/serve-1.json"));
  EXPECT_THAT(plan->ranks[0].environment,
              Contains("TRIBUTARY_URL=tributary://127.0.0.1:1200,127.0.0.1:1201/job/1"));
}

/// Two machines with two ranks each, and a spare machine with a link of twice the speed.
LaunchConfig two_machines(uint32_t node_rank) {
  return {.processes = 2,
          .command = {"/bin/true"},
          .aggregators = "colocated",
          .machines = {.workers = "one,two:7000", .servers = "box@20"},
          .node_rank = node_rank,
          .local_reduce = false};
}

// The spare machine takes two tensors in the time in which each worker sends one, so the workers'
// machines get no share.
TEST(LaunchPlan, MachineWithoutAShareStartsNoAggregator) {
  EXPECT_EQ(free_ports_wanted(two_machines(1)), 0U);
  const auto plan = plan_launch(two_machines(1), facts());
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_TRUE(plan->aggregators.empty());
  ASSERT_EQ(plan->ranks.size(), 2U);
  EXPECT_EQ(plan->ranks[0].name, "rank 2");
  const auto url_of = [](const LaunchPlan& one) {
    for (const std::string& variable : one.ranks[0].environment) {
      if (variable.starts_with("TRIBUTARY_URL=")) return variable;
    }
    return std::string();
  };
  EXPECT_EQ(url_of(*plan), "TRIBUTARY_URL=tributary://box:12000/job/1?server_wait_ms=60000");
  EXPECT_EQ(url_of(*plan), url_of(*plan_launch(two_machines(0), facts())));
  EXPECT_THAT(plan->ranks[0].environment,
              IsSupersetOf({"WORLD_SIZE=4", "MASTER_ADDR=one", "MASTER_PORT=29500"}));
}

TEST(LaunchPlan, ColocatedAggregatorServesUntilOtherMachinesHaveLeft) {
  LaunchConfig config = two_machines(1);
  config.machines.servers = "0";
  const auto plan = plan_launch(config, facts());
  ASSERT_TRUE(plan) << plan.error().text;
  ASSERT_EQ(plan->aggregators.size(), 1U);
  EXPECT_THAT(plan->aggregators[0].arguments,
              ElementsAre("serve", "--listen", "[::]:7000", "--job",
                          "id=1,sources=4,window=4096,block_grad_max=4095,history=4", "--log-level",
                          "warn", "--linger-s", "60"));
  EXPECT_GT(plan->aggregators_linger.count(), 0);
  EXPECT_THAT(plan->ranks[0].environment,
              Contains("TRIBUTARY_URL=tributary://one:12000,two:7000/job/1?server_wait_ms=60000"));
}

// Other machines may find an IPv4 or an IPv6 address under a machine's name.
TEST(LaunchPlan, ColocatedAggregatorListensOnTheFamiliesThatItsNameMayHave) {
  const auto listens = [](std::string workers, bool has_ipv6) {
    LaunchConfig config = two_machines(1);
    config.machines = {.workers = std::move(workers)};
    HostFacts machine = facts();
    machine.has_ipv6 = has_ipv6;
    const auto plan = plan_launch(config, machine);
    return plan ? plan->aggregators[0].arguments[2] : plan.error().text;
  };
  EXPECT_EQ(listens("one,two", true), "[::]:12000");
  EXPECT_EQ(listens("one,two", false), "0.0.0.0:12000");
  EXPECT_EQ(listens("10.0.0.1,10.0.0.2", true), "0.0.0.0:12000");
  EXPECT_EQ(listens("[fd00::1],[fd00::2]", true), "[::]:12000");
}

// Each machine has the upper aggregator of its share, and a lower one for each share. All ranks
// have the same list.
TEST(LaunchPlan, LowerAggregatorsAddTheTensorsOfAMachine) {
  LaunchConfig config = two_machines(1);
  config.machines = {.workers = "10.0.0.1,10.0.0.2:7000"};
  config.deadline = seconds(5);
  config.local_reduce = true;
  config.straggler_timeout = milliseconds(20);
  const auto plan = plan_launch(config, facts());
  ASSERT_TRUE(plan) << plan.error().text;
  ASSERT_EQ(plan->aggregators.size(), 3U);
  const auto job = [&](size_t i) { return plan->aggregators[i].arguments[4]; };
  EXPECT_THAT(plan->aggregators[0].arguments, Contains("0.0.0.0:7000"));
  EXPECT_EQ(job(0),
            "id=1,sources=2,window=4096,block_grad_max=4095,history=4,mitigation=on,timeout_ms=60,"
            "silence=end,permanent_ms=120,sources_are_aggregators=on,world=4");
  EXPECT_THAT(plan->aggregators[1].arguments, Contains("0.0.0.0:12100"));
  EXPECT_EQ(job(1),
            "id=1,sources=2,window=4096,block_grad_max=4095,history=4,mitigation=on,timeout_ms=20,"
            "silence=end,permanent_ms=40,upstream=10.0.0.1:12000,upstream_source=1,rank_base=2,"
            "world=4");
  EXPECT_THAT(job(2), HasSubstr("upstream=10.0.0.2:7000,upstream_source=1,rank_base=2,world=4"));
  EXPECT_THAT(plan->ranks[1].environment,
              Contains("TRIBUTARY_URL=tributary://127.0.0.1:12100,127.0.0.1:12101/job/1"
                       "?deadline_ms=5000&server_wait_ms=5000&source=1"));
  EXPECT_EQ(plan->shares, 2U);
  EXPECT_EQ(plan->aggregators[0].share, "10.0.0.2:7000");
  EXPECT_EQ(plan->aggregators[1].share, "10.0.0.1:12000");
  EXPECT_EQ(plan->aggregators[2].share, "10.0.0.2:7000");
  config.local_port = 65'535;
  EXPECT_THAT(refusal(config), HasSubstr("--local-port 65535 leaves too few ports"));
}

TEST(LaunchPlan, AggregatorFlagsThatExcludeEachOtherAreRefused) {
  const auto with = [](auto change) {
    LaunchConfig config = two_machines(0);
    change(config);
    return refusal(config);
  };
  EXPECT_THAT(with([](auto& c) { c.aggregators = "0"; }), HasSubstr("allowed: 1 to 16, or coloc"));
  EXPECT_THAT(with([](auto& c) { c.aggregators = "all"; }), HasSubstr("--aggregators all"));
  EXPECT_THAT(with([](auto& c) { c.aggregators = "2"; }), HasSubstr("--workers needs"));
  EXPECT_THAT(with([](auto& c) { c.server = "box"; }), HasSubstr("--server box"));
  EXPECT_THAT(with([](auto& c) { c.world = 4; }), HasSubstr("--world and --first-rank"));
  EXPECT_THAT(with([](auto& c) { c.node_rank = 2; }), HasSubstr("2 machines: 0 to 1"));
  EXPECT_THAT(with([](auto& c) { c.processes = 200; }), HasSubstr("more than 256 ranks"));
  EXPECT_THAT(with([](auto& c) { c.machines.workers = ""; }), HasSubstr("--servers needs"));
  EXPECT_THAT(with([](auto& c) { c.machines.workers = "one,one"; }), HasSubstr("one"));
  EXPECT_THAT(with([](auto& c) { c.machines = {.workers = "65"}; }),
              HasSubstr("--workers, --servers: 65 machines run an aggregator; allowed: up to 64"));
  EXPECT_THAT(with([](auto& c) { c.machines = {.workers = "65"}; }),
              HasSubstr("whose list tributary launch takes as --server"));
  EXPECT_THAT(with([](auto& c) { c.auth = auth::Mode::kHeader; }),
              HasSubstr("set TRIBUTARY_SECRET"));
}

TEST(LaunchPlan, AggregatorsAndRanksRunOnDifferentCpus) {
  const auto plan = plan_launch({.processes = 2,
                                 .command = {"/bin/true"},
                                 .aggregator_cpus = "0,2-3",
                                 .aggregator_cpu_percent = 50},
                                facts());
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_THAT(plan->rank_cpus, ElementsAre(1));
  EXPECT_THAT(plan->aggregators[0].arguments,
              IsSupersetOf({"--cpus", "0,2,3", "--cpu-percent", "50"}));
  EXPECT_THAT(refusal({.command = {"/bin/true"}, .aggregator_cpus = "0-3"}),
              HasSubstr("--aggregator-cpus 0-3 leaves no CPU"));
  EXPECT_THAT(refusal({.command = {"/bin/true"}, .aggregator_cpus = "7"}),
              HasSubstr("--aggregator-cpus: '7' has a CPU"));
}

TEST(LaunchPlan, AggregatorsShareTheirCpus) {
  HostFacts four_ports = facts();
  four_ports.aggregator_ports = {1, 2, 3, 4};
  const auto plan = plan_launch(
      {.command = {"/bin/true"}, .aggregators = "4", .aggregator_cpus = "0,2-3"}, four_ports);
  ASSERT_TRUE(plan) << plan.error().text;
  std::vector<std::string> lists;
  for (const ProgramPlan& one : plan->aggregators) {
    const auto flag = std::ranges::find(one.arguments, "--cpus");
    ASSERT_NE(flag, one.arguments.end());
    lists.push_back(*std::next(flag));
  }
  // The only core of an aggregator runs on the first CPU of its list.
  EXPECT_THAT(lists, ElementsAre("0,2,3", "2,3,0", "3,0,2", "0,2,3"));
}

TEST(LaunchPlan, JobHasAChannelForEachThreadAndPriority) {
  const auto job_with = [](std::vector<std::string> options) {
    const auto plan =
        plan_launch({.command = {"/bin/true"}, .url_options = std::move(options)}, facts());
    return plan->aggregators[0].arguments[4];
  };
  EXPECT_THAT(job_with({"threads=2", "priorities=3"}), HasSubstr(",channels=6"));
  EXPECT_THAT(job_with({"threads=16", "priorities=4"}), HasSubstr(",channels=16"));
  for (const char* other : {"priorities=1", "priorities=x", "priorities=99", "priorities=2x"}) {
    EXPECT_THAT(job_with({other}), Not(HasSubstr("channels")));
  }
}

TEST(LaunchPlan, UrlOptionsDoNotNameRanks) {
  for (const char* option : {"rank=0", "world=5", "source=1"}) {
    EXPECT_THAT(refusal({.command = {"/bin/true"}, .url_options = {option}}),
                HasSubstr(std::string("--url-option ") + option + ": tributary launch sets"));
  }
}

TEST(LaunchPlan, AddressOfTheMasterHasNoBrackets) {
  const auto plan = plan_launch(
      {.command = {"/bin/true"}, .server = "box:12000", .world = 2, .master = "[fd00::1]:29500"},
      facts());
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_THAT(plan->ranks[0].environment,
              IsSupersetOf({"MASTER_ADDR=fd00::1", "MASTER_PORT=29500"}));
}

TEST(LaunchPlan, UsesARunningServer) {
  const auto plan = plan_launch({.processes = 2,
                                 .command = {"/bin/true"},
                                 .server = "box:12000",
                                 .world = 6,
                                 .rank_first = 4,
                                 .master = "head:29500"},
                                facts());
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_TRUE(plan->aggregators.empty());
  EXPECT_EQ(plan->ranks[1].name, "rank 5");
  EXPECT_THAT(plan->ranks[1].environment,
              IsSupersetOf({"RANK=5", "LOCAL_RANK=1", "WORLD_SIZE=6", "MASTER_ADDR=head",
                            "MASTER_PORT=29500", "TRIBUTARY_URL=tributary://box:12000/job/1"}));
}

TEST(LaunchPlan, RefusesFlagsOfAggregatorsThatItDoesNotStart) {
  const auto with = [](auto change) {
    LaunchConfig config{.command = {"/bin/true"}, .server = "box"};
    change(config);
    return refusal(config);
  };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_EQ(with([](auto& c) { c.straggler_timeout = milliseconds(20); }),
            "--timeout-ms is for aggregators that tributary launch starts, and --server box uses "
            "running ones; to fix: set the job's keys mitigation=on and timeout_ms where they run");
  EXPECT_THAT(with([](auto& c) { c.permanent_after = milliseconds(20); }),
              HasSubstr("permanent_ms where they run"));
  EXPECT_THAT(with([](auto& c) { c.job_window = 64; }), StartsWith("--window is for"));
  EXPECT_THAT(with([](auto& c) { c.history = 1; }), StartsWith("--history is for"));
  EXPECT_THAT(with([](auto& c) { c.job_options = {"pin=on"}; }), StartsWith("--job-option is for"));
  EXPECT_THAT(with([](auto& c) { c.aggregator_cpu_percent = 50; }), HasSubstr("--cpu-percent"));
  EXPECT_THAT(with([](auto& c) { c.serve_json_path = "x"; }), HasSubstr("tributary serve --json"));
  // The same command line compares Gloo with Tributary.
  EXPECT_EQ(with([](auto& c) {
              c.backend = "gloo";
              c.straggler_timeout = milliseconds(20);
            }),
            "");
}

TEST(LaunchPlan, RefusesFlagsWithoutEffect) {
  const LaunchConfig alone{.command = {"/bin/true"}};
  LaunchConfig config = alone;
  config.permanent_after = milliseconds(20);
  EXPECT_EQ(refusal(config), "--permanent-ms needs --timeout-ms");
  config.job_options = {"mitigation=on"};
  EXPECT_EQ(refusal(config), "");
  config = alone;
  config.local_reduce = false;
  EXPECT_EQ(refusal(config), "--local-reduce needs --workers");
  config = alone;
  config.local_port = 13'000;
  EXPECT_EQ(refusal(config), "--local-port needs --workers");
}

TEST(LaunchPlan, OtherBackendsNeedNoAggregator) {
  const auto plan = plan_launch({.command = {"/bin/true"}, .backend = "gloo"}, facts());
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_TRUE(plan->aggregators.empty());
  EXPECT_THAT(plan->ranks[0].environment, Contains("TRIBUTARY_BACKEND=gloo"));
  EXPECT_THAT(plan->ranks[0].environment, Not(Contains(StartsWith("TRIBUTARY_URL="))));
}

TEST(LaunchPlan, KeepsTheUsersVariables) {
  HostFacts set = facts();
  set.variables_set = {"TRIBUTARY_LIBRARY", "OMP_NUM_THREADS"};
  set.python_path = "/mine";
  const auto plan = plan_launch({.command = {"/bin/true"}}, set);
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_THAT(plan->ranks[0].environment, Not(Contains(StartsWith("TRIBUTARY_LIBRARY="))));
  EXPECT_THAT(plan->ranks[0].environment, Not(Contains(StartsWith("OMP_NUM_THREADS="))));
  EXPECT_THAT(plan->ranks[0].environment, Contains("PYTHONPATH=/mine:/opt/python"));
}

TEST(LaunchPlan, RefusalsNameTheFlag) {
  EXPECT_THAT(refusal({.processes = 2, .command = {"x"}, .world = 2, .rank_first = 1}),
              HasSubstr("--first-rank 1 and -n 2 reach beyond --world 2"));
  EXPECT_THAT(refusal({.command = {"x"}, .server = "s", .world = 2}), HasSubstr("--master"));
  EXPECT_THAT(refusal({.command = {"x"}, .world = 2, .master = "h:1"}), HasSubstr("--server"));
  for (const char* master : {"head", "head:", "head:http", "head:0", "head:65536", "head:1x"}) {
    EXPECT_THAT(refusal({.command = {"x"}, .master = master}), HasSubstr("HOST:PORT")) << master;
  }
  EXPECT_THAT(refusal({.command = {"x"}, .job_options = {"asynchronous=on,window=8"}}),
              HasSubstr("tributary launch sets window itself"));
  EXPECT_THAT(refusal({.command = {"no-such-program"}}), HasSubstr("'no-such-program'"));
  EXPECT_THAT(refusal({.command = {"/no/such.py"}}), HasSubstr("'/no/such.py' cannot be read"));
}

class Scripts : public ::testing::Test {
 protected:
  std::string script(const std::string& first_line) {
    const std::string path = folder_.path() / "train.py";
    std::ofstream(path) << first_line << "\n";
    return path;
  }
  testing::ScratchDirectory folder_;
};

TEST_F(Scripts, FirstLineNamesTheInterpreter) {
  const auto of = [&](const std::string& line, const std::string& python = "") {
    const auto found = interpreter_of(script(line), python, "/nowhere:/bin");
    return found ? *found : found.error().text;
  };
  EXPECT_EQ(of("#!/usr/bin/python3"), "/usr/bin/python3");
  EXPECT_EQ(of("#! /opt/python3.11 -u"), "/opt/python3.11");
  EXPECT_EQ(of("#!/usr/bin/python3", "/mine/python"), "/mine/python");
  EXPECT_THAT(of("#!/usr/bin/env python-nobody-has"), HasSubstr("'python-nobody-has'"));
  // No such line: use python3 from the search path.
  const auto plain = interpreter_of(script("import torch"), "", "/nowhere");
  ASSERT_FALSE(plain);
  EXPECT_THAT(plain.error().text, HasSubstr("'python3'"));
}

TEST_F(Scripts, PythonScriptRunsThroughTheRunner) {
  const std::string path = script("#!/usr/bin/python3");
  const auto plan = plan_launch({.command = {path, "--epochs", "3"}}, facts());
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_EQ(plan->ranks[0].program, "/usr/bin/python3");
  EXPECT_THAT(plan->ranks[0].arguments, ElementsAre("-m", "tributary.run", path, "--epochs", "3"));
  ASSERT_TRUE(plan->check);
  EXPECT_EQ(plan->check->program, "/usr/bin/python3");
  EXPECT_THAT(plan->check->arguments, ElementsAre("-m", "tributary.run", "--check", path));
  EXPECT_EQ(plan->check->environment, plan->ranks[0].environment);
  EXPECT_FALSE(plan_launch({.command = {"/bin/true"}}, facts())->check);
}

TEST_F(Scripts, ModuleRunsThroughTheRunner) {
  const LaunchConfig config{.command = {"-m", "project.train", "-m", "8"},
                            .python = "/mine/python"};
  const auto plan = plan_launch(config, facts());
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_EQ(plan->ranks[0].program, "/mine/python");
  EXPECT_THAT(plan->ranks[0].arguments,
              ElementsAre("-m", "tributary.run", "-m", "project.train", "-m", "8"));
  ASSERT_TRUE(plan->check);
  EXPECT_THAT(plan->check->arguments,
              ElementsAre("-m", "tributary.run", "--check", "-m", "project.train"));
  EXPECT_THAT(refusal({.command = {"-m"}}), HasSubstr("-m has no module; allowed: -m PACKAGE"));
}

TEST_F(Scripts, CommandOfAnInterpreterRunsThroughTheRunner) {
  const std::string path = script("import torch");
  const auto arguments_of = [](std::vector<std::string> command) {
    const auto plan = plan_launch({.command = std::move(command)}, facts());
    return plan ? plan->ranks[0].arguments : std::vector<std::string>{plan.error().text};
  };
  EXPECT_THAT(arguments_of({"/bin/python3", path, "-c"}),
              ElementsAre("-m", "tributary.run", path, "-c"));
  EXPECT_THAT(arguments_of({"/bin/python3.11", "-u", "-W", "error", "-m", "project.train", "8"}),
              ElementsAre("-u", "-W", "error", "-m", "tributary.run", "-m", "project.train", "8"));
  EXPECT_THAT(refusal({.command = {"/bin/python3", "/no/such.py"}}), HasSubstr("'/no/such.py'"));
  // Neither a script nor a module, or the runner itself: as given.
  EXPECT_THAT(arguments_of({"/bin/python3", "-c", "pass"}), ElementsAre("-c", "pass"));
  EXPECT_THAT(arguments_of({"/bin/python3", "-"}), ElementsAre("-"));
  EXPECT_THAT(arguments_of({"/bin/python3", "-m"}), ElementsAre("-m"));
  EXPECT_THAT(arguments_of({"/bin/python3", "-m", "tributary.run", path}),
              ElementsAre("-m", "tributary.run", path));
  EXPECT_THAT(arguments_of({"/bin/python-config", path}), ElementsAre(path));
}

}  // namespace
}  // namespace tributary::cli
