// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/live_command.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <random>

#include "base/clock.h"
#include "cli/console.h"
#include "cli/serve/serve_hang_up.h"
#include "cli/serve/serve_log.h"
#include "cli/serve/serve_service.h"
#include "cli/settings.h"
#include "programs/run_report.h"

namespace tributary::cli {
namespace {

using programs::ServedProgram;

struct ServeFlags {
  ServeFlags(CLI::App& command, const ServedProgram& to_serve, std::string error_title)
      : settings(command), program(to_serve), title(std::move(error_title)) {}
  Settings settings;
  const ServedProgram program;
  const std::string title;
  LiveFlags live;
  std::vector<WrittenKey> written;
};

/// Returns the time of day of Instant 0 by the system clock.
io::CaptureTime time_zero_now() {
  const auto since_zero = std::chrono::nanoseconds(in_nanoseconds(monotonic_now() - Instant()));
  return std::chrono::time_point_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now()) -
         since_zero;
}

programs::InstanceTerms terms_now() {
  std::random_device random;
  return {.start = monotonic_now(),
          .time_zero = time_zero_now(),
          .seed = uint64_t{random()} << 32 | random()};
}

void write_events(programs::LiveService& service, server::Log& log) {
  for (const programs::ProgramEvent& event : service.take_events()) {
    log.write_at(event.at, event.is_warning ? server::LogLevel::kWarn : server::LogLevel::kInfo,
                 event.name, event.fields);
  }
  log.end_windows();
}

int run(const ServeFlags& flags) {
  block_awaited_signals();
  const auto settings = flags.program.settings().read(flags.written, "");
  if (!settings) return refuse(flags.title, settings.error());
  const auto started = LiveProgram::start(flags.program, *settings, flags.live);
  if (!started) return refuse(flags.title, started.error());
  LiveProgram& live = **started;
  server::Log log(flags.live.log);
  Service service = live.service(flags.title, flags.live, log);
  service.reload = on_hang_up(flags.settings, log);
  const int ended = live.serve(service);
  log.end_all_windows();
  return ended;
}

}  // namespace

Result<std::vector<io::InlineSideSpec>> inline_sides(const std::vector<std::string>& ports) {
  if (ports.empty() || ports.size() > 2) {
    return failure(fmt::format(
        "a program needs one --port (and back) or two (inline); {} are given", ports.size()));
  }
  std::vector<io::InlineSideSpec> sides;
  for (const std::string& text : ports) {
    auto side = io::parse_inline_side(text);
    if (!side) return tl::unexpected(side.error());
    sides.push_back(*std::move(side));
  }
  if (sides.size() == 2 && is_same_side(sides[0], sides[1])) {
    return failure(
        fmt::format("--port {}: given twice; allowed: two different ports, or one", ports[1]));
  }
  return sides;
}

void add_record_files(CLI::App& command, std::string& records, std::string& ipfix,
                      const std::string& note) {
  command.add_option("--records", records, "Write flow records as JSON lines" + note)
      ->type_name("FILE");
  command.add_option("--ipfix", ipfix, "Write flow records as an IPFIX file (RFC 5655)" + note)
      ->type_name("FILE");
}

Result<std::unique_ptr<LiveProgram>> LiveProgram::start(const ServedProgram& program,
                                                        const KeyValues& settings,
                                                        const LiveFlags& flags) {
  if (!program.has_flow_records && !(flags.records.empty() && flags.ipfix.empty())) {
    return failure(fmt::format(
        "--records and --ipfix need a program with flow records, such as telemetry; {} has none",
        program.name));
  }
  const auto sides = inline_sides(flags.ports);
  if (!sides) return tl::unexpected(sides.error());
  const auto cpus = cpus_of(flags.cores);
  if (!cpus) return tl::unexpected(cpus.error());
  auto running = program.serve(settings,
                               {.sides = *sides,
                                .cores = flags.cores.cores,
                                .buffer_mb = flags.cores.buffer_mb,
                                .engine = {.spin = microseconds(flags.cores.spin_us),
                                           .cpu_percent = flags.cores.cpu_percent,
                                           .cpus = *cpus},
                                .records = flags.records,
                                .ipfix = flags.ipfix},
                               terms_now());
  if (!running) return tl::unexpected(running.error());
  std::vector<std::string> places;
  for (const io::InlineSideSpec& side : *sides) places.push_back(side.place());
  return std::unique_ptr<LiveProgram>(new LiveProgram(std::string(program.name),
                                                      fmt::format("{}", fmt::join(places, " and ")),
                                                      *std::move(running)));
}

nlohmann::json LiveProgram::stats() {
  nlohmann::json json = running_->stats();
  json["program"] = name_;
  return json;
}

Service LiveProgram::service(const std::string& title, const LiveFlags& flags, server::Log& log) {
  return {.title = title,
          .what = fmt::format("{} on {}", name_, place_),
          .cores = flags.cores.cores,
          .log = &log,
          .json_path = flags.json_path,
          .warnings = running_->warnings(),
          .stats = [this] { return stats(); },
          .status = [this] { return status_line(stats()); },
          .stop = [this] { running_->stop(); },
          .late_core = [this] { return running_->late_core(); },
          .program = name_,
          .tick =
              [this, &log] {
                running_->set_time_zero(time_zero_now());
                write_events(*running_, log);
              }};
}

int LiveProgram::serve(const Service& service) {
  const int ended = cli::serve(service);
  print("{}", programs::live_text(name_, running_->stats()));
  const auto problem = running_->problem();
  if (problem) {
    say(service, server::LogLevel::kError, "program_failed", {{"error", problem->text}},
        problem->text);
  }
  return ended == 0 && problem ? 1 : ended;
}

void add_live_run(CLI::App& command, const ServedProgram& program, const std::string& title,
                  int& exit_code) {
  const auto flags = std::make_shared<ServeFlags>(command, program, title);
  command
      .add_option("--port", flags->live.ports,
                  fmt::format("Take frames here: with two, frames that arrive on one leave by the "
                              "other; with one, they go back out of it. {}",
                              kInlinePortHelp))
      ->type_name("PORT");
  add_core_flags(command, flags->live.cores, "Polling cores, each with an instance of the program");
  if (program.has_flow_records) {
    add_record_files(command, flags->live.records, flags->live.ipfix);
  }
  add_log_flags(command, flags->live.log);
  add_keys(command, program.settings(), flags->written);
  command
      .add_option("--json", flags->live.json_path,
                  "Write every counter to this file at the start, on SIGUSR1 and at the end")
      ->type_name("FILE");
  command.callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tributary::cli
