// SPDX-License-Identifier: Apache-2.0
#include "cli/operate/log_command.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/operate/local_server.h"
#include "cli/settings.h"
#include "server/control/answer_json.h"
#include "server/control/http_client.h"
#include "server/log/log.h"

namespace tributary::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kCommand = "log";
constexpr const char* kLogPath = "/v1/log";

struct LogFlags {
  ServerChoice server;
  uint32_t lines = 20;
  std::string level;  ///< Empty: it stays.
};

int set_level(const LogFlags& flags, const ChosenServer& server) {
  const auto answer = control::ask(server.address, "PATCH", kLogPath, {{"level", flags.level}});
  if (!answer) return fail(kCommand, answer.error());
  print("{} logs {}\n", server.name,
        flags.level == server::kLogLevelNames[0] ? "errors only"
                                                 : "lines of level " + flags.level + " and above");
  return 0;
}

int show(const LogFlags& flags, const ChosenServer& server) {
  const auto body = control::get_bytes(server.address, kLogPath);
  if (!body) return fail(kCommand, body.error());
  // The fields of a line keep their order.
  auto log = control::read_answer_json<ordered_json>(*body);
  if (!log) return fail(kCommand, {"the server's answer " + log.error().text});
  if (!log->is_object() || !log->contains("rows") || !log->at("rows").is_array()) {
    return fail(kCommand, {"the server's answer is not a log"});
  }
  ordered_json& rows = log->at("rows");
  const size_t shown = std::min<size_t>(flags.lines, rows.size());
  rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(shown));
  if (flags.server.as_json) {
    print_answer(log->dump(2) + "\n");
    return 0;
  }
  for (const ordered_json& row : rows) print("{}\n", server::log_text(row));
  return 0;
}

int run(const LogFlags& flags) {
  return ask_server(kCommand, flags.server, kLogPath, [&](const ChosenServer& server) {
    return flags.level.empty() ? show(flags, server) : set_level(flags, server);
  });
}

}  // namespace

void add_log_command(CLI::App& app, int& exit_code) {
  CLI::App* log =
      app.add_subcommand("log", "Show the last lines of a running server's log, or set its level");
  const auto flags = std::make_shared<LogFlags>();
  add_server_name(*log, flags->server);
  add_json_output(*log, flags->server);
  add_uint(*log, "--lines", flags->lines, 1, server::kLogLinesKept, "Lines to show");
  log->add_option("--level", flags->level,
                  "Log lines of this level and the more important ones from now on")
      ->check(CLI::IsMember(
          std::vector<std::string>(server::kLogLevelNames.begin(), server::kLogLevelNames.end())))
      ->excludes("--json", "--lines");
  log->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tributary::cli
