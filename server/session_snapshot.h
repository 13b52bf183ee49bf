// SPDX-License-Identifier: Apache-2.0
/// @file
/// The state of a session of SwitchML, and the JSON of `serve --json` and
/// `tributary status --json`.
///
/// Threads: Plain values.
/// Errors:  None.
/// Tests:   tests/server/switchml/switchml_appliance_test.cc
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace tributary::server {

struct SessionSnapshot {
  uint32_t place = 0;  ///< Position in the server's table of sessions.
  uint64_t id = 0;
  bool configured = false;  ///< By --session, so that it lasts as long as the server.
  uint32_t elements = 0;
  uint32_t slots = 0;
  std::vector<std::string> workers{};                 ///< Addresses by rank; empty: not registered.
  std::vector<std::optional<Duration>> silent_for{};  ///< Shape [workers]; not set: never heard.
  uint64_t packets = 0;
  uint64_t slots_completed = 0;
};

/// Returns a row of "sessions".
[[nodiscard]] nlohmann::json session_json(const SessionSnapshot& session);

}  // namespace tributary::server
