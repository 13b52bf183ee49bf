// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/capture_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result_file.h"
#include "cli/console.h"
#include "cli/programs/live_command.h"
#include "cli/settings.h"
#include "cli/status_line.h"

namespace tributary::cli {
namespace {

std::atomic<bool> stop_requested{false};
std::string second_signal_line;  ///< Set before the handler.

void take_signal(int number) {
  if (!stop_requested.exchange(true)) return;
  static_cast<void>(::write(STDERR_FILENO, second_signal_line.data(), second_signal_line.size()) >=
                    0);
  std::signal(number, SIG_DFL);
  std::raise(number);  // Ends the process when this handler returns.
}

/// Ends the input at SIGINT or SIGTERM, so that the files and the report hold all packets until
/// then. A second signal of either kind ends the process at once, even if the program does not
/// return. A signal that the caller ignores stays ignored.
void stop_at_signals(const std::string& title, std::string_view program) {
  second_signal_line = fmt::format(
      "{}: ended by a second signal: program '{}' has not returned from its packets; the files are "
      "incomplete\n",
      title, program);
  struct sigaction action {};
  action.sa_handler = take_signal;  // Without SA_RESTART: a read must return.
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction before {};
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    sigaction(number, &action, nullptr);
  }
}

using programs::CaptureProgram;

struct RunFlags {
  RunFlags(CLI::App& command, const CaptureProgram& to_run, std::string error_title)
      : settings(command), program(to_run), title(std::move(error_title)) {}
  Settings settings;
  const CaptureProgram program;
  const std::string title;
  programs::RunRequest request;
  std::string on = "live";
  uint32_t generation = engine::Parameters().generation;
  const CLI::Option* generation_flag = nullptr;
  std::string json_path;
  std::vector<WrittenKey> written;
};

int run(RunFlags& flags) {
  const auto refuse = [&](const Error& error) {
    print_error("{}: {}\n", flags.title, error.text);
    return kExitUsage;
  };
  const auto settings = flags.program.settings().read(flags.written, "");
  if (!settings) return refuse(settings.error());
  if (flags.on != "model" && flags.generation_flag->count() > 0) {
    return refuse(Error{"--generation has no effect; allowed: none, or any with --on model"});
  }
  if (flags.on == "model") {
    const auto parameters = engine::preset(flags.generation);
    if (!parameters) return refuse(parameters.error());
    flags.request.model = engine::with_egress(*parameters);
  }
  flags.request.stop = &stop_requested;
  stop_at_signals(flags.title, flags.program.name);
  const auto end = [&] {
    const StatusLine line([&flags](double elapsed_s) {
      return fmt::format("processing {}, {:.0f} s", flags.request.in, elapsed_s);
    });
    return flags.program.run(*settings, flags.request);
  }();
  if (!end) return refuse(end.error());
  if (stop_requested) {
    print_error("{}: stopped by a signal; the report and the files have the packets until then\n",
                flags.title);
  }
  print("{}", programs::as_text(end->report));
  const bool written = write_json(flags.title, flags.json_path, programs::as_json(end->report));
  if (end->problem) print_error("{}: {}\n", flags.title, end->problem->text);
  return written && !end->problem ? 0 : 1;
}

}  // namespace

bool write_json(const std::string& title, const std::string& path,
                const nlohmann::ordered_json& json) {
  if (path.empty()) return true;
  const auto done = write_result_file(path, json.dump(2) + "\n");
  if (!done) print_error("{}: --json {}\n", title, done.error().text);
  return done.has_value();
}

void add_capture_run(CLI::App& command, const CaptureProgram& program, const std::string& title,
                     int& exit_code) {
  const auto flags = std::make_shared<RunFlags>(command, program, title);
  command
      .add_option("--in", flags->request.in,
                  "Capture to read, pcap or pcapng, also gzip-compressed; - for standard input")
      ->type_name("FILE")
      ->required();
  command
      .add_option("--out", flags->request.out,
                  "Capture to write, with the packets that the program forwards")
      ->type_name("FILE");
  if (program.has_flow_records) {
    add_record_files(command, flags->request.records, flags->request.ipfix);
  }
  command.add_option("--on", flags->on, "The machine: live (this computer) or model (a Trio chip)")
      ->check(CLI::IsMember({"live", "model"}))
      ->capture_default_str();
  flags->generation_flag = add_uint(command, "--generation", flags->generation, 1, 6,
                                    "Trio generation of the model, with --on model");
  add_uint(command, "--packet-bytes-max", flags->request.packet_bytes_max, 64,
           programs::kPacketBytesLimit, "Longest packet; longer ones are counted and left out");
  add_keys(command, program.settings(), flags->written);
  command.add_option("--json", flags->json_path, "Write the report to this file")
      ->type_name("FILE");
  command.callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tributary::cli
