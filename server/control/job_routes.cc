// SPDX-License-Identifier: Apache-2.0
#include "server/control/job_routes.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "server/control/request_body.h"
#include "server/control/snapshot_json.h"
#include "server/job_keys.h"

namespace tributary::control {
namespace {

using server::JobFault;

constexpr const char* kTimeoutKey = "timeout_ms";
constexpr const char* kSilenceKey = "silence";

int status_of(JobFault fault) {
  switch (fault) {
    case JobFault::kUnknownJob:
    case JobFault::kUnknownSource:
      return 404;
    case JobFault::kNoMemory:
      return 507;
    case JobFault::kEnding:
      return 503;
    case JobFault::kExists:
    case JobFault::kInUse:
    case JobFault::kNotAllowed:
      break;
  }
  return 409;
}

/// Returns `good` if the command was carried out, else its error.
Reply reply_of(const server::JobResult& result, const nlohmann::json& good) {
  if (result) return {.body = good.dump() + "\n"};
  return error_reply(status_of(result.error().fault), result.error().text);
}

/// Reads a number of a URL, without leading zeros, so that a job has one URL. A number that no job
/// or source has is returned as the largest one.
std::optional<uint32_t> number_in(std::string_view text) {
  if (text.size() > 1 && text.starts_with('0')) return {};
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end != text.data() + text.size() || text.empty()) return {};
  return error == std::errc() ? number : UINT32_MAX;
}

Reply unknown(const char* what, const std::string& text) {
  return error_reply(
      404,
      fmt::format("{} '{}' does not exist; allowed: a number without leading zeros", what, text));
}

/// Returns a value of the body as the tables of keys take it.
WrittenKey written(const std::string& name, const nlohmann::json& value) {
  // dump() recurses, at most as deep as the body is long.
  WrittenKey key{.name = name, .text = value.dump(), .type = WrittenType::kOther, .where = "body"};
  if (value.is_number_integer()) key.type = WrittenType::kInteger;
  if (value.is_number_float()) key.type = WrittenType::kNumber;
  if (value.is_boolean()) key.type = WrittenType::kBool;
  if (value.is_string()) {
    key.type = WrittenType::kText;
    key.text = value.get<std::string>();
  }
  return key;
}

/// Reads a body that is an object.
Result<std::vector<WrittenKey>> keys_of(const Request& request) {
  const auto json = object_of(request, R"({"sources": 4})");
  if (!json) return tl::unexpected(json.error());
  std::vector<WrittenKey> keys;
  for (const auto& [name, value] : json->items()) keys.push_back(written(name, value));
  return keys;
}

/// Reads "force=true"; refuses anything else.
Result<bool> force_of(const std::string& query) {
  if (query.empty() || query == "force=false") return false;
  if (query == "force=true") return true;
  return failure(fmt::format("query '{}' is not allowed; allowed: force=true, force=false", query));
}

/// Reads the keys of a running job that a body changes; at least one.
Result<server::JobChange> change_of(const std::vector<WrittenKey>& keys) {
  const KeyTable& table = server::job_keys();
  server::JobChange change;
  for (const WrittenKey& key : keys) {
    if (key.name != kTimeoutKey && key.name != kSilenceKey) {
      return failure(fmt::format("body: key '{}' of a running job cannot change; allowed: {}, {}",
                                 key.name, kTimeoutKey, kSilenceKey));
    }
    const auto value =
        convert_key(table.keys()[static_cast<size_t>(table.index_of(key.name))], key);
    if (!value) return tl::unexpected(value.error());
    if (key.name == kTimeoutKey) {
      change.timeout = std::get<Duration>(*value);
      continue;
    }
    const auto silence = server::to_silence(std::get<std::string>(*value), "body");
    if (!silence) return tl::unexpected(silence.error());
    change.silence = *silence;
  }
  if (keys.empty())
    return failure(fmt::format("body: {} or {} is missing", kTimeoutKey, kSilenceKey));
  return change;
}

}  // namespace

Reply post_job(const ApiConfig& config, const Request& request, const UrlParts&) {
  if (!config.is_ready()) return error_reply(503, "the server ends and takes no new jobs");
  const auto keys = keys_of(request);
  if (!keys) return error_reply(400, keys.error().text);
  const auto row = server::job_keys().read(*keys, "body");
  if (!row) return error_reply(400, row.error().text);
  const auto job = server::to_job(*row);
  if (!job) return error_reply(400, job.error().text);
  return reply_of(config.jobs->add_job(*job), {{"job", job_config_json(*job)}});
}

Reply delete_job(const ApiConfig& config, const Request& request, const UrlParts& parts) {
  const auto id = number_in(parts.id);
  if (!id) return unknown("job", parts.id);
  const auto force = force_of(request.query);
  if (!force) return error_reply(400, force.error().text);
  return reply_of(config.jobs->remove_job(*id, *force), {{"removed", *id}});
}

Reply drain_job(const ApiConfig& config, const Request&, const UrlParts& parts) {
  const auto id = number_in(parts.id);
  if (!id) return unknown("job", parts.id);
  return reply_of(config.jobs->drain_job(*id), {{"draining", *id}});
}

Reply patch_job(const ApiConfig& config, const Request& request, const UrlParts& parts) {
  const auto id = number_in(parts.id);
  if (!id) return unknown("job", parts.id);
  const auto keys = keys_of(request);
  if (!keys) return error_reply(400, keys.error().text);
  const auto change = change_of(*keys);
  if (!change) return error_reply(400, change.error().text);
  nlohmann::json changed{{"id", *id}};
  if (change->silence) changed[kSilenceKey] = to_string(*change->silence);
  if (change->timeout) changed[kTimeoutKey] = in_milliseconds(*change->timeout);
  return reply_of(config.jobs->change_job(*id, *change), changed);
}

Reply delete_source(const ApiConfig& config, const Request&, const UrlParts& parts) {
  const auto id = number_in(parts.id);
  if (!id) return unknown("job", parts.id);
  const auto source = number_in(parts.source);
  if (!source) return unknown("source", parts.source);
  return reply_of(config.jobs->evict_source(*id, *source), {{"job", *id}, {"evicted", *source}});
}

}  // namespace tributary::control
