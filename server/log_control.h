// SPDX-License-Identifier: Apache-2.0
/// @file
/// The commands of an operator to the server's log, as an interface; and the levels of its lines.
///
/// Threads: Any, several at once.
/// Errors:  None: a server without a log has no LogControl.
/// Tests:   tests/server/log/server_log_test.cc, tests/server/control/log_routes_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace tributary::server {

/// The most important level comes first.
enum class LogLevel : uint8_t { kError, kWarn, kInfo, kDebug };
/// The names of the levels in flags, lines and requests, in the same order.
inline constexpr std::array<const char*, 4> kLogLevelNames{"error", "warn", "info", "debug"};

[[nodiscard]] inline const char* to_string(LogLevel level) {
  return kLogLevelNames[static_cast<uint32_t>(level)];
}

/// Returns the level with this name; nothing if there is none.
[[nodiscard]] inline std::optional<LogLevel> log_level_of(std::string_view name) {
  for (uint8_t i = 0; i < kLogLevelNames.size(); i++) {
    if (name == kLogLevelNames[i]) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

class LogControl {
 public:
  LogControl() = default;
  LogControl(const LogControl&) = delete;
  LogControl& operator=(const LogControl&) = delete;
  virtual ~LogControl() = default;

  /// Returns `rows`, the last lines; `level`; and the log's counters.
  [[nodiscard]] virtual nlohmann::ordered_json recent() const = 0;
  /// Returns `lines` written, `lines_suppressed` by the limit, `lines_lost` because the file did
  /// not take them, and `events_lost` that the cores could not note.
  [[nodiscard]] virtual nlohmann::ordered_json stats() const = 0;
  /// Drops the lines below this level from now on.
  virtual void set_level(LogLevel level) = 0;
};

}  // namespace tributary::server
