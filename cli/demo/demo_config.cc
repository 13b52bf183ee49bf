// SPDX-License-Identifier: Apache-2.0
#include "cli/demo/demo_config.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "lab/training/matrix_kernel.h"

namespace tributary::demo {
namespace {

constexpr uint32_t kIterationsMax = 100'000;
constexpr uint32_t kBatchMax = 65'536;
constexpr uint32_t kGradientsMax = 4'095;  // grad_cnt has 12 bits (Trio paper, Figure 8).
constexpr uint32_t kWindowMax = 65'536;
constexpr uint32_t kMillisecondsMax = 60'000;
constexpr double kLossMax = 0.5;

}  // namespace

void add_demo_options(CLI::App& command, DemoConfig& config) {
  command.add_option("--output", config.output_directory, "Directory for demo.json and demo.svg")
      ->capture_default_str();
  command.add_option("--corpus", config.corpus, "Directory with the text to learn")
      ->capture_default_str();
  command.add_option("--iterations", config.iterations, "Training iterations in each run")
      ->check(CLI::Range(1U, kIterationsMax))
      ->capture_default_str();
  command.add_option("--batch", config.batch, "One worker's examples in an iteration")
      ->check(CLI::Range(lab::kTileRows, kBatchMax))
      ->capture_default_str();
  command.add_flag("--quick", config.quick, "A few small iterations, for continuous integration");
  command.add_option("--gradients", config.gradients, "Gradients in a packet")
      ->check(CLI::Range(1U, kGradientsMax))
      ->capture_default_str();
  command.add_option("--window", config.window, "Packets in flight")
      ->check(CLI::Range(1U, kWindowMax))
      ->capture_default_str();
  command.add_option("--seed", config.seed, "Seed for parameters, batches, losses and sleeps")
      ->capture_default_str();
  command
      .add_option("--loss", config.loss, "Probability that a packet is lost in the run with loss")
      ->check(CLI::Range(0.0, kLossMax))
      ->capture_default_str();
  command
      .add_option("--slow-probability", config.slow_probability,
                  "Chance that the straggler sleeps, at each of three points in an iteration")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      .add_option("--slow-factor", config.slow_factor,
                  "The straggler sleeps 0.5 to 2 times this many iterations of the clean run")
      ->check(CLI::Range(0.1, 100.0))
      ->capture_default_str();
  command
      .add_option("--mitigation-ms", config.mitigation_ms,
                  "Straggler timeout in the run with mitigation; 0: a quarter of a clean iteration")
      ->check(CLI::Range(0U, kMillisecondsMax))
      ->capture_default_str();
  command.add_option("--run-timeout", config.run_timeout_s, "Seconds after which a run fails")
      ->check(CLI::Range(1U, 3'600U))
      ->capture_default_str();
}

void add_demo_worker_options(CLI::App& command, DemoWorkerConfig& config) {
  command.add_option("--server", config.server, "The aggregator's address:port");
  command.add_option("--corpus", config.corpus, "Directory with the text to learn");
  command.add_option("--ledger", config.ledger, "File of the sum ledger")->required();
  command.add_option("--job", config.job_id, "Job at the aggregator")->check(CLI::Range(0, 255));
  command.add_option("--rank", config.rank, "This worker's number")->check(CLI::Range(0, 255));
  command.add_option("--world", config.world, "Number of workers")->check(CLI::Range(1, 256));
  command.add_option("--gradients", config.gradients, "Gradients in a packet")
      ->check(CLI::Range(1U, kGradientsMax));
  command.add_option("--window", config.window, "Packets in flight")
      ->check(CLI::Range(1U, kWindowMax));
  command.add_option("--iterations", config.iterations, "Training iterations")
      ->check(CLI::Range(1U, kIterationsMax));
  command.add_option("--batch", config.batch, "Examples in an iteration")
      ->check(CLI::Range(lab::kTileRows, kBatchMax));
  command.add_option("--seed", config.seed, "The same on all workers");
  command.add_option("--loss", config.loss, "Probability that this worker's port loses a packet")
      ->check(CLI::Range(0.0, kLossMax));
  command
      .add_option("--slow-probability", config.slow_probability,
                  "Chance of a sleep at each of three points in an iteration")
      ->check(CLI::Range(0.0, 1.0));
  command
      .add_option("--slow-typical-ms", config.slow_typical_ms, "A sleep takes 0.5 to 2 times this")
      ->check(CLI::Range(1U, kMillisecondsMax));
  command.add_option("--deadline", config.deadline_s, "Longest wait for others, in seconds")
      ->check(CLI::Range(1U, 3'600U));
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
        fmt::format("--output '{}': allowed: an existing directory", config.output_directory));
  }
  return result;
}

}  // namespace tributary::demo
