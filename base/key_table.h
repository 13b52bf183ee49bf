// SPDX-License-Identifier: Apache-2.0
/// @file
/// Structured settings: one table of keys serves `--job id=1,sources=4` on the command line and
/// `[[job]]` with `id = 1` and `sources = 4` in a TOML file: types, ranges, defaults, help text and
/// error messages all come from it. Commands and scenario files use it.
///
/// Shapes:  A table has any number of keys; a row (KeyValues) has a value, or none, for each.
/// Threads: A KeyTable does not change after it is made. KeyValues belong to their reader.
/// Errors:  One line that says where (flag, or file:line), what, and what is allowed. A wrong table
///          (a default out of range, a name twice) or a getter of the wrong type is a bug.
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
  kText,        ///< Not empty; without a comma on the command line.
  kEndpoint,    ///< Address and port, see Endpoint::parse().
  kNumber,      ///< A finite decimal number, within number_min and number_max.
  kDurationMs,  ///< Whole milliseconds, within min and max; by habit its name ends in _ms.
};

/// One key. The texts must outlive the program's settings (string literals do).
struct KeySpec {
  std::string_view name = {};
  KeyType type = KeyType::kText;
  std::string_view help = {};
  std::string_view default_text = {};  ///< As written on the command line; empty for none.
  uint64_t min = 0;                    ///< For kUint and kDurationMs, inclusive.
  uint64_t max = INT64_MAX;            ///< Inclusive; the largest integer TOML has.
  bool required = false;
  double number_min = 0.0;   ///< For kNumber, inclusive.
  double number_max = 1e18;  ///< Inclusive.
};

/// How a value was written. The command line knows no types; TOML does.
enum class WrittenType : uint8_t { kUntyped, kInteger, kNumber, kBool, kText, kOther };

/// One key as somebody wrote it, before it is checked.
struct WrittenKey {
  std::string name;
  std::string text;  ///< The value, without quotes.
  WrittenType type = WrittenType::kUntyped;
  std::string where;  ///< "--job" or "jobs.toml:3"; empty if the name says it.
};

/// A checked value; monostate for none.
using KeyValue =
    std::variant<std::monostate, uint64_t, bool, std::string, Endpoint, Duration, double>;

/// The value of `written` as `key` wants it. Refuses the wrong type, out of range, and empty text,
/// in one line: "jobs.toml:3: sources=300 is out of range; allowed: a whole number from 1 to 256".
[[nodiscard]] Result<KeyValue> convert_key(const KeySpec& key, const WrittenKey& written);

class KeyTable;

/// The values of one row. Getters take a key of the row's table that has a value, and is of the
/// getter's type; anything else is a bug.
class KeyValues {
 public:
  /// False for a key that was not written and has no default.
  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] uint64_t uint(std::string_view name) const;
  [[nodiscard]] double number(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const;
  [[nodiscard]] const std::string& text(std::string_view name) const;
  [[nodiscard]] const Endpoint& endpoint(std::string_view name) const;
  [[nodiscard]] Duration duration(std::string_view name) const;

  /// Where the row was written ("--job", "jobs.toml:3"), to begin a further error line with.
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
  /// `name` is the flag without dashes and the TOML table: "job" for --job and [[job]].
  KeyTable(std::string name, std::span<const KeySpec> keys);

  /// Reads "key=value,key=value". Refuses unknown keys, keys twice, missing required ones, and
  /// values of the wrong type or out of range.
  [[nodiscard]] Result<KeyValues> parse(std::string_view text) const;

  /// Reads keys that were written elsewhere, with the same refusals. `where` is the row's place.
  [[nodiscard]] Result<KeyValues> read(std::span<const WrittenKey> keys, std::string where) const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::span<const KeySpec> keys() const { return keys_; }
  /// Index into keys(), or -1.
  [[nodiscard]] int32_t index_of(std::string_view name) const;
  /// One line a key: name, what is allowed, help, default.
  [[nodiscard]] std::string help() const;

 private:
  std::string name_;
  std::vector<KeySpec> keys_;
};

/// "unknown key 'sorces' (did you mean 'sources'?); allowed: id, sources". The suggestion is left
/// out if nothing is near.
[[nodiscard]] std::string unknown_name(std::string_view kind, std::string_view name,
                                       std::span<const std::string> allowed);

/// "a whole number from 1 to 256": what a key takes, for error and help texts.
[[nodiscard]] std::string allowed_values(const KeySpec& key);

}  // namespace tributary
