// SPDX-License-Identifier: Apache-2.0
// Method: a job that is accepted, then one fault at a time with its whole line.
#include "plan/machine.h"

#include <gtest/gtest.h>

#include <vector>

namespace tributary::plan {
namespace {

std::vector<Machine> faultless() {
  return {{.name = "a", .link_bytes_per_s = 1},
          {.name = "b", .link_bytes_per_s = 2, .sum_bytes_per_s = 3, .aggregator = false},
          {.name = "c", .link_bytes_per_s = 4, .worker = false}};
}

std::string refusal(const std::vector<Machine>& machines) {
  const auto checked = check_machines(machines);
  return checked ? "accepted" : checked.error().text;
}

TEST(Machine, JobsWithWorkerAndAggregatorAreAccepted) {
  EXPECT_EQ(refusal(faultless()), "accepted");
  EXPECT_EQ(refusal({{.name = "alone", .link_bytes_per_s = 1}}), "accepted");
}

TEST(Machine, JobsWithoutWorkerOrAggregatorAreRefused) {
  EXPECT_EQ(refusal({}), "no machine runs a worker; allowed: one worker or more");
  EXPECT_EQ(refusal({faultless()[2]}), "no machine runs a worker; allowed: one worker or more");
  EXPECT_EQ(refusal({faultless()[1]}),
            "no machine runs an aggregator; allowed: one or more; add a spare machine, or let the "
            "workers' machines run aggregators");
}

TEST(Machine, FaultsOfAMachineAreRefusedByName) {
  auto machines = faultless();
  machines[2].aggregator = false;
  EXPECT_EQ(refusal(machines),
            "machine 'c' has no role; allowed: worker, aggregator or both; leave it out otherwise");
  machines = faultless();
  machines[2].name = "a";
  EXPECT_EQ(refusal(machines),
            "machine 'a' is given twice; allowed: each machine once, because it has one link");
  for (const double rate : {0.0, -1.0, kUnlimited, std::numeric_limits<double>::quiet_NaN()}) {
    machines = faultless();
    machines[1].link_bytes_per_s = rate;
    EXPECT_TRUE(refusal(machines).starts_with("machine 'b' has a link of ")) << rate;
  }
  machines = faultless();
  machines[1].sum_bytes_per_s = 0;
  EXPECT_EQ(refusal(machines), "machine 'b' adds 0 bytes/s; allowed: a rate above 0, or no limit");
}

}  // namespace
}  // namespace tributary::plan
