// SPDX-License-Identifier: Apache-2.0
#include "cli/operate/status_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "cli/console.h"
#include "cli/operate/local_server.h"
#include "cli/settings.h"
#include "cli/text_width.h"
#include "server/control/http_client.h"
#include "wire/protocol.h"

namespace tributary::cli {
namespace {

using nlohmann::json;

/// Time between the two questions from which a single status computes its rates.
constexpr std::chrono::milliseconds kRateOver{250};
/// Time between two screens of --watch.
constexpr std::chrono::milliseconds kWatchEvery{1000};
constexpr const char* kStatusPath = "/v1/status";
constexpr const char* kWhoPath = "/v1/who";
/// Clears the terminal. Source: ECMA-48.
constexpr const char* kClearScreen = "\x1b[H\x1b[2J";

const std::string kTrioMl = wire::to_string(wire::Protocol::kTrioMl);
const std::string kSwitchml = wire::to_string(wire::Protocol::kSwitchml);

struct AskFlags {
  ServerChoice server;
  bool watch = false;
  std::optional<uint32_t> job;
};

double difference(const json& later, const json& earlier, const char* key) {
  return later.at(key).get<double>() - earlier.at(key).get<double>();
}

/// Returns a value of a row, or "-" if it is unknown.
std::string or_dash(const json& value, const char* unit = "") {
  if (value.is_null()) return "-";
  return (value.is_string() ? value.get<std::string>() : value.dump()) + unit;
}

/// Returns the id of the configured job whose channel a row is about.
/// @param key Of the channel's id.
json configured_job(const json& row, const char* key) {
  // A server of an earlier release does not state it.
  return row.value("channel_of", row.at(key));
}

/// Names the channel of a row, as in "channel 1 of job 4: "; empty for channel 0.
std::string channel_text(const json& row) {
  const auto id = row.at("job").get<uint32_t>();
  const auto job = configured_job(row, "job").get<uint32_t>();
  return id == job ? std::string() : fmt::format("channel {} of job {}: ", id - job, job);
}

std::string job_lines(const json& jobs, uint32_t columns) {
  std::vector<TableColumn> table{
      {"job", 5, 9},       {"session", 8, 2}, {"members", 9, 5},   {"in flight", 10, 4},
      {"blocks/s", 12, 7}, {"blocks", 14, 3}, {"degraded", 10, 6},
  };
  const auto is_channel = [](const json& job) { return job.at("id") != configured_job(job, "id"); };
  const bool has_channels = std::ranges::any_of(jobs, is_channel);
  if (has_channels) table.push_back({"channel of", 11, 3});
  std::vector<std::vector<std::string>> rows;
  for (const json& job : jobs) {
    rows.push_back({job.at("id").dump(), job.at("session") == 0 ? "-" : "runs",
                    fmt::format("{}/{}", job.at("members").dump(), job.at("sources").dump()),
                    job.at("blocks_in_progress").dump(),
                    fmt::format("{:.0f}", job.at("blocks_per_s").get<double>()),
                    job.at("blocks_total").dump(),
                    fmt::format("{:.2f} %", job.at("degraded_share").get<double>() * 100)});
    if (has_channels) {
      rows.back().push_back(is_channel(job) ? configured_job(job, "id").dump() : "-");
    }
  }
  return table_text(table, rows, columns);
}

/// Returns a line for each job that the server plans as its directory.
std::string directory_lines(const json& jobs) {
  std::string text;
  for (const json& job : jobs) {
    std::string absent;
    size_t answering = 0;
    for (const json& each : job.at("aggregators")) {
      if (each.at("answers").get<bool>()) {
        answering++;
        continue;
      }
      absent += fmt::format("; without {} ({})", each.at("address").get<std::string>(),
                            each.at("fault").get<std::string>());
    }
    text += fmt::format("\ndirectory of job {}: plan {}, {} of {} aggregators answer{}",
                        job.at("id").dump(), job.at("plans").dump(), answering,
                        job.at("aggregators").size(), absent);
  }
  return text;
}

/// Returns the blocks and jobs of an aggregator of Trio-ML.
std::string block_lines(const json& status, uint32_t columns) {
  return fmt::format("blocks: {} in flight, {} completed, {} degraded ({:.2f} %)\n\n{}",
                     status.at("blocks_in_progress").dump(), status.at("blocks_completed").dump(),
                     status.at("blocks_degraded").dump(),
                     status.at("degraded_share").get<double>() * 100,
                     job_lines(status.at("jobs"), columns));
}

/// Returns the sessions of a SwitchML server.
std::string session_lines(const json& sessions, uint32_t columns) {
  if (sessions.empty()) return "\nno session\n";
  static const std::vector<TableColumn> kTable{{"session", 18, 9},
                                               {"workers", 9, 8},
                                               {"packets", 14, 5},
                                               {"results", 14, 4},
                                               {" silent for", 0, 7}};
  std::vector<std::vector<std::string>> rows;
  for (const json& session : sessions) {
    const json& workers = session.at("workers");
    const auto registered =
        std::ranges::count_if(workers, [](const json& worker) { return worker != ""; });
    std::string silent = " ";
    for (const json& seconds : session.at("silent_s")) {
      silent += seconds.is_null() ? "- " : fmt::format("{:.1f} s ", seconds.get<double>());
    }
    rows.push_back({session.at("id").get<std::string>(),
                    fmt::format("{}/{}", registered, workers.size()), session.at("packets").dump(),
                    session.at("slots_completed").dump(), silent});
  }
  return "\n" + table_text(kTable, rows, columns);
}

/// Returns counts by name, as in " wrong_key 5 truncated 1".
std::string count_list(const json& counts) {
  std::string text;
  for (const auto& [name, packets] : counts.items()) {
    text += fmt::format(" {} {}", name, packets.dump());
  }
  return counts.empty() ? " none" : text;
}

/// Returns the events, records and notices of a server that is no aggregator.
std::string program_lines(const json& status) {
  std::string text = "\nevents:" + count_list(status.at("events")) + "\n";
  // A server of an earlier release has neither records nor notices.
  const json records = status.value("records", json::object());
  if (!records.empty()) text += "records:" + count_list(records) + "\n";
  for (const json& notice : status.value("notices", json::array())) {
    text += "  " + notice.get<std::string>() + "\n";
  }
  return text;
}

/// Returns the lines of a status. Lines that are too long are not folded.
std::string status_lines(const json& status, uint32_t columns) {
  constexpr double kGigabitsPerByte = 8 / 1e9;
  const auto service = status.at("service").get<std::string>();
  std::string text =
      fmt::format("{} (version {}), {} at {}, up {:.0f} s\n", status.at("name").get<std::string>(),
                  status.at("version").get<std::string>(), service,
                  status.at("listen").get<std::string>(), status.at("uptime_s").get<double>());
  text += fmt::format("in {:.0f} packets/s, {:.3f} Gbit/s; out {:.0f} packets/s, {:.3f} Gbit/s\n",
                      status.at("rx_packets_per_s").get<double>(),
                      status.at("rx_bytes_per_s").get<double>() * kGigabitsPerByte,
                      status.at("tx_packets_per_s").get<double>(),
                      status.at("tx_bytes_per_s").get<double>() * kGigabitsPerByte);
  if (service == kTrioMl) text += block_lines(status, columns);
  if (service == kSwitchml) text += session_lines(status.at("sessions"), columns);
  text += "\ncores:";
  for (size_t i = 0; i < status.at("cores").size(); i++) {
    text +=
        fmt::format(" {}: {:.0f} % CPU", i, status["cores"][i].at("cpu_share").get<double>() * 100);
  }
  text += "\ndrops:" + count_list(status.at("drops"));
  if (service != kTrioMl) return text + program_lines(status);
  // A server of an earlier release tells nothing of a directory.
  text += directory_lines(status.value("directory", json::array()));
  const auto waits = status.at("waits").get<uint64_t>();
  text += waits == 0 ? "\nno job waits for a rank\n"
                     : fmt::format("\nwaits: {}; see tributary who\n", waits);
  return text;
}

/// Tells whether both are of one run of the server.
bool is_same_run(const json& status, const json& earlier) {
  return status.at("uptime_s").get<double>() >= earlier.at("uptime_s").get<double>() &&
         status.at("cores").size() == earlier.at("cores").size();
}

/// Returns the blocks that a job has completed since an earlier status; 0 if it is another job,
/// added since.
double new_blocks(const json& job, const json& earlier_jobs) {
  const auto is_it = [&job](const json& each) { return each.at("id") == job.at("id"); };
  const auto before = std::find_if(earlier_jobs.begin(), earlier_jobs.end(), is_it);
  if (before == earlier_jobs.end()) return 0;
  return std::max(difference(job, *before, "blocks_total"), 0.0);
}

/// Asks twice, so that the status has rates.
Result<json> status_of(const control::ServerAddress& server, json earlier) {
  if (earlier.is_null()) {
    auto first = control::get(server, kStatusPath);
    if (!first) return first;
    earlier = *std::move(first);
    std::this_thread::sleep_for(kRateOver);
  }
  auto status = control::get(server, kStatusPath);
  if (!status) return status;
  // The server may have been restarted in between.
  if (!is_same_run(*status, earlier)) return status_of(server, json());
  add_rates(*status, earlier);
  return status;
}

/// Returns the text before each screen of --watch: it clears a terminal; in a file or pipe it is an
/// empty line between two screens.
const char* before_screen(bool is_first) {
  if (isatty(STDOUT_FILENO) == 1) return kClearScreen;
  return is_first ? "" : "\n";
}

int show_status(const AskFlags& flags, const ChosenServer& server) {
  json earlier;
  while (true) {
    const auto status = status_of(server.address, earlier);
    if (!status) return fail("status", status.error());
    if (flags.server.as_json) {
      print_answer(status->dump(flags.watch ? -1 : 2) + "\n");
    } else {
      const std::string text = status_text(*status, output_columns(STDOUT_FILENO));
      print("{}", flags.watch ? before_screen(earlier.is_null()) : "");
      print_answer(text);
    }
    // A closed pipe ends --watch; main() reports the failed write.
    if (!flags.watch || std::fflush(stdout) != 0) return 0;
    earlier = *status;
    std::this_thread::sleep_for(kWatchEvery);
  }
}

int show_who(const AskFlags& flags, const ChosenServer& server) {
  if (flags.job) {
    // Refuses a job that does not exist.
    const auto job = control::get(server.address, fmt::format("/v1/jobs/{}", *flags.job));
    if (!job) return fail("who", job.error());
  }
  const auto answer = control::get(server.address, kWhoPath);
  if (!answer) return fail("who", answer.error());
  const json rows = who_rows(answer->at("rows"), flags.job);
  if (flags.server.as_json) {
    print_answer(json{{"command", "who"}, {"server", server.name}, {"rows", rows}}.dump(2) + "\n");
  } else {
    print_answer(fold_text(who_text(rows), output_columns(STDOUT_FILENO)));
  }
  return 0;
}

}  // namespace

void add_rates(json& status, const json& earlier) {
  const double seconds = difference(status, earlier, "uptime_s");
  const auto rate = [seconds](double count) { return seconds > 0 ? count / seconds : 0.0; };
  for (const char* key : {"rx_packets", "rx_bytes", "tx_packets", "tx_bytes"}) {
    status[std::string(key) + "_per_s"] = rate(difference(status, earlier, key));
  }
  for (json& job : status.at("jobs")) {
    job["blocks_per_s"] = rate(new_blocks(job, earlier.at("jobs")));
  }
  for (size_t i = 0; i < status.at("cores").size(); i++) {
    json& core = status["cores"][i];
    core["cpu_share"] = rate(difference(core, earlier.at("cores").at(i), "cpu_s"));
  }
}

std::string status_text(const json& status, uint32_t columns) {
  return fold_text(status_lines(status, columns), columns);
}

json who_rows(const json& rows, std::optional<uint32_t> job) {
  if (!job) return rows;
  json found = json::array();
  for (const json& row : rows) {
    if (row.at("job") == *job || configured_job(row, "job") == *job) found.push_back(row);
  }
  return found;
}

std::string who_text(const json& rows) {
  if (rows.empty()) return "no job waits for a rank\n";
  std::string text = fmt::format("{:>4} {:>8} {:>10} {:>10} {:>11}  {}\n", "job", "missing",
                                 "block", "since", "last heard", "from");
  for (const json& row : rows) {
    const auto missing = row.at("missing").get<std::vector<uint32_t>>();
    text += fmt::format("{:>4} {:>8} {:>10} {:>10} {:>11}  {}\n     {}{}\n", row.at("job").dump(),
                        missing.empty() ? "-" : fmt::format("{}", fmt::join(missing, ",")),
                        or_dash(row.at("block")), or_dash(row.at("since_ms"), " ms"),
                        or_dash(row.at("last_heard_ms"), " ms"), or_dash(row.at("address")),
                        channel_text(row), row.at("advice").get<std::string>());
  }
  return text;
}

void add_status_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("status", "Show jobs, rates, drops and cores of a running server");
  const auto flags = std::make_shared<AskFlags>();
  add_server_name(*command, flags->server);
  add_json_output(*command, flags->server);
  command->add_flag("--watch", flags->watch, "Repeat every second until interrupted");
  command->callback([flags, &exit_code] {
    exit_code = ask_server("status", flags->server, kStatusPath,
                           [&](const ChosenServer& server) { return show_status(*flags, server); });
  });
}

void add_who_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "who", "Name the ranks that others wait for: block, since when, last heard, advice");
  const auto flags = std::make_shared<AskFlags>();
  add_server_name(*command, flags->server);
  add_json_output(*command, flags->server);
  add_key(*command, "JOB", {.type = KeyType::kUint, .min = 0, .max = 255}, "all", "Only this job",
          [flags](const KeyValue& value) {
            flags->job = static_cast<uint32_t>(std::get<uint64_t>(value));
          });
  command->callback([flags, &exit_code] {
    exit_code = ask_server("who", flags->server, kWhoPath,
                           [&](const ChosenServer& server) { return show_who(*flags, server); });
  });
}

}  // namespace tributary::cli
