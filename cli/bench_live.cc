// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_live.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>

#include "bench/latency_bench.h"
#include "bench/parts_bench.h"
#include "cli/settings.h"

namespace tributary::cli {
namespace {

template <class Config>
struct Flags {
  explicit Flags(CLI::App& command) : settings(command) {}
  Settings settings;
  Config bench;
  bool quick = false;
  std::string json_path;
};
using PartsFlags = Flags<bench::PartsBenchConfig>;
using LatencyFlags = Flags<bench::LatencyBenchConfig>;

/// With --quick: enough to see that it works.
constexpr uint32_t kQuickRepetitions = 3;
constexpr uint64_t kQuickPackets = 20'000;
constexpr uint32_t kQuickBlocks = 200;

/// @return whether nothing was asked for, or it has been written.
bool write_json(const std::string& path, const nlohmann::json& json) {
  if (path.empty()) return true;
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  if (file.flush()) return true;
  fmt::print(stderr, "tributary bench: --json {}: cannot be written\n", path);
  return false;
}

int run_parts(PartsFlags& flags) {
  if (flags.quick) flags.bench = {.repetitions = kQuickRepetitions, .packets_each = kQuickPackets};
  const auto rows = run_parts_bench(flags.bench, [](const std::string& part) {
    fmt::print(stderr, "tributary bench parts: {} done\n", part);
  });
  fmt::print("{}", bench::as_table(rows));
  if (!write_json(flags.json_path, bench::as_json(rows))) return 1;
  const bool right = std::all_of(rows.begin(), rows.end(),
                                 [](const bench::PartsBenchRow& row) { return row.right; });
  return right ? 0 : 1;
}

int run_latency(LatencyFlags& flags) {
  if (flags.quick) {
    flags.bench.rounds = kQuickRepetitions;
    flags.bench.blocks_each = kQuickBlocks;
  }
  const auto result = run_latency_bench(flags.bench);
  if (!result) {
    fmt::print(stderr, "tributary bench latency: {}\n", result.error().text);
    return 1;
  }
  fmt::print("{}", bench::as_table(*result));
  return write_json(flags.json_path, bench::as_json(*result)) && result->right ? 0 : 1;
}

template <class Config>
std::shared_ptr<Flags<Config>> common_flags(CLI::App& command) {
  const auto flags = std::make_shared<Flags<Config>>(command);
  command.add_flag("--quick", flags->quick, "A few seconds in all, for a look");
  command.add_option("--json", flags->json_path, "Write the figures to this file")
      ->type_name("FILE");
  return flags;
}

}  // namespace

void add_live_benches(CLI::App& command, int& exit_code) {
  CLI::App* parts = command.add_subcommand(
      "parts", "The live path part by part (filter, jobs, cores, worker), each beside a baseline");
  const auto parts_flags = common_flags<bench::PartsBenchConfig>(*parts);
  add_uint(*parts, "--repetitions", parts_flags->bench.repetitions, 1, 1000,
           "Part and baseline in turn, so many times");
  parts->callback([parts_flags, &exit_code] { exit_code = run_parts(*parts_flags); });

  CLI::App* latency = command.add_subcommand(
      "latency", "Packet in to result out of one block over loopback, beside a bare echo");
  const auto latency_flags = common_flags<bench::LatencyBenchConfig>(*latency);
  add_uint(*latency, "--gradients", latency_flags->bench.gradients, 2, 4095, "Of the block");
  add_uint(*latency, "--rounds", latency_flags->bench.rounds, 1, 1000,
           "Server and echo in turn, so many times");
  add_uint(*latency, "--blocks", latency_flags->bench.blocks_each, 10, 1'000'000, "Of each round");
  latency->callback([latency_flags, &exit_code] { exit_code = run_latency(*latency_flags); });
}

}  // namespace tributary::cli
