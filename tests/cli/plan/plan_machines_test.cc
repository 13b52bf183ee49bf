// SPDX-License-Identifier: Apache-2.0
// Method: every accepted form by hand, then one fault at a time with its whole line.
#include "cli/plan/plan_machines.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tributary::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// Returns the machines as lines: "NAME worker+aggregator ENDPOINT @GBIT".
std::vector<std::string> read(const PlanFlags& flags) {
  const auto all = read_plan_machines(flags);
  if (!all) return {all.error().text};
  std::vector<std::string> lines;
  for (size_t i = 0; i < all->machines.size(); i++) {
    const plan::Machine& machine = all->machines[i];
    lines.push_back(fmt::format("{}{}{} {} @{}", machine.name, machine.worker ? " worker" : "",
                                machine.aggregator ? " aggregator" : "", all->endpoints[i],
                                machine.link_bytes_per_s / kBytesPerGbit));
  }
  return lines;
}

std::string refusal(const std::string& workers, const std::string& servers = "0",
                    bool colocated = true) {
  const auto lines = read({.workers = workers, .servers = servers, .colocated = colocated});
  return lines.size() == 1 ? lines[0] : "accepted";
}

TEST(PlanMachines, NumbersMakeNamedMachines) {
  EXPECT_THAT(read({.workers = "2", .servers = "1@25"}),
              ElementsAre("worker0 worker aggregator worker0:12000 @10",
                          "worker1 worker aggregator worker1:12000 @10",
                          "server0 aggregator server0:12000 @25"));
  EXPECT_THAT(read({.workers = "256", .servers = "256"}), SizeIs(512));
}

TEST(PlanMachines, ListsNameAddressPortAndRate) {
  EXPECT_THAT(read({.workers = "10.0.0.1,10.0.0.2:13000@25,[fd00::3],node4@0.5",
                    .servers = "[fd00::5]:7",
                    .colocated = false,
                    .link_gbit = 1}),
              ElementsAre("10.0.0.1 worker 10.0.0.1:12000 @1", "10.0.0.2 worker 10.0.0.2:13000 @25",
                          "[fd00::3] worker [fd00::3]:12000 @1", "node4 worker node4:12000 @0.5",
                          "[fd00::5] aggregator [fd00::5]:7 @1"));
}

TEST(PlanMachines, CpuLimitHoldsForAll) {
  const auto all = read_plan_machines({.workers = "1", .servers = "1", .sum_gbit = 8});
  ASSERT_TRUE(all);
  for (const plan::Machine& machine : all->machines) EXPECT_EQ(machine.sum_bytes_per_s, 1e9);
}

TEST(PlanMachines, AMachineMayHaveACpuLimitOfItsOwn) {
  const auto all = read_plan_machines(
      {.workers = "10.0.0.1@25/4,10.0.0.2@10", .servers = "2@100/40", .sum_gbit = 8});
  ASSERT_TRUE(all) << all.error().text;
  std::vector<double> sums;
  for (const plan::Machine& machine : all->machines) {
    sums.push_back(machine.sum_bytes_per_s / kBytesPerGbit);
  }
  EXPECT_THAT(sums, ElementsAre(4, 8, 40, 40));
  EXPECT_EQ(all->machines[0].link_bytes_per_s, 25 * kBytesPerGbit);
}

TEST(PlanMachines, FaultyCpuLimitsAreRefused) {
  const std::string allowed = "; allowed: a number from 0.001 to 100000";
  EXPECT_EQ(refusal("a@1/0"), "--workers: 'a@1/0': SUM=0 is out of range" + allowed);
  EXPECT_EQ(refusal("a@1/"), "--workers: 'a@1/': SUM= is empty" + allowed);
  EXPECT_EQ(refusal("a@/2"), "--workers: 'a@/2': GBIT= is empty" + allowed);
  EXPECT_EQ(refusal("a@1/2/3"), "--workers: 'a@1/2/3': SUM=2/3 is not a number" + allowed);
  EXPECT_EQ(
      refusal("10.0.0.0/24"),
      "--workers: '10.0.0.0/24' is not a machine; allowed: ADDRESS[:PORT][@GBIT[/SUM]], as in "
      "10.0.0.2:12000@25/8")
      << "a network is no limit of a CPU";
  EXPECT_EQ(refusal("a@10/4", "b@10/4", false),
            "--workers: SUM=4 of a has no meaning, because no worker machine runs an aggregator; "
            "allowed: no SUM, or --colocated on");
  EXPECT_EQ(read({.workers = "a", .servers = "b@10/4", .colocated = false}).size(), 2U);
}

TEST(PlanMachines, NumbersOutOfRangeAreRefused) {
  for (const char* number : {"0", "257"}) {
    EXPECT_EQ(
        refusal(number),
        fmt::format("--workers={} is out of range; allowed: a whole number from 1 to 256", number));
  }
  EXPECT_THAT(refusal("-1"), HasSubstr("--workers=-1 is not allowed; allowed: a number from 1 to"));
  EXPECT_EQ(refusal("1", "1000"),
            "--servers=1000 is out of range; allowed: a whole number from 0 to 256");
  for (const char* odd : {"-1", "+1", "1.5", "a,-1"}) {
    const std::string machine = odd[0] == 'a' ? "-1" : odd;
    EXPECT_EQ(refusal("4", odd), "--servers=" + machine +
                                     " is not allowed; allowed: a number from 0 to 256, or a list "
                                     "of ADDRESS[:PORT][@GBIT[/SUM]], as in 10.0.0.2:12000@25/8");
  }
  std::string many = "a0";
  for (uint32_t i = 1; i <= kPlanMachinesMax; i++) many += fmt::format(",a{}", i);
  EXPECT_EQ(refusal(many), "--workers lists 257 machines; allowed: up to 256");
}

TEST(PlanMachines, PlansWithoutAggregatorsAreRefused) {
  EXPECT_EQ(refusal("4", "0", false),
            "--servers=0 --colocated=off: no machine runs an aggregator; allowed: --servers 1 or "
            "more, or --colocated on");
}

TEST(PlanMachines, DuplicatesAreRefused) {
  const std::string twice =
      "machine '10.0.0.1' is given twice; allowed: each machine once, because it has one link";
  EXPECT_EQ(refusal("10.0.0.1,10.0.0.1"), twice);
  EXPECT_EQ(refusal("10.0.0.1", "10.0.0.2,10.0.0.1:13000@25"), twice);
}

TEST(PlanMachines, FaultyMachinesAreRefused) {
  const std::string form =
      " is not a machine; allowed: ADDRESS[:PORT][@GBIT[/SUM]], as in 10.0.0.2:12000@25/8";
  EXPECT_EQ(refusal(""), "--workers: ''" + form);
  EXPECT_EQ(refusal("a,,b"), "--workers: ''" + form);
  EXPECT_EQ(refusal("a,"), "--workers: ''" + form);
  EXPECT_EQ(refusal("[fd00::1"), "--workers: '[fd00::1'" + form);
  EXPECT_EQ(refusal("a/b"), "--workers: 'a/b'" + form);
  EXPECT_EQ(refusal("a=3"), "--workers: 'a=3'" + form);
  EXPECT_EQ(refusal("1", "@1"), "--servers: '@1'" + form);
  EXPECT_EQ(refusal("a@0"),
            "--workers: 'a@0': GBIT=0 is out of range; allowed: a number from 0.001 to 100000");
  EXPECT_EQ(refusal("a@"),
            "--workers: 'a@': GBIT= is empty; allowed: a number from 0.001 to 100000");
  EXPECT_EQ(refusal("a:0"),
            "--workers: 'a:0': PORT=0 is out of range; allowed: a whole number from 1 to 65535");
  EXPECT_EQ(refusal("fd00::1"),
            "--workers: 'fd00::1': PORT=:1 is not a whole number; allowed: a whole number from 1 "
            "to 65535");
}

}  // namespace
}  // namespace tributary::cli
