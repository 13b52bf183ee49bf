// SPDX-License-Identifier: Apache-2.0
#include "server/control/api.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "server/control/history_json.h"
#include "server/control/metrics.h"
#include "server/control/snapshot_json.h"

namespace tributary::control {
namespace {

Reply json_reply(const nlohmann::json& json) { return {.body = json.dump() + "\n"}; }

Reply get_status(const ApiConfig& config, std::string_view) {
  nlohmann::json status = status_json(config.snapshot());
  status["name"] = config.name;
  status["version"] = config.version;
  return json_reply(status);
}

Reply get_jobs(const ApiConfig& config, std::string_view) {
  nlohmann::json jobs = nlohmann::json::array();
  for (const auto& job : config.snapshot().jobs) jobs.push_back(job_json(job));
  return json_reply({{"jobs", jobs}});
}

Reply get_job(const ApiConfig& config, std::string_view id) {
  const server::Snapshot snapshot = config.snapshot();
  std::string ids;
  for (const auto& job : snapshot.jobs) {
    const std::string text = std::to_string(job.config.id);
    if (text == id) return json_reply(job_details_json(job, snapshot.at));
    ids += (ids.empty() ? "" : ", ") + text;
  }
  return error_reply(404, fmt::format("job '{}' does not exist; jobs: {}", id, ids));
}

Reply get_who(const ApiConfig& config, std::string_view) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Wait& wait : find_waits(config.snapshot())) rows.push_back(wait_json(wait));
  return json_reply({{"rows", rows}});
}

/// Returns the reason why there is no history.
Reply no_history() {
  return error_reply(404, "this server keeps no history; start it without --api off");
}

Reply get_history(const ApiConfig& config, std::string_view) {
  return config.history == nullptr ? no_history() : json_reply(history_json(*config.history));
}

Reply get_job_history(const ApiConfig& config, std::string_view id) {
  if (config.history == nullptr) return no_history();
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
  nlohmann::json json;
  if (error == std::errc() && end == id.data() + id.size()) {
    json = job_history_json(*config.history, number);
  }
  if (json.is_object()) return json_reply(json);
  return error_reply(404, fmt::format("job '{}' has no history; GET /v1/jobs lists the jobs", id));
}

Reply get_counters(const ApiConfig& config, std::string_view) {
  return json_reply(counters_json(config.snapshot()));
}

Reply get_cores(const ApiConfig& config, std::string_view) {
  return json_reply({{"cores", cores_json(config.snapshot())}});
}

Reply get_ports(const ApiConfig& config, std::string_view) {
  return json_reply({{"ports", ports_json(config.snapshot())}});
}

Reply get_config(const ApiConfig& config, std::string_view) {
  nlohmann::json json = config.settings;
  json["name"] = config.name;
  json["jobs"] = nlohmann::json::array();
  for (const auto& job : config.snapshot().jobs)
    json["jobs"].push_back(job_config_json(job.config));
  return json_reply(json);
}

Reply get_health(const ApiConfig& config, std::string_view) {
  return json_reply({{"status", "ok"}, {"cores", config.snapshot().cores.size()}});
}

Reply get_readiness(const ApiConfig& config, std::string_view) {
  if (config.is_ready()) return json_reply({{"status", "ready"}});
  return error_reply(503, "the server waits for its workers to leave and then ends");
}

constexpr const char* kJson = "application/json";
/// Source: Prometheus, exposition formats, text-based format.
constexpr const char* kMetricsText = "text/plain; version=0.0.4";

Reply get_metrics(const ApiConfig& config, std::string_view) {
  const Metrics metrics(config.snapshot, config.version, config.history, config.http_counters);
  return {.body = metrics_text(metrics), .type = kMetricsText};
}

Reply get_openapi(const ApiConfig& config, std::string_view);

struct Route {
  std::string_view path;  ///< May end in "{id}", which stands for one part of a path.
  std::string_view summary;
  Reply (*answer)(const ApiConfig&, std::string_view id);
  const char* type = kJson;
};

constexpr std::string_view kId = "{id}";

constexpr auto kRoutes = std::to_array<Route>({
    {"/v1/status", "Totals, jobs, drops by reason and CPU time per core", get_status},
    {"/v1/jobs", "All jobs", get_jobs},
    {"/v1/jobs/{id}", "A job with its sources and its oldest blocks in progress", get_job},
    {"/v1/who", "Ranks that others wait for, with advice", get_who},
    {"/v1/history", "Traffic and lateness of the last two minutes", get_history},
    {"/v1/history/{id}", "Lateness of each source of a job, and its stalls", get_job_history},
    {"/v1/counters", "Packets and bytes of each outcome", get_counters},
    {"/v1/cores", "Counters and CPU time of each core", get_cores},
    {"/v1/ports", "Counters of each core's port", get_ports},
    {"/v1/config", "Settings of the server and of its jobs", get_config},
    {"/v1/openapi.json", "This description", get_openapi},
    {"/metrics", "Counters and states in the Prometheus text format", get_metrics, kMetricsText},
    {"/healthz", "200 if all cores answer", get_health},
    {"/readyz", "200 while the server takes new workers, 503 while it ends", get_readiness},
});

Reply get_openapi(const ApiConfig& config, std::string_view) {
  nlohmann::json paths = nlohmann::json::object();
  for (const Route& route : kRoutes) {
    nlohmann::json get{
        {"summary", route.summary},
        {"responses",
         {{"200",
           {{"description", route.summary}, {"content", {{route.type, nlohmann::json::object()}}}}},
          {"default", {{"description", "An object with the text `error`"}}}}}};
    if (route.path.ends_with(kId)) {
      nlohmann::json id{{"name", "id"},
                        {"in", "path"},
                        {"required", true},
                        {"schema", {{"type", "integer"}, {"minimum", 0}, {"maximum", 255}}}};
      get["parameters"] = nlohmann::json::array({id});
    }
    paths[std::string(route.path)] = {{"get", get}};
  }
  return json_reply({{"openapi", "3.0.3"},
                     {"info", {{"title", "Tributary control API"}, {"version", config.version}}},
                     {"paths", paths}});
}

/// Returns the part of `path` that stands for "{id}"; empty if the route has none; nothing if the
/// route does not match.
std::optional<std::string_view> match(const Route& route, std::string_view path) {
  if (!route.path.ends_with(kId)) {
    return path == route.path ? std::optional(std::string_view()) : std::nullopt;
  }
  const std::string_view base = route.path.substr(0, route.path.size() - kId.size());
  if (!path.starts_with(base)) return std::nullopt;
  const std::string_view id = path.substr(base.size());
  if (id.empty() || id.find('/') != std::string_view::npos) return std::nullopt;
  return id;
}

}  // namespace

Reply Api::handle(const Request& request) const {
  for (const Route& route : kRoutes) {
    const auto id = match(route, request.path);
    if (!id) continue;
    if (request.method != "GET" && request.method != "HEAD") {
      return error_reply(405, fmt::format("{} {}: allowed: GET", request.method, request.path));
    }
    return route.answer(config_, *id);
  }
  return error_reply(404,
                     fmt::format("{}: no such URL; GET /v1/openapi.json lists them", request.path));
}

}  // namespace tributary::control
