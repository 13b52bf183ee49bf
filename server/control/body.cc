// SPDX-License-Identifier: Apache-2.0
#include "server/control/body.h"

#include <fmt/format.h>

namespace tributary::control {

Result<nlohmann::json> object_of(const Request& request, const char* example) {
  auto json = nlohmann::json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return failure("the body is not JSON");
  if (!json.is_object()) {
    return failure(fmt::format("the body is not a JSON object, such as {}", example));
  }
  return json;
}

}  // namespace tributary::control
