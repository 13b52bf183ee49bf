// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve_log.h"

#include <string>
#include <vector>

namespace tributary::cli {

void add_log_flags(CLI::App& command, server::LogConfig& config) {
  const auto store_format = [&config](const std::string& name) {
    config.format = name == "json" ? server::LogFormat::kJson : server::LogFormat::kText;
  };
  command
      .add_option_function<std::string>(
          "--log", store_format,
          "Form of the log on standard error, a line for each state change of a job or rank, or "
          "each event of a packet program")
      ->check(CLI::IsMember({"text", "json"}))
      ->default_str("text");
  const std::vector<std::string> levels(server::kLogLevelNames.begin(),
                                        server::kLogLevelNames.end());
  const auto store_level = [&config](const std::string& name) {
    config.level = server::log_level_of(name).value_or(config.level);
  };
  command
      .add_option_function<std::string>("--log-level", store_level,
                                        "The least important lines to log")
      ->check(CLI::IsMember(levels))
      ->default_str(to_string(config.level));
}

}  // namespace tributary::cli
