// SPDX-License-Identifier: Apache-2.0
#include "bench/chaos/chaos.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "auth/keys.h"
#include "bench/chaos/attackers.h"
#include "bench/chaos/process_sockets.h"
#include "bench/chaos/rank_group.h"
#include "bench/measure.h"
#include "bench/race/client/lap_tensor.h"
#include "bench/race/network.h"
#include "bench/soak/server_watch.h"

namespace tributary::chaos {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kElementsMax = 10'000'000;
constexpr uint32_t kDeadlineSMin = 5;  // Above wire::kSilentAfter, or it would end every wait.
/// Used in a namespace, where no other program binds it.
constexpr uint16_t kServerPort = 12000;
/// Time for the server to notice that all workers have left.
constexpr std::chrono::seconds kSettleWithin{6};
constexpr int kSettlePollMs = 50;

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

class Chaos {
 public:
  Chaos(const ChaosConfig& config, const bench::LongRunHooks& hooks, race::RaceNetwork network)
      : config_(config), hooks_(hooks), network_(std::move(network)) {
    result_.config = config;
    result_.network = network_.kind().name;
  }

  Result<ChaosResult> run();

 private:
  Result<void> prepare();
  Result<void> start_server();
  /// Looks at the server and begins or ends its life in the result.
  Result<void> begin_life();
  Result<void> end_life();
  /// Starts every rank that does not run, and waits for an all-reduce of all.
  /// @param since Recovery is measured from here.
  Result<void> start_ranks(Clock::time_point since, FaultFigures* figures);
  /// Ends all workers by SIGINT.
  void stop_ranks();
  void start_attackers();
  void aim_attackers();
  /// Counts the ranks that no fault has ended, and starts another session.
  Result<void> replace_ended();
  Result<void> run_faults(Clock::time_point begin);
  /// Waits until the server has noticed that all workers have left.
  Result<void> settle();

  Result<void> apply(const Fault& fault);
  Result<void> end_session(const Fault& fault, FaultFigures& figures);
  Result<void> kill_joiner(const Fault& fault, FaultFigures& figures);
  /// Disturbs without ending the session: `begin`, then `end` after the fault's length.
  template <class Begin, class End>
  Result<void> disturb(const Fault& fault, FaultFigures& figures, Begin begin, End end);
  Result<void> set_loss(double probability);

  /// Takes turns until `done` holds, at most for `limit`.
  template <class Done>
  bool turn_until(Clock::duration limit, Done done);
  void run_for(Clock::duration length) {
    turn_until(length, [] { return false; });
  }
  [[nodiscard]] milliseconds patience() const {
    return milliseconds(config_.deadline_s * 1000 + kDeadlineSlackMs);
  }
  void note_failure(const std::string& text) {
    if (result_.first_failure.empty()) result_.first_failure = text;
  }
  /// Counts the ranks that are late after patience(), and kills the group.
  void give_up(const char* what);
  [[nodiscard]] std::string progress_text(const Fault& fault, double elapsed_s) const;

  const ChaosConfig config_;
  const bench::LongRunHooks& hooks_;
  race::RaceNetwork network_;
  bench::ScratchFolder scratch_;
  soak::ServerPlan plan_;
  std::optional<soak::ServerWatch> server_;
  std::optional<RankGroup> ranks_;
  std::optional<Attackers> attackers_;
  ChaosResult result_;
  bool life_begun_ = false;
};

template <class Done>
bool Chaos::turn_until(Clock::duration limit, Done done) {
  const auto deadline = Clock::now() + limit;
  while (!done()) {
    if (Clock::now() > deadline) return false;
    ranks_->turn();
  }
  return true;
}

Result<void> Chaos::prepare() {
  if (scratch_.path().empty()) return failure("cannot make a temporary folder; set TMPDIR");
  const std::filesystem::path secret = scratch_.path() / "secret";
  plan_ = {
      .program = config_.tributary,
      .jobs = {fmt::format("id=1,sources={},block_cnt_max=256,clients=sessions", config_.workers)},
      .scratch = scratch_.path(),
      .where = network_.at_spare(0),
      .host = network_.spare_address(0),
      .port = network_.kind().namespaces ? kServerPort : uint16_t{0}};
  if (config_.auth != auth::Mode::kNone) {
    std::ofstream(secret) << fmt::format("{:016x}{:016x}", auth::random_u64(), auth::random_u64());
    std::filesystem::permissions(secret, std::filesystem::perms::owner_read);
    plan_.jobs.front() +=
        fmt::format(",auth={},secret_file={}", auth::to_string(config_.auth), secret.string());
  }
  if (auto started = start_server(); !started) return started;
  plan_.port = server_->address().port;  // All servers have the first one's address.
  GroupConfig group{.program = config_.tributary,
                    .server = server_->address().to_string(),
                    .workers = config_.workers,
                    .elements = config_.elements,
                    .deadline_s = config_.deadline_s,
                    .auth = config_.auth,
                    .secret_path = secret,
                    .where = {}};
  for (uint32_t rank = 0; rank < config_.workers; rank++) {
    group.where.push_back(network_.at_worker(rank));
  }
  ranks_.emplace(std::move(group));
  return {};
}

Result<void> Chaos::start_server() {
  auto server = soak::ServerWatch::start(plan_);
  if (!server) return tl::unexpected(server.error());
  server_.emplace(std::move(*server));
  return {};
}

Result<void> Chaos::begin_life() {
  const auto state = server_->look();
  if (!state) return tl::unexpected(state.error());
  result_.lives.push_back({.resident_begin = state->resident_bytes,
                           .resident_end = state->resident_bytes,
                           .files_begin = state->open_files,
                           .files_end = state->open_files});
  life_begun_ = true;
  return {};
}

Result<void> Chaos::end_life() {
  if (!std::exchange(life_begun_, false)) return {};
  const auto state = server_->look();
  if (!state) return tl::unexpected(state.error());
  result_.lives.back().resident_end = state->resident_bytes;
  result_.lives.back().files_end = state->open_files;
  return {};
}

void Chaos::give_up(const char* what) {
  for (uint32_t rank = 0; rank < ranks_->size(); rank++) {
    const RankState& state = (*ranks_)[rank];
    if (state.ended || state.done > state.before) continue;
    result_.waits_beyond_deadline++;
    note_failure(
        fmt::format("rank {} waited longer than {} ms {}", rank, patience().count(), what));
  }
  ranks_->signal_all(SIGKILL);
  turn_until(patience(), [this] { return ranks_->has_ended(); });
}

Result<void> Chaos::start_ranks(Clock::time_point since, FaultFigures* figures) {
  ranks_->mark();
  for (uint32_t rank = 0; rank < ranks_->size(); rank++) {
    if (!(*ranks_)[rank].ended) continue;
    if (auto started = ranks_->start(rank); !started) return started;
  }
  turn_until(patience(), [this] { return ranks_->has_progressed() || ranks_->any_ended(); });
  if (ranks_->has_progressed()) {
    if (figures != nullptr) figures->recovery_ms.push_back(ms_between(since, Clock::now()));
  } else {
    for (uint32_t rank = 0; rank < ranks_->size(); rank++) {
      if (!(*ranks_)[rank].ended) continue;
      result_.unexpected_ends++;
      note_failure(fmt::format("rank {} did not start: {}", rank, (*ranks_)[rank].error));
    }
    give_up("for its first all-reduce");
  }
  aim_attackers();
  if (!life_begun_ && ranks_->has_progressed()) return begin_life();
  return {};
}

void Chaos::stop_ranks() {
  ranks_->mark();
  ranks_->signal_all(SIGINT);
  if (!turn_until(patience(), [this] { return ranks_->has_ended(); })) give_up("to end");
}

void Chaos::aim_attackers() {
  if (!attackers_) return;
  std::vector<Endpoint> addresses;
  for (uint32_t rank = 0; rank < ranks_->size(); rank++) {
    if ((*ranks_)[rank].ended) continue;
    const auto found = udp_addresses((*ranks_)[rank].process->pid());
    if (found) addresses.insert(addresses.end(), found->begin(), found->end());
  }
  attackers_->aim(std::move(addresses));
}

Result<void> Chaos::end_session(const Fault& fault, FaultFigures& figures) {
  const bool of_server =
      fault.kind == FaultKind::kKillServer || fault.kind == FaultKind::kStopServer;
  const bool kills = fault.kind == FaultKind::kKillServer || fault.kind == FaultKind::kKillWorker;
  const int number = kills ? SIGKILL : SIGTERM;
  if (of_server) {
    if (auto ended = end_life(); !ended) return ended;
  }
  ranks_->mark();
  const auto fault_at = Clock::now();
  if (of_server) {
    server_->signal(number);
    if (!server_->await_end()) return failure("the aggregator does not end");
    run_for(fault.length);
    if (auto started = start_server(); !started) return started;
  } else {
    ranks_->signal(fault.rank, number);
  }
  const bool noticed =
      turn_until(fault_at + patience() - Clock::now(), [this] { return ranks_->has_ended(); });
  for (uint32_t rank = 0; rank < ranks_->size(); rank++) {
    const RankState& state = (*ranks_)[rank];
    if (!state.ended || (!of_server && rank == fault.rank)) continue;
    figures.notice_ms.push_back(ms_between(fault_at, state.ended_at));
  }
  if (!noticed) {
    ranks_->mark();  // Progress before the fault is none.
    give_up(fmt::format("after {}", to_string(fault.kind)).c_str());
  }
  return start_ranks(Clock::now(), &figures);
}

Result<void> Chaos::kill_joiner(const Fault& fault, FaultFigures& figures) {
  stop_ranks();
  // All but one join; one of those dies. Its successor and the missing one then come.
  const uint32_t missing = (fault.rank + 1) % ranks_->size();
  for (uint32_t rank = 0; rank < ranks_->size(); rank++) {
    if (rank == missing) continue;
    if (auto started = ranks_->start(rank); !started) return started;
  }
  run_for(fault.length);
  ranks_->signal(fault.rank, SIGKILL);
  turn_until(patience(), [&] { return (*ranks_)[fault.rank].ended; });
  return start_ranks(Clock::now(), &figures);
}

template <class Begin, class End>
Result<void> Chaos::disturb(const Fault& fault, FaultFigures& figures, Begin begin, End end) {
  begin();
  run_for(fault.length);
  ranks_->mark();
  end();
  const auto ended_at = Clock::now();
  turn_until(patience(), [this] { return ranks_->has_progressed() || ranks_->any_ended(); });
  if (ranks_->has_progressed()) {
    figures.recovery_ms.push_back(ms_between(ended_at, Clock::now()));
  } else if (!ranks_->any_ended()) {
    give_up(fmt::format("after {}", to_string(fault.kind)).c_str());
  }
  return {};
}

Result<void> Chaos::set_loss(double probability) {
  std::vector<pid_t> processes{server_->pid()};
  for (uint32_t rank = 0; rank < ranks_->size(); rank++) {
    if (!(*ranks_)[rank].ended) processes.push_back((*ranks_)[rank].process->pid());
  }
  for (const pid_t pid : processes) {
    if (auto set = set_receive_loss(pid, probability); !set) return set;
  }
  return {};
}

Result<void> Chaos::apply(const Fault& fault) {
  FaultFigures& figures = result_.faults[static_cast<size_t>(fault.kind)];
  figures.count++;
  switch (fault.kind) {
    case FaultKind::kKillWorker:
    case FaultKind::kStopWorker:
    case FaultKind::kKillServer:
    case FaultKind::kStopServer:
      return end_session(fault, figures);
    case FaultKind::kKillJoiner:
      return kill_joiner(fault, figures);
    case FaultKind::kPauseWorker:
      return disturb(
          fault, figures, [&] { ranks_->signal(fault.rank, SIGSTOP); },
          [&] { ranks_->signal(fault.rank, SIGCONT); });
    case FaultKind::kPauseServer:
      return disturb(
          fault, figures, [&] { server_->signal(SIGSTOP); }, [&] { server_->signal(SIGCONT); });
    case FaultKind::kLoss: {
      Result<void> set;
      auto disturbed = disturb(
          fault, figures, [&] { set = set_loss(fault.loss); },
          [&] { static_cast<void>(set_loss(0)); });
      return set ? disturbed : set;
    }
  }
  return {};
}

std::string Chaos::progress_text(const Fault& fault, double elapsed_s) const {
  const FaultFigures& figures = result_.faults[static_cast<size_t>(fault.kind)];
  std::string text =
      fmt::format("{:.0f} of {} s: {}", elapsed_s, config_.seconds, to_string(fault.kind));
  if (!figures.notice_ms.empty()) {
    text += fmt::format(", noticed after {:.0f} ms", figures.notice_ms.back());
  }
  if (!figures.recovery_ms.empty()) {
    text += fmt::format(", all-reduce after {:.0f} ms", figures.recovery_ms.back());
  }
  return text + fmt::format("; {} all-reduces, {} wrong, {} stuck", ranks_->reductions(),
                            ranks_->wrong(), result_.waits_beyond_deadline);
}

void Chaos::start_attackers() {
  const auto where = network_.at_worker(config_.workers);
  attackers_.emplace(AttackConfig{.server = server_->address(),
                                  .workers = config_.workers,
                                  .auth = config_.auth,
                                  .seed = config_.seed,
                                  .forged_per_s = config_.forged_per_s,
                                  .flooded_per_s = config_.flooded_per_s,
                                  .network = where.empty() ? "" : where.back()});
}

Result<void> Chaos::replace_ended() {
  for (uint32_t rank = 0; rank < ranks_->size(); rank++) {
    if (!(*ranks_)[rank].ended) continue;
    result_.unexpected_ends++;
    note_failure(fmt::format("rank {} ended without cause: {}", rank, (*ranks_)[rank].error));
  }
  stop_ranks();
  return start_ranks(Clock::now(), nullptr);
}

Result<void> Chaos::run_faults(Clock::time_point begin) {
  const auto elapsed_s = [begin] { return ms_between(begin, Clock::now()) / 1000; };
  std::vector<FaultKind> kinds = config_.kinds;
  if (const auto probed = udp_addresses(server_->pid()); !probed) {
    result_.skipped.push_back(fmt::format("loss: {}", probed.error().text));
    std::erase(kinds, FaultKind::kLoss);
    if (kinds.empty()) return failure(result_.skipped.front());
  }
  FaultSchedule schedule(config_.seed, config_.workers, kinds);
  if (auto started = start_ranks(begin, nullptr); !started) return started;
  while (elapsed_s() < config_.seconds && !hooks_.interrupted()) {
    const Fault fault = schedule.next();
    turn_until(fault.delay, [this] { return ranks_->any_ended(); });
    if (ranks_->any_ended()) {
      if (auto replaced = replace_ended(); !replaced) return replaced;
    }
    if (auto applied = apply(fault); !applied) return applied;
    hooks_.progress(progress_text(fault, elapsed_s()));
  }
  stop_ranks();
  return end_life();
}

Result<void> Chaos::settle() {
  const auto settled_by = Clock::now() + kSettleWithin;
  do {
    poll(nullptr, 0, kSettlePollMs);
    const auto state = server_->look();
    if (!state) return tl::unexpected(state.error());
    result_.sessions_left = state->sessions_open;
    result_.blocks_left = state->blocks_open;
  } while (result_.sessions_left + result_.blocks_left > 0 && Clock::now() < settled_by);
  return {};
}

Result<ChaosResult> Chaos::run() {
  const auto begin = Clock::now();
  if (auto prepared = prepare(); !prepared) return tl::unexpected(prepared.error());
  start_attackers();
  if (auto ran = run_faults(begin); !ran) return tl::unexpected(ran.error());
  result_.forged = attackers_->forged();
  result_.flooded = attackers_->flooded();
  attackers_.reset();
  if (auto settled = settle(); !settled) return tl::unexpected(settled.error());
  result_.seconds = ms_between(begin, Clock::now()) / 1000;
  result_.interrupted = hooks_.interrupted();
  result_.reductions = ranks_->reductions();
  result_.wrong = ranks_->wrong();
  return std::move(result_);
}

/// Returns the network's kind; null with a reason for an unknown or impossible one.
Result<const race::NetKind*> find_network(const std::string& name) {
  const std::string refusal = race::namespaces_refusal();
  if (name == "auto") return race::find_net_kind(refusal.empty() ? "netns" : "lo");
  if (name == "netns" && !refusal.empty()) {
    return failure(fmt::format("--network netns: {}; allowed here: lo", refusal));
  }
  if (name != "netns" && name != "lo") {
    return failure(fmt::format("--network {} is not allowed; allowed: auto, lo or netns", name));
  }
  return race::find_net_kind(name);
}

}  // namespace

Result<void> check(const ChaosConfig& config) {
  if (config.workers < 2 || config.workers > race::kWorkersMax) {
    return failure(fmt::format("--workers {} is not allowed; allowed: 2 to {}", config.workers,
                               race::kWorkersMax));
  }
  if (config.elements == 0 || config.elements > kElementsMax) {
    return failure(fmt::format("--elements {} is not allowed; allowed: 1 to {}", config.elements,
                               kElementsMax));
  }
  if (config.deadline_s < kDeadlineSMin) {
    return failure(fmt::format("--deadline-s {} is not allowed; allowed: {} and more",
                               config.deadline_s, kDeadlineSMin));
  }
  if (config.kinds.empty()) return failure("--faults names no kind of fault");
  const auto network = find_network(config.network);
  if (!network) return tl::unexpected(network.error());
  return {};
}

Result<ChaosResult> run_chaos(const ChaosConfig& config, const bench::LongRunHooks& hooks) {
  if (const auto checked = check(config); !checked) return tl::unexpected(checked.error());
  const auto kind = find_network(config.network);
  // One namespace more, for the attackers.
  auto network = race::RaceNetwork::make(**kind, config.workers + 1);
  if (!network) return tl::unexpected(network.error());
  return Chaos(config, hooks, std::move(*network)).run();
}

}  // namespace tributary::chaos
