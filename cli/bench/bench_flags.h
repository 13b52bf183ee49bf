// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts that all commands under `tributary bench` share: settings, --quick, --json, progress
/// and the exit code.
///
/// Errors:  A file that cannot be written is named and gives exit code 1. So do runs whose results
///          differ from their baseline's.
#pragma once

#include <algorithm>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/console.h"
#include "cli/settings.h"

namespace tributary::cli {

/// Flags of one benchmark; `Config` is the benchmark's own configuration.
template <class Config>
struct BenchFlags {
  explicit BenchFlags(CLI::App& command) : settings(command) {}
  Settings settings;
  Config bench;
  bool quick = false;
  std::string json_path;
};

/// Declares the flags that every benchmark has.
/// @return flags that the command's callback must keep alive.
template <class Config>
std::shared_ptr<BenchFlags<Config>> bench_flags(CLI::App& command) {
  const auto flags = std::make_shared<BenchFlags<Config>>(command);
  command.add_flag("--quick", flags->quick, "A short run of a few seconds");
  command.add_option("--json", flags->json_path, "Write the figures to this file")
      ->type_name("FILE");
  return flags;
}

/// Writes `json` to the file `path`.
/// @return true if `path` is empty or the file was written.
[[nodiscard]] bool write_bench_json(const std::string& path, const nlohmann::ordered_json& json);

/// Prints the rows as a table, and writes them as JSON if a path is given.
/// @param is_right Tells whether a row's runs had the same results as their baseline's.
/// @return the command's exit code.
template <class Rows, class IsRight>
int report_rows(const Rows& rows, const std::string& json_path, IsRight is_right) {
  print("{}", as_table(rows));
  if (!write_bench_json(json_path, as_json(rows))) return 1;
  return std::all_of(rows.begin(), rows.end(), is_right) ? 0 : 1;
}

}  // namespace tributary::cli
