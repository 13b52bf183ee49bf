// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>

#include "bench/engine_bench.h"
#include "bench/net_bench.h"
#include "bench/tofino_bench.h"
#include "cli/bench_live.h"
#include "cli/race_command.h"
#include "cli/settings.h"
#include "cli/soak_command.h"

namespace tributary::cli {
namespace {

struct EngineBenchFlags {
  explicit EngineBenchFlags(CLI::App& command) : settings(command) {}
  Settings settings;
  bench::EngineBenchConfig bench;
  bool quick = false;
  std::string json_path;
};

struct NetBenchFlags {
  explicit NetBenchFlags(CLI::App& command) : settings(command) {}
  Settings settings;
  bench::NetBenchConfig bench;
  bool quick = false;
  std::string json_path;
};

struct TofinoBenchFlags {
  explicit TofinoBenchFlags(CLI::App& command) : settings(command) {}
  Settings settings;
  bench::TofinoBenchConfig bench;
  bool quick = false;
  std::string json_path;
};

/// Work of one repetition with --quick: enough to see that it works.
constexpr uint64_t kQuickGradients = 5'000'000;
constexpr uint64_t kQuickPackets = 100'000;
constexpr uint64_t kQuickTofinoPackets = 50'000;

/// @return whether nothing was asked for, or it has been written.
bool write_json(const std::string& path, const nlohmann::json& json) {
  if (path.empty()) return true;
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  if (file.flush()) return true;
  fmt::print(stderr, "tributary bench: --json {}: cannot be written\n", path);
  return false;
}

int run_engine(EngineBenchFlags& flags) {
  if (flags.quick) {
    flags.bench.gradients_each = kQuickGradients;
    flags.bench.repetitions = 3;
  }
  const auto rows = run_engine_bench(flags.bench, [](const std::string& line) {
    fmt::print(stderr, "tributary bench engine: {} …\n", line);
  });
  fmt::print("{}", bench::as_table(rows));
  if (!write_json(flags.json_path, bench::as_json(rows))) return 1;
  const bool agree = std::all_of(
      rows.begin(), rows.end(), [](const bench::EngineBenchRow& row) { return row.results_agree; });
  return agree ? 0 : 1;
}

int run_net(NetBenchFlags& flags) {
  if (flags.quick) {
    flags.bench.packets_each = kQuickPackets;
    flags.bench.repetitions = 3;
  }
  const auto rows = run_net_bench(flags.bench, [](const std::string& line) {
    fmt::print(stderr, "tributary bench net: {} …\n", line);
  });
  fmt::print("{}", bench::as_table(rows));
  if (!write_json(flags.json_path, bench::as_json(rows))) return 1;
  const bool agree = std::all_of(rows.begin(), rows.end(),
                                 [](const bench::NetBenchRow& row) { return row.digests_agree; });
  return agree ? 0 : 1;
}

int run_tofino(TofinoBenchFlags& flags) {
  if (flags.quick) {
    flags.bench.packets_each = kQuickTofinoPackets;
    flags.bench.repetitions = 3;
  }
  const auto rows = run_tofino_bench(flags.bench, [](const std::string& line) {
    fmt::print(stderr, "tributary bench tofino: {} …\n", line);
  });
  fmt::print("{}", bench::as_table(rows));
  if (!write_json(flags.json_path, bench::as_json(rows))) return 1;
  const bool agree = std::all_of(
      rows.begin(), rows.end(), [](const bench::TofinoBenchRow& row) { return row.results_agree; });
  return agree ? 0 : 1;
}

void add_net_bench(CLI::App& command, int& exit_code) {
  CLI::App* net =
      command.add_subcommand("net", "The virtual network's event core, beside a binary heap");
  const auto flags = std::make_shared<NetBenchFlags>(*net);
  net->add_flag("--quick", flags->quick, "A few seconds in all, for a look");
  add_uint(*net, "--repetitions", flags->bench.repetitions, 1, 100,
           "Calendar and heap in turn, so many times");
  add_uint(*net, "--packets", flags->bench.packets_each, 1'000, 1'000'000'000,
           "Sent by all hosts together in each repetition");
  net->add_option("--json", flags->json_path, "Write the rows to this file")->type_name("FILE");
  net->callback([flags, &exit_code] { exit_code = run_net(*flags); });
}

void add_tofino_bench(CLI::App& command, int& exit_code) {
  CLI::App* tofino = command.add_subcommand(
      "tofino", "SwitchML on the pipeline model, beside a plain loop of the same sums");
  const auto flags = std::make_shared<TofinoBenchFlags>(*tofino);
  tofino->add_flag("--quick", flags->quick, "A few seconds in all, for a look");
  add_uint(*tofino, "--repetitions", flags->bench.repetitions, 1, 100,
           "Model and loop in turn, so many times");
  add_uint(*tofino, "--packets", flags->bench.packets_each, 1'000, 1'000'000'000,
           "Sent by all workers together in each repetition");
  tofino->add_option("--json", flags->json_path, "Write the rows to this file")->type_name("FILE");
  tofino->callback([flags, &exit_code] { exit_code = run_tofino(*flags); });
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
  add_net_bench(*command, exit_code);
  add_tofino_bench(*command, exit_code);
  add_race_command(*command, exit_code);
  add_soak_command(*command, exit_code);
  add_live_benches(*command, exit_code);
}

}  // namespace tributary::cli
