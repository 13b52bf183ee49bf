// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the JSON of a server's answer. The server may be hostile: code that writes or copies JSON
/// recurses once for each level, so a deep answer would overflow the stack.
///
/// Threads: Pure functions.
/// Tests:   tests/server/control/http_client_test.cc
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace tributary::control {

/// Most arrays and objects within each other. A server's answers have fewer than ten.
inline constexpr int kAnswerLevelsMax = 64;

/// Returns the JSON. The error says "is not JSON" or "has more than 64 levels", for a message that
/// has begun with the answer's name.
/// @tparam Json nlohmann::json, or nlohmann::ordered_json, which keeps the order of its keys.
template <class Json = nlohmann::json>
[[nodiscard]] Result<Json> read_answer_json(std::string_view text) {
  bool is_deep = false;
  const auto keep = [&is_deep](int depth, typename Json::parse_event_t event, Json&) {
    using Event = typename Json::parse_event_t;
    const bool begins = event == Event::array_start || event == Event::object_start;
    is_deep = is_deep || (begins && depth >= kAnswerLevelsMax);
    return !is_deep;  // The parser builds nothing below this level.
  };
  Json json = Json::parse(text, keep, /*allow_exceptions=*/false);
  if (is_deep) return failure(fmt::format("has more than {} levels", kAnswerLevelsMax));
  if (json.is_discarded()) return failure("is not JSON");
  return json;
}

}  // namespace tributary::control
