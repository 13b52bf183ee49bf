// SPDX-License-Identifier: Apache-2.0
#include "server/control/log_routes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>

#include "server/control/request_body.h"
#include "server/json_text.h"

namespace tributary::control {
namespace {

using server::LogLevel;

constexpr const char* kLevelKey = "level";

Reply no_log() { return error_reply(404, "this server keeps no log"); }

Result<LogLevel> level_of(const Request& request) {
  const auto body = object_of(request, R"({"level": "debug"})");
  if (!body) return tl::unexpected(body.error());
  if (body->size() != 1 || !body->contains(kLevelKey)) {
    return failure(fmt::format("body: the only key is {}", kLevelKey));
  }
  const nlohmann::json& value = body->at(kLevelKey);
  const auto level = value.is_string() ? server::log_level_of(value.get_ref<const std::string&>())
                                       : std::optional<LogLevel>();
  if (level) return *level;
  return failure(
      fmt::format("body: {} is not one of {}", kLevelKey, fmt::join(server::kLogLevelNames, ", ")));
}

}  // namespace

Reply get_log(const ApiConfig& config, const Request&, const UrlParts&) {
  if (config.log == nullptr) return no_log();
  return {.body = server::json_text(config.log->recent()) + "\n"};
}

Reply patch_log(const ApiConfig& config, const Request& request, const UrlParts&) {
  if (config.log == nullptr) return no_log();
  const auto level = level_of(request);
  if (!level) return error_reply(400, level.error().text);
  config.log->set_level(*level);
  return {.body = server::json_text(nlohmann::json{{kLevelKey, to_string(*level)}}) + "\n"};
}

}  // namespace tributary::control
