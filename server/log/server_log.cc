// SPDX-License-Identifier: Apache-2.0
#include "server/log/server_log.h"

#include <utility>

#include "base/cpus.h"

namespace tributary::server {

ServerLog::ServerLog(LogConfig config, ObservedServer& server)
    : server_(server),
      log_(std::move(config)),
      reporter_(log_),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void ServerLog::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  drain();
  log_.end_all_windows();
}

void ServerLog::drain() {
  server_.take_events([this](const trio_ml::Event& event) { reporter_.report(event); });
  for (const uint8_t job : server_.take_drained()) reporter_.report_drained(job);
  reporter_.report_lost(server_.events_lost());
  log_.end_windows();
}

void ServerLog::run(const std::stop_token& stop) {
  take_short_slices();  // While it waits for a snapshot, nobody else gets one.
  auto compare_at = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    drain();
    const auto now = std::chrono::steady_clock::now();
    if (now >= compare_at) {
      reporter_.compare_if_logged(server_);
      compare_at = now + kCompareEvery;
    }
    stopped_.wait_for(lock, stop, kDrainEvery, [] { return false; });
  }
}

nlohmann::ordered_json ServerLog::recent() const {
  nlohmann::ordered_json answer = stats();
  answer["level"] = to_string(log_.level());
  answer["rows"] = log_.recent();
  return answer;
}

void ServerLog::set_level(LogLevel level) {
  const LogLevel before = log_.level();
  const auto note = [&] {
    log_.write_always(LogLevel::kInfo, "log_level_changed",
                      {{"to", to_string(level)}, {"from", to_string(before)}});
  };
  // The line appears if the old level or the new one takes it.
  if (level < before) note();
  log_.set_level(level);
  if (level > before) note();
}

nlohmann::ordered_json ServerLog::stats() const {
  nlohmann::ordered_json stats = log_.stats();
  stats["events_lost"] = server_.events_lost();
  return stats;
}

}  // namespace tributary::server
