// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the commands under `tributary bench` have in common: settings, --quick, --json, progress
/// and the exit code.
///
/// Errors: A file that cannot be written is named and ends the command with 1, as do figures of
/// runs
///         whose results were not the same.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/settings.h"

namespace tributary::cli {

/// `Config`: the bench's own.
template <class Config>
struct BenchFlags {
  explicit BenchFlags(CLI::App& command) : settings(command) {}
  Settings settings;
  Config bench;
  bool quick = false;
  std::string json_path;
};

/// Declares the flags that every bench has. @return kept alive by the command's callback.
template <class Config>
std::shared_ptr<BenchFlags<Config>> bench_flags(CLI::App& command) {
  const auto flags = std::make_shared<BenchFlags<Config>>(command);
  command.add_flag("--quick", flags->quick, "A few seconds in all, for a look");
  command.add_option("--json", flags->json_path, "Write the figures to this file")
      ->type_name("FILE");
  return flags;
}

/// @return whether nothing was asked for, or it has been written.
[[nodiscard]] bool write_bench_json(const std::string& path, const nlohmann::json& json);

/// Shows the rows as a table, and as JSON where that was asked for.
/// @param is_right Whether a row's runs had the same results as their baseline's.
/// @return The command's exit code.
template <class Rows, class IsRight>
int report_rows(const Rows& rows, const std::string& json_path, IsRight is_right) {
  fmt::print("{}", as_table(rows));
  if (!write_bench_json(json_path, as_json(rows))) return 1;
  return std::all_of(rows.begin(), rows.end(), is_right) ? 0 : 1;
}

}  // namespace tributary::cli
