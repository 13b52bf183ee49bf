// SPDX-License-Identifier: Apache-2.0
#include "server/control/schemas.h"

#include <string>
#include <utility>
#include <vector>

#include "server/log_control.h"

namespace tributary::control {
namespace {

using nlohmann::json;

struct Field {
  const char* name;
  json schema;
};

/// Returns an object that has exactly these fields.
json object(const std::vector<Field>& fields) {
  json properties = json::object();
  json required = json::array();
  for (const Field& field : fields) {
    properties[field.name] = field.schema;
    required.push_back(field.name);
  }
  return {{"type", "object"},
          {"additionalProperties", false},
          {"properties", properties},
          {"required", required}};
}

/// Adds fields that an answer may lack.
json with_optional(json schema, const std::vector<Field>& fields) {
  for (const Field& field : fields) schema["properties"][field.name] = field.schema;
  return schema;
}

json described(json schema, const char* description) {
  schema["description"] = description;
  return schema;
}

json nullable(json schema, const char* null_means) {
  schema["nullable"] = true;
  return described(std::move(schema), null_means);
}

json list(json items) { return {{"type", "array"}, {"items", std::move(items)}}; }
json text() { return {{"type", "string"}}; }
json one_of(std::vector<std::string> values) { return {{"type", "string"}, {"enum", values}}; }
json flag() { return {{"type", "boolean"}}; }
json number() { return {{"type", "number"}, {"minimum", 0}}; }
json share() { return {{"type", "number"}, {"minimum", 0}, {"maximum", 1}}; }
json count() { return {{"type", "integer"}, {"minimum", 0}}; }
json any_object() { return {{"type", "object"}}; }
json counts_by_name() { return {{"type", "object"}, {"additionalProperties", count()}}; }

json channel_of() {
  return described(count(), "the configured job; its own id if the row is channel 0");
}

json job_schema() {
  return object({{"id", count()},
                 {"channel_of", channel_of()},
                 {"session", described(count(), "0: none runs")},
                 {"draining", flag()},
                 {"sources", count()},
                 {"members", count()},
                 {"mitigation", flag()},
                 {"blocks_in_progress", count()},
                 {"blocks_total", count()},
                 {"blocks_degraded", count()},
                 {"degraded_share", share()},
                 {"memory_bytes", count()},
                 {"buffers_free", count()}});
}

json report_schema() {
  return nullable(object({{"age_ms", count()},
                          {"bytes_per_s", number()},
                          {"retransmitted_per_s", number()},
                          {"blocks", count()},
                          {"bytes", count()},
                          {"degraded_share", share()},
                          {"retransmitted", count()},
                          {"probes", count()},
                          {"waited_ms", count()},
                          {"waits_for", list(count())}}),
                  "null: the source has sent no report");
}

json source_schema() {
  return object({{"source", count()},
                 {"ranks", list(count())},
                 {"state", one_of({"absent", "plain", "joining", "member", "silent", "left"})},
                 {"joining", flag()},
                 {"waited_for", flag()},
                 {"address", nullable(text(), "null: unknown")},
                 {"last_heard_ms", nullable(count(), "null: unknown")},
                 {"report", report_schema()}});
}

json upstream_schema() {
  return nullable(object({{"address", text()},
                          {"state", one_of({"idle", "joining", "joined", "silent", "refused"})},
                          {"silent_ms", count()},
                          {"waits_at", nullable(text(), "null: nothing")},
                          {"refusal", nullable(text(), "null: it does not refuse")}}),
                  "null: there is no upper aggregator");
}

json job_details_schema() {
  json schema = job_schema();
  const json block = object({{"id", count()},
                             {"since_ms", count()},
                             {"missing", list(count())},
                             {"waits_upstream", flag()}});
  const json more = object({{"upstream", upstream_schema()}, {"blocks", list(block)}});
  schema["properties"].update(more["properties"]);
  schema["properties"]["sources"] = list(source_schema());
  for (const json& name : more["required"]) schema["required"].push_back(name);
  return schema;
}

json job_config_schema() {
  return object({{"id", count()},
                 {"sources", count()},
                 {"block_cnt_max", count()},
                 {"block_grad_max", count()},
                 {"history", count()},
                 {"shared_buffers", flag()},
                 {"mitigation", flag()},
                 {"timeout_ms", count()},
                 {"timer_threads", count()},
                 {"permanent_ms", count()},
                 {"silent_ms", count()},
                 {"silence", text()},
                 {"channels", count()},
                 {"auth", text()},
                 {"clients", one_of({"any", "plain", "sessions"})},
                 {"pin", flag()},
                 {"asynchronous", flag()},
                 {"parameters", count()},
                 {"group", nullable(text(), "null: none")},
                 {"upstream", nullable(text(), "null: none")},
                 {"upstream_source", count()},
                 {"sources_are_aggregators", flag()},
                 {"rank_base", count()},
                 {"world", count()}});
}

json core_schema() {
  return object({{"bursts", count()},
                 {"packets", count()},
                 {"handed_over", count()},
                 {"handover_full", count()},
                 {"waits", count()},
                 {"pauses", count()},
                 {"cpu_s", number()}});
}

json port_schema() {
  return object({{"rx_packets", count()},
                 {"rx_bytes", count()},
                 {"tx_packets", count()},
                 {"tx_bytes", count()},
                 {"tx_refused", count()},
                 {"rx_truncated", count()},
                 {"peer_refused", count()},
                 {"local_address_unknown", count()},
                 {"system_calls", count()},
                 {"rx_dropped", nullable(count(), "null: unknown")}});
}

json session_schema() {
  return object({{"id", text()},
                 {"configured", flag()},
                 {"elements", count()},
                 {"slots", count()},
                 {"workers", described(list(text()), "by rank; empty: not registered")},
                 {"silent_s", list(nullable(number(), "null: never heard"))},
                 {"packets", count()},
                 {"slots_completed", count()}});
}

/// Describes a job that the server plans as its directory.
json planned_job_schema() {
  return object(
      {{"id", count()},
       {"plans", count()},
       {"predicted_s", number()},
       {"aggregators", list(object({{"address", text()},
                                    {"answers", flag()},
                                    {"weight", described(count(), "0: the plan leaves it out")},
                                    {"fault", described(text(), "empty if it answers")}}))}});
}

json status_schema() {
  return object({{"name", text()},
                 {"version", text()},
                 {"service", described(text(), "trio-ml, switchml, or a packet program's name")},
                 {"listen", text()},
                 {"uptime_s", number()},
                 {"jobs", list(job_schema())},
                 {"sessions", list(session_schema())},
                 {"directory", list(planned_job_schema())},
                 {"events", counts_by_name()},
                 {"blocks_in_progress", count()},
                 {"blocks_completed", count()},
                 {"blocks_degraded", count()},
                 {"degraded_share", share()},
                 {"rx_packets", count()},
                 {"rx_bytes", count()},
                 {"tx_packets", count()},
                 {"tx_bytes", count()},
                 {"drops", counts_by_name()},
                 {"records", counts_by_name()},
                 {"notices", described(list(text()), "of a packet program; at most 50")},
                 {"cores", list(core_schema())},
                 {"waits", count()}});
}

json wait_schema() {
  return object({{"job", count()},
                 {"channel_of", channel_of()},
                 {"block", nullable(count(), "null: a session waits, no block")},
                 {"missing", list(count())},
                 {"since_ms", nullable(count(), "null: unknown")},
                 {"last_heard_ms", nullable(count(), "null: unknown")},
                 {"address", nullable(text(), "null: unknown")},
                 {"advice", text()}});
}

json lateness_schema() {
  return object({{"job", count()},
                 {"source", count()},
                 {"ranks", list(count())},
                 {"lateness_ms", list(count())}});
}

json history_schema() {
  const json sample = object({{"uptime_s", number()},
                              {"rx_bytes", count()},
                              {"tx_bytes", count()},
                              {"blocks_completed", count()},
                              {"blocks_degraded", count()},
                              {"cpu_s", list(number())}});
  return object({{"every_ms", count()},
                 {"samples", list(sample)},
                 {"lateness", list(lateness_schema())},
                 {"lateness_left_out", count()}});
}

json job_history_schema() {
  const json stall = object({{"source", count()},
                             {"ranks", list(count())},
                             {"block", count()},
                             {"began_s", number()},
                             {"lasted_ms", count()},
                             {"ended", flag()}});
  const json late = nullable(count(), "null: the source reports no beginnings");
  const json all_reduces = object({{"numbers", list(count())}, {"lateness_ms", list(list(late))}});
  return object({{"job", count()},
                 {"every_ms", count()},
                 {"uptime_s", list(number())},
                 {"blocks_total", list(count())},
                 {"lateness", list(lateness_schema())},
                 {"all_reduces", all_reduces},
                 {"stalls", list(stall)}});
}

json levels() { return {{"type", "string"}, {"enum", server::kLogLevelNames}}; }

json log_schema() {
  json row = object({{"time", text()}, {"level", levels()}, {"event", text()}});
  row["additionalProperties"] = true;  // The fields of the event.
  return object({{"level", levels()},
                 {"rows", list(row)},
                 {"lines", count()},
                 {"lines_suppressed", count()},
                 {"lines_lost", count()},
                 {"events_lost", count()}});
}

/// Returns an object with these fields, and others that depend on what the server serves.
json open_object(const std::vector<Field>& fields) {
  json schema = object(fields);
  schema["additionalProperties"] = true;
  return schema;
}

json answers_to_commands() {
  return {{"JobAdded", object({{"job", job_config_schema()}})},
          {"JobRemoved", object({{"removed", count()}})},
          {"JobDrained", object({{"draining", count()}})},
          {"JobChanged", with_optional(object({{"id", count()}}),
                                       {{"timeout_ms", count()}, {"silence", text()}})},
          {"SourceEvicted", object({{"job", count()}, {"evicted", count()}})},
          {"LogLevel", object({{"level", levels()}})},
          {"RecorderSwitched", object({{"on", flag()}})}};
}

json answers_to_questions() {
  return {
      {"Status", status_schema()},
      {"Jobs", object({{"jobs", list(job_schema())}})},
      {"Job", job_details_schema()},
      {"Who", object({{"rows", list(wait_schema())}})},
      {"History", history_schema()},
      {"JobHistory", job_history_schema()},
      {"Counters", object({{"packets", counts_by_name()}, {"bytes", counts_by_name()}})},
      {"Cores", object({{"cores", list(core_schema())}})},
      {"Ports", object({{"ports", list(port_schema())}})},
      {"Program", any_object()},
      {"Config", open_object({{"name", text()}, {"jobs", list(job_config_schema())}})},
      {"Log", log_schema()},
      {"Recordings",
       object({{"recordings",
                list(object({{"name", text()}, {"written", text()}, {"size_bytes", count()}}))}})},
      {"Recorder", object({{"on", flag()},
                           {"events_per_core", count()},
                           {"recorded", count()},
                           {"overwritten", count()},
                           {"left_out", count()},
                           {"last_file", described(text(), "empty: none")},
                           {"last_error", described(text(), "empty: none")}})},
      {"Description", any_object()},
      {"Health", object({{"status", one_of({"ok"})}, {"cores", count()}})},
      {"Readiness", object({{"status", one_of({"ready"})}})},
      {"Error", object({{"error", text()}})}};
}

}  // namespace

json openapi_components() {
  json schemas = answers_to_questions();
  schemas.update(answers_to_commands());
  return {
      {"schemas", schemas},
      {"securitySchemes",
       {{"token",
         {{"type", "http"},
          {"scheme", "bearer"},
          {"description",
           "A token of --http-token-file, over TCP. A command needs one with the right `write`. "
           "The Unix socket takes no token. A server without tokens lets callers of a loopback "
           "address read."}}},
        {"cookie",
         {{"type", "apiKey"},
          {"in", "cookie"},
          {"name", "tributary_PORT"},
          {"description",
           "For browsers, to read only: GET /?token=TOKEN sets it. The name ends in the "
           "server's TCP port."}}}}}};
}

json schema_ref(std::string_view name) {
  return {{"$ref", "#/components/schemas/" + std::string(name)}};
}

json openapi_security(bool commands) {
  const json none = json::array();
  json ways = json::array({{{"token", none}}});
  if (!commands) ways.push_back({{"cookie", none}});
  ways.push_back(json::object());  // Nothing: on the Unix socket.
  return ways;
}

}  // namespace tributary::control
