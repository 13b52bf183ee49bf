// SPDX-License-Identifier: Apache-2.0
#include "server/log/log_limit.h"

namespace tributary::server {

LogLimit::Window& LogLimit::window_of(const std::string& key, Instant now) {
  const bool has_room = windows_.size() < kLogKeysMax || windows_.contains(key);
  const auto [found, is_new] = windows_.try_emplace(has_room ? key : kLogOverflow);
  if (is_new) found->second.began_at = now;
  return found->second;
}

bool LogLimit::allow(const std::string& key, Instant now) {
  if (now - all_.began_at >= seconds(1)) all_ = {.began_at = now};
  if (all_.lines == kLogLinesPerSecond) {
    window_of(kLogOverflow, now).suppressed++;
    return false;
  }
  Window& window = window_of(key, now);
  if (window.lines == kLogLinesPerKey) {
    window.suppressed++;
    return false;
  }
  window.lines++;
  all_.lines++;
  return true;
}

template <class IsTaken>
void LogLimit::take(std::vector<Suppressed>& taken, IsTaken is_taken) {
  for (auto it = windows_.begin(); it != windows_.end();) {
    const auto& [key, window] = *it;
    if (!is_taken(window)) {
      ++it;
      continue;
    }
    if (window.suppressed > 0) taken.push_back({key, window.suppressed});
    it = windows_.erase(it);
  }
}

std::vector<LogLimit::Suppressed> LogLimit::take_ended(Instant now) {
  std::vector<Suppressed> ended;
  take(ended, [now](const Window& window) { return now - window.began_at >= kLogWindow; });
  return ended;
}

std::vector<LogLimit::Suppressed> LogLimit::take_all() {
  std::vector<Suppressed> all;
  take(all, [](const Window&) { return true; });
  return all;
}

}  // namespace tributary::server
