// SPDX-License-Identifier: Apache-2.0
#include "cli/lab/options.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "cli/console.h"
#include "cli/lab/progress.h"
#include "cli/settings.h"
#include "cli/worker/worker_interrupt.h"
#include "cli/worker/worker_result.h"
#include "lab/cluster/plan.h"
#include "lab/scenario_file.h"

namespace tributary::cli {

namespace {

/// A larger number of threads is refused as a typing error.
constexpr uint64_t kThreadsMax = 1024;
/// Folder where Ctrl-C keeps finished points without --out, so that minutes of work are not lost.
constexpr const char* kDirectoryIfStopped = "tributary-points";

/// Prints the first points' warnings, and the number of points with further ones.
void print_warnings(std::span<const lab::Point> points, const lab::RunnerOutcome& outcome,
                    std::string_view command) {
  constexpr size_t kShownMax = 4;
  size_t count = 0;
  for (size_t i = 0; i < points.size(); i++) {
    if (!outcome.points[i] || outcome.points[i]->result.warnings.empty()) continue;
    if (count++ >= kShownMax) continue;
    for (const std::string& text : outcome.points[i]->result.warnings) {
      print_error("{}: warning: {}: {}\n", command, points[i].label, text);
    }
  }
  if (count <= kShownMax) return;
  print_error("{}: warning: {} more points have warnings\n", command, count - kShownMax);
}

/// Returns where the finished points of an interrupted run are kept, or why they are lost.
std::string kept_text(const PointFlags& flags, const lab::RunnerOutcome& outcome) {
  if (outcome.finished == 0) return "nothing is kept";
  if (outcome.kept_in.empty()) {
    return fmt::format("they are lost: {} cannot be written; use --out FOLDER",
                       kDirectoryIfStopped);
  }
  if (!flags.directory.empty()) {
    return fmt::format("they are kept in {}; run the same command again to go on", flags.directory);
  }
  return fmt::format("they are kept in {0}; add --out {0} to the same command to go on",
                     outcome.kept_in);
}

}  // namespace

void add_set_flag(CLI::App& command, std::vector<WrittenKey>& settings) {
  command
      .add_option_function<std::vector<std::string>>(
          "--set",
          [&settings](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              Result<WrittenKey> key = lab::split_setting(text, "--set");
              // make_scenario() refuses an empty name.
              settings.push_back(key ? std::move(*key)
                                     : WrittenKey{.name = text, .text = "", .where = "--set"});
            }
          },
          "Any key of a scenario; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void add_scenario_flags(CLI::App& command, std::vector<WrittenKey>& settings) {
  add_set_flag(command, settings);
  const lab::Scenario defaults;
  for (const lab::ScenarioKey& key : lab::scenario_keys()) {
    const std::string name(key.spec.name);
    const std::string fallback = key.show(defaults);
    CLI::Option* option = command.add_option_function<std::string>(
        "--" + name,
        [&settings, name](const std::string& text) {
          settings.push_back({.name = name, .text = text, .where = ""});
        },
        fmt::format("{}: {}", key.spec.help, lab::allowed_values(key)));
    option->group("Scenario keys")->type_name("VALUE");
    if (!fallback.empty()) option->default_str(fallback);
  }
}

Result<lab::Scenario> read_scenario(const std::string& path,
                                    const std::vector<WrittenKey>& settings) {
  std::vector<WrittenKey> keys;
  if (!path.empty()) {
    Result<std::vector<WrittenKey>> read = lab::read_keys(path);
    if (!read) return tl::unexpected(read.error());
    // `lab run` reads files of several jobs before it comes here.
    if (const auto good = lab::check_command(*read, path, ""); !good) {
      return tl::unexpected(good.error());
    }
    keys = std::move(*read);
  }
  keys.insert(keys.end(), settings.begin(), settings.end());
  auto scenario = lab::make_scenario(keys);
  if (!scenario) return scenario;
  if (const auto good = lab::check_files(*scenario); !good) return tl::unexpected(good.error());
  return scenario;
}

void add_threads_flag(CLI::App& command, uint32_t& threads, const char* help) {
  add_uint(command, "--threads", threads, 0, kThreadsMax, help);
}

void add_point_flags(CLI::App& command, PointFlags& flags) {
  add_threads_flag(command, flags.threads);
  command
      .add_option("--out", flags.directory,
                  "Keep finished points in this folder, and continue from those in it. Without "
                  "it, Ctrl-C keeps them in tributary-points")
      ->type_name("FOLDER");
}

int complain(std::string_view command, std::string_view text, int exit_code) {
  print_error("{}: {}\n", command, text);
  return exit_code;
}

RanWithFailures run_all_points_here(std::span<const lab::Point> points, const PointFlags& flags,
                                    std::string_view command) {
  std::atomic<bool> stop = false;
  WorkerInterrupt interrupt;  // Before any other thread.
  Result<lab::Ranks> ranks = lab::Ranks::join();
  if (!ranks) return {.ran = {}, .exit_code = complain(command, ranks.error().text, 1)};
  interrupt.set_reaction([&stop, command] {
    stop.store(true, std::memory_order_relaxed);  // Relaxed: nothing is read after it.
    complain(command, "finishing the points in progress; once more to end at once", 0);
  });
  Result<lab::RunnerOutcome> outcome = [&] {
    LabProgress progress;
    lab::RunnerOptions options{.threads = flags.threads,
                               .directory = flags.directory,
                               .directory_if_stopped = kDirectoryIfStopped,
                               .stop = &stop,
                               .ranks = &*ranks,
                               .keep_going = true};
    if (ranks->rank() == 0) {
      options.on_progress = [&](uint64_t done, uint64_t total) { progress.update(done, total); };
    }
    return lab::run_points(points, options);
  }();
  interrupt.set_reaction({});
  if (!outcome) {
    const int exit_code = complain(command, outcome.error().text, 1);
    ranks->abandon(exit_code);
    return {.ran = {}, .exit_code = exit_code};
  }
  if (!outcome->complete()) {
    const std::string text =
        fmt::format("interrupted: {} of {} points are finished; {}", outcome->finished,
                    points.size(), kept_text(flags, *outcome));
    if (ranks->rank() == 0) complain(command, text, 0);
    return {.ran = {}, .exit_code = kExitInterrupted};
  }
  if (ranks->rank() != 0) return {.ran = {}, .exit_code = 0};
  if (outcome->outdated > 0) {
    complain(command,
             fmt::format("{} points in {} are of another version of the lab and have run once more",
                         outcome->outdated, flags.directory),
             0);
  }
  print_warnings(points, *outcome, command);
  return {.ran = *std::move(outcome), .exit_code = std::nullopt};
}

}  // namespace tributary::cli
