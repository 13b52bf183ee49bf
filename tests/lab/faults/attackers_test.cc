// SPDX-License-Identifier: Apache-2.0
// Method: one kind of attacker at a time against a job in each mode, and against a tree; nothing of
// theirs may be accepted, and the job finishes as without them.
#include "lab/faults/attackers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "auth/gmac.h"
#include "lab/faults/fault_run.h"
#include "tests/lab/faults/expect_good.h"

namespace tributary::lab {
namespace {

using auth::Mode;

JobPlan job_in(Mode mode, uint8_t id) {
  JobPlan job;
  job.config.id = id;
  job.config.block_cnt_max = 64;
  job.config.block_grad_max = 32;
  job.config.auth = {mode, auth::key_of_seed(id)};
  job.config.clients = trio_ml::Clients::kSessions;
  job.world = 4;
  job.gradients = 4;
  job.window = 32;
  job.in_flight = 2;
  job.compute_max = milliseconds(20);
  job.work.assign(8 + kCalmCollectives, {.element_count = 400});
  return job;
}

/// Returns a plan with one kind of attacker and no faults.
FaultPlan attacked_by(FaultKind kind, Mode mode, bool tree) {
  FaultPlan plan;
  plan.seed = 3;
  plan.kinds.add(kind);
  if (tree) plan.parent = {0, 0, 0};
  plan.calm_at = milliseconds(500);
  plan.jobs.push_back(job_in(mode, 1));
  plan.attack.emplace();
  plan.attack->every[static_cast<uint32_t>(kind)] = microseconds(500);
  plan.attack->flood_packets = 50;
  if (kind == FaultKind::kTamperer) plan.attack->tamper = 0.05;
  if (kind == FaultKind::kForeignMember) plan.jobs.push_back(job_in(mode, 2));
  return plan;
}

void expect_powerless(FaultKind kind, Mode mode) {
  if (mode == Mode::kFull && !auth::Gmac::is_available()) return;  // Built without libipsec-mb.
  for (const bool tree : {false, true}) {
    SCOPED_TRACE(::testing::Message()
                 << to_string(kind) << ", auth " << auth::to_string(mode) << ", tree " << tree);
    const FaultResult result = run_faults(attacked_by(kind, mode, tree));
    expect_good(result);
    EXPECT_EQ(result.restarts, 0U);
    EXPECT_GE(result.faults[static_cast<uint32_t>(kind)], 50U);
  }
}

void expect_powerless_in_every_mode(FaultKind kind) {
  for (const Mode mode : {Mode::kNone, Mode::kHeader, Mode::kFull}) expect_powerless(kind, mode);
}

TEST(Attackers, ForgerIsPowerless) { expect_powerless_in_every_mode(FaultKind::kForger); }
TEST(Attackers, FlooderIsPowerless) { expect_powerless_in_every_mode(FaultKind::kFlooder); }
TEST(Attackers, HalfOpenJoinerIsPowerless) {
  expect_powerless_in_every_mode(FaultKind::kHalfOpenJoiner);
}
TEST(Attackers, ForeignMemberIsPowerless) {
  expect_powerless_in_every_mode(FaultKind::kForeignMember);
}
TEST(Attackers, ReplayerIsPowerlessAgainstASecret) {
  for (const Mode mode : {Mode::kHeader, Mode::kFull}) {
    expect_powerless(FaultKind::kReplayer, mode);
  }
}
TEST(Attackers, TampererIsPowerlessAgainstASecret) {
  for (const Mode mode : {Mode::kHeader, Mode::kFull}) {
    expect_powerless(FaultKind::kTamperer, mode);
  }
}

// A job without a secret does not promise anything against a party on the path. This one tampers
// with nothing then, and so shows that the count above means something.
TEST(Attackers, TampererLeavesAJobWithoutASecretAlone) {
  const FaultResult result = run_faults(attacked_by(FaultKind::kTamperer, Mode::kNone, false));
  expect_good(result);
  EXPECT_EQ(result.faults[static_cast<uint32_t>(FaultKind::kTamperer)], 0U);
}

TEST(Attackers, PlainClientsUnequalServersAndGroupsKeepTheirPromises) {
  FaultPlan plan = attacked_by(FaultKind::kForger, Mode::kHeader, /*tree=*/true);
  plan.links.loss = 0.02;
  plan.attack->servers = {{.block_cnt_max = 16, .block_grad_max = 64, .room_bytes = 4000},
                          {.block_cnt_max = 4, .block_grad_max = 32},
                          {.block_cnt_max = 32, .block_grad_max = 90}};
  JobPlan grouped = job_in(Mode::kNone, 2);
  grouped.alone_at = 1;
  grouped.config.group = Endpoint::ipv4(239U << 24 | 1, 12000);
  plan.jobs.push_back(grouped);
  PlainJobPlan plain;
  plain.aggregator = 2;
  plain.gradients = 5;
  plain.blocks = 30;
  plain.config.id = 200;
  plain.config.sources = 3;
  plain.config.block_cnt_max = 8;
  plain.config.block_grad_max = 16;
  plan.attack->plain = plain;
  const FaultResult result = run_faults(plan);
  expect_good(result);
  EXPECT_EQ(result.restarts, 0U);
}

}  // namespace
}  // namespace tributary::lab
