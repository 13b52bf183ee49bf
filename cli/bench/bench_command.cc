// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/bench_command.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result_file.h"
#include "bench/auth_bench.h"
#include "bench/engine_bench.h"
#include "bench/net_bench.h"
#include "bench/programs_bench.h"
#include "bench/tofino_bench.h"
#include "cli/bench/bench_flags.h"
#include "cli/bench/bench_live.h"
#include "cli/bench/bench_observe.h"
#include "cli/bench/chaos_command.h"
#include "cli/bench/race_command.h"
#include "cli/bench/soak_command.h"
#include "cli/console.h"

namespace tributary::cli {
namespace {

/// Work of one repetition with --quick: just enough to see that the benchmark works.
constexpr uint32_t kQuickRepetitions = 3;
constexpr uint64_t kQuickGradients = 5'000'000;
constexpr uint64_t kQuickPackets = 100'000;
constexpr uint64_t kQuickTofinoPackets = 50'000;
constexpr uint64_t kQuickAuthBytes = 2'000'000;

int run_engine(BenchFlags<bench::EngineBenchConfig>& flags) {
  if (flags.quick) {
    flags.bench.gradients_each = kQuickGradients;
    flags.bench.repetitions = kQuickRepetitions;
  }
  const auto rows = run_engine_bench(flags.bench, [](const std::string& line) {
    print_error("tributary bench engine: {} …\n", line);
  });
  return report_rows(rows, flags.json_path, std::mem_fn(&bench::EngineBenchRow::results_agree));
}

int run_auth(BenchFlags<bench::AuthBenchConfig>& flags) {
  if (flags.quick) {
    flags.bench.bytes_each = kQuickAuthBytes;
    flags.bench.repetitions = kQuickRepetitions;
  }
  const auto rows = run_auth_bench(flags.bench, [](const std::string& line) {
    print_error("tributary bench auth: {} …\n", line);
  });
  return report_rows(rows, flags.json_path, std::mem_fn(&bench::AuthBenchRow::all_in_place));
}

int run_net(BenchFlags<bench::NetBenchConfig>& flags) {
  if (flags.quick) {
    flags.bench.packets_each = kQuickPackets;
    flags.bench.repetitions = kQuickRepetitions;
  }
  const auto rows = run_net_bench(flags.bench, [](const std::string& line) {
    print_error("tributary bench net: {} …\n", line);
  });
  return report_rows(rows, flags.json_path, std::mem_fn(&bench::NetBenchRow::digests_agree));
}

int run_programs(BenchFlags<bench::ProgramsBenchConfig>& flags) {
  if (flags.quick) {
    flags.bench.packets_each = kQuickPackets;
    flags.bench.repetitions = kQuickRepetitions;
    flags.bench.flows = {10'000};
  }
  const auto rows = run_programs_bench(flags.bench, [](const std::string& line) {
    print_error("tributary bench programs: {} …\n", line);
  });
  return report_rows(rows, flags.json_path, std::mem_fn(&bench::ProgramsBenchRow::is_correct));
}

int run_tofino(BenchFlags<bench::TofinoBenchConfig>& flags) {
  if (flags.quick) {
    flags.bench.packets_each = kQuickTofinoPackets;
    flags.bench.repetitions = kQuickRepetitions;
  }
  const auto rows = run_tofino_bench(flags.bench, [](const std::string& line) {
    print_error("tributary bench tofino: {} …\n", line);
  });
  return report_rows(rows, flags.json_path, std::mem_fn(&bench::TofinoBenchRow::results_agree));
}

void add_engine_bench(CLI::App& command, int& exit_code) {
  CLI::App* engine =
      command.add_subcommand("engine", "One core without packet I/O, against a hand-written loop");
  const auto flags = bench_flags<bench::EngineBenchConfig>(*engine);
  add_uint(*engine, "--repetitions", flags->bench.repetitions, 1, 100,
           "Times to run the engine and the loop, in turn");
  engine
      ->add_option("--gradients", flags->bench.gradients,
                   "Gradients in a packet; one value or more")
      ->check(CLI::Range(1, 4095))
      ->capture_default_str();
  engine->add_option("--window", flags->bench.windows, "Blocks in progress; powers of two")
      ->check(CLI::Range(16, 65536))
      ->capture_default_str();
  engine->callback([flags, &exit_code] { exit_code = run_engine(*flags); });
}

void add_auth_bench(CLI::App& command, int& exit_code) {
  CLI::App* auth =
      command.add_subcommand("auth", "MACs of packets, and a core's goodput among forged packets");
  const auto flags = bench_flags<bench::AuthBenchConfig>(*auth);
  add_uint(*auth, "--repetitions", flags->bench.repetitions, 1, 1000,
           "Times to run each part and its baseline, in turn");
  auth->add_option("--packet-bytes", flags->bench.packet_bytes, "UDP payloads; one value or more")
      ->check(CLI::Range(64, 16'000))
      ->capture_default_str();
  auth->callback([flags, &exit_code] { exit_code = run_auth(*flags); });
}

void add_net_bench(CLI::App& command, int& exit_code) {
  CLI::App* net =
      command.add_subcommand("net", "The virtual network's event core, against a binary heap");
  const auto flags = bench_flags<bench::NetBenchConfig>(*net);
  add_uint(*net, "--repetitions", flags->bench.repetitions, 1, 100,
           "Times to run the calendar and the heap, in turn");
  add_uint(*net, "--packets", flags->bench.packets_each, 1'000, 1'000'000'000,
           "Packets that all hosts together send in each repetition");
  net->callback([flags, &exit_code] { exit_code = run_net(*flags); });
}

void add_programs_bench(CLI::App& command, int& exit_code) {
  CLI::App* programs = command.add_subcommand(
      "programs", "Packet programs on one core, against loops written by hand");
  const auto flags = bench_flags<bench::ProgramsBenchConfig>(*programs);
  add_uint(*programs, "--repetitions", flags->bench.repetitions, 1, 1000,
           "Times to run each program and its loop, in turn");
  add_uint(*programs, "--packets", flags->bench.packets_each, 1'000, 1'000'000'000,
           "Packets in each repetition");
  programs->add_option("--flows", flags->bench.flows, "Flows; one value or more")
      ->check(CLI::Range(1, 4'000'000))
      ->capture_default_str();
  programs->callback([flags, &exit_code] { exit_code = run_programs(*flags); });
}

void add_tofino_bench(CLI::App& command, int& exit_code) {
  CLI::App* tofino = command.add_subcommand(
      "tofino", "SwitchML on the pipeline model, against a plain loop with the same sums");
  const auto flags = bench_flags<bench::TofinoBenchConfig>(*tofino);
  add_uint(*tofino, "--repetitions", flags->bench.repetitions, 1, 100,
           "Times to run the model and the loop, in turn");
  add_uint(*tofino, "--packets", flags->bench.packets_each, 1'000, 1'000'000'000,
           "Packets that all workers together send in each repetition");
  tofino->callback([flags, &exit_code] { exit_code = run_tofino(*flags); });
}

}  // namespace

bool write_bench_json(const std::string& path, const nlohmann::ordered_json& json) {
  if (path.empty()) return true;
  const auto written = write_result_file(path, json.dump(2) + "\n");
  if (!written) print_error("tributary bench: --json {}\n", written.error().text);
  return written.has_value();
}

void add_bench_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("bench", "Measure this machine against plain baselines");
  command->require_subcommand(1);
  add_engine_bench(*command, exit_code);
  add_auth_bench(*command, exit_code);
  add_net_bench(*command, exit_code);
  add_programs_bench(*command, exit_code);
  add_tofino_bench(*command, exit_code);
  add_race_command(*command, exit_code);
  add_soak_command(*command, exit_code);
  add_chaos_command(*command, exit_code);
  add_live_benches(*command, exit_code);
  add_observe_bench(*command, exit_code);
}

}  // namespace tributary::cli
