// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/shard_judge.h"

#include <algorithm>
#include <initializer_list>

#include "host/silence_watch.h"

namespace tributary::lab {
namespace {

using host::Status;

/// Time from an aggregator's end until every rank that waits for it hears of it. Source:
/// docs/many-aggregators.md.
constexpr Duration kToldWithin = seconds(1);
/// Added where refusals may be lost: after the first six, a machine sends one a second
/// (lab/faults/refusals.h).
constexpr Duration kLostRefusal = seconds(1);
/// As kToldWithin, for an aggregator that is silent. A rank asks every 100 ms, so each of the
/// watch's steps may end that much later.
constexpr Duration kToldOfSilenceWithin = host::kSilentSessionFor + milliseconds(500);
/// After this time, no packet of a silent aggregator is on its way.
constexpr Duration kSettlesWithin = milliseconds(50);
/// Loss rate above which keep-alives, leaves or probes may be lost in a row.
constexpr double kFewLosses = 0.02;

bool has_any(const FaultPlan& plan, std::initializer_list<FaultKind> kinds) {
  return std::any_of(kinds.begin(), kinds.end(),
                     [&plan](FaultKind kind) { return plan.kinds.has(kind); });
}

}  // namespace

ShardJudge::ShardJudge(const FaultPlan& plan, FaultWorld& world, Journal& journal)
    : plan_(plan),
      world_(world),
      journal_(journal),
      crashes_(plan.parent.size()),
      silent_(plan.parent.size()),
      unnamed_ends_(plan.jobs.size()),
      named_ends_(plan.jobs.size()) {
  const bool few_losses = plan.links.loss + plan.links.corrupt + plan.scramble <= kFewLosses;
  only_losses_ = few_losses && !has_any(plan, {FaultKind::kWorkerCrash, FaultKind::kLinkCut,
                                               FaultKind::kClockStep, FaultKind::kDisagreement,
                                               FaultKind::kListMismatch});
  is_prompt_ = few_losses && !has_any(plan, {FaultKind::kLinkCut, FaultKind::kClockStep,
                                             FaultKind::kDelay, FaultKind::kWorkerPause});
  const auto losses =
      std::count_if(plan.incidents.begin(), plan.incidents.end(), [](const Incident& incident) {
        return incident.kind == FaultKind::kAggregatorCrash ||
               incident.kind == FaultKind::kLinkCut || incident.kind == FaultKind::kAggregatorPause;
      });
  is_single_ = losses == 1 && few_losses &&
               !has_any(plan, {FaultKind::kClockStep, FaultKind::kDelay, FaultKind::kWorkerPause});
}

void ShardJudge::on_crash(uint32_t aggregator, bool refuses) {
  crashes_[aggregator]++;
  // A machine sends few refusals, and its first crash may have used them up.
  if (!refuses || !is_prompt_ || crashes_[aggregator] > 1) return;
  const bool loses = plan_.links.loss + plan_.links.corrupt + plan_.scramble > 0;
  const Duration within = loses ? kToldWithin + kLostRefusal : kToldWithin;
  world_.at(world_.core().now() + within,
            [this, aggregator, within, waiting = waiting_for(aggregator)] {
              if (crashes_[aggregator] > 1 || world_.server(aggregator)->runs()) return;
              check_told(aggregator, waiting, within);
            });
}

void ShardJudge::on_silence(uint32_t aggregator, Duration length) {
  if (length >= host::kSilentSessionFor) silent_[aggregator] = true;
  if (!is_single_ || length < kSettlesWithin + kToldOfSilenceWithin) return;
  world_.at(world_.core().now() + kSettlesWithin, [this, aggregator] {
    world_.at(world_.core().now() + kToldOfSilenceWithin,
              [this, aggregator, waiting = waiting_for(aggregator)] {
                check_told(aggregator, waiting, kToldOfSilenceWithin);
              });
  });
}

std::vector<ShardJudge::Waiting> ShardJudge::waiting_for(uint32_t aggregator) {
  std::vector<Waiting> waiting;
  for (uint32_t job = 0; job < world_.job_count(); job++) {
    for (uint32_t rank = 0; rank < world_.world_of(job); rank++) {
      if (!world_.worker(job, rank).runs()) continue;
      const ShardedRank& process = world_.sharded(job, rank);
      if (process.phase() != host::TensorProtocol::Phase::kRunning ||
          !process.waits_for(world_.address_of(aggregator))) {
        continue;
      }
      waiting.push_back({job, rank, process.session()});
    }
  }
  return waiting;
}

void ShardJudge::check_told(uint32_t aggregator, const std::vector<Waiting>& waiting,
                            Duration within) {
  for (const Waiting& each : waiting) {
    if (!world_.worker(each.job, each.rank).runs()) continue;
    const ShardedRank& process = world_.sharded(each.job, each.rank);
    if (process.session() != each.session ||
        process.phase() != host::TensorProtocol::Phase::kRunning) {
      continue;
    }
    journal_.breach(
        Breach::kStuck,
        fmt::format("job {} rank {} still waits for aggregator {}, which was lost {} s ago",
                    each.job, each.rank, aggregator, in_seconds(within)));
  }
}

bool ShardJudge::names_lost_aggregator(const ShardedRank& rank) const {
  const std::vector<host::Aggregator>& list = rank.aggregators();
  for (size_t i = 0; i < list.size(); i++) {
    const bool named = rank.status_text().find(list[i].name) != std::string::npos;
    // With one aggregator the error names no "1 of 1".
    const bool placed =
        list.size() == 1 ||
        rank.status_text().find(fmt::format("{} of {}", i + 1, list.size())) != std::string::npos;
    // The other ranks learn that place from this one.
    const bool passed_on = list.size() == 1 || rank.failure()->lost_aggregator == i + 1;
    if (!named || !placed || !passed_on) continue;
    for (uint32_t lost = 0; lost < crashes_.size(); lost++) {
      const bool is_lost = crashes_[lost] > 0 || silent_[lost];
      if (is_lost && list[i].address == world_.address_of(lost)) return true;
    }
  }
  return false;
}

void ShardJudge::on_end(uint32_t job, uint32_t rank, const std::string& label) {
  const ShardedRank& process = world_.sharded(job, rank);
  // A crashed rank's successor ends its session without a reason.
  if (process.status() == Status::kPeerLeft && unnamed_ends_[job] == 0 &&
      !plan_.kinds.has(FaultKind::kWorkerCrash)) {
    journal_.breach(Breach::kWrong, fmt::format("{} is not told which aggregator was lost: {}",
                                                label, process.status_text()));
  }
  (process.failure()->lost_aggregator == 0 ? unnamed_ends_ : named_ends_)[job]++;
  // The others gave up their joins just before the aggregator came back, and named it.
  const bool came_back = process.status() == Status::kPeerMissing && process.session() == 0;
  if (came_back && named_ends_[job] > 0) return;
  // A rank that is too far behind ends without a fault, with mitigation.
  if (!only_losses_ || process.status() == Status::kDesynchronised) return;
  if (names_lost_aggregator(process)) return;
  journal_.breach(Breach::kWrong,
                  fmt::format("{} does not name the aggregator that was lost: {}: {}", label,
                              to_string(process.status()), process.status_text()));
}

void ShardJudge::check_left() {
  for (uint32_t job = 0; job < world_.job_count(); job++) {
    for (uint32_t i = 0; i < world_.aggregator_count(); i++) {
      const std::vector<host::Aggregator>& list = world_.sharded(job, 0).aggregators();
      const bool used = std::any_of(list.begin(), list.end(), [&](const auto& each) {
        return each.address == world_.address_of(i);
      });
      trio_ml::Job* at = world_.job_at(i, job);
      if (!used || at == nullptr || at->session.number() == 0) continue;
      journal_.breach(
          Breach::kLeaked,
          fmt::format("job {} at aggregator {} has a session that all have left", job, i));
    }
  }
}

}  // namespace tributary::lab
