// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/fault_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "base/prng.h"
#include "host/silence_watch.h"
#include "host/switchml/switchml_config.h"
#include "lab/faults/attack_plan.h"
#include "lab/faults/shard_plan.h"

namespace tributary::lab {

using wire::ElementFormat;

namespace {

/// Kinds that do not apply to SwitchML. Its switch allocates all memory at the start, and its
/// packets carry neither a tensor's length nor its scale, so no end can detect ranks that disagree.
constexpr std::array kNotOfSwitchml{FaultKind::kMemoryRefusal, FaultKind::kDisagreement};

constexpr std::array<const char*, kFaultKindCount> kKindNames{"loss",
                                                              "corruption",
                                                              "scrambling",
                                                              "duplication",
                                                              "reordering",
                                                              "delay",
                                                              "garbage",
                                                              "worker_pause",
                                                              "worker_crash",
                                                              "aggregator_pause",
                                                              "aggregator_crash",
                                                              "link_cut",
                                                              "clock_step",
                                                              "memory_refusal",
                                                              "disagreement",
                                                              "bad_value",
                                                              "forger",
                                                              "replayer",
                                                              "tamperer",
                                                              "flooder",
                                                              "half_open_joiner",
                                                              "foreign_member",
                                                              "list_mismatch"};

// Random streams other than those of the kinds of faults.
constexpr uint32_t kShapeStream = 100;
constexpr uint32_t kJobStream = 200;
constexpr uint32_t kOwnerStream = 700;  ///< Job j uses the stream kOwnerStream + j.

/// Minimum deadline, apart from the faults: ranks that lost each other can rejoin within it, which
/// takes at most two silences of 3.5 s (Session's kSilentAfter).
constexpr Duration kDeadlineMin = seconds(9);

/// SwitchML has no joins, so this exceeds the sum of pauses and delays.
constexpr Duration kSwitchmlDeadlineMin = seconds(5);

/// Share of runs on modelled machines; the others use live cores.
constexpr double kModelledShare = 0.1;
/// The same for SwitchML; a third of its runs use live cores.
constexpr double kTofinoShare = 0.35;
constexpr double kSwitchmlPfeShare = 0.3;
/// Workers at one pipe of a Tofino with ports of 100 Gbit/s.
constexpr uint32_t kSwitchmlWorkersMax = 8;

Prng stream_of(uint64_t seed, uint32_t stream) {
  return Prng(Prng(seed ^ uint64_t{stream} << 48).any_u64());
}
Prng stream_of(uint64_t seed, FaultKind kind) {
  return stream_of(seed, static_cast<uint32_t>(kind));
}

/// Returns 1 … max, uniform in the logarithm.
uint32_t log_uniform(Prng& prng, uint32_t max) {
  const uint32_t bits = prng.below(static_cast<uint32_t>(std::bit_width(max)));
  return std::min(max, (1U << bits) + prng.below(1U << bits));
}

/// Returns a duration with the same distribution, in steps of a microsecond.
Duration log_duration(Prng& prng, Duration max) {
  return microseconds(log_uniform(prng, static_cast<uint32_t>(in_nanoseconds(max) / 1000)));
}

// --- Shape ---

/// Draws 1 to 3 levels: a root; a root and leaves; a root, one or two in the middle, and leaves.
void draw_tree(Prng& prng, FaultPlan& plan) {
  if (prng.chance(0.6)) return;
  if (prng.chance(0.65)) {
    plan.parent.resize(1 + 2 + prng.below(2), 0);
    return;
  }
  const uint32_t middle = 1 + prng.below(2);
  plan.parent.resize(1 + middle, 0);
  for (uint32_t i = 0; i < middle; i++) {
    const uint32_t leaves = middle == 1 ? 2 : 1 + prng.below(2);
    plan.parent.resize(plan.parent.size() + leaves, 1 + i);
  }
}

uint32_t leaf_count(const FaultPlan& plan) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < plan.parent.size(); i++) count += plan.has_children(i) ? 0 : 1;
  return count;
}

void draw_work(Prng& prng, JobPlan& job) {
  const uint32_t count = 1 + prng.below(5) + kCalmCollectives;
  const uint32_t elements_max = job.gradients * 150;
  for (uint32_t i = 0; i < count; i++) {
    job.work.push_back({.element_count = log_uniform(prng, std::min(2000U, elements_max)),
                        .format = static_cast<ElementFormat>(prng.below(3)),
                        .op = prng.chance(0.5) ? host::ReduceOp::kSum : host::ReduceOp::kMean});
  }
}

JobPlan draw_job(Prng& prng, const FaultPlan& plan, uint32_t index, uint32_t world_max) {
  JobPlan job;
  const uint32_t leaves = leaf_count(plan);
  // The first job spans the tree, so that every aggregator has a job.
  const bool alone =
      index > 0 && plan.parent.size() > 1 && (leaves > world_max || prng.chance(0.3));
  if (alone) job.alone_at = prng.below(static_cast<uint32_t>(plan.parent.size()));
  const uint32_t world_min = alone ? 2 : std::max(2U, leaves);
  // Few workers are as likely as many.
  job.world = std::max(world_min, log_uniform(prng, world_max));
  job.config.id = static_cast<uint8_t>(1 + index * 7 + prng.below(7));
  job.config.block_cnt_max = 4U << prng.below(4);
  job.config.block_grad_max = 32;
  job.config.history = 1 + prng.below(3);
  job.config.mitigation = prng.chance(0.5);
  job.config.timeout = milliseconds(10 + prng.below(30));
  job.config.timer_threads = 1 + prng.below(10);
  job.config.permanent_after = milliseconds(200 + prng.below(1000));
  job.gradients = log_uniform(prng, 32);
  job.window = log_uniform(prng, 64);
  job.in_flight = 1 + prng.below(3);
  // The job is sometimes idle for long, so that keep-alives matter.
  job.compute_max =
      prng.chance(0.1) ? seconds(2 + prng.below(3)) : log_duration(prng, milliseconds(50));
  job.notice_after = prng.chance(0.5) ? log_duration(prng, milliseconds(500))
                                      : kDeadlineMin + seconds(1 + prng.below(3));
  draw_work(prng, job);
  return job;
}

void draw_cables(Prng& prng, FaultPlan& plan) {
  plan.propagation = log_duration(prng, milliseconds(1));
  plan.links.jitter = prng.chance(0.5) ? log_duration(prng, microseconds(200)) : Duration();
}

FaultMachine draw_switchml_machine(Prng& prng) {
  const double draw = prng.unit();
  if (draw < kTofinoShare) return FaultMachine::kTofino;
  return draw < kTofinoShare + kSwitchmlPfeShare ? FaultMachine::kPfe : FaultMachine::kLive;
}

/// Draws one switch with one session, as in SwitchML.
void draw_switchml_shape(uint64_t seed, FaultPlan& plan) {
  Prng prng = stream_of(seed, kShapeStream);
  plan.machine = draw_switchml_machine(prng);
  draw_cables(prng, plan);
  JobPlan job;
  job.world = 1 + log_uniform(prng, kSwitchmlWorkersMax - 1);
  job.gradients = host::kSwitchmlSmallElements;
  job.window = log_uniform(prng, 16);
  job.in_flight = 1 + prng.below(3);
  job.compute_max = log_duration(prng, milliseconds(50));
  job.notice_after = log_duration(prng, milliseconds(500));
  draw_work(prng, job);
  plan.configured = plan.machine == FaultMachine::kLive && prng.chance(0.5);
  plan.jobs.push_back(std::move(job));
}

void draw_shape(uint64_t seed, FaultPlan& plan) {
  Prng prng = stream_of(seed, kShapeStream);
  if (prng.chance(kModelledShare)) plan.machine = FaultMachine::kPfe;
  // A separate PFE with one job.
  const bool modelled = plan.machine != FaultMachine::kLive;
  if (!modelled) draw_tree(prng, plan);
  draw_cables(prng, plan);
  const uint32_t job_count = modelled || prng.chance(0.6) ? 1 : 2 + prng.below(2);
  uint32_t workers = 0;
  for (uint32_t i = 0; i < job_count && workers + 2 <= kPlannedWorkersMax; i++) {
    Prng own = stream_of(seed, kJobStream + i);
    const uint32_t later = 2 * (job_count - 1 - i);
    const uint32_t most = std::max(2U, std::min(kPlannedWorkersMax - workers - later,
                                                job_count == 1 ? kPlannedWorkersMax : 6U));
    plan.jobs.push_back(draw_job(own, plan, i, most));
    workers += plan.jobs.back().world;
  }
}

// --- Faults ---

/// Returns the rate of a permanent kind of fault; 0 if the run does not have it.
double draw_rate(FaultPlan& plan, FaultKind kind, double probability, double max) {
  Prng prng = stream_of(plan.seed, kind);
  if (!plan.kinds.has(kind) || !prng.chance(probability)) {
    plan.kinds.remove(kind);
    return 0;
  }
  return max * prng.unit();
}

void draw_rates(FaultPlan& plan) {
  net::LinkFaults& links = plan.links;
  links.loss = draw_rate(plan, FaultKind::kLoss, 0.6, 0.3);
  links.corrupt = draw_rate(plan, FaultKind::kCorruption, 0.4, 0.05);
  plan.scramble = draw_rate(plan, FaultKind::kScrambling, 0.3, 0.02);
  links.duplicate = draw_rate(plan, FaultKind::kDuplication, 0.5, 0.2);
  links.reorder = draw_rate(plan, FaultKind::kReordering, 0.5, 0.3);
  if (links.reorder > 0) {
    // Longer than a window takes to cross the network.
    links.reorder_max = plan.propagation * 4 + milliseconds(1);
  }
  Prng garbage = stream_of(plan.seed, FaultKind::kGarbage);
  if (plan.kinds.has(FaultKind::kGarbage) && garbage.chance(0.25)) {
    plan.garbage_every = microseconds(100 + garbage.below(5000));
  } else {
    plan.kinds.remove(FaultKind::kGarbage);
  }
}

/// Frequency and maximum length of a kind of incident in runs that have it.
struct IncidentRate {
  FaultKind kind;
  double probability;
  uint32_t count_max;
  Duration length_max;
};
constexpr std::array kIncidentRates{
    IncidentRate{FaultKind::kDelay, 0.25, 2, milliseconds(200)},
    IncidentRate{FaultKind::kWorkerPause, 0.3, 3, milliseconds(400)},
    IncidentRate{FaultKind::kWorkerCrash, 0.15, 2, seconds(5)},
    IncidentRate{FaultKind::kAggregatorPause, 0.15, 2, milliseconds(200)},
    IncidentRate{FaultKind::kAggregatorCrash, 0.12, 2, seconds(3)},
    IncidentRate{FaultKind::kLinkCut, 0.15, 2, seconds(4)},
    IncidentRate{FaultKind::kClockStep, 0.12, 2, seconds(5)},
};
static_assert(kIncidentRates[0].length_max == kRtoMin * 100, "delays of up to 100 timeouts");

/// Returns whether the kind needs a server process. A modelled machine is hardware and has none.
bool happens_to_servers(FaultKind kind) {
  return kind == FaultKind::kAggregatorPause || kind == FaultKind::kAggregatorCrash;
}

Incident draw_incident(Prng& prng, const FaultPlan& plan, const IncidentRate& rate) {
  Incident incident{.kind = rate.kind,
                    .at = log_duration(prng, milliseconds(400)),
                    .job = prng.below(static_cast<uint32_t>(plan.jobs.size())),
                    .length = log_duration(prng, rate.length_max)};
  const bool either = rate.kind == FaultKind::kClockStep || rate.kind == FaultKind::kLinkCut ||
                      rate.kind == FaultKind::kDelay;
  incident.aggregator = rate.kind == FaultKind::kAggregatorPause ||
                        rate.kind == FaultKind::kAggregatorCrash ||
                        (either && prng.chance(0.4) && plan.machine == FaultMachine::kLive);
  incident.target = prng.below(incident.aggregator ? static_cast<uint32_t>(plan.parent.size())
                                                   : plan.jobs[incident.job].world);
  return incident;
}

void draw_incidents(FaultPlan& plan) {
  Duration end = milliseconds(200);
  for (const IncidentRate& rate : kIncidentRates) {
    Prng prng = stream_of(plan.seed, rate.kind);
    const bool possible = plan.machine == FaultMachine::kLive || !happens_to_servers(rate.kind);
    if (!plan.kinds.has(rate.kind) || !prng.chance(rate.probability) || !possible) {
      plan.kinds.remove(rate.kind);
      continue;
    }
    const uint32_t count = 1 + prng.below(rate.count_max);
    for (uint32_t i = 0; i < count; i++) {
      plan.incidents.push_back(draw_incident(prng, plan, rate));
      const Incident& incident = plan.incidents.back();
      end = std::max(end, incident.at + incident.length);
    }
  }
  Prng prng = stream_of(plan.seed, kShapeStream + 1);
  plan.calm_at = end + log_duration(prng, seconds(2));
}

/// Draws tensors on which ranks disagree, and tensors that cannot be summed.
void draw_bad_tensors(FaultPlan& plan) {
  Prng disagreement = stream_of(plan.seed, FaultKind::kDisagreement);
  Prng bad_value = stream_of(plan.seed, FaultKind::kBadValue);
  JobPlan& job = plan.jobs.back();
  const auto faulty = static_cast<uint32_t>(job.work.size()) - kCalmCollectives;
  if (plan.kinds.has(FaultKind::kDisagreement) && disagreement.chance(0.05)) {
    job.disagreement = Disagreement{.collective = disagreement.below(faulty),
                                    .rank = disagreement.below(job.world),
                                    .scale = disagreement.chance(0.5)};
    if (job.disagreement->scale) {
      job.work[job.disagreement->collective].format = ElementFormat::kFixedScale;
    }
  } else {
    plan.kinds.remove(FaultKind::kDisagreement);
  }
  if (plan.kinds.has(FaultKind::kBadValue) && bad_value.chance(0.1)) {
    job.bad_value = BadValue{.collective = bad_value.below(faulty),
                             .rank = bad_value.below(job.world),
                             .element = bad_value.any_u32(),
                             .not_finite = bad_value.chance(0.5)};
  } else {
    plan.kinds.remove(FaultKind::kBadValue);
  }
}

/// Draws faults of the job itself.
void draw_misuse(FaultPlan& plan) {
  Prng refusal = stream_of(plan.seed, FaultKind::kMemoryRefusal);
  // Few workers, because such a large window means many packets.
  if (plan.kinds.has(FaultKind::kMemoryRefusal) && refusal.chance(0.08) &&
      plan.parent.size() == 1 && plan.jobs[0].world <= 3) {
    // With 1,024 places or more, a job has fewer buffers than blocks and results (block_window.cc).
    JobPlan& job = plan.jobs[0];
    job.config.block_cnt_max = 1024;
    job.config.history = 1;
    job.window = 1024;
    job.gradients = 1;
    for (Collective& collective : job.work) {
      collective = {.element_count = 1 + refusal.below(1500),
                    .format = ElementFormat::kInt32,
                    .op = host::ReduceOp::kSum};
    }
    job.work[0].element_count = 2600;
  } else {
    plan.kinds.remove(FaultKind::kMemoryRefusal);
  }
  draw_bad_tensors(plan);
}

/// Gives the results of some all-reduces to one rank, also of the last ones, after calm_at.
void draw_owners(FaultPlan& plan) {
  for (uint32_t i = 0; i < plan.jobs.size(); i++) {
    Prng prng = stream_of(plan.seed, kOwnerStream + i);
    JobPlan& job = plan.jobs[i];
    if (!prng.chance(0.6)) continue;
    for (Collective& collective : job.work) {
      if (prng.chance(0.5)) collective.owner = prng.below(job.world);
    }
    // With a fixed scale the owner does not travel (docs/wire-format.md).
    auto& odd = job.disagreement;
    if (odd && !odd->scale && job.work[odd->collective].format != ElementFormat::kFixedScale) {
      odd->owner = prng.chance(0.5);
    }
  }
}

/// Sets deadlines that are short, but that only harmful faults can exceed.
void set_deadlines(FaultPlan& plan) {
  Prng prng = stream_of(plan.seed, kShapeStream + 2);
  for (JobPlan& job : plan.jobs) {
    if (plan.protocol == wire::Protocol::kSwitchml) {
      job.deadline = kSwitchmlDeadlineMin + milliseconds(prng.below(3000));
      continue;
    }
    job.deadline = plan.is_harmful() ? kDeadlineMin + milliseconds(prng.below(3000)) : seconds(40);
  }
}

}  // namespace

const char* to_string(FaultKind kind) { return kKindNames[static_cast<uint32_t>(kind)]; }

std::optional<FaultKind> fault_kind(const std::string& name) {
  const auto found = std::find(kKindNames.begin(), kKindNames.end(), name);
  if (found == kKindNames.end()) return {};
  return static_cast<FaultKind>(found - kKindNames.begin());
}

std::string FaultKinds::to_string() const {
  std::string text;
  for (uint32_t i = 0; i < kFaultKindCount; i++) {
    if (!has(static_cast<FaultKind>(i))) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ",", kKindNames[i]);
  }
  return text.empty() ? "none" : text;
}

bool FaultPlan::has_children(uint32_t aggregator) const {
  for (uint32_t i = 0; i < parent.size(); i++) {
    if (parent[i] == aggregator && i != aggregator) return true;
  }
  return false;
}

uint32_t FaultPlan::levels() const {
  uint32_t most = 1;
  for (uint32_t i = 0; i < parent.size(); i++) {
    uint32_t level = 1;
    for (uint32_t at = i; !is_root(at); at = parent[at]) level++;
    most = std::max(most, level);
  }
  return most;
}

bool FaultPlan::is_harmful() const {
  for (const FaultKind kind :
       {FaultKind::kWorkerCrash, FaultKind::kAggregatorCrash, FaultKind::kLinkCut,
        FaultKind::kClockStep, FaultKind::kDisagreement, FaultKind::kListMismatch}) {
    if (kinds.has(kind)) return true;
  }
  // A shard that is silent for so long is lost (host/silence_watch.h).
  return sharded && std::any_of(incidents.begin(), incidents.end(), [](const Incident& incident) {
           return incident.kind == FaultKind::kAggregatorPause &&
                  incident.length >= host::kSilentSessionFor;
         });
}

FaultPlan draw_plan(uint64_t seed, FaultKinds only, const PlanShape& shape) {
  FaultPlan plan;
  plan.seed = seed;
  plan.protocol = shape.protocol;
  plan.kinds = only;
  const bool trio_ml = shape.protocol == wire::Protocol::kTrioMl;
  const bool sharded = shape.sharded && trio_ml;
  const bool attacked = shape.attackers && trio_ml && !sharded;
  if (!attacked) plan.kinds.remove_attackers();
  if (!trio_ml) {
    for (const FaultKind kind : kNotOfSwitchml) plan.kinds.remove(kind);
    draw_switchml_shape(seed, plan);
  } else {
    draw_shape(seed, plan);
  }
  if (sharded) draw_shards(plan);
  draw_rates(plan);
  draw_incidents(plan);
  draw_misuse(plan);
  if (sharded) {
    draw_shard_faults(plan, only);
  } else {
    plan.kinds.remove(FaultKind::kListMismatch);
  }
  if (trio_ml) draw_owners(plan);
  set_deadlines(plan);
  if (attacked) draw_attack(plan);
  return plan;
}

std::string describe(const FaultPlan& plan) {
  std::string jobs;
  for (const JobPlan& job : plan.jobs) {
    jobs += fmt::format("{}{} workers{}", jobs.empty() ? "" : " + ", job.world,
                        job.config.mitigation ? " (mitigation)" : "");
    const auto owned = std::count_if(job.work.begin(), job.work.end(),
                                     [](const Collective& each) { return each.owner.has_value(); });
    if (owned > 0) jobs += fmt::format(" ({} of {} sums for one rank)", owned, job.work.size());
    if (plan.attack) jobs += fmt::format(" auth={}", auth::to_string(job.config.auth.mode));
    if (job.config.group.is_set()) jobs += " group";
    if (job.sharded) jobs += fmt::format(" (weights {})", fmt::join(job.sharded->weights, ","));
  }
  if (plan.attack && plan.attack->plain) {
    jobs += fmt::format(" + {} plain clients", plan.attack->plain->config.sources);
  }
  if (plan.protocol == wire::Protocol::kSwitchml) {
    constexpr const char* kMachines[] = {"a live core", "the modelled PFE", "the modelled Tofino"};
    return fmt::format("SwitchML on {}, {}{}; faults: {}",
                       kMachines[static_cast<uint32_t>(plan.machine)], jobs,
                       plan.configured ? ", no control plane" : "", plan.kinds.to_string());
  }
  return fmt::format("{} {} aggregator{} in {} level{}, {}; faults: {}", plan.parent.size(),
                     plan.machine == FaultMachine::kLive ? "live" : "modelled",
                     plan.parent.size() == 1 ? "" : "s", plan.levels(),
                     plan.levels() == 1 ? "" : "s", jobs, plan.kinds.to_string());
}

}  // namespace tributary::lab
