// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/attack_plan.h"

#include <algorithm>

#include "auth/gmac.h"
#include "base/prng.h"

namespace tributary::lab {
namespace {

// Random streams; fault_plan.cc has the others.
constexpr uint32_t kPlainStream = 301;
constexpr uint32_t kServerStream = 302;
constexpr uint32_t kSecretStream = 400;  ///< Job j uses the stream kSecretStream + j.
constexpr uint32_t kAttackerStream = 500;

/// Most steps of one kind of attacker in a run, so that a run stays short.
constexpr int64_t kStepsMax = 300;
constexpr int64_t kFloodsMax = 15;
/// The id of the plain job; those of the other jobs are lower (fault_plan.cc).
constexpr uint8_t kPlainJob = 200;

Prng stream_of(uint64_t seed, uint32_t stream) {
  return Prng(Prng(seed ^ uint64_t{stream} << 40).any_u64());
}

auth::Mode draw_mode(Prng& prng, FaultMachine machine) {
  const double draw = prng.unit();
  if (draw < 0.3) return auth::Mode::kNone;
  // A modelled PFE does not have the gradients in local memory, so it has no mode `full`.
  const bool full = machine == FaultMachine::kLive && auth::Gmac::is_available();
  return draw < 0.65 || !full ? auth::Mode::kHeader : auth::Mode::kFull;
}

bool is_flat(const FaultPlan& plan, const JobPlan& job) {
  return plan.parent.size() == 1 || job.alone_at.has_value();
}

void draw_jobs(FaultPlan& plan) {
  for (uint32_t i = 0; i < plan.jobs.size(); i++) {
    Prng prng = stream_of(plan.seed, kSecretStream + i);
    JobPlan& job = plan.jobs[i];
    job.config.auth.mode = draw_mode(prng, plan.machine);
    job.config.auth.key = auth::key_of_seed(prng.any_u64());
    // A stranger's plain packets keep workers of a job for anybody from joining (docs/security.md).
    job.config.clients = prng.chance(0.7) ? trio_ml::Clients::kSessions : trio_ml::Clients::kAny;
    if (is_flat(plan, job) && plan.machine == FaultMachine::kLive && prng.chance(0.3)) {
      constexpr uint32_t kGroups = 239U << 24;
      job.config.group = Endpoint::ipv4(kGroups | (i + 1), wire::kTrioMlPort);
    }
  }
}

/// Draws a limit for each aggregator of a tree, below and above the job's.
void draw_servers(FaultPlan& plan) {
  Prng prng = stream_of(plan.seed, kServerStream);
  if (plan.parent.size() == 1 || !prng.chance(0.5)) return;
  for (uint32_t i = 0; i < plan.parent.size(); i++) {
    plan.attack->servers.push_back(
        {.block_cnt_max = 2U << prng.below(5),
         .block_grad_max = 32 + prng.below(64),
         .room_bytes = prng.chance(0.5) ? 0 : 2000 + prng.below(60'000)});
  }
}

void draw_plain(FaultPlan& plan) {
  Prng prng = stream_of(plan.seed, kPlainStream);
  if (plan.machine != FaultMachine::kLive || !prng.chance(0.4)) return;
  PlainJobPlan plain;
  plain.aggregator = prng.below(static_cast<uint32_t>(plan.parent.size()));
  plain.gradients = 1 + prng.below(16);
  plain.blocks = 1 + prng.below(40);
  plain.config.id = kPlainJob;
  plain.config.sources = 2 + prng.below(3);
  plain.config.block_cnt_max = 4U << prng.below(3);
  plain.config.block_grad_max = 16;
  plain.config.clients = prng.chance(0.5) ? trio_ml::Clients::kPlain : trio_ml::Clients::kAny;
  plan.attack->plain = plain;
}

/// Returns whether the plan has a target for an attacker of this kind.
bool is_possible(const FaultPlan& plan, FaultKind kind) {
  const bool has_secret = std::any_of(plan.jobs.begin(), plan.jobs.end(), [](const JobPlan& job) {
    return job.config.auth.mode != auth::Mode::kNone;
  });
  if (kind == FaultKind::kReplayer || kind == FaultKind::kTamperer) return has_secret;
  return kind != FaultKind::kForeignMember || plan.jobs.size() > 1;
}

void draw_attackers(FaultPlan& plan) {
  AttackPlan& attack = *plan.attack;
  for (uint32_t i = 0; i < kFaultKindCount; i++) {
    const auto kind = static_cast<FaultKind>(i);
    if (!is_attacker(kind)) continue;
    Prng prng = stream_of(plan.seed, kAttackerStream + i);
    if (!prng.chance(0.5) || !is_possible(plan, kind)) plan.kinds.remove(kind);
    if (!plan.kinds.has(kind)) continue;
    const int64_t steps_max = kind == FaultKind::kFlooder ? kFloodsMax : kStepsMax;
    attack.every[i] = std::max(microseconds(200 + prng.below(5000)), plan.calm_at / steps_max);
    if (kind == FaultKind::kFlooder) attack.flood_packets = 20 + prng.below(200);
    if (kind == FaultKind::kTamperer) attack.tamper = 0.02 * prng.unit();
  }
}

}  // namespace

void draw_attack(FaultPlan& plan) {
  plan.attack.emplace();
  draw_jobs(plan);
  draw_servers(plan);
  draw_plain(plan);
  draw_attackers(plan);
}

}  // namespace tributary::lab
