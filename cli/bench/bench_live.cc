// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/bench_live.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/latency_bench.h"
#include "bench/parts_bench.h"
#include "cli/bench/bench_flags.h"
#include "cli/console.h"
#include "cli/status_line.h"

namespace tributary::cli {
namespace {

using PartsFlags = BenchFlags<bench::PartsBenchConfig>;
using LatencyFlags = BenchFlags<bench::LatencyBenchConfig>;

/// Work with --quick: just enough to see that the benchmarks work.
constexpr uint32_t kQuickRepetitions = 3;
constexpr uint64_t kQuickPackets = 20'000;
constexpr uint32_t kQuickBlocks = 200;

int run_parts(PartsFlags& flags) {
  if (flags.quick) flags.bench = {.repetitions = kQuickRepetitions, .packets_each = kQuickPackets};
  const auto rows = run_parts_bench(flags.bench, [](const std::string& part) {
    print_error("tributary bench parts: {} done\n", part);
  });
  return report_rows(rows, flags.json_path, std::mem_fn(&bench::PartsBenchRow::is_correct));
}

int run_latency(LatencyFlags& flags) {
  if (flags.quick) {
    flags.bench.rounds = kQuickRepetitions;
    flags.bench.blocks_each = kQuickBlocks;
  }
  const auto result = [&flags] {
    const StatusLine line([&flags](double elapsed_s) {
      return fmt::format("measuring {} rounds of {} blocks, {:.0f} s", flags.bench.rounds,
                         flags.bench.blocks_each, elapsed_s);
    });
    return run_latency_bench(flags.bench);
  }();
  if (!result) {
    print_error("tributary bench latency: {}\n", result.error().text);
    return 1;
  }
  print("{}", bench::as_table(*result));
  return write_bench_json(flags.json_path, bench::as_json(*result)) && result->is_correct() ? 0 : 1;
}

}  // namespace

void add_live_benches(CLI::App& command, int& exit_code) {
  CLI::App* parts = command.add_subcommand(
      "parts", "The live path part by part (filter, jobs, cores, worker), each against a baseline");
  const auto parts_flags = bench_flags<bench::PartsBenchConfig>(*parts);
  add_uint(*parts, "--repetitions", parts_flags->bench.repetitions, 1, 1000,
           "Times to run each part and its baseline, in turn");
  parts->callback([parts_flags, &exit_code] { exit_code = run_parts(*parts_flags); });

  CLI::App* latency = command.add_subcommand("latency",
                                             "Time from packet in to result out of one block, over "
                                             "UDP on loopback and DPDK's wire in shared memory "
                                             "(not the rings of serve --local), against an echo");
  const auto latency_flags = bench_flags<bench::LatencyBenchConfig>(*latency);
  add_uint(*latency, "--gradients", latency_flags->bench.gradients, 2, 4095,
           "Gradients in the block");
  add_uint(*latency, "--rounds", latency_flags->bench.rounds, 1, 1000,
           "Times to run the server and the echo, in turn");
  add_uint(*latency, "--blocks", latency_flags->bench.blocks_each, 10, 1'000'000,
           "Blocks in each round");
  latency->callback([latency_flags, &exit_code] { exit_code = run_latency(*latency_flags); });
}

}  // namespace tributary::cli
