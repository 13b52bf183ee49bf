// SPDX-License-Identifier: Apache-2.0
// Runs each planted bug in its own process, because some abort the program or never end.
#include <fmt/format.h>
#include <poll.h>

#include <charconv>
#include <filesystem>
#include <list>
#include <optional>

#include "base/child_process.h"
#include "base/clock.h"
#include "base/mutant.h"
#include "cli/lab/faults.h"

namespace tributary::cli {
namespace {

/// A process that takes longer counts as caught: it does not end. A thousand runs take far less.
constexpr Duration kProcessMax = seconds(300);
constexpr int kPollMs = 20;

/// A process and its planted bug.
struct Trial {
  size_t row;
  ChildProcess process;
  Instant began_at;
  std::string line;
};

Result<std::string> mutants_program() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto program = self.parent_path() / "tributary-mutants";
  if (error || !std::filesystem::exists(program)) {
    return failure(fmt::format(
        "{} is not there: build it with `cmake --build BUILD --target tributary-mutants`",
        program.string()));
  }
  return program.string();
}

Result<Trial> start_trial(const std::string& program, const std::string& name, size_t row,
                          const MutantRuns& runs) {
  auto process = ChildProcess::start(
      {.name = "mutant " + name,
       .program = program,
       .arguments = {name, std::to_string(runs.first_seed), std::to_string(runs.seeds)},
       .inherited_files = {}});
  if (!process) return tl::unexpected(process.error());
  return Trial{row, *std::move(process), monotonic_now(), {}};
}

/// Tells whether a trial has ended. Then its line is complete.
bool is_over(Trial& trial) {
  const bool ended = trial.process.has_ended();
  for (std::string& line : trial.process.take_lines()) trial.line = std::move(line);
  return ended || monotonic_now() - trial.began_at > kProcessMax;
}

}  // namespace

MutantRow mutant_row(const std::string& name, const std::string& bug, const std::string& line,
                     const std::string& end_text) {
  MutantRow row{.name = name, .bug = bug};
  const size_t first = line.find(' ');
  const size_t second = line.find(' ', first == std::string::npos ? first : first + 1);
  const std::string word = line.substr(0, first);
  if (word != "caught" && word != "missed") {
    row.caught = true;
    row.how = end_text.empty() ? "it never rests" : fmt::format("the program stops: {}", end_text);
    return row;
  }
  const char* digits = line.data() + first + 1;
  std::from_chars(digits, line.data() + line.size(), row.seeds);
  row.caught = word == "caught";
  if (second != std::string::npos) row.how = line.substr(second + 1);
  return row;
}

Result<std::vector<MutantRow>> run_mutants(const MutantRuns& runs) {
  const auto program = mutants_program();
  if (!program) return tl::unexpected(program.error());
  std::vector<MutantRow> rows;
  for (const MutantText& text : kMutants) {
    const bool wanted = runs.names.empty() || std::find(runs.names.begin(), runs.names.end(),
                                                        text.name) != runs.names.end();
    if (wanted) rows.push_back({.name = text.name, .bug = text.bug});
  }
  if (rows.size() < runs.names.size()) return failure("--mutant: no planted bug of that name");
  std::list<Trial> trials;
  size_t next = 0;
  while (next < rows.size() || !trials.empty()) {
    while (next < rows.size() && trials.size() < runs.processes) {
      auto trial = start_trial(*program, rows[next].name, next, runs);
      if (!trial) return tl::unexpected(trial.error());
      trials.push_back(*std::move(trial));
      next++;
    }
    poll(nullptr, 0, kPollMs);
    for (auto trial = trials.begin(); trial != trials.end();) {
      if (!is_over(*trial)) {
        ++trial;
        continue;
      }
      MutantRow& row = rows[trial->row];
      row = mutant_row(row.name, row.bug, trial->line, trial->process.end_text());
      trial = trials.erase(trial);
    }
  }
  return rows;
}

}  // namespace tributary::cli
