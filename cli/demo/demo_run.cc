// SPDX-License-Identifier: Apache-2.0
#include "cli/demo/demo_run.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "base/child_process.h"
#include "bench/measure.h"
#include "io/udp/free_port.h"

namespace tributary::demo {
namespace {

using Clock = std::chrono::steady_clock;

/// Longest sleep in poll(), so that Ctrl-C and the progress line respond quickly.
constexpr int kPollMs = 100;
/// Longest time for a child to become ready, and to end after a request.
constexpr std::chrono::seconds kReadyWithin{10};
constexpr std::chrono::seconds kEndWithin{5};

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  const int descriptor_;
};

/// The processes of one run and their messages.
class Run {
 public:
  Run(const DemoConfig& config, const RunPlan& plan, const RunHooks& hooks)
      : config_(config), plan_(plan), hooks_(hooks), started_at_(Clock::now()) {
    result_.plan = plan;
    result_.records.resize(config.workers);
    result_.reports.resize(config.workers);
    reported_.resize(config.workers);
  }

  Result<RunResult> execute();

 private:
  Result<void> start_aggregator();
  Result<void> start_workers();
  Result<void> await_ready();
  Result<void> await_reports();
  Result<void> end_aggregator();

  /// Runs one turn of the loop: waits for output, takes it, checks for failures.
  Result<void> turn();
  Result<void> take_messages(uint32_t rank);
  Result<void> check_ends();
  void show_progress();
  void wait_for_output();
  [[nodiscard]] std::chrono::duration<double> elapsed() const { return Clock::now() - started_at_; }
  Error child_error(ChildProcess& child, const std::string& what);

  const DemoConfig& config_;
  const RunPlan& plan_;
  const RunHooks& hooks_;
  const Clock::time_point started_at_;
  Clock::time_point shown_at_{};

  bench::ScratchFolder scratch_;
  std::unique_ptr<File> ledger_;
  std::string server_;
  std::optional<ChildProcess> aggregator_;
  bool aggregator_ready_ = false;
  std::vector<ChildProcess> workers_;  ///< Shape [workers], by rank.
  std::vector<bool> reported_;         ///< Shape [workers].
  RunResult result_;
};

Error Run::child_error(ChildProcess& child, const std::string& what) {
  const std::string output = child.last_output();
  return Error{fmt::format("run '{}': {} {}; its last output: {}", plan_.title, child.name(), what,
                           output.empty() ? "(nothing)" : output)};
}

Result<void> Run::start_aggregator() {
  const auto port = io::free_port(io::Transport::kUdp);
  if (!port) return tl::unexpected(port.error());
  server_ = fmt::format("127.0.0.1:{}", *port);
  if (scratch_.path().empty()) return failure("cannot make a temporary folder; set TMPDIR");

  std::string job =
      fmt::format("id=1,sources={},block_grad_max={}", config_.workers, config_.gradients);
  if (plan_.mitigation_ms != 0) {
    job += fmt::format(",mitigation=on,timeout_ms={}", plan_.mitigation_ms);
  }
  auto child =
      ChildProcess::start({.name = "the aggregator",
                           .program = config_.program,
                           .arguments = {"serve", "--listen", server_, "--job", job, "--json",
                                         scratch_.path() / "serve.json", "--log-level", "error"},
                           .inherited_files = {}});
  if (!child) return tl::unexpected(child.error());
  aggregator_.emplace(std::move(*child));
  return {};
}

Result<void> Run::await_ready() {
  const auto deadline = Clock::now() + kReadyWithin;
  while (!aggregator_ready_) {
    if (auto turned = turn(); !turned) return turned;
    for (const std::string& line : aggregator_->take_lines()) {
      aggregator_ready_ = aggregator_ready_ || line.starts_with("ready");
    }
    if (!aggregator_ready_ && Clock::now() > deadline) {
      return tl::unexpected(child_error(*aggregator_, "did not become ready in time"));
    }
  }
  return {};
}

Result<void> Run::start_workers() {
  const LedgerShape shape{.world = config_.workers,
                          .depth = kLedgerDepth,
                          .elements = lab::LanguageModelShape{}.parameter_count()};
  ledger_ = std::make_unique<File>(memfd_create("tributary-sum-ledger", MFD_CLOEXEC));
  // The children inherit the descriptor under the same number.
  const std::string ledger_path = fmt::format("/proc/self/fd/{}", ledger_->descriptor());
  if (const auto made = SumLedger::create(ledger_path, shape); !made) {
    return tl::unexpected(made.error());
  }
  for (uint32_t rank = 0; rank < config_.workers; rank++) {
    DemoWorkerConfig worker{.server = server_,
                            .corpus = config_.corpus,
                            .ledger = ledger_path,
                            .rank = rank,
                            .world = config_.workers,
                            .gradients = config_.gradients,
                            .window = config_.window,
                            .iterations = config_.iterations,
                            .batch = config_.batch,
                            .seed = config_.seed,
                            .loss = plan_.loss};
    if (plan_.has_straggler() && rank == config_.workers - 1) {
      worker.slow_probability = config_.slow_probability;
      worker.slow_typical_ms = plan_.slow_typical_ms;
    }
    auto child = ChildProcess::start({.name = fmt::format("worker {}", rank),
                                      .program = config_.program,
                                      .arguments = to_arguments(worker),
                                      .inherited_files = {ledger_->descriptor()}});
    if (!child) return tl::unexpected(child.error());
    workers_.push_back(std::move(*child));
  }
  return {};
}

void Run::wait_for_output() {
  std::vector<pollfd> files;
  const auto add = [&files](ChildProcess& child) {
    if (child.has_ended()) return;  // Pipes at end of file always poll as readable.
    files.push_back({child.stdout_file(), POLLIN, 0});
    files.push_back({child.stderr_file(), POLLIN, 0});
  };
  if (aggregator_) add(*aggregator_);
  for (ChildProcess& worker : workers_) add(worker);
  poll(files.data(), files.size(), kPollMs);  // A signal may end it early.
}

Result<void> Run::take_messages(uint32_t rank) {
  for (const std::string& line : workers_[rank].take_lines()) {
    const auto message = decode(line);
    if (!message) return tl::unexpected(child_error(workers_[rank], message.error().text));
    if (const auto* record = std::get_if<IterationRecord>(&*message)) {
      result_.records[rank].push_back(*record);
    } else if (const auto* report = std::get_if<WorkerReport>(&*message)) {
      result_.reports[rank] = *report;
      reported_[rank] = true;
    }
  }
  return {};
}

Result<void> Run::check_ends() {
  for (uint32_t rank = 0; rank < workers_.size(); rank++) {
    ChildProcess& worker = workers_[rank];
    if (!worker.has_ended()) continue;
    // Messages from just before its end are still in the pipe.
    if (auto taken = take_messages(rank); !taken) return taken;
    if (reported_[rank] && worker.ended_well()) continue;
    return tl::unexpected(
        child_error(worker, fmt::format("ended too early ({})", worker.end_text())));
  }
  if (aggregator_ && aggregator_->has_ended()) {
    return tl::unexpected(
        child_error(*aggregator_, fmt::format("ended too early ({})", aggregator_->end_text())));
  }
  return {};
}

void Run::show_progress() {
  if (Clock::now() - shown_at_ < std::chrono::milliseconds(kPollMs)) return;
  shown_at_ = Clock::now();
  const auto& records = result_.records.front();
  hooks_.progress({.plan = plan_,
                   .iterations_done = static_cast<uint32_t>(records.size()),
                   .loss = records.empty() ? 0.0 : records.back().loss,
                   .seconds = elapsed().count()});
}

Result<void> Run::turn() {
  wait_for_output();
  if (aggregator_) aggregator_->stderr_tail();  // Drain it, so that it never blocks the child.
  for (uint32_t rank = 0; rank < workers_.size(); rank++) {
    workers_[rank].stderr_tail();
    if (auto taken = take_messages(rank); !taken) return taken;
  }
  show_progress();
  if (hooks_.interrupted()) return failure("interrupted");
  return check_ends();
}

Result<void> Run::await_reports() {
  const auto all_ended = [this] {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](ChildProcess& worker) { return worker.has_ended(); });
  };
  // check_ends() in turn() has checked that ended workers reported.
  while (!all_ended()) {
    if (auto turned = turn(); !turned) return turned;
    aggregator_->take_lines();  // Drain it.
    if (elapsed() > std::chrono::seconds(config_.run_timeout_s)) {
      const auto late = std::find(reported_.begin(), reported_.end(), false);
      const auto rank = static_cast<size_t>(std::distance(reported_.begin(), late));
      ChildProcess& child = rank < workers_.size() ? workers_[rank] : workers_.front();
      return tl::unexpected(
          child_error(child, fmt::format("has not finished within {} s", config_.run_timeout_s)));
    }
  }
  shown_at_ = {};  // Always show the last iteration.
  show_progress();
  return check_ends();
}

Result<void> Run::end_aggregator() {
  aggregator_->signal(SIGTERM);
  const auto deadline = Clock::now() + kEndWithin;
  while (!aggregator_->has_ended()) {
    if (Clock::now() > deadline) {
      return tl::unexpected(child_error(*aggregator_, "did not end when asked to"));
    }
    aggregator_->take_lines();
    aggregator_->stderr_tail();
    wait_for_output();
  }
  if (!aggregator_->ended_well()) {
    return tl::unexpected(child_error(*aggregator_, "ended badly, " + aggregator_->end_text()));
  }
  std::ifstream file(scratch_.path() / "serve.json");
  result_.aggregator_json.assign(std::istreambuf_iterator<char>(file), {});
  return {};
}

Result<RunResult> Run::execute() {
  auto done = start_aggregator()
                  .and_then([this] { return await_ready(); })
                  .and_then([this] { return start_workers(); })
                  .and_then([this] { return await_reports(); })
                  .and_then([this] { return end_aggregator(); });
  if (!done) {
    // Ask first, so that children can end cleanly; the destructors kill the rest.
    for (ChildProcess& worker : workers_) worker.signal(SIGTERM);
    if (aggregator_) aggregator_->signal(SIGTERM);
    const auto deadline = Clock::now() + std::chrono::seconds(1);
    while (aggregator_ && !aggregator_->has_ended() && Clock::now() < deadline) wait_for_output();
    return tl::unexpected(done.error());
  }
  return std::move(result_);
}

}  // namespace

Result<RunResult> execute_run(const DemoConfig& config, const RunPlan& plan,
                              const RunHooks& hooks) {
  return Run(config, plan, hooks).execute();
}

}  // namespace tributary::demo
