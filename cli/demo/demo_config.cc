// SPDX-License-Identifier: Apache-2.0
#include "cli/demo/demo_config.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>

#include "cli/settings.h"
#include "lab/training/matrix_kernel.h"

namespace tributary::demo {
namespace {

constexpr uint32_t kIterationsMax = 100'000;
constexpr uint32_t kBatchMax = 65'536;
constexpr uint32_t kGradientsMax = 4'095;  // grad_cnt has 12 bits (Trio paper, Figure 8).
constexpr uint32_t kWindowMax = 65'536;
constexpr uint32_t kMillisecondsMax = 60'000;
constexpr uint32_t kSecondsMax = 3'600;
constexpr double kLossMax = 0.5;

}  // namespace

void add_demo_options(CLI::App& command, DemoConfig& config) {
  command.add_option("--output", config.output_directory, "Folder for demo.json and demo.svg")
      ->type_name("FOLDER")
      ->capture_default_str();
  command.add_option("--corpus", config.corpus, "Folder with the text to learn")
      ->type_name("FOLDER")
      ->capture_default_str();
  cli::add_uint(command, "--iterations", config.iterations, 1, kIterationsMax,
                "Training iterations in each run");
  cli::add_uint(
      command, "--batch", config.batch, lab::kTileRows, kBatchMax,
      fmt::format("One worker's examples in an iteration; a multiple of {}", lab::kTileRows));
  command.add_flag("--quick", config.quick, "A few small iterations, for continuous integration");
  cli::add_uint(command, "--gradients", config.gradients, 1, kGradientsMax,
                "Gradients in a packet");
  cli::add_uint(command, "--window", config.window, 1, kWindowMax, "Packets in flight");
  cli::add_uint(command, "--seed", config.seed, 0, INT64_MAX,
                "Seed for parameters, batches, losses and sleeps");
  cli::add_decimal(command, "--loss", config.loss, 0, kLossMax,
                   "Probability that a packet is lost in the run with loss");
  cli::add_decimal(command, "--slow-probability", config.slow_probability, 0, 1,
                   "Chance that the straggler sleeps, at each of three points in an iteration");
  cli::add_decimal(command, "--slow-factor", config.slow_factor, 0.1, 100,
                   "The straggler sleeps 0.5 to 2 times this many iterations of the clean run");
  cli::add_uint(command, "--mitigation-ms", config.mitigation_ms, 0, kMillisecondsMax,
                "Straggler timeout in the run with mitigation; 0: a quarter of a clean iteration");
  cli::add_uint(command, "--run-timeout", config.run_timeout_s, 1, kSecondsMax,
                "Seconds after which a run fails");
}

void add_demo_worker_options(CLI::App& command, DemoWorkerConfig& config) {
  command.add_option("--server", config.server, "The aggregator's address:port");
  command.add_option("--corpus", config.corpus, "Folder with the text to learn");
  command.add_option("--ledger", config.ledger, "File of the sum ledger")->required();
  cli::add_uint(command, "--job", config.job_id, 0, 255, "Job at the aggregator");
  cli::add_uint(command, "--rank", config.rank, 0, 255, "This worker's number");
  cli::add_uint(command, "--world", config.world, 1, 256, "Number of workers");
  cli::add_uint(command, "--gradients", config.gradients, 1, kGradientsMax,
                "Gradients in a packet");
  cli::add_uint(command, "--window", config.window, 1, kWindowMax, "Packets in flight");
  cli::add_uint(command, "--iterations", config.iterations, 1, kIterationsMax,
                "Training iterations");
  cli::add_uint(command, "--batch", config.batch, lab::kTileRows, kBatchMax,
                "Examples in an iteration");
  cli::add_uint(command, "--seed", config.seed, 0, INT64_MAX, "The same on all workers");
  cli::add_decimal(command, "--loss", config.loss, 0, kLossMax,
                   "Probability that this worker's port loses a packet");
  cli::add_decimal(command, "--slow-probability", config.slow_probability, 0, 1,
                   "Chance of a sleep at each of three points in an iteration");
  cli::add_uint(command, "--slow-typical-ms", config.slow_typical_ms, 1, kMillisecondsMax,
                "A sleep takes 0.5 to 2 times this");
  cli::add_uint(command, "--deadline", config.deadline_s, 1, kSecondsMax,
                "Longest wait for others, in seconds");
}

std::vector<std::string> to_arguments(const DemoWorkerConfig& config) {
  std::vector<std::string> arguments{"demo-worker"};
  const auto add = [&arguments](const char* flag, const auto& value) {
    arguments.emplace_back(flag);
    arguments.push_back(fmt::format("{}", value));
  };
  add("--server", config.server);
  add("--corpus", config.corpus);
  add("--ledger", config.ledger);
  add("--job", config.job_id);
  add("--rank", config.rank);
  add("--world", config.world);
  add("--gradients", config.gradients);
  add("--window", config.window);
  add("--iterations", config.iterations);
  add("--batch", config.batch);
  add("--seed", config.seed);
  add("--loss", config.loss);
  add("--slow-probability", config.slow_probability);
  add("--slow-typical-ms", config.slow_typical_ms);
  add("--deadline", config.deadline_s);
  return arguments;
}

Result<DemoConfig> checked(const DemoConfig& config) {
  DemoConfig result = config;
  if (config.quick) {
    result.iterations = std::min(config.iterations, kQuickIterations);
    result.batch = std::min(config.batch, kQuickBatch);
  }
  if (result.batch % lab::kTileRows != 0) {
    return failure(
        fmt::format("--batch {}: allowed: a multiple of {}", result.batch, lab::kTileRows));
  }
  std::error_code error;
  if (!std::filesystem::is_directory(config.output_directory, error)) {
    return failure(
        fmt::format("--output '{}': allowed: an existing folder", config.output_directory));
  }
  return result;
}

}  // namespace tributary::demo
