// SPDX-License-Identifier: Apache-2.0
#include "server/control/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/number_text.h"
#include "server/control/history_json.h"
#include "server/control/job_routes.h"
#include "server/control/log_routes.h"
#include "server/control/metrics.h"
#include "server/control/schemas.h"
#include "server/control/snapshot_json.h"
#include "server/job_keys.h"
#include "server/json_text.h"
#include "server/stats_json.h"

namespace tributary::control {
namespace {

/// Makes an answer. Replaces bytes that are not UTF-8, which names and paths may have.
Reply json_reply(const nlohmann::json& json) { return {.body = server::json_text(json) + "\n"}; }

Reply get_status(const ApiConfig& config, const Request&, const UrlParts&) {
  nlohmann::json status = status_json(config.snapshot());
  status["name"] = config.name;
  status["version"] = config.version;
  return json_reply(status);
}

Reply get_jobs(const ApiConfig& config, const Request&, const UrlParts&) {
  nlohmann::json jobs = nlohmann::json::array();
  for (const auto& job : config.snapshot().jobs) jobs.push_back(job_json(job));
  return json_reply({{"jobs", jobs}});
}

Reply get_job(const ApiConfig& config, const Request&, const UrlParts& parts) {
  const server::Snapshot snapshot = config.snapshot();
  std::string ids;
  for (const auto& job : snapshot.jobs) {
    const std::string text = std::to_string(job.config.id);
    if (text == parts.id) return json_reply(job_details_json(job, snapshot.at));
    ids += (ids.empty() ? "" : ", ") + text;
  }
  return error_reply(
      404, fmt::format("job '{}' does not exist; jobs: {}", parts.id, ids.empty() ? "none" : ids));
}

Reply get_who(const ApiConfig& config, const Request&, const UrlParts&) {
  nlohmann::json rows = nlohmann::json::array();
  for (const server::Wait& wait : server::find_waits(config.snapshot()))
    rows.push_back(wait_json(wait));
  return json_reply({{"rows", rows}});
}

/// Returns the reason why there is no history.
Reply no_history() {
  return error_reply(404, "this server keeps no history; start it without --api off");
}

Reply get_history(const ApiConfig& config, const Request&, const UrlParts&) {
  return config.history == nullptr ? no_history() : json_reply(history_json(*config.history));
}

Reply get_job_history(const ApiConfig& config, const Request&, const UrlParts& parts) {
  if (config.history == nullptr) return no_history();
  nlohmann::json json;
  const auto id = parse_number<uint32_t>(parts.id);
  if (id && std::to_string(*id) == parts.id) json = job_history_json(*config.history, *id);
  if (json.is_object()) return json_reply(json);
  return error_reply(404,
                     fmt::format("job '{}' has no history; GET /v1/jobs lists the jobs", parts.id));
}

Reply get_counters(const ApiConfig& config, const Request&, const UrlParts&) {
  return json_reply(server::counters_json(config.snapshot()));
}

Reply get_cores(const ApiConfig& config, const Request&, const UrlParts&) {
  return json_reply({{"cores", cores_json(config.snapshot())}});
}

Reply get_ports(const ApiConfig& config, const Request&, const UrlParts&) {
  return json_reply({{"ports", ports_json(config.snapshot())}});
}

Reply get_config(const ApiConfig& config, const Request&, const UrlParts&) {
  nlohmann::json json = config.settings;
  json["name"] = config.name;
  json["jobs"] = nlohmann::json::array();
  for (const auto& job : config.snapshot().jobs)
    json["jobs"].push_back(job_config_json(job.config));
  return json_reply(json);
}

Reply get_program(const ApiConfig& config, const Request&, const UrlParts&) {
  if (config.program) return json_reply(config.program());
  return error_reply(404, "this server runs no packet program; tributary serve --program runs one");
}

constexpr const char* kBytes = "application/octet-stream";

Reply no_recorder() {
  return error_reply(
      404,
      "this server has no flight recorder: Trio-ML servers have one, unless they are "
      "started with --record off");
}

Reply get_recording(const ApiConfig& config, const Request&, const UrlParts&) {
  if (config.recorder == nullptr) return no_recorder();
  return {.body = config.recorder->recording(), .type = kBytes};
}

Reply get_recordings(const ApiConfig& config, const Request&, const UrlParts&) {
  return json_reply(recordings_json(config.recorder));
}

Reply get_recording_file(const ApiConfig& config, const Request&, const UrlParts& parts) {
  auto content = config.recorder == nullptr ? std::nullopt : config.recorder->file(parts.id);
  if (content) return {.body = *std::move(content), .type = kBytes};
  return error_reply(
      404, fmt::format("there is no recording '{}'; GET /v1/recordings lists them", parts.id));
}

Reply get_recorder(const ApiConfig& config, const Request&, const UrlParts&) {
  return config.recorder == nullptr ? no_recorder() : json_reply(config.recorder->state());
}

Reply set_recorder(const ApiConfig& config, bool on) {
  if (config.recorder == nullptr) return no_recorder();
  config.recorder->set_on(on);
  return json_reply({{"on", on}});
}

Reply start_recorder(const ApiConfig& config, const Request&, const UrlParts&) {
  return set_recorder(config, true);
}

Reply stop_recorder(const ApiConfig& config, const Request&, const UrlParts&) {
  return set_recorder(config, false);
}

Reply get_health(const ApiConfig& config, const Request&, const UrlParts&) {
  return json_reply({{"status", "ok"}, {"cores", config.snapshot().cores.size()}});
}

Reply get_readiness(const ApiConfig& config, const Request&, const UrlParts&) {
  if (config.is_ready()) return json_reply({{"status", "ready"}});
  return error_reply(503, "the server waits for its workers to leave and then ends");
}

constexpr const char* kJson = "application/json";
/// Source: Prometheus, exposition formats, text-based format.
constexpr const char* kMetricsText = "text/plain; version=0.0.4";

Reply get_metrics(const ApiConfig& config, const Request&, const UrlParts&) {
  const Metrics metrics(config.snapshot, config.version,
                        {.history = config.history,
                         .http_counters = config.http_counters,
                         .connections = config.connections,
                         .recorder = config.recorder,
                         .log = config.log});
  return {.body = metrics_text(metrics), .type = kMetricsText};
}

Reply get_openapi(const ApiConfig& config, const Request&, const UrlParts&);

/// Whether the answer waits for the cores.
enum class Cores : uint8_t { kAsked, kNotAsked };

/// The body that a route takes.
enum class Body : uint8_t { kNone, kJob, kChange, kLogLevel };

struct Route {
  std::string_view method;
  std::string_view path;  ///< "{id}", "{source}" and "{name}" stand for one part of a path each.
  std::string_view summary;
  Reply (*answer)(const ApiConfig&, const Request&, const UrlParts&);
  const char* schema;  ///< Schema of a JSON answer, from schemas.cc; null: another type.
  const char* type = kJson;
  Body body = Body::kNone;
  Cores cores = Cores::kAsked;
};

constexpr std::string_view kId = "{id}";
constexpr std::string_view kSource = "{source}";
constexpr std::string_view kName = "{name}";

constexpr auto kRoutes = std::to_array<Route>({
    {"GET", "/v1/status", "Totals, jobs, drops by reason and CPU time per core", get_status,
     "Status"},
    {"GET", "/v1/jobs", "All jobs", get_jobs, "Jobs"},
    {"POST", "/v1/jobs", "Adds a job", post_job, "JobAdded", kJson, Body::kJob},
    {"GET", "/v1/jobs/{id}", "A job with its sources and its oldest blocks in progress", get_job,
     "Job"},
    {"PATCH", "/v1/jobs/{id}", "Changes a job's straggler timeout, or the effect of a silent rank",
     patch_job, "JobChanged", kJson, Body::kChange},
    {"DELETE", "/v1/jobs/{id}", "Removes a job; with ?force=true although workers use it",
     delete_job, "JobRemoved"},
    {"POST", "/v1/jobs/{id}/drain", "Starts no further session, and removes the job when unused",
     drain_job, "JobDrained"},
    {"DELETE", "/v1/jobs/{id}/sources/{source}", "Evicts a source of a job", delete_source,
     "SourceEvicted"},
    {"GET", "/v1/who", "Ranks that others wait for, with advice", get_who, "Who"},
    {"GET", "/v1/history", "Traffic and lateness of the last two minutes", get_history, "History",
     kJson, Body::kNone, Cores::kNotAsked},
    {"GET", "/v1/history/{id}", "Lateness of each source of a job, and its stalls", get_job_history,
     "JobHistory", kJson, Body::kNone, Cores::kNotAsked},
    {"GET", "/v1/counters", "Packets and bytes of each outcome", get_counters, "Counters"},
    {"GET", "/v1/cores", "Counters and CPU time of each core", get_cores, "Cores"},
    {"GET", "/v1/ports", "Counters of each core's port", get_ports, "Ports"},
    {"GET", "/v1/program", "Counters and details of a packet program", get_program, "Program"},
    {"GET", "/v1/config", "Settings of the server and of its jobs", get_config, "Config"},
    {"GET", "/v1/log", "The last 1,000 lines of the log, oldest first, its level and its counters",
     get_log, "Log", kJson, Body::kNone, Cores::kNotAsked},
    {"PATCH", "/v1/log", "Sets the log level", patch_log, "LogLevel", kJson, Body::kLogLevel,
     Cores::kNotAsked},
    {"GET", "/v1/recording", "The recent events of all cores, for tributary record show",
     get_recording, nullptr, kBytes, Body::kNone, Cores::kNotAsked},
    {"GET", "/v1/recordings", "The files of recordings that the server has written, newest first",
     get_recordings, "Recordings", kJson, Body::kNone, Cores::kNotAsked},
    {"GET", "/v1/recordings/{name}", "One recording file, by name", get_recording_file, nullptr,
     kBytes, Body::kNone, Cores::kNotAsked},
    {"GET", "/v1/recorder", "Whether the flight recorder is on, and its counters", get_recorder,
     "Recorder", kJson, Body::kNone, Cores::kNotAsked},
    {"POST", "/v1/recorder/start", "Starts recording on all cores", start_recorder,
     "RecorderSwitched"},
    {"POST", "/v1/recorder/stop", "Stops recording on all cores", stop_recorder,
     "RecorderSwitched"},
    {"GET", "/v1/openapi.json", "The OpenAPI description of this API", get_openapi, "Description",
     kJson, Body::kNone, Cores::kNotAsked},
    {"GET", "/metrics", "Counters and states in the Prometheus text format", get_metrics, nullptr,
     kMetricsText},
    {"GET", "/healthz", "200 if all cores answer", get_health, "Health"},
    {"GET", "/readyz", "200 while the server takes new workers, 503 while it ends", get_readiness,
     "Readiness", kJson, Body::kNone, Cores::kNotAsked},
});

/// Tells whether the route takes a query. The others refuse one, so that no client takes a filter
/// that the server ignores for one that it applies.
bool takes_query(const Route& route) { return route.answer == delete_job; }

nlohmann::json parameter(const char* name, const char* in, const nlohmann::json& schema) {
  const bool in_path = std::string_view(in) == "path";
  return {{"name", name}, {"in", in}, {"required", in_path}, {"schema", schema}};
}

nlohmann::json parameters_of(const Route& route) {
  const nlohmann::json number{{"type", "integer"}, {"minimum", 0}, {"maximum", 255}};
  nlohmann::json parameters = nlohmann::json::array();
  if (route.path.find(kId) != std::string_view::npos) {
    parameters.push_back(parameter("id", "path", number));
  }
  if (route.path.find(kSource) != std::string_view::npos) {
    parameters.push_back(parameter("source", "path", number));
  }
  if (route.path.find(kName) != std::string_view::npos) {
    parameters.push_back(parameter("name", "path", {{"type", "string"}}));
  }
  if (takes_query(route)) {
    parameters.push_back(parameter("force", "query", {{"type", "boolean"}}));
  }
  return parameters;
}

/// Returns the JSON schema of a key's values.
nlohmann::json schema_of(const KeySpec& key) {
  nlohmann::json schema{{"description", key.help}};
  switch (key.type) {
    case KeyType::kUint:
    case KeyType::kDurationMs:
      schema.update({{"type", "integer"}, {"minimum", key.min}, {"maximum", key.max}});
      break;
    case KeyType::kNumber:
      schema["type"] = "number";
      break;
    case KeyType::kBool:
      schema["type"] = "boolean";
      break;
    case KeyType::kText:
    case KeyType::kEndpoint:
      schema["type"] = "string";
      break;
  }
  return schema;
}

/// Adds the keys of a job that the route takes.
void add_job_keys(const Route& route, nlohmann::json& properties, nlohmann::json& required) {
  for (const KeySpec& key : server::job_keys().keys()) {
    const bool changes = key.name == "timeout_ms" || key.name == "silence";
    if (route.body == Body::kChange && !changes) continue;
    properties[std::string(key.name)] = schema_of(key);
    if (key.required) required.push_back(key.name);
  }
}

nlohmann::json body_of(const Route& route) {
  nlohmann::json properties = nlohmann::json::object();
  nlohmann::json required = nlohmann::json::array();
  if (route.body == Body::kLogLevel) {
    properties["level"] = {{"type", "string"}, {"enum", server::kLogLevelNames}};
    required.push_back("level");
  } else {
    add_job_keys(route, properties, required);
  }
  const nlohmann::json schema{{"type", "object"},
                              {"additionalProperties", false},
                              {"properties", properties},
                              {"required", required}};
  return {{"required", true}, {"content", {{kJson, {{"schema", schema}}}}}};
}

/// Returns a method in lower case, as OpenAPI names it.
std::string key_of(std::string_view method) {
  std::string key(method);
  for (char& letter : key) letter = static_cast<char>(letter - 'A' + 'a');
  return key;
}

Reply get_openapi(const ApiConfig& config, const Request&, const UrlParts&) {
  nlohmann::json paths = nlohmann::json::object();
  for (const Route& route : kRoutes) {
    nlohmann::json content = nlohmann::json::object();
    if (route.schema != nullptr) content["schema"] = schema_ref(route.schema);
    nlohmann::json operation{
        {"summary", route.summary},
        {"security", openapi_security(/*commands=*/route.method != "GET")},
        {"responses",
         {{"200", {{"description", route.summary}, {"content", {{route.type, content}}}}},
          {"default",
           {{"description", "A refusal: 401 and 403 ask for a token"},
            {"content", {{kJson, {{"schema", schema_ref("Error")}}}}}}}}}};
    const nlohmann::json parameters = parameters_of(route);
    if (!parameters.empty()) operation["parameters"] = parameters;
    if (route.body != Body::kNone) operation["requestBody"] = body_of(route);
    paths[std::string(route.path)][key_of(route.method)] = operation;
  }
  return json_reply({{"openapi", "3.0.3"},
                     {"info", {{"title", "Tributary control API"}, {"version", config.version}}},
                     {"components", openapi_components()},
                     {"paths", paths}});
}

/// Splits a path at its first "/" behind the first character.
std::pair<std::string_view, std::string_view> split(std::string_view path) {
  const size_t end = std::min(path.find('/', 1), path.size());
  return {path.substr(0, end), path.substr(end)};
}

/// Returns the variable parts of `path`; nothing if the route has another path.
std::optional<UrlParts> match(const Route& route, std::string_view path) {
  UrlParts parts;
  std::string_view pattern = route.path;
  while (!pattern.empty() && !path.empty()) {
    const auto [wanted, wanted_rest] = split(pattern);
    const auto [given, given_rest] = split(path);
    const std::string_view name = wanted.substr(1);
    if (name == kId || name == kName || name == kSource) {
      if (given.size() < 2) return {};
      (name == kSource ? parts.source : parts.id) = given.substr(1);
    } else if (wanted != given) {
      return {};
    }
    pattern = wanted_rest;
    path = given_rest;
  }
  if (!pattern.empty() || !path.empty()) return {};
  return parts;
}

}  // namespace

Reply Api::ask_cores(const std::function<Reply()>& answer) const {
  // While one hangs, a wait would delay the answers behind this one.
  const bool is_free = cores_hang_.load(std::memory_order_relaxed)
                           ? free_threads_.try_acquire()
                           : free_threads_.try_acquire_for(kCoresWithin);
  if (!is_free) {
    cores_hang_.store(true, std::memory_order_relaxed);
    return error_reply(
        503, "a core does not answer; tributary record dump shows the recent events of all");
  }
  struct Release {
    const Api& api;
    ~Release() {
      api.cores_hang_.store(false, std::memory_order_relaxed);
      api.free_threads_.release();
    }
  };
  const Release release{*this};  // An answer may throw.
  return answer();
}

Reply Api::handle(const Request& request) const {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  std::string allowed;
  for (const Route& route : kRoutes) {
    const auto parts = match(route, request.path);
    if (!parts) continue;
    if (method == route.method) {
      if (method != "GET" && config_.jobs == nullptr && route.path.starts_with("/v1/jobs")) {
        return error_reply(403, "this server has no jobs; a server of trio-ml has them");
      }
      if (!request.query.empty() && !takes_query(route)) {
        return error_reply(400, fmt::format("query '{}' is not allowed: {} {} takes no query",
                                            request.query, request.method, request.path));
      }
      const auto answer = [&] { return route.answer(config_, request, *parts); };
      return route.cores == Cores::kAsked ? ask_cores(answer) : answer();
    }
    allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
  }
  if (allowed.empty()) {
    return error_reply(
        404, fmt::format("{}: no such URL; GET /v1/openapi.json lists them", request.path));
  }
  Reply reply =
      error_reply(405, fmt::format("{} {}: allowed: {}", request.method, request.path, allowed));
  reply.headers.emplace_back("Allow", allowed);
  return reply;
}

}  // namespace tributary::control
