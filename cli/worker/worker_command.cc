// SPDX-License-Identifier: Apache-2.0
#include "cli/worker/worker_command.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/number_text.h"
#include "cli/console.h"
#include "cli/settings.h"
#include "cli/worker/worker_run.h"
#include "host/aggregator_list.h"
#include "host/send_gate.h"
#include "host/silence_watch.h"
#include "host/switchml/switchml_config.h"
#include "host/worker_port.h"
#include "io/devices/device_port.h"
#include "recorder/recording_files.h"
#include "wire/switchml.h"
#include "wire/trio_ml.h"

namespace tributary::cli {
namespace {

constexpr uint64_t kElementsMax = uint64_t{1} << 28;  // 1 GB of 4-byte elements.
constexpr uint64_t kJobMax = 255;                     // Eight bits of the Trio-ML header.
constexpr uint64_t kWorldMax = 256;                   // Eight bits of src_id.
constexpr uint64_t kGradientsMax = 4095;              // Twelve bits of grad_cnt.
constexpr uint64_t kWindowMax = 1U << 16;             // The aggregator's largest window.
constexpr uint64_t kInflightMax = 64;
constexpr uint64_t kDayS = 86'400;
constexpr uint64_t kHourMs = 3'600'000;

/// The options while they are read, including those that are converted later.
struct WorkerFlags {
  explicit WorkerFlags(CLI::App& command) : settings(command) {}

  Settings settings;
  WorkerOptions options;
  uint32_t deadline_s = 0;
  uint32_t source = 0;
  std::string type = "float32";
  std::string format = "fixed";
  std::string wire = "32";
  std::string op = "sum";
  std::string owner = "all";
  std::string local;  ///< Empty: not given.
  CLI::Option* elements = nullptr;
  Duration server_silent = host::kSilentSessionFor;
  CLI::Option* server_silent_option = nullptr;
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
  add_protocol(command, flags.options.protocol, "Protocol of the server");
  command.add_option(
      "--server", flags.options.server,
      "The aggregator, HOST:PORT or HOST, or several, HOST:PORT=WEIGHT,…; required unless "
      "--control is given");
  CLI::Option* const port = command.add_option(
      "--port", flags.options.port,
      fmt::format("Use this device instead of a socket, {} (trio-ml)", io::kDevicePortShapes));
  port->type_name("PORT");
  CLI::Option* const job =
      add_uint(command, "--job", session.job_id, 0, kJobMax, "Job id (trio-ml)");
  add_uint(command, "--rank", session.rank, 0, kWorldMax - 1, "This worker's number, from 0");
  add_uint(command, "--world", session.world, 1, kWorldMax, "Number of workers in the job");
  flags.source_option =
      add_uint(command, "--source", flags.source, 0, kWorldMax - 1,
               "src_id at the aggregator, if it is not the rank, as in a tree (trio-ml)");
  CLI::Option* const threads =
      add_uint(command, "--threads", session.threads, 1, wire::kChannelsMax,
               "Threads that each reduce a part of a tensor; the job needs channels=N (trio-ml)");
  CLI::Option* const priorities = add_uint(
      command, "--priorities", session.priorities, 1, host::kPrioritiesMax,
      "Priorities of tensors, each with channels of its own; the job needs channels=N, and N times "
      "as many with --threads (trio-ml)");
  CLI::Option* const asynchronous = command.add_flag(
      "--asynchronous", session.asynchronous,
      "Push each tensor to an asynchronous job and get its parameters: the first tensor of rank 0 "
      "is their initial value, that of the others is zeros (trio-ml)");
  CLI::Option* const auth =
      add_auth(command, flags.options.auth,
               "Authentication, as at the server: a MAC over headers, or over "
               "everything (trio-ml)");
  CLI::Option* const secret = command.add_option(
      "--secret-file", flags.options.secret_path,
      "File with the job's secret; default: the variable TRIBUTARY_SECRET (trio-ml)");
  secret->type_name("FILE");
  command.add_option("--local", flags.local,
                     "trio-ml: reach an aggregator on this machine through shared memory, auto "
                     "(default), on (or fail) or off; switchml: the address to send from, which "
                     "identifies this rank to the switch");
  flags.server_silent_option = add_milliseconds(
      command, "--server-silent-ms", flags.server_silent,
      static_cast<uint64_t>(in_milliseconds(host::kSilentLeast)), kHourMs,
      "Silence of one of several aggregators, in spite of questions, after which all ranks end "
      "(trio-ml)");
  flags.trio_ml_only = {port, job,    flags.source_option,        threads,     priorities,
                        auth, secret, flags.server_silent_option, asynchronous};
  flags.gradients = add_uint(command, "--gradients", session.gradients, 1, kGradientsMax,
                             "Elements in a packet; switchml: 64 or 256, default 256");
  flags.window = add_uint(command, "--window", session.window, 1, kWindowMax,
                          "Packets in flight to each aggregator; with several, default: by "
                          "their weights; switchml: slots, the same number on all "
                          "ranks");
  add_uint(command, "--deadline-s", flags.deadline_s, 1, kDayS,
           "Longest wait for a peer or the aggregator, in seconds");
}

void add_switchml_flags(CLI::App& command, WorkerFlags& flags) {
  SwitchmlWorkerOptions& options = flags.options.switchml;
  flags.switchml_only = {
      command.add_option("--control", options.control,
                         "Register with the control point HOST[:PORT] over gRPC (switchml)"),
      add_milliseconds(command, "--resend-ms", options.resend_after, 1, kHourMs,
                       "Retransmit a packet after this long without its result (switchml)")};
}

void add_tensor_flags(CLI::App& command, WorkerFlags& flags) {
  WorkerOptions& options = flags.options;
  flags.elements = add_uint(command, "--elements", options.elements, 1, kElementsMax,
                            "Length of each tensor; with --input, default: the whole file");
  add_uint(command, "--iterations", options.iterations, 1, INT64_MAX, "All-reduces to run");
  add_uint(command, "--inflight", options.inflight, 1, kInflightMax,
           "All-reduces in flight at once");
  flags.trio_ml_only.push_back(add_uint(
      command, "--urgent-elements", options.urgent_elements, 0, kElementsMax,
      "Length of an urgent tensor that follows each tensor, as the last bucket of a backward "
      "pass; the worker waits for it at once and reports its latency; see --priorities "
      "(trio-ml)"));
  add_uint(command, "--seed", options.seed, 0, INT64_MAX,
           "Seed of generated values and faults; the same on all ranks");
  command.add_option("--type", flags.type, "Element type")
      ->check(CLI::IsMember({"float32", "int32"}))
      ->capture_default_str();
  command
      .add_option("--format", flags.format, "float32 on the wire: fixed scale or block exponent")
      ->check(CLI::IsMember({"fixed", "exponent"}))
      ->capture_default_str();
  flags.trio_ml_only.push_back(
      command
          .add_option("--wire", flags.wire,
                      "Bits of a float32 on the wire; 16 needs --format exponent (trio-ml)")
          ->check(CLI::IsMember({"16", "32"}))
          ->capture_default_str());
  command.add_option("--scale", options.reduction.scale, "Factor for --format fixed, above 0")
      ->capture_default_str();
  command.add_option("--op", flags.op, "Operation on the tensors")
      ->check(CLI::IsMember({"sum", "mean"}))
      ->capture_default_str();
  flags.trio_ml_only.push_back(
      command
          .add_option(
              "--owner", flags.owner,
              "Ranks that get a result: all; RANK, one; turns, one after another, so that "
              "--world iterations are a reduce-scatter; drawn, all or one. With --format fixed "
              "the gradients go to all ranks nevertheless (trio-ml)")
          ->type_name("all|RANK|turns|drawn")
          ->capture_default_str());
  command.add_flag(
      "--verify", options.verify,
      "Compare every element of every result: bit by bit, with --wire 16 by its bound");
  command.add_option("--input", options.input_path, "Raw little-endian values to send")
      ->type_name("FILE");
  command.add_option("--output", options.output_path, "Write the last result to this file")
      ->type_name("FILE");
  command.add_option("--json", options.json_path, "Write the run's figures to this file")
      ->type_name("FILE");
  flags.trio_ml_only.push_back(
      command
          .add_option(
              "--record", options.session.record_folder,
              "Write the recent events to this folder at the end, however the run ends; see "
              "tributary record (trio-ml)")
          ->type_name("FOLDER"));
  add_milliseconds(command, "--report-ms", options.report_every, 0, kHourMs,
                   "Print \"done N wrong W degraded D\" on standard output this often while "
                   "all-reduces complete; 0: never");
}

void add_fault_flags(CLI::App& command, WorkerFlags& flags) {
  WorkerOptions& options = flags.options;
  const auto add_probability = [&command](const char* flag, double& value, const char* help) {
    add_decimal(command, flag, value, 0, 1, help);
  };
  add_probability("--loss", options.faults.loss, "Probability that a packet is lost, each way");
  add_probability("--duplicate", options.faults.duplicate,
                  "Probability that a packet is duplicated, each way");
  add_probability("--reorder", options.faults.reorder,
                  "Probability that later packets overtake a packet, each way");
  add_probability("--straggle", options.straggle,
                  "Probability of a delay at each of an iteration's three delay points");
  add_milliseconds(command, "--straggle-iteration-ms", options.straggle_iteration, 0, kHourMs,
                   "Typical iteration; a delay is 0.5 to 2 times this");
}

/// Checks --server of a Trio-ML worker. With several aggregators, windows follow their weights
/// unless --window is given. @return the error line, or empty.
std::string complete_aggregators(WorkerFlags& flags) {
  WorkerOptions& options = flags.options;
  const auto list = host::parse_aggregators(options.server, wire::kTrioMlPort);
  if (!list) return fmt::format("--server: {}", list.error().text);
  if (list->size() > 1 && !options.port.empty()) {
    return fmt::format(
        "--server with {} aggregators cannot be combined with --port; allowed: sockets",
        list->size());
  }
  if (flags.window->count() > 0) return "";
  if (list->size() > 1) options.session.window = 0;
  options.session.window_by_weights = true;  // Of a directory's list.
  return "";
}

/// Reads --local for Trio-ML.
/// @return the error line, or empty.
std::string complete_local(WorkerFlags& flags) {
  const auto use = host::parse_local_use(flags.local.empty() ? "auto" : flags.local);
  if (!use) {
    return fmt::format(
        "--local {} is not allowed; allowed: auto, on or off, and with --protocol switchml an "
        "address",
        flags.local);
  }
  if (*use == host::LocalUse::kOn && !flags.options.port.empty()) {
    return "--local on cannot be combined with --port; allowed: --local auto or off";
  }
  flags.options.session.local = *use;
  return "";
}

/// Checks and completes the options that depend on the protocol.
/// @return the error line, or empty.
std::string complete_protocol(WorkerFlags& flags) {
  WorkerOptions& options = flags.options;
  const bool is_switchml = options.protocol == Protocol::kSwitchml;
  for (const CLI::Option* flag : is_switchml ? flags.trio_ml_only : flags.switchml_only) {
    if (flag->count() == 0) continue;
    return fmt::format("{} cannot be combined with --protocol {}; allowed: --protocol {}",
                       flag->get_name(), to_string(options.protocol),
                       to_string(is_switchml ? Protocol::kTrioMl : Protocol::kSwitchml));
  }
  if (options.server.empty() && options.switchml.control.empty()) {
    return fmt::format("--server is missing; allowed: HOST:PORT of the aggregator{}",
                       is_switchml ? ", or --control" : "");
  }
  if (!is_switchml) {
    const std::string refusal = complete_local(flags);
    return refusal.empty() ? complete_aggregators(flags) : refusal;
  }
  options.switchml.local = flags.local;
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

/// Checks combinations of flags and converts the values.
/// @return the error line, or empty.
std::string complete(WorkerFlags& flags) {
  WorkerOptions& options = flags.options;
  if (std::string refusal = complete_protocol(flags); !refusal.empty()) return refusal;
  options.type = flags.type == "int32" ? ElementType::kInt32 : ElementType::kFloat32;
  options.reduction.format = flags.format == "exponent" ? host::FloatFormat::kBlockExponent
                                                        : host::FloatFormat::kFixedScale;
  options.session.wire = flags.wire == "16" ? host::WireBits::k16 : host::WireBits::kAuto;
  options.reduction.op = flags.op == "mean" ? host::ReduceOp::kMean : host::ReduceOp::kSum;
  options.session.deadline = seconds(flags.deadline_s);
  if (flags.server_silent_option->count() > 0) {
    options.session.server_silent = flags.server_silent;
  }
  if (flags.source_option->count() > 0) options.session.source = flags.source;
  if (options.session.rank >= options.session.world) {
    return fmt::format("--rank {} is out of range; allowed: below --world, which is {}",
                       options.session.rank, options.session.world);
  }
  if (options.session.threads > 1 && !options.port.empty()) {
    return fmt::format("--threads {} cannot be combined with --port; allowed: --threads 1",
                       options.session.threads);
  }
  if (options.session.priorities > 1 && !options.port.empty()) {
    return fmt::format("--priorities {} cannot be combined with --port; allowed: --priorities 1",
                       options.session.priorities);
  }
  if (flags.wire == "16" && (flags.type != "float32" || flags.format != "exponent")) {
    return fmt::format(
        "--wire 16 cannot be combined with --type {} --format {}; allowed: --type float32 "
        "--format exponent",
        flags.type, flags.format);
  }
  if (!(options.reduction.scale > 0) || !std::isfinite(options.reduction.scale)) {
    return fmt::format("--scale {} is out of range; allowed: a finite number above 0",
                       options.reduction.scale);
  }
  if (options.input_path.empty()) return "";
  if (options.verify) return "--verify cannot be combined with --input; allowed: one of them";
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

/// Reads --owner. @return the error line, or empty.
std::string complete_owner(WorkerFlags& flags) {
  WorkerOptions& options = flags.options;
  constexpr std::pair<std::string_view, Owner> kNames[] = {
      {"all", Owner::kAll}, {"turns", Owner::kTurns}, {"drawn", Owner::kDrawn}};
  for (const auto& [name, owner] : kNames) {
    if (flags.owner != name) continue;
    options.owner = owner;
    return "";
  }
  const auto rank = parse_number<uint32_t>(flags.owner);
  if (!rank || *rank >= options.session.world) {
    return fmt::format("--owner {} is not allowed; allowed: all, turns, drawn, or a rank below {}",
                       flags.owner, options.session.world);
  }
  options.owner = Owner::kRank;
  options.owner_rank = *rank;
  return "";
}

/// Checks the flags that do not go with --asynchronous.
/// @return the error line, or empty.
std::string check_asynchronous(const WorkerOptions& options) {
  if (!options.session.asynchronous) return "";
  if (options.urgent_elements > 0) {
    return "--urgent-elements cannot be combined with --asynchronous, whose tensors have all "
           "parameters";
  }
  if (options.owner != Owner::kAll) {
    return "--owner cannot be combined with --asynchronous, whose parameters are every rank's";
  }
  if (options.verify) {
    return "--verify cannot be combined with --asynchronous, whose values depend on the time of "
           "pushes";
  }
  if (options.type == ElementType::kFloat32 &&
      options.reduction.format == host::FloatFormat::kBlockExponent) {
    return "--format exponent cannot be combined with --asynchronous; allowed: fixed";
  }
  if (options.reduction.op == host::ReduceOp::kMean) {
    return "--op mean cannot be combined with --asynchronous; allowed: sum";
  }
  return "";
}

/// Checks that the folder of --record takes recordings.
/// @return the error line, or empty.
std::string check_record(const WorkerOptions& options) {
  const host::CommunicatorConfig& session = options.session;
  if (session.record_folder.empty()) return "";
  const auto files = recorder::RecordingFiles::open(
      session.record_folder, fmt::format("job-{}-rank-{}", session.job_id, session.rank));
  return files ? "" : "--record " + files.error().text;
}

int run(WorkerFlags& flags) {
  std::string refusal = complete(flags);
  if (refusal.empty()) refusal = complete_owner(flags);
  if (refusal.empty()) refusal = check_record(flags.options);
  if (refusal.empty()) refusal = check_asynchronous(flags.options);
  if (!refusal.empty()) {
    print_error("tributary worker: {}\n", refusal);
    return kExitUsage;
  }
  WorkerInterrupt interrupt;
  const WorkerResult result = run_worker(flags.options, interrupt);
  print("{}", to_table(result));
  if (!result.error.empty()) {
    print_error("tributary worker: rank {}: {}: {}\n", result.options.session.rank, result.status,
                result.error);
  }
  const std::string json_error = write_json(result);
  if (!json_error.empty()) print_error("tributary worker: {}\n", json_error);
  return exit_code(result) == 0 && !json_error.empty() ? 1 : exit_code(result);
}

}  // namespace

void add_worker_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("worker", "Run one rank of a job: all-reduce test tensors");
  // The callback holds a reference, so the flags live as long as the command.
  const auto flags = std::make_shared<WorkerFlags>(*command);
  add_session_flags(*command, *flags);
  add_switchml_flags(*command, *flags);
  add_tensor_flags(*command, *flags);
  add_fault_flags(*command, *flags);
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tributary::cli
