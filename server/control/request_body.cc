// SPDX-License-Identifier: Apache-2.0
#include "server/control/request_body.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

namespace tributary::control {

Result<nlohmann::json> object_of(const Request& request, const char* example) {
  // The library would keep the last of several values.
  std::vector<std::set<std::string>> keys;
  std::string twice;
  const auto note = [&keys, &twice](int, nlohmann::json::parse_event_t event,
                                    const nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::key && !keys.back().insert(parsed).second) twice = parsed;
    if (event == Event::object_end) keys.pop_back();
    return true;
  };
  auto json = nlohmann::json::parse(request.body, note, /*allow_exceptions=*/false);
  if (json.is_discarded()) return failure("the body is not JSON");
  if (!twice.empty()) return failure(fmt::format("key '{}' is given twice; allowed: once", twice));
  if (!json.is_object()) {
    return failure(fmt::format("the body is not a JSON object, such as {}", example));
  }
  return json;
}

}  // namespace tributary::control
