// SPDX-License-Identifier: Apache-2.0
/// @file
/// The server's log: one line for each event, for people or as JSON.
///
/// Shapes:  text: `2026-11-23T15:20:01.123Z info event=rank_joined job=1 rank=3`
///          json: `{"time":"2026-11-23T15:20:01.123Z","level":"info","event":"rank_joined",…}`
/// Model:   Lines below the level are dropped. Lines beyond LogLimit are suppressed; end_windows()
///          writes their number. A line of the file has at most 4,096 bytes: JSON lacks its longest
///          fields then, and text its end. The last kLogLinesKept lines stay in memory, whole.
/// Threads: Any. Callers wait for each other, but never for the reader of the file: a line that the
///          file does not take at once, such as a full pipe, is lost and counted. Cores do not
///          call.
/// Tests:   tests/server/log/log_test.cc
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/time.h"
#include "server/log/log_limit.h"
#include "server/log_control.h"

namespace tributary::server {

enum class LogFormat : uint8_t { kText, kJson };

/// Lines that GET /v1/log returns.
inline constexpr uint32_t kLogLinesKept = 1000;

/// The fields of a line after its event, in order. Values are numbers or texts.
using LogFields = nlohmann::ordered_json;

/// Returns a line's text from its JSON, as Log writes both. It is harmless to a terminal.
/// @throws nlohmann::json::type_error if `time` or `level` is not a text.
[[nodiscard]] std::string log_text(const nlohmann::ordered_json& line);

struct LogConfig {
  LogFormat format = LogFormat::kText;
  LogLevel level = LogLevel::kInfo;
  int file = STDERR_FILENO;
  std::function<Instant()> clock = monotonic_now;
};

class Log {
 public:
  explicit Log(LogConfig config) : config_(std::move(config)), level_(config_.level) {}
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Tells whether lines of this level are written.
  [[nodiscard]] bool takes(LogLevel level) const { return level <= this->level(); }
  [[nodiscard]] LogFormat format() const { return config_.format; }
  /// Returns the log level: LogConfig::level, until set_level().
  [[nodiscard]] LogLevel level() const { return level_.load(std::memory_order_relaxed); }
  void set_level(LogLevel level) { level_.store(level, std::memory_order_relaxed); }

  /// Writes a line.
  /// @param event  A name to search for, as in docs/monitoring.md.
  /// @param fields An object; null: no fields. Fields whose names are in kLogKeyFields tell lines
  ///               apart for the limit.
  void write(LogLevel level, std::string_view event, const LogFields& fields = {});
  /// Writes a line that an operator has caused. The limit does not suppress it.
  void write_always(LogLevel level, std::string_view event, const LogFields& fields = {});
  /// Writes a line about an event of the past, such as one that a core has noted.
  void write_at(Instant at, LogLevel level, std::string_view event, const LogFields& fields = {});

  /// Writes how many lines the limit has suppressed, for each key whose window has ended.
  void end_windows();
  /// Writes how many lines the limit has suppressed, for every key. For the end of the log.
  void end_all_windows();

  /// Returns the last lines as an array, oldest first.
  [[nodiscard]] nlohmann::ordered_json recent() const;
  /// Returns `lines` written, `lines_suppressed` by the limit and `lines_lost` because the file did
  /// not take them.
  [[nodiscard]] nlohmann::ordered_json stats() const;

 private:
  /// Writes a line for each key. @pre mutex_ is locked, as for the next.
  void put_suppressed(const std::vector<LogLimit::Suppressed>& keys, Instant now);
  void put(Instant at, LogLevel level, std::string_view event, const LogFields& fields);

  const LogConfig config_;
  std::atomic<LogLevel> level_;
  mutable std::mutex mutex_;
  LogLimit limit_;
  std::deque<nlohmann::ordered_json> recent_;
  uint64_t lines_ = 0;
  uint64_t lines_suppressed_ = 0;
  uint64_t lines_lost_ = 0;
};

}  // namespace tributary::server
