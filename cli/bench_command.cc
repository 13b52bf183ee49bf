// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>

#include "bench/engine_bench.h"
#include "cli/settings.h"

namespace tributary::cli {
namespace {

struct EngineBenchFlags {
  explicit EngineBenchFlags(CLI::App& command) : settings(command) {}
  Settings settings;
  bench::EngineBenchConfig bench;
  bool quick = false;
  std::string json_path;
};

/// Work of one repetition with --quick: enough to see that it works.
constexpr uint64_t kQuickGradients = 5'000'000;

int run_engine(EngineBenchFlags& flags) {
  if (flags.quick) {
    flags.bench.gradients_each = kQuickGradients;
    flags.bench.repetitions = 3;
  }
  const auto rows = run_engine_bench(flags.bench, [](const std::string& line) {
    fmt::print(stderr, "tributary bench engine: {} …\n", line);
  });
  fmt::print("{}", bench::as_table(rows));
  if (!flags.json_path.empty()) {
    std::ofstream file(flags.json_path);
    file << bench::as_json(rows).dump(2) << '\n';
    if (!file.flush()) {
      fmt::print(stderr, "tributary bench: --json {}: cannot be written\n", flags.json_path);
      return 1;
    }
  }
  const bool agree = std::all_of(
      rows.begin(), rows.end(), [](const bench::EngineBenchRow& row) { return row.results_agree; });
  return agree ? 0 : 1;
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("bench", "Measure beside plain baselines");
  command->require_subcommand(1);
  CLI::App* engine =
      command->add_subcommand("engine", "One core without packet I/O, beside a hand-written loop");
  const auto flags = std::make_shared<EngineBenchFlags>(*engine);
  engine->add_flag("--quick", flags->quick, "A few seconds in all, for a look");
  add_uint(*engine, "--repetitions", flags->bench.repetitions, 1, 100,
           "Engine and loop in turn, so many times");
  engine->add_option("--gradients", flags->bench.gradients, "Gradients a packet, one or more")
      ->check(CLI::Range(1, 4095))
      ->capture_default_str();
  engine->add_option("--window", flags->bench.windows, "Blocks in progress, powers of two")
      ->check(CLI::Range(16, 65536))
      ->capture_default_str();
  engine->add_option("--json", flags->json_path, "Write the rows to this file")->type_name("FILE");
  engine->callback([flags, &exit_code] { exit_code = run_engine(*flags); });
}

}  // namespace tributary::cli
