// SPDX-License-Identifier: Apache-2.0
#include "cli/operate/job_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "base/number_text.h"
#include "cli/console.h"
#include "cli/operate/local_server.h"
#include "cli/settings.h"
#include "server/control/http_client.h"
#include "server/job_keys.h"

namespace tributary::cli {
namespace {

using nlohmann::json;

constexpr const char* kCommand = "job";
constexpr uint32_t kNumberMax = 255;  ///< Largest job id and source.
constexpr const char* kTimeoutKey = "timeout_ms";

struct JobFlags {
  ServerChoice server;
  uint32_t id = 0;
  uint32_t source = 0;
  bool force = false;
  json changes = json::object();  ///< Keys and values that `job set` changes.
  std::vector<WrittenKey> keys;
};

/// A request to the server's control API.
struct Question {
  std::string method;
  std::string path;
  json body = nullptr;
};

const KeySpec& spec_of(std::string_view key) {
  const KeyTable& table = server::job_keys();
  return table.keys()[static_cast<size_t>(table.index_of(key))];
}

/// Returns the keys of a job but for its id, which has a place of its own on the command line.
const KeyTable& added_keys() {
  static const KeyTable table = [] {
    std::vector<KeySpec> keys;
    for (const KeySpec& key : server::job_keys().keys()) {
      if (key.name != "id") keys.push_back(key);
    }
    return KeyTable("job", keys);
  }();
  return table;
}

/// Asks the server and calls `show` with the answer.
int ask(const JobFlags& flags, const Question& question,
        const std::function<void(const json&)>& show) {
  return ask_server(kCommand, flags.server, question.path, [&](const ChosenServer& server) {
    const auto answer = control::ask(server.address, question.method, question.path, question.body);
    if (!answer) return fail(kCommand, answer.error());
    show(*answer);
    return 0;
  });
}

int run_list(const JobFlags& flags) {
  return ask(flags, {"GET", "/v1/jobs"}, [&flags](const json& answer) {
    print_answer(flags.server.as_json ? answer.dump(2) + "\n" : job_list_text(answer.at("jobs")));
  });
}

int run_change(const JobFlags& flags, const Question& question, const std::string& done) {
  return ask(flags, question, [&done](const json&) { print("{}\n", done); });
}

std::string path_of(const JobFlags& flags) { return fmt::format("/v1/jobs/{}", flags.id); }

int run_add(const JobFlags& flags) {
  return run_change(flags, {"POST", "/v1/jobs", job_body(flags.id, flags.keys)},
                    fmt::format("added job {}", flags.id));
}

int run_remove(const JobFlags& flags) {
  return run_change(flags, {"DELETE", path_of(flags) + (flags.force ? "?force=true" : "")},
                    fmt::format("removed job {}", flags.id));
}

int run_drain(const JobFlags& flags) {
  return run_change(flags, {"POST", path_of(flags) + "/drain"},
                    fmt::format("job {} goes when its workers have left", flags.id));
}

int run_set(const JobFlags& flags) {
  if (flags.changes.empty()) {
    print_error("tributary {}: nothing to change: give --timeout-ms or --silence\n", kCommand);
    return kExitUsage;
  }
  std::string done = fmt::format("job {}:", flags.id);
  for (const auto& [key, value] : flags.changes.items()) {
    done += fmt::format(" {}={}", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return run_change(flags, {"PATCH", path_of(flags), flags.changes}, done);
}

int run_evict(const JobFlags& flags) {
  return run_change(flags, {"DELETE", fmt::format("{}/sources/{}", path_of(flags), flags.source)},
                    fmt::format("evicted source {} of job {}", flags.source, flags.id));
}

void add_number(CLI::App& command, const char* name, uint32_t& value, const char* help) {
  add_key(command, name, {.type = KeyType::kUint, .min = 0, .max = kNumberMax}, "", help,
          [&value](const KeyValue& written) {
            value = static_cast<uint32_t>(std::get<uint64_t>(written));
          })
      ->required();
}

/// Adds a command of `tributary job` that runs `run` on its flags.
CLI::App* add_verb(CLI::App& job, const std::string& verb, const std::string& help,
                   const std::shared_ptr<JobFlags>& flags, int& exit_code,
                   int (*run)(const JobFlags&)) {
  CLI::App* command = job.add_subcommand(verb, help);
  add_server_name(*command, flags->server);
  command->callback([flags, &exit_code, run] { exit_code = run(*flags); });
  return command;
}

}  // namespace

json job_body(uint32_t id, std::span<const WrittenKey> keys) {
  json body{{"id", id}};
  for (const WrittenKey& key : keys) {
    json& value = body[key.name];
    switch (spec_of(key.name).type) {
      case KeyType::kUint:
      case KeyType::kDurationMs:
        value = parse_number<uint64_t>(key.text).value_or(0);
        break;
      case KeyType::kBool:
        value = key.text == "on" || key.text == "true";
        break;
      default:
        value = key.name == "secret_file" ? std::filesystem::absolute(key.text).string() : key.text;
    }
  }
  return body;
}

std::string job_list_text(const json& jobs) {
  if (jobs.empty()) return "no jobs\n";
  std::string text =
      fmt::format("{:>5} {:>10} {:>9} {:>9} {:>10} {:>14} {:>10}\n", "job", "channel of", "session",
                  "members", "in flight", "blocks", "memory");
  for (const json& job : jobs) {
    const bool draining = job.at("draining").get<bool>();
    const json& id = job.at("id");
    const json configured = job.value("channel_of", id);  // Not stated by an earlier release.
    text += fmt::format("{:>5} {:>10} {:>9} {:>9} {:>10} {:>14} {:>7} MB\n", id.dump(),
                        configured == id ? "-" : configured.dump(),
                        draining ? "drains" : (job.at("session") == 0 ? "-" : "runs"),
                        fmt::format("{}/{}", job.at("members").dump(), job.at("sources").dump()),
                        job.at("blocks_in_progress").dump(), job.at("blocks_total").dump(),
                        job.at("memory_bytes").get<uint64_t>() >> 20);
  }
  return text;
}

void add_job_command(CLI::App& app, int& exit_code) {
  CLI::App* job =
      app.add_subcommand("job", "List, add, remove, drain and change the jobs of a running server");
  job->require_subcommand(1);
  const auto flags = std::make_shared<JobFlags>();
  add_json_output(*add_verb(*job, "list", "Show all jobs", flags, exit_code, run_list),
                  flags->server);

  CLI::App* add = add_verb(*job, "add", "Add a job, with the keys of serve --job as flags", flags,
                           exit_code, run_add);
  add_number(*add, "ID", flags->id, "job_id");
  add_keys(*add, added_keys(), flags->keys);
  add->get_option("--sources")->required();

  CLI::App* remove = add_verb(*job, "remove", "Remove a job that no worker uses, and its memory",
                              flags, exit_code, run_remove);
  add_number(*remove, "ID", flags->id, "job_id");
  remove->add_flag("--force", flags->force, "Remove it although workers use it; they end");

  CLI::App* drain = add_verb(*job, "drain",
                             "Let no further session start, and remove the job when its workers "
                             "have left",
                             flags, exit_code, run_drain);
  add_number(*drain, "ID", flags->id, "job_id");

  CLI::App* set = add_verb(*job, "set", "Change a running job", flags, exit_code, run_set);
  add_number(*set, "ID", flags->id, "job_id");
  const KeySpec& timeout = spec_of(kTimeoutKey);
  add_key(
      *set, flags_of(kTimeoutKey), {.type = KeyType::kUint, .min = timeout.min, .max = timeout.max},
      "", "Timeout of straggler mitigation, in milliseconds",
      [flags](const KeyValue& value) { flags->changes[kTimeoutKey] = std::get<uint64_t>(value); });
  set->add_option_function<std::string>(
         "--silence", [flags](const std::string& value) { flags->changes["silence"] = value; },
         "The effect of a silent rank")
      ->check(CLI::IsMember({"auto", "wait", "exclude", "end"}));

  CLI::App* evict = add_verb(*job, "evict", "Remove a source from its job's session", flags,
                             exit_code, run_evict);
  add_number(*evict, "ID", flags->id, "job_id");
  add_number(*evict, "SOURCE", flags->source, "src_id");
}

}  // namespace tributary::cli
