// SPDX-License-Identifier: Apache-2.0
#include "bench/race/round.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "base/child_process.h"
#include "bench/measure.h"
#include "bench/race/machine.h"
#include "io/udp/free_port.h"

namespace tributary::race {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Longest sleep in poll(), so that Ctrl-C and a dead child are noticed quickly.
constexpr int kPollMs = 50;
/// Longest wait for servers and joins, and for a lap. A lap of 100 MB takes a few seconds at worst.
/// Open MPI's start took more than 30 s on two cores with a sanitizer and other tests.
constexpr std::chrono::seconds kWaitMax{60};
constexpr std::chrono::seconds kEndWithin{5};
/// Used in a namespace of the race's own, where no other program binds it.
constexpr uint16_t kServerPort = 12000;

/// A worker as seen by the race: its connection and its last words.
struct Worker {
  std::unique_ptr<LineSocket> control;
  bool ready = false;
  bool measured = false;
  std::optional<LapReport> report;
};

class Round {
 public:
  Round(const RoundPlan& plan, const RaceNetwork& network, const Programs& programs,
        const std::function<bool()>& interrupted)
      : plan_(plan), network_(network), programs_(programs), interrupted_(interrupted) {
    workers_.resize(plan.race.workers);
  }

  Result<std::vector<Lap>> run();

 private:
  Result<void> find_ports();
  /// Returns whether servers use ports of the machine, which other programs use too.
  [[nodiscard]] bool finds_ports() const;
  Result<void> start_servers();
  Result<void> try_to_start_servers();
  Result<void> start_workers();
  Result<void> start(const Command& command, std::vector<ChildProcess>& into);
  Result<Lap> run_lap();
  Result<void> tell_workers(const char* word);
  void end();

  /// Runs turns until `done` holds, at most for `patience`.
  template <class Done>
  Result<void> wait_until(const char* what, std::chrono::seconds patience, Done done);
  Result<void> turn();
  void accept_workers();
  Result<void> greet(size_t index);
  Result<void> take_words(Worker& worker, std::span<const std::string> lines);
  Result<void> check_children();
  [[nodiscard]] ServerCpu server_cpu() const;
  [[nodiscard]] Error child_error(ChildProcess& child, const std::string& what) const;

  const RoundPlan& plan_;
  const RaceNetwork& network_;
  const Programs& programs_;
  const std::function<bool()>& interrupted_;
  const PacketThreads packet_threads_;
  bench::ScratchFolder scratch_;
  std::string store_;  ///< Folder within it for the processes.
  std::vector<uint16_t> ports_;
  std::optional<ControlListener> listener_;
  std::vector<ChildProcess> servers_;
  std::vector<ChildProcess> clients_;  ///< The workers, or mpirun alone.
  std::vector<bool> server_ready_;
  std::vector<bool> server_colocated_;
  std::vector<std::unique_ptr<LineSocket>> unidentified_;  ///< Connected, but no greeting yet.
  std::vector<Worker> workers_;                            ///< Shape [workers], by rank.
};

Error Round::child_error(ChildProcess& child, const std::string& what) const {
  const std::string output = child.last_output();
  return Error{fmt::format("{} {}; its last output: {}", child.name(), what,
                           output.empty() ? "(nothing)" : output)};
}

Result<void> Round::start(const Command& command, std::vector<ChildProcess>& into) {
  auto child = ChildProcess::start({.name = command.name,
                                    .program = command.words.front(),
                                    .arguments = {command.words.begin() + 1, command.words.end()},
                                    .inherited_files = {},
                                    .environment = command.environment});
  if (!child) return tl::unexpected(child.error());
  into.push_back(std::move(*child));
  return {};
}

Result<void> Round::find_ports() {
  const bool udp = plan_.system->kind == SystemKind::kTributary;
  while (ports_.size() < kPsServers) {
    auto port = static_cast<uint16_t>(kServerPort + ports_.size());
    if (finds_ports()) {
      const auto found = io::free_port(udp ? io::Transport::kUdp : io::Transport::kTcp);
      if (!found) return tl::unexpected(found.error());
      port = *found;
    }
    // The kernel may return the same free port twice.
    if (std::find(ports_.begin(), ports_.end(), port) == ports_.end()) ports_.push_back(port);
  }
  return {};
}

bool Round::finds_ports() const {
  return !network_.kind().namespaces && !network_.kind().shared_memory;
}

Result<void> Round::start_servers() {
  // Another program may bind a port after free_port() has returned it.
  constexpr int kAttempts = 3;
  for (int attempt = 1;; attempt++) {
    auto started = try_to_start_servers();
    if (started || !finds_ports() || interrupted_() || attempt == kAttempts) return started;
    servers_.clear();
    ports_.clear();
  }
}

Result<void> Round::try_to_start_servers() {
  if (auto found = find_ports(); !found) return found;
  const auto commands =
      server_commands(*plan_.system, network_, plan_.race, programs_, ports_, store_);
  server_colocated_.clear();
  for (const Command& command : commands) {
    if (auto started = start(command, servers_); !started) return started;
    server_colocated_.push_back(command.colocated);
  }
  server_ready_.assign(servers_.size(), false);
  return wait_until("servers to be ready", kWaitMax, [&] {
    for (size_t i = 0; i < servers_.size(); i++) {
      for (const std::string& line : servers_[i].take_lines()) {
        if (line.starts_with(commands[i].ready)) server_ready_[i] = true;
      }
    }
    return std::all_of(server_ready_.begin(), server_ready_.end(),
                       [](bool ready) { return ready; });
  });
}

Result<void> Round::start_workers() {
  auto listener = ControlListener::open(scratch_.path() / "control");
  if (!listener) return tl::unexpected(listener.error());
  listener_.emplace(std::move(*listener));
  ClientConfig common;
  common.control = scratch_.path() / "control";
  common.reductions = plan_.reductions;
  common.scratch = store_;
  for (const Command& command :
       worker_commands(*plan_.system, network_, plan_.race, programs_, ports_, common)) {
    if (auto started = start(command, clients_); !started) return started;
  }
  return {};
}

void Round::accept_workers() {
  if (!listener_) return;
  for (int file; (file = listener_->accept_now()) >= 0;) {
    unidentified_.push_back(std::make_unique<LineSocket>(file));
  }
}

Result<void> Round::take_words(Worker& worker, std::span<const std::string> lines) {
  for (const std::string& line : lines) {
    if (line == "ready") {
      worker.ready = true;
    } else if (line == "measured") {
      worker.measured = true;
    } else if (line.starts_with("failed ")) {
      return failure(fmt::format("a worker {}", line));
    } else {
      const auto report = decode_lap(line);
      if (!report) return tl::unexpected(report.error());
      worker.report = *report;
    }
  }
  return {};
}

/// Assigns a new connection to the worker that it names in its greeting.
Result<void> Round::greet(size_t index) {
  const auto lines = unidentified_[index]->take_lines();
  if (!lines) return tl::unexpected(lines.error());
  if (lines->empty()) return {};
  const auto rank = decode_hello(lines->front());
  if (!rank) return tl::unexpected(rank.error());
  if (*rank >= workers_.size()) return failure("a worker greeted with a rank outside the race");
  workers_[*rank].control = std::move(unidentified_[index]);
  unidentified_.erase(unidentified_.begin() + static_cast<std::ptrdiff_t>(index));
  return take_words(workers_[*rank], std::span(*lines).subspan(1));
}

Result<void> Round::check_children() {
  for (auto* group : {&servers_, &clients_}) {
    for (ChildProcess& child : *group) {
      static_cast<void>(child.stderr_tail());  // Drains the pipe.
      if (group == &clients_) child.take_lines();
      if (child.has_ended()) {
        return tl::unexpected(
            child_error(child, fmt::format("ended too early ({})", child.end_text())));
      }
    }
  }
  return {};
}

Result<void> Round::turn() {
  if (interrupted_()) return failure("interrupted");
  std::vector<pollfd> files;
  if (listener_) files.push_back({listener_->file(), POLLIN, 0});
  for (const auto& connection : unidentified_) files.push_back({connection->file(), POLLIN, 0});
  for (const Worker& worker : workers_) {
    if (worker.control != nullptr) files.push_back({worker.control->file(), POLLIN, 0});
  }
  for (const ChildProcess& server : servers_) {
    files.push_back({server.stdout_file(), POLLIN, 0});
  }
  poll(files.data(), files.size(), kPollMs);
  accept_workers();
  for (size_t i = unidentified_.size(); i-- > 0;) {
    if (auto greeted = greet(i); !greeted) return greeted;
  }
  for (Worker& worker : workers_) {
    if (worker.control == nullptr) continue;
    const auto lines = worker.control->take_lines();
    if (!lines) {
      // The process's own output says more than its closed connection.
      const auto ended = check_children();
      return ended ? tl::unexpected(lines.error()) : ended;
    }
    if (auto taken = take_words(worker, *lines); !taken) return taken;
  }
  return check_children();
}

template <class Done>
Result<void> Round::wait_until(const char* what, std::chrono::seconds patience, Done done) {
  const auto deadline = Clock::now() + patience;
  while (!done()) {
    if (Clock::now() > deadline) {
      return failure(fmt::format("waited {} s for {}", patience.count(), what));
    }
    if (auto turned = turn(); !turned) return turned;
  }
  return {};
}

ServerCpu Round::server_cpu() const {
  ServerCpu cpu{.other_s = packet_threads_.cpu_seconds()};
  for (size_t i = 0; i < servers_.size(); i++) {
    (server_colocated_[i] ? cpu.colocated_s : cpu.other_s) += cpu_seconds_of(servers_[i].pid());
  }
  return cpu;
}

Result<void> Round::tell_workers(const char* word) {
  for (Worker& worker : workers_) {
    if (auto said = worker.control->send_line(word); !said) return said;
  }
  return {};
}

Result<Lap> Round::run_lap() {
  const auto all = [this](auto holds) {
    return [this, holds] { return std::all_of(workers_.begin(), workers_.end(), holds); };
  };
  const auto ready = wait_until("all workers to be ready", kWaitMax,
                                all([](const Worker& worker) { return worker.ready; }));
  if (!ready) return tl::unexpected(ready.error());
  const ServerCpu before = server_cpu();
  for (Worker& worker : workers_) {
    worker.ready = worker.measured = false;
    worker.report.reset();
  }
  if (auto told = tell_workers("go"); !told) return tl::unexpected(told.error());
  const auto ran =
      wait_until("a lap", kWaitMax, all([](const Worker& worker) { return worker.measured; }));
  if (!ran) return tl::unexpected(ran.error());
  const ServerCpu after = server_cpu();
  // Checking takes the cores from workers that are still in their lap, so all of them end it first.
  if (auto told = tell_workers("check"); !told) return tl::unexpected(told.error());
  const auto checked =
      wait_until("the check of a lap", kWaitMax,
                 all([](const Worker& worker) { return worker.report.has_value(); }));
  if (!checked) return tl::unexpected(checked.error());
  const ServerCpu cpu{.colocated_s = after.colocated_s - before.colocated_s,
                      .other_s = after.other_s - before.other_s};
  std::vector<LapReport> reports;
  for (const Worker& worker : workers_) reports.push_back(*worker.report);
  Lap lap = lap_of(reports, cpu, plan_.reductions, plan_.race.straggler);
  lap.round = plan_.round;
  return lap;
}

void Round::end() {
  for (Worker& worker : workers_) {
    if (worker.control != nullptr) static_cast<void>(worker.control->send_line("end"));
  }
  const auto deadline = Clock::now() + kEndWithin;
  const auto all_ended = [this] {
    return std::all_of(clients_.begin(), clients_.end(),
                       [](ChildProcess& child) { return child.has_ended(); });
  };
  while (!all_ended() && Clock::now() < deadline && !interrupted_()) {
    for (ChildProcess& child : clients_) static_cast<void>(child.stderr_tail());
    poll(nullptr, 0, kPollMs / 10);
  }
  // mpirun forwards this to its ranks. The other clients are still running only if they hang.
  for (auto* group : {&clients_, &servers_}) {
    for (ChildProcess& child : *group) child.signal(SIGTERM);
  }
}

Result<std::vector<Lap>> Round::run() {
  if (scratch_.path().empty()) return failure("cannot make a temporary folder; set TMPDIR");
  store_ = scratch_.path() / "store";
  fs::create_directory(store_);
  if (auto started = start_servers(); !started) return tl::unexpected(started.error());
  if (auto started = start_workers(); !started) return tl::unexpected(started.error());
  std::vector<Lap> laps;
  for (uint32_t i = 0; i <= plan_.laps; i++) {
    const auto lap = run_lap();
    if (!lap) {
      end();
      return tl::unexpected(lap.error());
    }
    if (i > 0) laps.push_back(*lap);  // The first lap is a warm-up.
  }
  end();
  return laps;
}

}  // namespace

Result<std::vector<Lap>> run_round(const RoundPlan& plan, const RaceNetwork& network,
                                   const Programs& programs,
                                   const std::function<bool()>& interrupted) {
  return Round(plan, network, programs, interrupted).run();
}

}  // namespace tributary::race
