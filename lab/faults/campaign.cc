// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "net/digest.h"

namespace tributary::lab {
namespace {

/// Returns whether two results break the same kind of promise.
bool fails_alike(const FaultResult& a, const FaultResult& b) {
  for (uint32_t i = 0; i < kBreachKinds; i++) {
    if (!a.breaches[i].empty() && !b.breaches[i].empty()) return true;
  }
  return false;
}

/// The state shared by the threads of a campaign.
class Workshop {
 public:
  explicit Workshop(const CampaignConfig& config)
      : config_(config), digests_(config.seeds), is_over_(config.seeds) {
    report_.first_seed = config.first_seed;
    report_.shape = config.shape;
  }

  /// Runs seeds until none is left. Called by each thread.
  void work() {
    while (true) {
      // Relaxed: it only matters that each number is handed out once.
      const uint64_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= config_.seeds || (config_.is_stopped && config_.is_stopped())) return;
      take(index, run_faults(draw_plan(config_.first_seed + index, config_.only, config_.shape)));
    }
  }

  CampaignReport finish() {
    for (uint64_t i = 0; i < config_.seeds; i++) {
      if (is_over_[i]) report_.digest = net::hash_chain(report_.digest, digests_[i]);
    }
    std::sort(failed_.begin(), failed_.end(),
              [](const FaultResult& a, const FaultResult& b) { return a.seed < b.seed; });
    report_.failed_seeds = failed_.size();
    if (failed_.size() > kFailuresMax) failed_.resize(kFailuresMax);
    for (FaultResult& failed : failed_) explain(std::move(failed));
    return std::move(report_);
  }

 private:
  void take(uint64_t index, FaultResult result) {
    const std::lock_guard lock(mutex_);
    digests_[index] = result.digest;
    is_over_[index] = true;
    report_.seeds++;
    for (uint32_t i = 0; i < kBreachKinds; i++) report_.breaches[i] += result.breaches[i].size();
    report_.packets += result.packets;
    report_.restarts += result.restarts;
    report_.owned_sums += result.owned_sums;
    report_.spoiled_sums += result.spoiled_sums;
    report_.overtaken_stalls += result.overtaken_stalls;
    for (uint32_t i = 0; i < kFaultKindCount; i++) report_.faults[i] += result.faults[i];
    if (!result.is_good()) failed_.push_back(std::move(result));
    if (config_.on_progress) config_.on_progress(report_.seeds);
  }

  void explain(FaultResult failed) {
    CampaignFailure failure;
    failure.kinds = smallest_kinds(failed.seed, config_.only, failed, config_.shape);
    const FaultPlan plan = draw_plan(failed.seed, failure.kinds, config_.shape);
    failure.plan = describe(plan);
    failure.smallest = run_faults(plan, /*traced=*/true);
    failure.replay = replay_command(failed.seed, failure.kinds, config_.shape);
    failure.result = std::move(failed);
    report_.failures.push_back(std::move(failure));
  }

  const CampaignConfig& config_;
  std::atomic<uint64_t> next_{0};
  std::mutex mutex_;  ///< Guards all below.
  std::vector<uint64_t> digests_;
  std::vector<bool> is_over_;
  std::vector<FaultResult> failed_;
  CampaignReport report_;
};

}  // namespace

FaultKinds smallest_kinds(uint64_t seed, FaultKinds only, const FaultResult& failed,
                          const PlanShape& shape) {
  FaultKinds kinds = draw_plan(seed, only, shape).kinds;
  for (uint32_t i = 0; i < kFaultKindCount; i++) {
    FaultKinds fewer = kinds;
    fewer.remove(static_cast<FaultKind>(i));
    if (fewer == kinds) continue;
    if (fails_alike(run_faults(draw_plan(seed, fewer, shape)), failed)) kinds = fewer;
  }
  return kinds;
}

std::string replay_command(uint64_t seed, FaultKinds kinds, const PlanShape& shape) {
  const bool is_default = shape.protocol == wire::Protocol::kTrioMl;
  return fmt::format("tributary lab faults{}{}{}{} --seed {} --only {} --trace",
                     is_default ? "" : " --protocol ", is_default ? "" : to_string(shape.protocol),
                     shape.attackers ? " --attackers" : "", shape.sharded ? " --sharded" : "", seed,
                     kinds.to_string());
}

CampaignReport run_campaign(const CampaignConfig& config) {
  Workshop workshop(config);
  std::vector<std::thread> threads;
  for (uint32_t i = 1; i < config.threads; i++) threads.emplace_back([&] { workshop.work(); });
  workshop.work();
  for (std::thread& thread : threads) thread.join();
  return workshop.finish();
}

}  // namespace tributary::lab
