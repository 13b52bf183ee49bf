// SPDX-License-Identifier: Apache-2.0
/// @file
/// Scenarios as text: every member of Scenario is one key, which stands in a TOML file, after
/// `--set`, or as a flag of its own. One table gives them their types, ranges, help and errors.
///
///   workers = 6                    # a key
///   [straggler]                    # a table's keys are joined to its name:
///   probability = 0.16             #   straggler.probability
///
/// Units:   As the key's name ends: _gbps 10^9 bit/s, _ns, _us, _ms, _s, _bytes; shares and
///          probabilities from 0 to 1. The defaults are those of Scenario.
/// Exact:   scenario_text() gives a scenario that compares equal when it is read again.
/// Errors:  One line: "x.toml:3: worker=6: unknown key 'worker' (did you mean 'workers'?); …".
/// Threads: Pure functions; the table does not change.
/// Tests:   tests/lab/scenario_file_test.cc
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

struct ScenarioKey {
  KeySpec spec;
  std::function<std::string(const Scenario&)> show;  ///< As on a command line; empty for nothing.
  std::function<Result<void>(Scenario&, const KeyValue&)> set;
  /// The names that a text may be, where it must be one of some.
  std::function<std::vector<std::string>()> names = {};
};

/// What the key takes: "a whole number from 1 to 256", "star, chassis, two-level, leaf-spine".
[[nodiscard]] std::string allowed_values(const ScenarioKey& key);

/// All keys, in the order in which they are shown.
[[nodiscard]] std::span<const ScenarioKey> scenario_keys();
/// @return null if there is none of that name.
[[nodiscard]] const ScenarioKey* find_scenario_key(std::string_view name);

/// Sets one key. Refuses an unknown name, a wrong type and what is out of range, with the key's
/// place.
Result<void> set_key(Scenario& scenario, const WrittenKey& written);

/// "key=value" of a command line. @param where For messages: "--set".
[[nodiscard]] Result<WrittenKey> split_setting(std::string_view text, std::string where);

/// The keys of a TOML file. Refuses a file that cannot be read or is not TOML.
[[nodiscard]] Result<std::vector<WrittenKey>> read_keys(const std::string& path);

/// A scenario from the defaults and these keys, the later over the earlier, with everything that
/// check() refuses refused here, at the key's place.
[[nodiscard]] Result<Scenario> make_scenario(std::span<const WrittenKey> keys);

/// The whole scenario as TOML, one key a line, in the order of the table.
[[nodiscard]] std::string scenario_text(const Scenario& scenario);

/// One line a key: name, what it is, what is allowed, default.
[[nodiscard]] std::string scenario_help();

}  // namespace tributary::lab
