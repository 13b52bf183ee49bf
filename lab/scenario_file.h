// SPDX-License-Identifier: Apache-2.0
/// @file
/// Scenarios as text. Each member of Scenario is one key: in a TOML file, after `--set`, or as a
/// flag. One table holds every key's type, range, help and names.
///
///   workers = 6                    # a key
///   [straggler]                    # the table's name is part of its keys' names:
///   probability = 0.16             #   straggler.probability
///
/// Units:   The end of a key's name: _gbps 10^9 bit/s, _ns, _us, _ms, _s, _bytes; shares 0 to 1.
/// Exact:   scenario_text() gives a text that reads back as an equal scenario.
/// Errors:  One line: "x.toml:3: worker=6: unknown key 'worker' (did you mean 'workers'?); …".
/// Threads: Pure functions; the table does not change. Tests: tests/lab/scenario_file_test.cc
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_table.h"
#include "base/result.h"
#include "lab/scenario.h"

namespace tributary::lab {

/// Sets one member of a scenario to a value that was read before.
using ScenarioChange = std::function<void(Scenario&)>;

struct ScenarioKey {
  KeySpec spec;
  /// Returns the value as text for a command line; empty for none.
  std::function<std::string(const Scenario&)> show;
  /// Reads a value of the right type and range. Refuses a text that is no such name or list.
  std::function<Result<ScenarioChange>(const KeyValue&)> read;
  /// Returns whether the scenario's value lies in the key's range.
  std::function<bool(const Scenario&)> allows;
  std::vector<std::string> names = {};  ///< The names a text may be; empty for any text.
  bool is_list = false;                 ///< Values are lists, separated by commas.
};

/// Returns the allowed values: "a whole number from 1 to 256", "star, chassis, two-level, …".
[[nodiscard]] std::string allowed_values(const ScenarioKey& key);

/// Returns all keys, in the order in which they are shown.
[[nodiscard]] std::span<const ScenarioKey> scenario_keys();
/// Returns null if no key has the name.
[[nodiscard]] const ScenarioKey* find_scenario_key(std::string_view name);

/// A key that somebody wrote, read once and ready to be set in any number of scenarios.
struct Setting {
  std::string name;
  std::string where;  ///< As in WrittenKey.
  ScenarioChange set;
};

/// Reads one key. Refuses an unknown name, a wrong type and a value out of range, with its place.
[[nodiscard]] Result<Setting> read_setting(const WrittenKey& written);
/// Reads all keys, or returns the first refusal.
[[nodiscard]] Result<std::vector<Setting>> read_settings(std::span<const WrittenKey> written);

/// Splits "key=value" of a command line. @param where For messages: "--set".
[[nodiscard]] Result<WrittenKey> split_setting(std::string_view text, std::string where);

/// Returns the keys of a TOML file. Refuses a file that cannot be read or is not TOML.
[[nodiscard]] Result<std::vector<WrittenKey>> read_keys(const std::string& path);

/// Refuses the keys of a file for another command than `command`: a sweep, a comparison, or several
/// jobs. @param command "run", "sweep" or "compare"; empty: a command for single runs only.
[[nodiscard]] Result<void> check_command(std::span<const WrittenKey> keys, const std::string& path,
                                         std::string_view command);

/// Splits "link=file,link=file". Refuses a text without a link or without a file.
[[nodiscard]] Result<std::vector<Scenario::Capture>> parse_captures(const std::string& text);

/// Sets the settings over `base`, later ones over earlier ones, and checks the result. A refusal
/// begins with the place of the setting that gave the key, or else with `place`.
[[nodiscard]] Result<Scenario> make_scenario(std::span<const Setting> settings, Scenario base = {},
                                             const std::string& place = "");
/// Reads the keys of a single run and sets them over the defaults. Also refuses what
/// check_effects() refuses.
[[nodiscard]] Result<Scenario> make_scenario(std::span<const WrittenKey> keys);

/// Refuses the first of the settings that has no effect in the scenario, because the key that would
/// read it has another value: a probability without slow workers, buckets of a model that has its
/// own. Also refuses straggler patterns that can never act. A value equal to the default passes.
[[nodiscard]] Result<void> check_effects(const Scenario& scenario,
                                         std::span<const Setting> settings);
/// Refuses the first of the settings that has no effect in any of the scenarios: those of a figure,
/// a sweep or a comparison, or the jobs of a network, where a value may matter in some only.
/// @param each The noun for a scenario in messages: "run", "point", "job".
[[nodiscard]] Result<void> check_effects(std::span<const Scenario* const> scenarios,
                                         std::span<const Setting> settings,
                                         std::string_view each = "run");

/// Returns the whole scenario as TOML, one key a line, in the order of the table.
[[nodiscard]] std::string scenario_text(const Scenario& scenario);

/// Returns one line a key: name, help, allowed values, default.
[[nodiscard]] std::string scenario_help();

}  // namespace tributary::lab
