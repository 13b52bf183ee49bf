// SPDX-License-Identifier: Apache-2.0
#include "cli/operate/record_command.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result_file.h"
#include "cli/console.h"
#include "cli/operate/local_server.h"
#include "cli/settings.h"
#include "recorder/perfetto.h"
#include "recorder/timeline.h"
#include "server/control/http_client.h"

namespace tributary::cli {
namespace {

using nlohmann::json;

constexpr const char* kCommand = "record";
constexpr const char* kRecordingPath = "/v1/recording";
constexpr const char* kRecorderPath = "/v1/recorder";
constexpr uint64_t kJobMax = 255;
constexpr uint64_t kRankMax = 65'534;

struct RecordFlags {
  ServerChoice server;
  std::string out;
  std::vector<std::string> files;
  recorder::Filter filter;
  std::string perfetto;
};

int show_state(const RecordFlags& flags, const ChosenServer& server) {
  const auto state = control::get(server.address, kRecorderPath);
  if (!state) return fail(kCommand, state.error());
  if (flags.server.as_json) {
    print_answer(state->dump(2) + "\n");
    return 0;
  }
  const auto last_file = state->at("last_file").get<std::string>();
  const auto last_error = state->at("last_error").get<std::string>();
  std::string text =
      fmt::format("{}: {}, {} events for each core; {} recorded, {} overwritten, {} left out\n",
                  server.name, state->at("on").get<bool>() ? "records" : "does not record",
                  state->at("events_per_core").dump(), state->at("recorded").dump(),
                  state->at("overwritten").dump(), state->at("left_out").dump());
  if (!last_file.empty()) text += fmt::format("last file: {}\n", last_file);
  if (!last_error.empty()) text += fmt::format("last error: {}\n", last_error);
  print_answer(text);
  return 0;
}

int run_status(const RecordFlags& flags) {
  return ask_server(kCommand, flags.server, kRecorderPath,
                    [&](const ChosenServer& server) { return show_state(flags, server); });
}

int dump(const RecordFlags& flags, const ChosenServer& server) {
  const auto bytes = control::get_recording(server.address, kRecordingPath);
  if (!bytes) return fail(kCommand, bytes.error());
  const auto recording = recorder::read_recording(std::as_bytes(std::span(*bytes)));
  if (!recording) return fail(kCommand, {"the server's answer " + recording.error().text});
  if (const auto written = write_result_file(flags.out, *bytes); !written) {
    return fail(kCommand, {"--out " + written.error().text});
  }
  print("{}: {} events, {} lost\n", flags.out, recording->event_count(), recording->lost());
  return 0;
}

int run_dump(const RecordFlags& flags) {
  return ask_server(kCommand, flags.server, kRecordingPath,
                    [&](const ChosenServer& server) { return dump(flags, server); });
}

int run_switch(const RecordFlags& flags, bool on) {
  const std::string path = fmt::format("{}/{}", kRecorderPath, on ? "start" : "stop");
  return ask_server(kCommand, flags.server, path, [&](const ChosenServer& server) {
    const auto answer = control::ask(server.address, "POST", path);
    if (!answer) return fail(kCommand, answer.error());
    print("{} {}\n", server.name, on ? "records" : "does not record");
    return 0;
  });
}

int run_show(const RecordFlags& flags) {
  std::vector<recorder::Recording> recordings;
  for (const std::string& path : flags.files) {
    auto recording = recorder::read_recording_file(path);
    if (!recording) return fail(kCommand, recording.error());
    recordings.push_back(*std::move(recording));
  }
  recorder::Filter filter = flags.filter;
  filter.ends_pass_rank = !flags.perfetto.empty();  // So that the spans of the rank's blocks end.
  const auto events = recorder::merge(recordings, filter);
  if (!flags.perfetto.empty()) {
    const recorder::PerfettoTrace trace = recorder::as_perfetto(recordings, events);
    const auto written = write_result_file(flags.perfetto, trace.json);
    if (!written) return fail(kCommand, {"--perfetto " + written.error().text});
    print("{}: {} events; open it with https://ui.perfetto.dev\n", flags.perfetto, events.size());
    if (trace.spans_left_out > 0) {
      print(
          "{} earlier blocks have no span; to show them, limit the events with --job, --block or "
          "--rank\n",
          trace.spans_left_out);
    }
    return 0;
  }
  if (flags.server.as_json) {
    recorder::write_json(recordings, events, print_answer);
  } else {
    recorder::write_text(recordings, events, print_answer);
  }
  return 0;
}

/// Adds an option that limits the events to those with this number.
void add_limit(CLI::App& command, const char* name, uint64_t max, std::optional<uint32_t>& value,
               const char* help) {
  add_key(command, name, {.type = KeyType::kUint, .min = 0, .max = max}, "all", help,
          [&value](const KeyValue& written) {
            value = static_cast<uint32_t>(std::get<uint64_t>(written));
          });
}

CLI::App* add_verb(CLI::App& record, const char* verb, const char* help,
                   const std::shared_ptr<RecordFlags>& flags, int& exit_code,
                   int (*run)(const RecordFlags&)) {
  CLI::App* command = record.add_subcommand(verb, help);
  command->callback([flags, &exit_code, run] { exit_code = run(*flags); });
  return command;
}

}  // namespace

void add_record_command(CLI::App& app, int& exit_code) {
  CLI::App* record = app.add_subcommand(
      "record", "Take and show recordings of the recent events of servers and workers");
  record->require_subcommand(1);
  const auto flags = std::make_shared<RecordFlags>();

  CLI::App* dump =
      add_verb(*record, "dump", "Write the recent events of a running server to a file", flags,
               exit_code, run_dump);
  add_server_name(*dump, flags->server);
  dump->add_option("--out", flags->out, "The file")->type_name("FILE")->required();

  CLI::App* status = add_verb(*record, "status", "Show whether a running server records", flags,
                              exit_code, run_status);
  add_server_name(*status, flags->server);
  add_json_output(*status, flags->server);

  CLI::App* start =
      add_verb(*record, "start", "Start recording on a running server", flags, exit_code,
               [](const RecordFlags& given) { return run_switch(given, true); });
  add_server_name(*start, flags->server);
  CLI::App* stop =
      add_verb(*record, "stop", "Stop recording on a running server; keeps the events so far",
               flags, exit_code, [](const RecordFlags& given) { return run_switch(given, false); });
  add_server_name(*stop, flags->server);

  CLI::App* show =
      add_verb(*record, "show", "Print recordings of servers and workers as one timeline", flags,
               exit_code, run_show);
  show->add_option("FILE", flags->files, "Recordings")->required();
  add_limit(*show, "--job", kJobMax, flags->filter.job, "Only this job");
  add_limit(*show, "--block", UINT32_MAX, flags->filter.block, "Only events about this block");
  add_limit(*show, "--rank", kRankMax, flags->filter.rank, "Only events about this rank");
  add_json_output(*show, flags->server);
  show->add_option("--perfetto", flags->perfetto,
                   "Write Chrome trace JSON for ui.perfetto.dev to this file instead")
      ->type_name("FILE")
      ->excludes("--json");
}

}  // namespace tributary::cli
