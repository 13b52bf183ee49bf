// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/job_driver.h"

#include <algorithm>
#include <set>

#include "host/switchml/switchml_config.h"

namespace tributary::lab {

using host::Status;
using host::TensorProtocol;

namespace {

/// Tolerance beyond a deadline: the worker's loop detects the end of a wait in its next round, and
/// this driver checks at intervals.
constexpr Duration kToldWithin = milliseconds(200);
/// Maximum time between two processes of a rank after a restart. Assumed.
constexpr Duration kRestartWithin = milliseconds(50);
/// Time between two runs of a SwitchML job, whose packets do not identify their run: longer than
/// any link delays a packet (200 ms, fault_plan.cc).
constexpr Duration kDrained = milliseconds(300);
/// Loss rate above which three keep-alives in a row may be lost, so that a session ends by silence.
constexpr double kSilenceByLoss = 0.05;

Duration part_of(Duration longest, Prng& draws) {
  return Duration::from_ticks(
      static_cast<int64_t>(draws.unit() * static_cast<double>(longest.ticks())));
}

/// Returns the ranks missing from a degraded sum: "3, 7".
std::string absent_from(const host::DegradedRange& range, uint32_t world) {
  std::string ranks;
  for (uint32_t rank = 0; rank < world; rank++) {
    if (host::contains(range.sources, rank)) continue;
    ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
  }
  return ranks;
}

}  // namespace

/// A collective in flight.
struct JobDriver::Running {
  uint32_t collective = 0;
  Tensor tensor;
  host::Transfer transfer;
  std::vector<plan::Part> parts;  ///< Sharded: Part::aggregator is a channel.
};

struct JobDriver::Rank final : WorkerNode::Observer {
  Rank(JobDriver& owner, uint32_t number, WorkerNode& host)
      : driver(owner), rank(number), node(host) {}
  void on_round() override { driver.on_round(*this); }

  JobDriver& driver;
  const uint32_t rank;
  WorkerNode& node;
  uint32_t processes = 0;          ///< Started so far; the last one is processes - 1.
  uint64_t session = 0;            ///< At the root; 0: not joined yet. Sharded: of all together.
  std::vector<uint64_t> sessions;  ///< Sharded, of each channel.
  /// Sharded: the channels to which the session's collectives after calm_at have sent blocks.
  std::set<uint32_t> calm_channels;
  uint32_t submitted = 0;
  uint32_t finished = 0;
  bool computing = false;
  bool ended = false;   ///< Its end has been recorded.
  bool absent = false;  ///< Crashed; a new process starts later.
  uint64_t blocks = 0;  ///< Block count at progress_at.
  Instant progress_at;
  std::vector<std::unique_ptr<Running>> running;
};

JobDriver::JobDriver(const FaultPlan& plan, uint32_t job, FaultWorld& world, SessionBook& sessions,
                     Journal& journal, ShardJudge* shards)
    : plan_(plan),
      job_(job),
      job_plan_(plan.jobs[job]),
      world_(world),
      sessions_(sessions),
      journal_(journal),
      shards_(shards),
      oracle_({.seed = plan.seed + job,
               .world = job_plan_.world,
               .gradients = job_plan_.gradients,
               .mitigation = job_plan_.config.mitigation,
               .work = job_plan_.work,
               .bad_value = job_plan_.bad_value,
               .scale_of = plan.protocol == wire::Protocol::kSwitchml ? host::switchml_scale
                                                                      : host::scale_for_exponent}),
      draws_(plan.seed ^ uint64_t{job + 1} << 32),
      released_(static_cast<uint32_t>(job_plan_.work.size()) - kCalmCollectives) {
  for (uint32_t rank = 0; rank < job_plan_.world; rank++) {
    ranks_.push_back(std::make_unique<Rank>(*this, rank, world.worker(job, rank)));
    ranks_.back()->node.set_observer(ranks_.back().get());
  }
  choose_list();
}

JobDriver::~JobDriver() {
  for (const auto& rank : ranks_) rank->node.set_observer(nullptr);
}

std::string JobDriver::label(const Rank& rank) const {
  return fmt::format("job {} rank {} process {}", job_, rank.rank, rank.processes - 1);
}

// --- Processes ---

void JobDriver::start() {
  for (uint32_t rank = 0; rank < job_plan_.world; rank++) {
    world_.at(world_.core().now() + part_of(kRestartWithin, draws_), [this, rank, epoch = epoch_] {
      if (epoch == epoch_ && ranks_[rank]->processes == 0) begin_process(rank);
    });
  }
}

void JobDriver::begin_process(uint32_t index) {
  Rank& rank = *ranks_[index];
  if (shards_ != nullptr) {
    auto list = list_;
    const bool other = rank.processes == 0 && job_plan_.sharded->other_list == index;
    if (other) std::rotate(list.begin(), list.begin() + 1, list.end());
    world_.set_list(job_, index, std::move(list));
  }
  rank.processes++;
  rank.session = 0;
  rank.submitted = 0;
  rank.finished = 0;
  rank.computing = false;
  rank.ended = false;
  rank.absent = false;
  rank.blocks = 0;
  rank.progress_at = world_.core().now();
  rank.node.start();
  rank.running.clear();  // These belong to its predecessor; the node has dropped them.
  journal_.trace("{} begins", label(rank));
  if (!is_switchml()) return;  // It joins and learns its session.
  rank.session = epoch_ + 1;
  sessions_.note_member(job_, rank.session, index, rank.processes - 1);
}

void JobDriver::crash(uint32_t index, Duration absence) {
  Rank& rank = *ranks_[index];
  journal_.trace("{} crashes for {:.1f} ms", label(rank), in_seconds(absence) * 1e3);
  rank.node.crash();
  rank.running.clear();
  rank.absent = true;
  world_.at(world_.core().now() + absence, [this, index] {
    Rank& back = *ranks_[index];
    if (!back.absent) return;
    if (!is_switchml()) return begin_process(index);
    back.absent = false;
    back.ended = true;
    restart_later(job_plan_.notice_after);
  });
}

void JobDriver::restart_later(Duration after) {
  if (restart_planned_) return;
  restart_planned_ = true;
  world_.at(world_.core().now() + after, [this] { restart_all(); });
}

void JobDriver::restart_all() {
  restart_planned_ = false;
  restarts_++;
  epoch_++;
  released_ = static_cast<uint32_t>(job_plan_.work.size()) - kCalmCollectives;
  journal_.trace("job {}: the launcher restarts all ranks", job_);
  choose_list();
  if (shards_ != nullptr) shards_->on_restart(job_);
  Duration after = microseconds(100);
  if (is_switchml()) {
    world_.at(world_.core().now() + kDrained, [this, epoch = epoch_] {
      if (epoch == epoch_) world_.begin_session();
    });
    after += kDrained;
  }
  for (const auto& rank : ranks_) {
    if (rank->absent) continue;
    if (rank->node.runs()) {
      rank->ended = true;  // Ignore its further statuses.
      rank->node.leave();
    }
    world_.at(world_.core().now() + after + part_of(kRestartWithin, draws_),
              [this, index = rank->rank, epoch = epoch_] {
                if (epoch == epoch_ && !ranks_[index]->absent) begin_process(index);
              });
  }
}

/// Sets the list of the processes that begin from here on.
void JobDriver::choose_list() {
  if (shards_ == nullptr) return;
  list_ = world_.whole_list(job_);
  if (!lost_ || !job_plan_.sharded->leaves_out_lost) return;
  std::erase_if(list_, [this](const auto& each) { return each.address == *lost_; });
  const auto sums = [](const auto& each) { return each.weight > 0; };
  if (std::none_of(list_.begin(), list_.end(), sums)) list_ = world_.whole_list(job_);
  journal_.trace("job {}: the list has {} aggregators", job_, list_.size());
  lost_.reset();
}

bool JobDriver::uses(uint32_t aggregator) const {
  return shards_ == nullptr || std::any_of(list_.begin(), list_.end(), [&](const auto& each) {
           return each.weight > 0 && each.address == world_.address_of(aggregator);
         });
}

void JobDriver::leave_all() {
  for (const auto& rank : ranks_) {
    rank->ended = true;
    if (rank->node.runs()) rank->node.leave();
  }
}

// --- Collectives ---

void JobDriver::on_round(Rank& rank) {
  const TensorProtocol& protocol = rank.node.protocol();
  if (rank.session == 0 && protocol.session() != 0) note_session(rank);
  if (protocol.counters().blocks != rank.blocks) {
    rank.blocks = protocol.counters().blocks;
    rank.progress_at = world_.core().now();
  }
  note_results(rank);
  if (protocol.phase() == TensorProtocol::Phase::kEnded) {
    note_end(rank);
  } else {
    submit_more(rank);
  }
}

void JobDriver::note_session(Rank& rank) {
  rank.session = rank.node.protocol().session();
  if (shards_ != nullptr) {
    const ShardedRank& process = world_.sharded(job_, rank.rank);
    rank.sessions.clear();
    rank.calm_channels.clear();
    for (size_t i = 0; i < process.aggregators().size(); i++) {
      rank.sessions.push_back(process.session_at(i));
      sessions_.note_member(job_, rank.sessions.back(), rank.rank, rank.processes - 1);
    }
  } else {
    rank.session = sessions_.root_session(job_, world_.leaf_of(job_, rank.rank), rank.session);
    sessions_.note_member(job_, rank.session, rank.rank, rank.processes - 1);
  }
  rank.progress_at = world_.core().now();
  journal_.trace("{} is in session {:x}", label(rank), rank.session);
}

void JobDriver::note_results(Rank& rank) {
  for (const auto& running : rank.running) {
    if (running->transfer.done) check_result(rank, *running);
  }
  std::erase_if(rank.running, [](const auto& running) { return running->transfer.done; });
}

void JobDriver::check_result(Rank& rank, Running& running) {
  const host::Outcome& outcome = running.transfer.outcome;
  const bool summed = outcome.status == Status::kOk || outcome.status == Status::kOverflow ||
                      outcome.status == Status::kNotFinite;
  if (outcome.status != Status::kOk && outcome.text.empty()) {
    journal_.breach(Breach::kWrong,
                    fmt::format("{}: {} without a text", label(rank), to_string(outcome.status)));
  }
  if (!summed) return;  // note_end() judges the end of its process.
  rank.finished++;
  degraded_blocks_ += outcome.degraded.size();
  const std::string wrong = shards_ != nullptr
                                ? check_parts(rank, running)
                                : check_blocks(rank, running, rank.session, 0, UINT32_MAX);
  if (!wrong.empty() && plan_.machine == FaultMachine::kTofino && world_.was_overtaken()) {
    // The published switch cannot detect this, and the paper's network does not reorder.
    spoiled_sums_++;
    journal_.trace("{}, collective {}: spoiled: {}", label(rank), running.collective, wrong);
  } else if (!wrong.empty()) {
    journal_.breach(Breach::kWrong,
                    fmt::format("{}, collective {}: {}", label(rank), running.collective, wrong));
  }
  if (const host::DegradedRange* range = degraded_without_fault(rank, running)) {
    journal_.breach(Breach::kWrong, fmt::format("{}: degraded without any fault, without {}",
                                                label(rank), absent_from(*range, job_plan_.world)));
  }
  if (running.collective + kCalmCollectives >= job_plan_.work.size()) {
    for (const plan::Part& part : running.parts) rank.calm_channels.insert(part.aggregator);
  }
  journal_.trace("{}: collective {} is {}, {} of {} blocks degraded", label(rank),
                 running.collective, to_string(outcome.status), outcome.degraded.size(),
                 outcome.blocks);
}

const host::DegradedRange* JobDriver::degraded_without_fault(const Rank& rank,
                                                             const Running& running) const {
  if (running.collective + 1 != job_plan_.work.size()) return nullptr;
  for (const host::DegradedRange& range : running.transfer.outcome.degraded) {
    const bool heard =
        std::none_of(running.parts.begin(), running.parts.end(), [&](const plan::Part& part) {
          return range.element_first - part.element_first < part.element_count &&
                 !rank.calm_channels.contains(part.aggregator);
        });
    if (heard) return &range;
  }
  return nullptr;
}

std::string JobDriver::check_blocks(const Rank& rank, const Running& running, uint64_t session,
                                    uint32_t block_first, uint32_t block_end) {
  const std::vector<uint32_t>& members = sessions_.members(job_, session);
  const auto& odd = job_plan_.disagreement;
  const bool disagreed = odd && members[odd->rank] == 0 && running.collective >= odd->collective;
  if (disagreed) return check_disagreed(rank, running);
  return oracle_.check({.session = session,
                        .processes = members,
                        .collective = running.collective,
                        .rank = rank.rank,
                        .block_first = block_first,
                        .block_end = block_end},
                       running.tensor, running.transfer.outcome);
}

std::string JobDriver::check_parts(const Rank& rank, const Running& running) {
  for (const plan::Part& part : running.parts) {
    const uint64_t first = part.element_first / job_plan_.gradients;
    const uint64_t end =
        (part.element_first + part.element_count + job_plan_.gradients - 1) / job_plan_.gradients;
    std::string wrong = check_blocks(rank, running, rank.sessions[part.aggregator],
                                     static_cast<uint32_t>(first), static_cast<uint32_t>(end));
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string JobDriver::check_disagreed(const Rank& rank, const Running& running) const {
  const Disagreement& odd = *job_plan_.disagreement;
  // Later collectives are shifted for that rank; it gets an error before it reaches them.
  if (running.collective > odd.collective) return {};
  const host::Outcome& outcome = running.transfer.outcome;
  if (outcome.status != Status::kOk) return {};
  const bool is_odd = rank.rank == odd.rank;
  bool apart = outcome.degraded.size() == outcome.blocks;
  for (const host::DegradedRange& range : outcome.degraded) {
    host::SourceSet alone{};
    alone[odd.rank / 64] = uint64_t{1} << (odd.rank % 64);
    apart &= is_odd ? range.sources == alone : !host::contains(range.sources, odd.rank);
  }
  return apart ? "" : "a sum of tensors that differ";
}

void JobDriver::submit_more(Rank& rank) {
  const bool more =
      rank.submitted < released_ && rank.running.size() < job_plan_.in_flight && !rank.computing;
  if (!more) return;
  // An application has no communicator before all channels have joined.
  if (shards_ != nullptr && rank.node.protocol().phase() == TensorProtocol::Phase::kJoining) return;
  rank.computing = true;
  // Ranks that compute for longer than the straggler timeout keep losing each other. After calm_at
  // none does.
  const bool calm = world_.core().now() >= Instant() + plan_.calm_at;
  const Duration compute = calm ? Duration() : part_of(job_plan_.compute_max, draws_);
  world_.at(world_.core().now() + compute, [this, index = rank.rank, process = rank.processes] {
    Rank& then = *ranks_[index];
    if (then.processes == process && !then.absent && !then.ended) submit_next(then);
  });
}

void JobDriver::submit_next(Rank& rank) {
  rank.computing = false;
  auto running = std::make_unique<Running>();
  running->collective = rank.submitted++;
  running->tensor = oracle_.input(running->collective, rank.rank, rank.processes - 1);
  host::Transfer& transfer = running->transfer;
  transfer.op = job_plan_.work[running->collective].op;
  transfer.format = job_plan_.work[running->collective].format;
  transfer.owner = job_plan_.work[running->collective].owner;
  transfer.scale = ReduceOracle::kScale;
  const auto& odd = job_plan_.disagreement;
  if (odd && odd->rank == rank.rank && odd->collective == running->collective &&
      rank.processes == 1) {
    if (odd->scale) {
      transfer.scale *= 2;
    } else if (odd->owner) {
      transfer.owner = transfer.owner ? (*transfer.owner + 1) % job_plan_.world : rank.rank;
    } else if (running->tensor.floats.empty()) {
      running->tensor.integers.push_back(1);
    } else {
      running->tensor.floats.push_back(1);
    }
  }
  transfer.integers = running->tensor.integers;
  transfer.floats = running->tensor.floats;
  rank.running.push_back(std::move(running));
  if (rank.running.size() == 1) rank.progress_at = world_.core().now();
  rank.node.submit(transfer);
  if (shards_ != nullptr) rank.running.back()->parts = world_.sharded(job_, rank.rank).last_cut();
}

// --- Ends ---

bool JobDriver::may_end_with(Status status) const {
  if (is_switchml()) {
    // A SwitchML switch reports no other cause.
    const bool unanswered = status == Status::kPeerMissing || status == Status::kAggregatorGone;
    return unanswered && (plan_.is_harmful() || world_.was_overtaken());
  }
  const double tamper = plan_.attack ? plan_.attack->tamper : 0;
  switch (status) {
    case Status::kOk:
    case Status::kOverflow:
    case Status::kNotFinite:
      return false;  // These do not end a process.
    case Status::kClosed:
      return false;  // Ranks that leave on request are not judged.
    case Status::kMismatch:
      return plan_.kinds.has(FaultKind::kDisagreement);
    case Status::kDesynchronised:
      // Without mitigation no block completes without a rank, so no block is too old for it.
      return job_plan_.config.mitigation;
    case Status::kSessionLost:
      return plan_.is_harmful() || plan_.links.loss + plan_.links.corrupt + tamper > kSilenceByLoss;
    default:
      return plan_.is_harmful();
  }
}

void JobDriver::note_end(Rank& rank) {
  if (!rank.running.empty()) {
    journal_.breach(Breach::kStuck, fmt::format("{} has ended, but collective {} got no status",
                                                label(rank), rank.running[0]->collective));
    rank.running.clear();
  }
  if (rank.ended) return;
  rank.ended = true;
  const TensorProtocol& protocol = rank.node.protocol();
  journal_.trace("{} ends: {}: {}", label(rank), to_string(protocol.status()),
                 protocol.status_text());
  if (!may_end_with(protocol.status())) {
    journal_.breach(Breach::kWrong,
                    fmt::format("{} ended without a cause: {}: {}", label(rank),
                                to_string(protocol.status()), protocol.status_text()));
  }
  if (shards_ != nullptr) {
    shards_->on_end(job_, rank.rank, label(rank));
    const ShardedRank& process = world_.sharded(job_, rank.rank);
    const uint32_t lost = process.failure()->lost_aggregator;
    if (lost > 0) lost_ = process.aggregators()[lost - 1].address;
  }
  if (is_switchml() && !plan_.is_harmful() && !restart_planned_) overtaken_stalls_++;
  restart_later(job_plan_.notice_after);
}

bool JobDriver::in_step() const {
  const uint32_t own = static_cast<uint32_t>(job_plan_.work.size()) - kCalmCollectives;
  return !restart_planned_ && std::all_of(ranks_.begin(), ranks_.end(), [&](const auto& rank) {
    return !rank->absent && !rank->ended && rank->finished >= own && rank->session != 0 &&
           rank->session == ranks_[0]->session;
  });
}

void JobDriver::release(uint32_t count) {
  released_ =
      std::max(released_, static_cast<uint32_t>(job_plan_.work.size()) - kCalmCollectives + count);
  for (const auto& rank : ranks_) submit_more(*rank);
}

bool JobDriver::all_done() const {
  return in_step() && std::all_of(ranks_.begin(), ranks_.end(),
                                  [&](const auto& rank) { return rank->finished >= released_; });
}

void JobDriver::check_waits() {
  const Instant now = world_.core().now();
  for (const auto& rank : ranks_) {
    if (rank->absent || rank->ended || !rank->node.runs()) continue;
    const bool waits = rank->session == 0 || !rank->running.empty();
    const bool paused = rank->node.paused_until() + kToldWithin > now;
    if (!waits || paused || now - rank->progress_at <= job_plan_.deadline + kToldWithin) continue;
    journal_.breach(Breach::kStuck, fmt::format("{} has waited {:.1f} s without an error",
                                                label(*rank), in_seconds(now - rank->progress_at)));
    rank->progress_at = now;  // Report it once.
  }
}

}  // namespace tributary::lab
