// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve_hang_up.h"

#include <utility>

namespace tributary::cli {

std::function<void()> on_hang_up(const Settings& settings, server::Log& log,
                                 std::function<void()> before) {
  if (!settings.has_file()) return {};
  return [&settings, &log, before = std::move(before)] {
    before();
    const auto changed = settings.is_file_changed();
    if (!changed) {
      log.write_always(server::LogLevel::kError, "reload_failed",
                       {{"error", changed.error().text}});
    } else if (*changed) {
      log.write_always(server::LogLevel::kWarn, "settings_not_reloaded",
                       {{"advice", "the file has changed; restart the server to apply it"}});
    } else {
      log.write_always(server::LogLevel::kInfo, "settings_unchanged");
    }
  };
}

}  // namespace tributary::cli
