// SPDX-License-Identifier: Apache-2.0
#include "cli/demo/demo.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "base/result_file.h"
#include "cli/console.h"
#include "cli/demo/demo_report.h"
#include "cli/demo/demo_run.h"
#include "cli/status_line.h"

namespace tributary::demo {
namespace {

/// Set by the handler, read by the loop. Lock-free, so a handler may use it.
std::atomic<bool> stop_wanted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

/// While it exists, SIGINT and SIGTERM set stop_wanted instead of ending the process.
class StopSignals {
 public:
  StopSignals() {
    stop_wanted = false;
    struct sigaction action {};
    action.sa_handler = [](int) { stop_wanted = true; };
    for (size_t i = 0; i < kSignals.size(); i++) sigaction(kSignals[i], &action, &before_[i]);
  }
  ~StopSignals() {
    for (size_t i = 0; i < kSignals.size(); i++) sigaction(kSignals[i], &before_[i], nullptr);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  static constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};
  std::array<struct sigaction, kSignals.size()> before_{};
};

/// Progress: one line that changes on a terminal, a line for each quarter elsewhere.
class ProgressLine {
 public:
  ProgressLine(uint32_t iterations, uint32_t runs)
      : iterations_(iterations), runs_(runs), terminal_(isatty(STDOUT_FILENO) == 1) {}

  void begin_run() {
    run_++;
    quarters_shown_ = 0;
  }
  void show(const RunProgress& progress) {
    const uint32_t quarters = progress.iterations_done * 4 / iterations_;
    if (!terminal_ && quarters == quarters_shown_) return;
    quarters_shown_ = quarters;
    const std::string line = fmt::format("[{}/{}] {:<22} iteration {:>4}/{}  loss {:.3f}  {:.1f} s",
                                         run_, runs_, progress.plan.title, progress.iterations_done,
                                         iterations_, progress.loss, progress.seconds);
    if (!terminal_) cli::print("{}\n", line);
    std::fflush(stdout);
    if (terminal_) cli::overwrite_line(STDOUT_FILENO, line);
  }
  void end() const {
    if (terminal_) cli::print("\n");
  }

 private:
  const uint32_t iterations_;
  const uint32_t runs_;
  const bool terminal_;
  uint32_t run_ = 0;
  uint32_t quarters_shown_ = 0;
};

/// Returns whole milliseconds, at least `least`.
uint32_t milliseconds_of(double seconds, uint32_t least) {
  return std::max(least, static_cast<uint32_t>(std::lround(1e3 * seconds)));
}

/// Returns the runs after the clean one. Their times derive from its mean iteration.
std::array<RunPlan, 3> plans_after(const RunResult& clean, const DemoConfig& config) {
  const double iteration_seconds = figures_of(clean).iteration_seconds_mean;
  const uint32_t slow_typical_ms = milliseconds_of(config.slow_factor * iteration_seconds, 1);
  const uint32_t mitigation_ms =
      config.mitigation_ms != 0 ? config.mitigation_ms
                                : milliseconds_of(kTimeoutPart * iteration_seconds, kTimeoutMsMin);
  return {{{.key = "loss",
            .title = fmt::format("{:g} % loss", 100.0 * config.loss),
            .loss = config.loss},
           {.key = "straggler", .title = "straggler", .slow_typical_ms = slow_typical_ms},
           {.key = "straggler_mitigated",
            .title = "mitigated",
            .slow_typical_ms = slow_typical_ms,
            .mitigation_ms = mitigation_ms}}};
}

Result<std::vector<RunResult>> execute_all(const DemoConfig& config) {
  const StopSignals signals;
  ProgressLine line(config.iterations, 4);
  const RunHooks hooks{.progress = [&line](const RunProgress& progress) { line.show(progress); },
                       .interrupted = [] { return stop_wanted.load(); }};
  std::vector<RunResult> runs;
  const auto execute = [&](const RunPlan& plan) -> Result<void> {
    line.begin_run();
    auto run = execute_run(config, plan, hooks);
    line.end();
    if (!run) return tl::unexpected(run.error());
    runs.push_back(std::move(*run));
    return {};
  };
  if (auto done = execute({.key = "clean", .title = "clean"}); !done) {
    return tl::unexpected(done.error());
  }
  for (const RunPlan& plan : plans_after(runs.front(), config)) {
    if (auto done = execute(plan); !done) return tl::unexpected(done.error());
  }
  return runs;
}

Result<bool> execute_and_report(const DemoConfig& wanted) {
  const auto config = checked(wanted);
  if (!config) return tl::unexpected(config.error());
  // Check the text here, before four processes report the same error.
  if (const auto corpus = lab::Corpus::load(config->corpus); !corpus) {
    return tl::unexpected(corpus.error());
  }
  cli::print("{} workers, one aggregator, {} parameters, text from {}\n", config->workers,
             lab::LanguageModelShape{}.parameter_count(), config->corpus);
  std::fflush(stdout);

  const auto runs = execute_all(*config);
  if (!runs) return tl::unexpected(runs.error());
  const std::filesystem::path directory(config->output_directory);
  cli::print("\n{}", format_table(*runs));
  auto written =
      write_result_file(directory / "demo.svg", lab::render_svg(loss_plot(*runs))).and_then([&] {
        return write_result_file(directory / "demo.json", format_json(*config, *runs));
      });
  if (!written) return tl::unexpected(written.error());
  cli::print("  written: {}, {}\n", (directory / "demo.svg").string(),
             (directory / "demo.json").string());
  return all_is_well(*runs);
}

}  // namespace

int run_demo(const DemoConfig& config) {
  const auto well = execute_and_report(config);
  if (!well) {
    cli::print_error("tributary demo: {}\n", well.error().text);
    return 1;
  }
  return *well ? 0 : 1;
}

}  // namespace tributary::demo
