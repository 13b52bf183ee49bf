// SPDX-License-Identifier: Apache-2.0
#include "cli/worker_command.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "cli/settings.h"
#include "cli/worker_run.h"
#include "host/switchml_config.h"
#include "wire/switchml.h"
#include "wire/trio_ml.h"

namespace tributary::cli {
namespace {

constexpr uint64_t kElementsMax = uint64_t{1} << 28;  // 1 GB of 4-byte elements.
constexpr uint64_t kJobMax = 255;                     // Eight bits of the Trio-ML header.
constexpr uint64_t kWorldMax = 256;                   // Eight bits of src_id.
constexpr uint64_t kGradientsMax = 4095;              // Twelve bits of grad_cnt.
constexpr uint64_t kWindowMax = 1U << 16;             // As the aggregator's largest window.
constexpr uint64_t kInflightMax = 64;
constexpr uint64_t kDayS = 86'400;
constexpr uint64_t kHourMs = 3'600'000;

/// The options as they are being read, with those that are not yet of their final type.
struct WorkerFlags {
  explicit WorkerFlags(CLI::App& command) : settings(command) {}

  Settings settings;
  WorkerOptions options;
  uint32_t deadline_s = 0;
  uint32_t source = 0;
  std::string type = "float32";
  std::string format = "fixed";
  std::string op = "sum";
  CLI::Option* elements = nullptr;
  CLI::Option* source_option = nullptr;
  CLI::Option* gradients = nullptr;
  CLI::Option* window = nullptr;
  std::vector<CLI::Option*> trio_ml_only;
  std::vector<CLI::Option*> switchml_only;
};

void add_session_flags(CLI::App& command, WorkerFlags& flags) {
  host::CommunicatorConfig& session = flags.options.session;
  flags.deadline_s =
      static_cast<uint32_t>(in_nanoseconds(session.deadline) / in_nanoseconds(seconds(1)));
  add_protocol(command, flags.options.protocol, "What the server speaks");
  command.add_option("--server", flags.options.server,
                     "The aggregator, HOST:PORT or HOST; required but with --control");
  CLI::Option* const port = command.add_option(
      "--port", flags.options.port,
      "Use this DPDK device instead of a socket, dpdk:DEVICE[,key=value]... (trio-ml)");
  port->type_name("PORT");
  CLI::Option* const job =
      add_uint(command, "--job", session.job_id, 0, kJobMax, "Job id (trio-ml)");
  add_uint(command, "--rank", session.rank, 0, kWorldMax - 1, "This worker, counted from 0");
  add_uint(command, "--world", session.world, 1, kWorldMax, "Workers of the job");
  flags.source_option =
      add_uint(command, "--source", flags.source, 0, kWorldMax - 1,
               "src_id at the aggregator, where it differs from the rank (below a tree; trio-ml)");
  CLI::Option* const threads =
      add_uint(command, "--threads", session.threads, 1, wire::kChannelsMax,
               "Threads that reduce a part of each tensor; needs channels=N of the job (trio-ml)");
  flags.trio_ml_only = {port, job, flags.source_option, threads};
  flags.gradients = add_uint(command, "--gradients", session.gradients, 1, kGradientsMax,
                             "Elements a packet; switchml: 64 or 256, if not given 256");
  flags.window = add_uint(command, "--window", session.window, 1, kWindowMax,
                          "Packets in flight; switchml: slots, the same on all ranks");
  add_uint(command, "--deadline-s", flags.deadline_s, 1, kDayS,
           "Longest wait for a peer or the aggregator, in seconds");
}

void add_switchml_flags(CLI::App& command, WorkerFlags& flags) {
  SwitchmlWorkerOptions& options = flags.options.switchml;
  flags.switchml_only = {
      command.add_option("--control", options.control,
                         "Ask for a session here (gRPC), HOST[:PORT] (switchml)"),
      command.add_option("--local", options.local,
                         "Address to send from, by which the switch knows this rank (switchml)"),
      add_milliseconds(command, "--resend-ms", options.resend_after, 1, kHourMs,
                       "Send a packet again after so long without its result (switchml)")};
}

void add_tensor_flags(CLI::App& command, WorkerFlags& flags) {
  WorkerOptions& options = flags.options;
  flags.elements = add_uint(command, "--elements", options.elements, 1, kElementsMax,
                            "Length of each tensor; with --input, all of the file");
  add_uint(command, "--iterations", options.iterations, 1, INT64_MAX, "All-reduces to do");
  add_uint(command, "--inflight", options.inflight, 1, kInflightMax,
           "All-reduces on their way at once");
  add_uint(command, "--seed", options.seed, 0, INT64_MAX,
           "Of generated values and of faults; the same on all ranks");
  command.add_option("--type", flags.type, "Element type")
      ->check(CLI::IsMember({"float32", "int32"}))
      ->capture_default_str();
  command
      .add_option("--format", flags.format, "How float32 travels: fixed scale or block exponent")
      ->check(CLI::IsMember({"fixed", "exponent"}))
      ->capture_default_str();
  command.add_option("--scale", options.reduction.scale, "Factor of --format fixed, above 0")
      ->capture_default_str();
  command.add_option("--op", flags.op, "What becomes of the tensors")
      ->check(CLI::IsMember({"sum", "mean"}))
      ->capture_default_str();
  command.add_flag("--verify", options.verify, "Compare every element of every result, bit by bit");
  command.add_option("--input", options.input_path, "Raw little-endian values to send")
      ->type_name("FILE");
  command.add_option("--output", options.output_path, "Write the last result to this file")
      ->type_name("FILE");
  command.add_option("--json", options.json_path, "Write the run's figures to this file")
      ->type_name("FILE");
}

void add_fault_flags(CLI::App& command, WorkerFlags& flags) {
  WorkerOptions& options = flags.options;
  const auto add_probability = [&command](const char* flag, double& value, const char* help) {
    command.add_option(flag, value, help)->check(CLI::Range(0.0, 1.0))->capture_default_str();
  };
  add_probability("--loss", options.faults.loss, "Lose packets with this probability, both ways");
  add_probability("--duplicate", options.faults.duplicate, "Double packets, likewise");
  add_probability("--reorder", options.faults.reorder, "Hold packets back, likewise");
  add_probability("--straggle", options.straggle,
                  "Be slow at a delay point, of which an iteration has three");
  add_milliseconds(command, "--straggle-iteration-ms", options.straggle_iteration, 0, kHourMs,
                   "Typical iteration; a delay is 0.5 to 2 of it");
}

/// What does not go with the protocol, and what depends on it. @return the error line, or empty.
std::string complete_protocol(WorkerFlags& flags) {
  WorkerOptions& options = flags.options;
  const bool is_switchml = options.protocol == Protocol::kSwitchml;
  for (const CLI::Option* flag : is_switchml ? flags.trio_ml_only : flags.switchml_only) {
    if (flag->count() == 0) continue;
    return fmt::format("{} does not go with --protocol {}; allowed: --protocol {}",
                       flag->get_name(), to_string(options.protocol),
                       to_string(is_switchml ? Protocol::kTrioMl : Protocol::kSwitchml));
  }
  if (options.server.empty() && options.switchml.control.empty()) {
    return fmt::format("--server is required{}", is_switchml ? ", or --control" : "");
  }
  if (!is_switchml) return "";
  host::CommunicatorConfig& session = options.session;
  if (flags.gradients->count() == 0) session.gradients = host::kSwitchmlLargeElements;
  const auto refuse = [](const char* flag, uint32_t value, const std::string& allowed) {
    return fmt::format("{} {} is out of range; allowed with --protocol switchml: {}", flag, value,
                       allowed);
  };
  if (session.gradients != host::kSwitchmlSmallElements &&
      session.gradients != host::kSwitchmlLargeElements) {
    return refuse("--gradients", session.gradients, "64 or 256");
  }
  if (session.world > wire::kSwitchmlWorkersMax) {
    return refuse("--world", session.world, fmt::format("1 to {}", wire::kSwitchmlWorkersMax));
  }
  if (session.window > wire::kSwitchmlSlotMax + 1) {
    return refuse("--window", session.window, fmt::format("1 to {}", wire::kSwitchmlSlotMax + 1));
  }
  return "";
}

/// Checks what one flag alone cannot, and converts. @return the error line, or empty.
std::string complete(WorkerFlags& flags) {
  WorkerOptions& options = flags.options;
  if (std::string refusal = complete_protocol(flags); !refusal.empty()) return refusal;
  options.type = flags.type == "int32" ? ElementType::kInt32 : ElementType::kFloat32;
  options.reduction.format = flags.format == "exponent" ? host::FloatFormat::kBlockExponent
                                                        : host::FloatFormat::kFixedScale;
  options.reduction.op = flags.op == "mean" ? host::ReduceOp::kMean : host::ReduceOp::kSum;
  options.session.deadline = seconds(flags.deadline_s);
  if (flags.source_option->count() > 0) options.session.source = flags.source;
  if (options.session.rank >= options.session.world) {
    return fmt::format("--rank {} is out of range; allowed: below --world, which is {}",
                       options.session.rank, options.session.world);
  }
  if (options.session.threads > 1 && !options.port.empty()) {
    return fmt::format("--threads {} does not go with --port; allowed: --threads 1",
                       options.session.threads);
  }
  if (!(options.reduction.scale > 0) || !std::isfinite(options.reduction.scale)) {
    return fmt::format("--scale {} is out of range; allowed: a finite number above 0",
                       options.reduction.scale);
  }
  if (options.input_path.empty()) return "";
  if (options.verify) return "--verify needs generated values; allowed: --verify or --input";
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(options.input_path, error);
  if (error) return fmt::format("--input {}: {}", options.input_path, error.message());
  const uint64_t values = bytes / sizeof(int32_t);
  if (flags.elements->count() == 0) options.elements = values;
  if (bytes % sizeof(int32_t) != 0 || options.elements > values || options.elements < 1 ||
      options.elements > kElementsMax) {
    return fmt::format("--input {} has {} bytes; allowed: 4 bytes for each of 1 to {} --elements",
                       options.input_path, bytes, kElementsMax);
  }
  return "";
}

int run(WorkerFlags& flags) {
  if (const std::string refusal = complete(flags); !refusal.empty()) {
    fmt::print(stderr, "tributary: {}\n", refusal);
    return kExitUsage;
  }
  WorkerInterrupt interrupt;
  const WorkerResult result = run_worker(flags.options, interrupt);
  fmt::print("{}", to_table(result));
  if (!result.error.empty()) {
    fmt::print(stderr, "tributary worker: rank {}: {}: {}\n", result.options.session.rank,
               result.status, result.error);
  }
  const std::string json_error = write_json(result);
  if (!json_error.empty()) fmt::print(stderr, "tributary worker: {}\n", json_error);
  return exit_code(result) == 0 && !json_error.empty() ? 1 : exit_code(result);
}

}  // namespace

void add_worker_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("worker", "Be one rank of a job: all-reduce test tensors");
  // Kept by the callback, so it lives as long as the command.
  const auto flags = std::make_shared<WorkerFlags>(*command);
  add_session_flags(*command, *flags);
  add_switchml_flags(*command, *flags);
  add_tensor_flags(*command, *flags);
  add_fault_flags(*command, *flags);
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tributary::cli
