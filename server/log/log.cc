// SPDX-License-Identifier: Apache-2.0
#include "server/log/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <iterator>

#include "base/pipe_signal_guard.h"
#include "base/terminal_text.h"
#include "server/json_text.h"

namespace tributary::server {
namespace {

/// Fields that tell lines of one event apart for the limit. Others, such as addresses, could be
/// chosen by a stranger.
constexpr std::array<std::string_view, 4> kLogKeyFields{"job", "rank", "ranks", "reason"};
/// A pipe takes a line up to this size at once, or not at all. Source: POSIX, PIPE_BUF on Linux.
constexpr size_t kLineBytesMax = 4096;

/// Returns a time of the monotonic clock as UTC, as in "2026-11-23T15:20:01.123Z".
std::string utc_text(Instant at, Instant now) {
  using std::chrono::milliseconds;
  const auto ago = std::chrono::nanoseconds(in_nanoseconds(now - at));
  const auto when = std::chrono::system_clock::now() - ago;
  const auto since_epoch = std::chrono::floor<milliseconds>(when.time_since_epoch());
  const auto whole = std::chrono::floor<std::chrono::seconds>(since_epoch);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(static_cast<std::time_t>(whole.count())),
                     (since_epoch - whole).count());
}

/// Returns the value as it stands after "name=": quoted if a reader could mistake it otherwise.
std::string text_of(const nlohmann::ordered_json& value) {
  if (!value.is_string()) return json_text(value);
  const auto& text = value.get_ref<const std::string&>();
  const bool is_plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return c > ' ' && c < '\x7f' && c != '"' && c != '=' && c != '\\';
  });
  return is_plain ? text : json_text(value);
}

/// Returns the line as JSON that fits into kLineBytesMax. Its longest fields are left out for that,
/// and `cut` says so; the first three, `time`, `level` and `event`, stay.
std::string fitting_json(nlohmann::ordered_json line) {
  constexpr size_t kFirstFields = 3;
  std::string text = json_text(line);
  while (text.size() >= kLineBytesMax && line.size() > kFirstFields) {
    line.erase("cut");
    const auto longest = std::max_element(
        std::next(line.begin(), kFirstFields), line.end(),
        [](const auto& a, const auto& b) { return json_text(a).size() < json_text(b).size(); });
    line.erase(longest);
    line["cut"] = true;
    text = json_text(line);
  }
  return text;
}

/// Writes a line if the file takes it at once. @return whether it did.
bool write_line(int file, std::string line) {
  line.resize(std::min(line.size(), kLineBytesMax - 1));
  line += '\n';
  pollfd ready{file, POLLOUT, 0};
  if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return false;
  const PipeSignalGuard guard;  // The reader of a pipe may have gone.
  ssize_t written = -1;
  do {
    written = ::write(file, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  return written == static_cast<ssize_t>(line.size());
}

std::string key_of(std::string_view event, const LogFields& fields) {
  std::string key(event);
  for (const std::string_view name : kLogKeyFields) {
    const auto found = fields.find(std::string(name));
    if (found != fields.end()) key += fmt::format(" {}={}", name, text_of(*found));
  }
  return key;
}

}  // namespace

std::string log_text(const nlohmann::ordered_json& line) {
  const std::string none;
  std::string text = fmt::format("{} {}", line.value("time", none), line.value("level", none));
  for (const auto& [name, value] : line.items()) {
    if (name != "time" && name != "level") text += fmt::format(" {}={}", name, text_of(value));
  }
  // Names and numbers have no quotes, and JSON leaves DEL and C1 as they are.
  return terminal_text(text);
}

void Log::write(LogLevel level, std::string_view event, const LogFields& fields) {
  write_at(config_.clock(), level, event, fields);
}

void Log::write_at(Instant at, LogLevel level, std::string_view event, const LogFields& fields) {
  if (!takes(level)) return;
  const std::lock_guard lock(mutex_);
  if (!limit_.allow(key_of(event, fields), config_.clock())) {
    lines_suppressed_++;
    return;
  }
  put(at, level, event, fields);
}

void Log::write_always(LogLevel level, std::string_view event, const LogFields& fields) {
  if (!takes(level)) return;
  const std::lock_guard lock(mutex_);
  put(config_.clock(), level, event, fields);
}

void Log::end_windows() {
  const std::lock_guard lock(mutex_);
  const Instant now = config_.clock();
  put_suppressed(limit_.take_ended(now), now);
}

void Log::end_all_windows() {
  const std::lock_guard lock(mutex_);
  put_suppressed(limit_.take_all(), config_.clock());
}

void Log::put_suppressed(const std::vector<LogLimit::Suppressed>& keys, Instant now) {
  for (const auto& [key, lines] : keys) {
    put(now, LogLevel::kWarn, "log_suppressed", {{"lines", lines}, {"key", key}});
  }
}

void Log::put(Instant at, LogLevel level, std::string_view event, const LogFields& fields) {
  nlohmann::ordered_json line{
      {"time", utc_text(at, config_.clock())}, {"level", to_string(level)}, {"event", event}};
  if (fields.is_object()) line.update(fields);
  const bool is_json = config_.format == LogFormat::kJson;
  if (write_line(config_.file, is_json ? fitting_json(line) : log_text(line))) {
    lines_++;
  } else {
    lines_lost_++;
  }
  if (recent_.size() == kLogLinesKept) recent_.pop_front();
  recent_.push_back(std::move(line));
}

nlohmann::ordered_json Log::recent() const {
  const std::lock_guard lock(mutex_);
  return recent_;
}

nlohmann::ordered_json Log::stats() const {
  const std::lock_guard lock(mutex_);
  return {{"lines", lines_}, {"lines_suppressed", lines_suppressed_}, {"lines_lost", lines_lost_}};
}

}  // namespace tributary::server
