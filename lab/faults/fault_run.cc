// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/fault_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "lab/faults/attackers.h"
#include "lab/faults/fault_world.h"
#include "lab/faults/job_driver.h"
#include "lab/faults/journal.h"
#include "lab/faults/plain_job.h"
#include "lab/faults/session_book.h"
#include "lab/faults/shard_judge.h"

namespace tributary::lab {
namespace {

/// Interval of the checks for overdue waits.
constexpr Duration kLookEvery = milliseconds(500);
/// Time after which a session without living members must have ended: silence (3.5 s), then the
/// infrequent timer's next visit, at each of three levels.
constexpr Duration kSessionOver = seconds(15);
/// Long enough for all packets to arrive and for buffers to cool.
constexpr Duration kSettled = seconds(1);
/// A slow link stays slow for this multiple of its added delay.
constexpr int64_t kDelayLasts = 3;
/// Maximum events of a run: about ten times the longest of thousands of runs.
constexpr uint64_t kEventsMax = 30'000'000;

class Run {
 public:
  Run(const FaultPlan& plan, bool traced)
      : plan_(plan),
        world_(plan),
        sessions_(plan, world_),
        journal_(world_.core(), traced),
        draws_(plan.seed ^ 0x9a4ba9e) {
    if (plan.sharded) shards_.emplace(plan, world_, journal_);
    for (uint32_t job = 0; job < plan.jobs.size(); job++) {
      drivers_.push_back(std::make_unique<JobDriver>(plan, job, world_, sessions_, journal_,
                                                     shards_ ? &*shards_ : nullptr));
    }
    if (plan.attack) attackers_.emplace(plan, world_, journal_);
    if (plan.attack && plan.attack->plain) plain_.emplace(*plan.attack->plain, world_, journal_);
  }

  FaultResult run();

 private:
  [[nodiscard]] Instant now() { return world_.core().now(); }
  void plan_incidents();
  void begin(const Incident& incident);
  void send_garbage_later();
  void look_later();
  /// Runs until `done` holds for every job.
  /// @return Whether it does.
  template <class F>
  bool run_until(Instant limit, F&& done);
  void run_to(Instant limit);
  void finish_jobs();
  void check_buffers();
  void check_buffers_at(uint32_t aggregator, uint32_t job, uint64_t positions);
  void check_over();
  void count(FaultKind kind, uint64_t times = 1) { faults_[static_cast<uint32_t>(kind)] += times; }
  void count_misuse();
  [[nodiscard]] Duration longest_deadline() const;

  const FaultPlan& plan_;
  FaultWorld world_;
  SessionBook sessions_;
  Journal journal_;
  Prng draws_;
  std::optional<ShardJudge> shards_;
  std::vector<std::unique_ptr<JobDriver>> drivers_;
  std::optional<Attackers> attackers_;
  std::optional<PlainJob> plain_;
  std::array<uint64_t, kFaultKindCount> faults_{};
  uint64_t repairs_ = 0;
  bool calm_ = false;
  bool restless_ = false;
};

void Run::begin(const Incident& incident) {
  if (calm_) return;
  count(incident.kind);
  journal_.trace("{}: {} {} for {:.1f} ms", to_string(incident.kind),
                 incident.aggregator ? "aggregator" : "rank", incident.target,
                 in_seconds(incident.length) * 1e3);
  JobDriver& driver = *drivers_[incident.job];
  switch (incident.kind) {
    case FaultKind::kDelay:
      world_.set_delay(incident, incident.length);
      world_.at(now() + incident.length * kDelayLasts, [this, incident] {
        if (!calm_) world_.set_delay(incident, {});
      });
      break;
    case FaultKind::kWorkerPause:
      world_.worker(incident.job, incident.target).pause(incident.length);
      break;
    case FaultKind::kWorkerCrash:
      driver.crash(incident.target, incident.length);
      break;
    case FaultKind::kAggregatorPause:
      world_.pause_aggregator(incident.target, incident.length);
      if (shards_) shards_->on_silence(incident.target, incident.length);
      break;
    case FaultKind::kAggregatorCrash:
      world_.stop_aggregator(incident.target, incident.refuses);
      if (shards_) {
        shards_->on_crash(incident.target, incident.refuses);
        if (!incident.refuses) shards_->on_silence(incident.target, incident.length);
      }
      world_.at(now() + incident.length, [this, target = incident.target] {
        world_.start_aggregator(target);
        if (plain_) plain_->on_restart(target);
      });
      break;
    case FaultKind::kLinkCut:
      world_.set_cut(incident, true);
      if (shards_ && incident.aggregator) shards_->on_silence(incident.target, incident.length);
      world_.at(now() + incident.length, [this, incident] { world_.set_cut(incident, false); });
      break;
    case FaultKind::kClockStep:
      if (incident.aggregator) {
        if (LiveHost* host = world_.server(incident.target)) host->step_clock(incident.length);
      } else {
        world_.worker(incident.job, incident.target).step_clock(incident.length);
      }
      break;
    default:  // The other kinds are not incidents.
      break;
  }
}

void Run::plan_incidents() {
  for (const Incident& incident : plan_.incidents) {
    world_.at(Instant() + incident.at, [this, &incident] { begin(incident); });
  }
  world_.at(Instant() + plan_.calm_at, [this] {
    calm_ = true;
    world_.clear_link_faults();
    journal_.trace("no more faults");
  });
}

void Run::send_garbage_later() {
  world_.at(now() + plan_.garbage_every, [this] {
    if (calm_) return;
    count(FaultKind::kGarbage);
    world_.send_garbage(draws_);
    send_garbage_later();
  });
}

void Run::look_later() {
  world_.at(now() + kLookEvery, [this] {
    for (const auto& driver : drivers_) driver->check_waits();
    look_later();
  });
}

/// Runs until `until`. Stops a run that exceeds the maximum number of events: a node never becomes
/// idle.
void Run::run_to(Instant limit) {
  EventCore& core = world_.core();
  if (restless_) return;
  restless_ = core.run_until(limit, [&core] { return core.executed_count() > kEventsMax; });
  if (restless_) journal_.breach(Breach::kStuck, "a node never becomes idle");
}

template <class F>
bool Run::run_until(Instant limit, F&& done) {
  // Checked at intervals, because the check visits every rank.
  constexpr Duration kAskEvery = milliseconds(2);
  while (now() < limit) {
    if (std::all_of(drivers_.begin(), drivers_.end(), [&](const auto& d) { return done(*d); })) {
      return true;
    }
    run_to(std::max(now() + kAskEvery, world_.core().next_at()));
    if (restless_) return false;
  }
  return false;
}

Duration Run::longest_deadline() const {
  Duration longest;
  for (const JobPlan& job : plan_.jobs) longest = std::max(longest, job.deadline);
  return longest;
}

/// Checks the final promise: every rank that can finish does.
void Run::finish_jobs() {
  const Instant limit = Instant() + plan_.calm_at + longest_deadline() * 3 + seconds(60);
  bool done = run_until(limit, [](const JobDriver& job) { return job.in_step(); });
  if (done) {
    // Packets still in flight belong to the faults.
    run_to(std::max(now(), Instant() + plan_.calm_at) + kSettled);
    done = run_until(limit, [](const JobDriver& job) { return job.in_step(); });
  }
  for (uint32_t i = 1; done && i <= kCalmCollectives; i++) {
    for (const auto& driver : drivers_) driver->release(i);
    done = run_until(limit, [](const JobDriver& job) { return job.all_done(); });
  }
  if (!done) {
    journal_.breach(Breach::kStuck, fmt::format("not finished {:.1f} s after the last fault",
                                                in_seconds(limit - Instant() - plan_.calm_at)));
  }
}

void Run::check_buffers() {
  if (const uint32_t slots = world_.slots_at_work(); slots != 0) {
    journal_.breach(Breach::kLeaked, fmt::format("{} sets of slots with a thread at work", slots));
  }
  for (uint32_t job = 0; job < plan_.jobs.size(); job++) {
    uint64_t positions = 0;
    for (uint32_t rank = 0; rank < plan_.jobs[job].world; rank++) {
      const auto& counters = world_.worker(job, rank).protocol().counters();
      positions = std::max(positions, counters.blocks);
      repairs_ += counters.probes + counters.retransmitted;
    }
    for (uint32_t i = 0; i < world_.aggregator_count(); i++) {
      // A session at another aggregator ends by silence.
      if (drivers_[job]->uses(i)) check_buffers_at(i, job, positions);
    }
  }
}

/// @param positions Results of lower ones may be kept.
void Run::check_buffers_at(uint32_t aggregator, uint32_t job, uint64_t positions) {
  trio_ml::Job* at = world_.job_at(aggregator, job);
  if (at == nullptr) return;
  uint64_t kept = 0;
  for (uint32_t block_id = 0; block_id < positions; block_id++) {
    const auto found = at->window.find({.gen_id = 0, .block_id = block_id, .extended = true});
    kept += found.kind == trio_ml::Found::Kind::kResult ? 1 : 0;
  }
  const uint64_t all = trio_ml::buffer_count(at->config, 1);
  const uint64_t free = all - at->window.buffers_held();
  if (at->record.block_curr_cnt == 0 && free + kept == all) return;
  journal_.breach(Breach::kLeaked,
                  fmt::format("job {} at aggregator {}: {} blocks in progress, {} buffers free "
                              "and {} kept of {}",
                              job, aggregator, at->record.block_curr_cnt, free, kept, all));
}

void Run::check_over() {
  for (const auto& driver : drivers_) driver->leave_all();
  if (shards_) {
    run_to(now() + kSettled);
    shards_->check_left();
  }
  run_to(now() + kSessionOver);
  world_.wake_aggregators();
  run_to(now() + kSettled);
  for (uint32_t job = 0; job < plan_.jobs.size(); job++) {
    for (uint32_t i = 0; i < world_.aggregator_count(); i++) {
      if (!drivers_[job]->uses(i)) check_buffers_at(i, job, /*positions=*/0);
      const trio_ml::Job* at = world_.job_at(i, job);
      if (at == nullptr || at->session.number() == 0) continue;
      journal_.breach(Breach::kLeaked,
                      fmt::format("job {} at aggregator {} still has a session", job, i));
    }
  }
  if (const uint64_t held = world_.held_packets(); held != 0) {
    journal_.breach(Breach::kLeaked, fmt::format("{} packets", held));
  }
}

void Run::count_misuse() {
  for (const FaultKind kind : {FaultKind::kMemoryRefusal, FaultKind::kDisagreement,
                               FaultKind::kBadValue, FaultKind::kListMismatch}) {
    if (plan_.kinds.has(kind)) count(kind);
  }
}

FaultResult Run::run() {
  plan_incidents();
  if (plan_.garbage_every > Duration()) send_garbage_later();
  look_later();
  count_misuse();
  if (attackers_) attackers_->start();
  if (plain_) plain_->start();
  for (const auto& driver : drivers_) driver->start();
  finish_jobs();
  if (journal_.of(Breach::kStuck).empty()) {
    // Cooling buffers are free from the next burst.
    world_.wake_aggregators();
    run_to(now() + kSettled);
    if (attackers_) attackers_->finish();
    check_buffers();
    check_over();
  }
  if (plain_) plain_->check();
  for (const std::string& verdict : world_.promptness_verdicts()) {
    journal_.breach(Breach::kWrong, verdict);
  }
  for (const std::string& verdict : world_.owner_judge().verdicts()) {
    journal_.breach(Breach::kWrong, verdict);
  }
  for (const std::string& verdict : world_.loss_verdicts()) {
    journal_.breach(Breach::kDegradedByLoss, verdict);
  }
  FaultResult result;
  result.seed = plan_.seed;
  result.packets = world_.network().counters().delivered;
  for (const auto& driver : drivers_) {
    result.restarts += driver->restarts();
    result.degraded_blocks += driver->degraded_blocks();
    result.spoiled_sums += driver->spoiled_sums();
    result.overtaken_stalls += driver->overtaken_stalls();
  }
  result.repairs = repairs_;
  result.owned_sums = world_.owner_judge().judged();
  const auto on_links = world_.link_faults();
  for (uint32_t i = 0; i < kFaultKindCount; i++) {
    result.faults[i] = faults_[i] + on_links[i] + (attackers_ ? attackers_->counts()[i] : 0);
  }
  result.length = now().since_start();
  result.digest = world_.network().digest();
  result.breaches = std::move(journal_.breaches);
  result.trace = std::move(journal_.lines);
  return result;
}

}  // namespace

FaultResult run_faults(const FaultPlan& plan, bool traced) { return Run(plan, traced).run(); }

}  // namespace tributary::lab
