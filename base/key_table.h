// SPDX-License-Identifier: Apache-2.0
/// @file
/// Structured settings: one table of keys serves `--job id=1,sources=4` on the command line and
/// `[[job]]` with `id = 1` and `sources = 4` in a TOML file. Types, ranges, defaults, help text and
/// error messages all come from the table. Commands and scenario files use it.
///
/// Shapes:  A table has any number of keys. A row (KeyValues) has a value, or none, for each key.
/// Threads: A KeyTable never changes after construction. KeyValues belong to their reader.
/// Errors:  One line with the place (flag, or file:line), the error and the allowed values. A wrong
///          table (a default out of range, a repeated name) or a wrong getter type is a bug.
/// Memory:  KeyValues point to their KeyTable, which must outlive them.
/// Tests:   tests/base/key_table_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"
#include "base/time.h"

namespace tributary {

enum class KeyType : uint8_t {
  kUint,        ///< Decimal digits, within min and max.
  kBool,        ///< on, off, true or false; in TOML true or false.
  kText,        ///< Not empty; no comma on the command line.
  kEndpoint,    ///< Address and port, see Endpoint::parse().
  kNumber,      ///< A finite decimal number, within number_min and number_max.
  kDurationMs,  ///< Whole milliseconds, within min and max; by convention the name ends in _ms.
};

/// One key. Its texts must outlive the program's settings, as string literals do.
struct KeySpec {
  std::string_view name = {};
  KeyType type = KeyType::kText;
  std::string_view help = {};
  std::string_view default_text = {};  ///< As written on the command line; empty for none.
  uint64_t min = 0;                    ///< For kUint and kDurationMs, inclusive.
  uint64_t max = INT64_MAX;            ///< Inclusive; TOML's largest integer.
  bool required = false;
  double number_min = 0.0;        ///< For kNumber, inclusive.
  double number_max = 1e18;       ///< Inclusive.
  std::string_view allowed = {};  ///< For kText, the allowed values in words; empty: any text.
};

/// The type in which a value was written. The command line has no types; TOML has.
enum class WrittenType : uint8_t { kUntyped, kInteger, kNumber, kBool, kText, kOther };

/// One key as the user wrote it, before any check.
struct WrittenKey {
  std::string name;
  std::string text;  ///< The value, without quotes.
  WrittenType type = WrittenType::kUntyped;
  std::string where;  ///< "--job" or "jobs.toml:3"; empty if the name is the place.
};

/// A checked value; monostate for none.
using KeyValue =
    std::variant<std::monostate, uint64_t, bool, std::string, Endpoint, Duration, double>;

/// Converts `written` to the type of `key`. Refuses a wrong type, a value out of range and empty
/// text, in one line:
/// "jobs.toml:3: sources=300 is out of range; allowed: a whole number from 1 to 256".
[[nodiscard]] Result<KeyValue> convert_key(const KeySpec& key, const WrittenKey& written);

class KeyTable;

/// The values of one row. A getter's key must be in the row's table, have a value and be of the
/// getter's type; anything else is a bug.
class KeyValues {
 public:
  /// Returns false for a key that was not written and has no default.
  [[nodiscard]] bool has(std::string_view name) const;
  /// Returns false for a key that has its default.
  [[nodiscard]] bool is_written(std::string_view name) const;
  [[nodiscard]] uint64_t uint(std::string_view name) const;
  [[nodiscard]] double number(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const;
  [[nodiscard]] const std::string& text(std::string_view name) const;
  [[nodiscard]] const Endpoint& endpoint(std::string_view name) const;
  [[nodiscard]] Duration duration(std::string_view name) const;

  /// Returns the row's place ("--job", "jobs.toml:3"), as the start of a further error line.
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  friend class KeyTable;
  KeyValues(const KeyTable* table, std::string where);
  [[nodiscard]] const KeyValue& value_of(std::string_view name) const;

  const KeyTable* table_;
  std::string where_;
  std::vector<KeyValue> values_;  ///< Shape [keys of the table].
  std::vector<bool> written_;     ///< Shape [keys of the table].
};

class KeyTable {
 public:
  /// @param name The flag without dashes and the TOML table: "job" for --job and [[job]].
  KeyTable(std::string name, std::span<const KeySpec> keys);

  /// Reads "key=value,key=value". Refuses unknown keys, repeated keys, missing required keys, and
  /// values of the wrong type or out of range.
  [[nodiscard]] Result<KeyValues> parse(std::string_view text) const;

  /// Reads keys written elsewhere, with the same refusals. @param where The row's place.
  [[nodiscard]] Result<KeyValues> read(std::span<const WrittenKey> keys, std::string where) const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::span<const KeySpec> keys() const { return keys_; }
  /// Returns the index into keys(), or -1.
  [[nodiscard]] int32_t index_of(std::string_view name) const;
  /// Returns one line for each key: name, allowed values, help, default.
  [[nodiscard]] std::string help() const;

 private:
  std::string name_;
  std::vector<KeySpec> keys_;
};

/// Returns "unknown key 'sorces' (did you mean 'sources'?); allowed: id, sources". It suggests
/// nothing if no name is near. If many names are allowed, "link.*" stands for a whole table.
[[nodiscard]] std::string unknown_name(std::string_view kind, std::string_view name,
                                       std::span<const std::string> allowed);

/// Returns the values that a key accepts, for error and help texts: "a whole number from 1 to 256".
[[nodiscard]] std::string allowed_values(const KeySpec& key);

}  // namespace tributary
