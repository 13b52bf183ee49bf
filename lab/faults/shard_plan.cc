// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/shard_plan.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/prng.h"

namespace tributary::lab {
namespace {

// Random streams; fault_plan.cc and attack_plan.cc have the others.
constexpr uint32_t kShardStream = 600;
constexpr uint32_t kListStream = 601;
constexpr uint32_t kShardJobStream = 610;  ///< And the following, one for each job.
constexpr uint32_t kAimStream = 620;       ///< And the following, one for each kind.

/// Blocks of a large tensor, at most: four equal aggregators take part from 128 blocks on
/// (plan/part_cutter.h).
constexpr uint32_t kBlocksMax = 300;
constexpr uint32_t kElementsMax = 4000;
constexpr uint32_t kWeightMax = 5;

Prng stream_of(uint64_t seed, uint32_t stream) {
  return Prng(Prng(seed ^ uint64_t{stream} << 40).any_u64());
}

/// Faults of a whole aggregator: of the process, or of all its cables.
struct ShardFault {
  FaultKind kind;
  double probability;
  Duration length_max;
};
constexpr std::array kShardFaults{
    ShardFault{FaultKind::kAggregatorCrash, 0.5, seconds(3)},
    ShardFault{FaultKind::kAggregatorPause, 0.2, milliseconds(200)},
    ShardFault{FaultKind::kLinkCut, 0.2, seconds(3)},
    ShardFault{FaultKind::kDelay, 0.1, milliseconds(200)},
};
/// These faults begin within this time.
constexpr uint32_t kWithinMs = 600;

std::vector<uint32_t> draw_weights(Prng& prng, uint32_t aggregators) {
  std::vector<uint32_t> weights(aggregators, 1);
  if (prng.chance(0.5)) return weights;
  for (uint32_t& weight : weights) weight = prng.below(kWeightMax + 1);
  weights[prng.below(aggregators)] = 1;  // One takes part.
  return weights;
}

}  // namespace

void draw_shards(FaultPlan& plan) {
  Prng shape = stream_of(plan.seed, kShardStream);
  const uint32_t aggregators = 2 + shape.below(3);
  plan.sharded = true;
  plan.machine = FaultMachine::kLive;
  plan.parent.resize(aggregators);
  std::iota(plan.parent.begin(), plan.parent.end(), 0);
  for (uint32_t i = 0; i < plan.jobs.size(); i++) {
    Prng prng = stream_of(plan.seed, kShardJobStream + i);
    JobPlan& job = plan.jobs[i];
    job.alone_at.reset();
    job.sharded =
        ShardedJob{.weights = draw_weights(prng, aggregators), .leaves_out_lost = prng.chance(0.5)};
    // Half of the tensors are large enough for several aggregators.
    for (Collective& collective : job.work) {
      if (prng.chance(0.5)) continue;
      const uint32_t blocks = 1 + prng.below(kBlocksMax);
      collective.element_count = std::min(blocks * job.gradients, kElementsMax);
    }
  }
}

void draw_shard_faults(FaultPlan& plan, FaultKinds only) {
  const auto aggregators = static_cast<uint32_t>(plan.parent.size());
  // A stream for each kind, so that kinds can be removed one by one.
  std::vector<Prng> aims;
  for (uint32_t kind = 0; kind < kFaultKindCount; kind++) {
    aims.push_back(stream_of(plan.seed, kAimStream + kind));
  }
  for (Incident& incident : plan.incidents) {
    Prng& aim = aims[static_cast<uint32_t>(incident.kind)];
    const uint32_t shard = aim.below(aggregators);
    const bool one = aim.chance(0.7);
    const bool on_cable =
        incident.kind == FaultKind::kLinkCut || incident.kind == FaultKind::kDelay;
    if (on_cable && !incident.aggregator && one) incident.shard = shard;
    incident.refuses = incident.kind == FaultKind::kAggregatorCrash && one;
  }
  Duration end;
  for (const ShardFault& fault : kShardFaults) {
    Prng& aim = aims[static_cast<uint32_t>(fault.kind)];
    if (!only.has(fault.kind) || !aim.chance(fault.probability)) continue;
    plan.kinds.add(fault.kind);
    const Duration length = fault.length_max * static_cast<int64_t>(1 + aim.below(100)) / 100;
    plan.incidents.push_back(
        {.kind = fault.kind,
         .at = milliseconds(aim.below(kWithinMs)),
         .target = aim.below(aggregators),
         .length = length,
         .aggregator = true,
         .refuses = fault.kind == FaultKind::kAggregatorCrash && aim.chance(0.7)});
    end = std::max(end, plan.incidents.back().at + length);
  }
  plan.calm_at = std::max(plan.calm_at, end + milliseconds(100));
  Prng list = stream_of(plan.seed, kListStream);
  if (!plan.kinds.has(FaultKind::kListMismatch) || !list.chance(0.05)) {
    plan.kinds.remove(FaultKind::kListMismatch);
    return;
  }
  JobPlan& job = plan.jobs[list.below(static_cast<uint32_t>(plan.jobs.size()))];
  job.sharded->other_list = list.below(job.world);
}

}  // namespace tributary::lab
