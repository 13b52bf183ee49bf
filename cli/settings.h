// SPDX-License-Identifier: Apache-2.0
/// @file
/// The settings of a command: declared once with CLI11, read from flags and from a TOML file whose
/// keys are the flags' names.
///
/// Shapes:  `--window 64` is `window = 64` in the file. A repeated `--job id=1,sources=4` is a
///          repeated `[[job]]` (see base/key_table.h).
/// Order:   A flag overrides the file, and the file overrides the default. Rows of a table on the
///          command line replace all rows of that table in the file.
/// Threads: One, at the start of the program.
/// Errors:  One line with the command, the origin (flag, or file:line), the problem and the values
///          allowed.
/// Tests:   tests/cli/settings_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <concepts>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "auth/mode.h"
#include "base/assert.h"
#include "base/endpoint.h"
#include "base/key_table.h"
#include "base/result.h"
#include "base/time.h"
#include "wire/protocol.h"

namespace tributary::cli {

/// Exit status after a refused command line or file.
inline constexpr int kExitUsage = 2;

/// Gives a command its `--config FILE`. Must not move until parsing is over.
class Settings {
 public:
  explicit Settings(CLI::App& command);
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  /// Declares the repeatable flag `--NAME key=value,…` and the TOML table `[[NAME]]`. After
  /// parsing, `rows` holds the rows in the order in which they were written.
  CLI::Option* add_table(const KeyTable& table, std::vector<KeyValues>& rows,
                         const std::string& help);

  /// Tells whether the rows of a table come from the file. They may then be read again.
  [[nodiscard]] bool is_from_file(const KeyTable& table) const;
  /// Reads a table's rows again from the file, which may have changed since. Refuses a file without
  /// the table or with unknown keys, and ignores the values of other keys. @pre is_from_file()
  [[nodiscard]] Result<std::vector<KeyValues>> read_again(const KeyTable& table) const;

  [[nodiscard]] bool has_file() const { return !path_.empty(); }
  /// Tells whether the file has other keys or values than at the start, in all of it but the table
  /// `apart`. Refuses a file that is no TOML. @pre has_file()
  [[nodiscard]] Result<bool> is_file_changed(std::string_view apart = {}) const;

 private:
  struct Table {
    const KeyTable* keys;
    std::vector<KeyValues>* rows;
    CLI::Option* option;
    bool from_file = false;  ///< `rows` already holds the file's rows.
  };
  void load(const std::string& path);
  Table* find_table(const std::string& name);

  std::string path_;    ///< Path of the file; empty: none.
  std::string loaded_;  ///< Its keys and values, without comments.

  CLI::App& command_;
  std::deque<Table> tables_;  ///< A deque, because callbacks hold addresses of its elements.
};

/// Adds an option for one value with the type and range of `key`; its name and default are not
/// used. `fallback` is the default that help shows; `store` receives the value given.
CLI::Option* add_key(CLI::App& command, const std::string& flag, KeySpec key,
                     const std::string& fallback, const std::string& help,
                     std::function<void(const KeyValue&)> store);

/// Returns the flags of a key for add_key(): with dashes and, as its second spelling, as the key.
[[nodiscard]] std::string flags_of(const std::string& key);

/// Adds an option for each key of `table`, named by flags_of(). After parsing, `written` holds the
/// keys that were given, for KeyTable::read().
void add_keys(CLI::App& command, const KeyTable& table, std::vector<WrittenKey>& written);

/// Adds an option for a whole number from `min` to `max`; `value` is the default. Use it instead of
/// CLI11's own conversion, which reads "-1" as 2^64 - 1 and "010" as eight.
/// @pre `max` fits the type.
template <std::unsigned_integral Unsigned>
CLI::Option* add_uint(CLI::App& command, const std::string& flag, Unsigned& value, uint64_t min,
                      uint64_t max, const std::string& help) {
  TRIB_ASSERT(max <= std::numeric_limits<Unsigned>::max());
  return add_key(command, flag, {.type = KeyType::kUint, .min = min, .max = max},
                 std::to_string(value), help, [&value](const KeyValue& written) {
                   value = static_cast<Unsigned>(std::get<uint64_t>(written));
                 });
}

/// Adds an option for a decimal number from `min` to `max`; `value` is the default.
CLI::Option* add_decimal(CLI::App& command, const std::string& flag, double& value, double min,
                         double max, const std::string& help);

/// Adds an option for whole milliseconds from `min_ms` to `max_ms`; `value` is the default.
CLI::Option* add_milliseconds(CLI::App& command, const std::string& flag, Duration& value,
                              uint64_t min_ms, uint64_t max_ms, const std::string& help);

/// Adds `--protocol NAME`, one of wire::kProtocolNames; `value` is the default.
CLI::Option* add_protocol(CLI::App& command, wire::Protocol& value, const std::string& help);

/// Adds an option with the values on and off; `value` is the default.
CLI::Option* add_on_off(CLI::App& command, const std::string& flag, bool& value,
                        const std::string& help);

/// Adds `--auth MODE`; `value` is the default.
CLI::Option* add_auth(CLI::App& command, auth::Mode& value, const std::string& help);

/// Parses the command line and the files that it names.
/// @return nothing if the command should run. Otherwise the exit status: 0 after help, which goes
///   to `out`, or kExitUsage after one line to `err`.
[[nodiscard]] std::optional<int> parse_command_line(CLI::App& app, int argc,
                                                    const char* const* argv, std::ostream& out,
                                                    std::ostream& err);

}  // namespace tributary::cli
