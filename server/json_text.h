// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writes JSON whose texts come from other processes: packets, requests, file names.
///
/// Tests: tests/server/json_text_test.cc
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tributary::server {

/// Returns the JSON as text without a final newline. Writes U+FFFD for bytes that are not UTF-8,
/// for which dump() throws.
/// @param json         nlohmann::json, or nlohmann::ordered_json, which keeps the order of its
///                     keys.
/// @param indent_count Blanks before each level. -1: all on one line.
template <class Json>
[[nodiscard]] std::string json_text(const Json& json, int indent_count = -1) {
  return json.dump(indent_count, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tributary::server
