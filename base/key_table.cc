// SPDX-License-Identifier: Apache-2.0
#include "base/key_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/assert.h"

namespace tributary {
namespace {

/// Returns the Levenshtein distance: the fewest letters to insert, delete or replace.
uint32_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<uint32_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0U);
  for (size_t i = 0; i < a.size(); i++) {
    uint32_t diagonal = row[0];
    row[0] = static_cast<uint32_t>(i + 1);
    for (size_t j = 0; j < b.size(); j++) {
      const uint32_t replaced = diagonal + (a[i] == b[j] ? 0U : 1U);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

Result<uint64_t> whole_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) return failure("is out of range");
  if (error != std::errc() || end != text.data() + text.size()) {
    return failure("is not a whole number");
  }
  return number;
}

Result<double> finite_number(std::string_view text) {
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) return failure("is out of range");
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
    return failure("is not a number");
  }
  return number;
}

Result<bool> on_or_off(std::string_view text) {
  if (text == "on" || text == "true") return true;
  if (text == "off" || text == "false") return false;
  return failure("is neither on nor off");
}

const char* words(WrittenType type) {
  switch (type) {
    case WrittenType::kInteger:
      return "a whole number";
    case WrittenType::kNumber:
      return "a number with a decimal point";
    case WrittenType::kBool:
      return "true or false";
    case WrittenType::kText:
      return "text";
    case WrittenType::kOther:
    case WrittenType::kUntyped:
      break;
  }
  return "neither a whole number, true or false, nor text";
}

/// Returns whether a key accepts a value written as `type`. A file's types must match exactly.
bool type_fits(KeyType key, WrittenType type) {
  if (type == WrittenType::kUntyped) return true;
  switch (key) {
    case KeyType::kUint:
    case KeyType::kDurationMs:
      return type == WrittenType::kInteger;
    case KeyType::kNumber:
      return type == WrittenType::kInteger || type == WrittenType::kNumber;
    case KeyType::kBool:
      return type == WrittenType::kBool;
    case KeyType::kText:
    case KeyType::kEndpoint:
      return type == WrittenType::kText;
  }
  return false;
}

tl::unexpected<Error> refusal(const KeySpec& key, const WrittenKey& written, std::string_view why) {
  // A file has words of its own for these.
  const bool typed = key.type == KeyType::kBool && written.type != WrittenType::kUntyped;
  return failure(fmt::format("{}{}{}={} {}; allowed: {}", written.where,
                             written.where.empty() ? "" : ": ", written.name, written.text, why,
                             typed ? "true, false" : allowed_values(key)));
}

/// Returns the names, separated by commas. If there are many, "link.*" stands for a table, unless
/// `name` is of that table.
std::string listed(std::span<const std::string> names, std::string_view name) {
  constexpr size_t kManyNames = 20;
  if (names.empty()) return "none";
  std::vector<std::string> shown;
  for (const std::string& each : names) {
    const std::string table = each.substr(0, each.find('.') + 1);  // Empty without a dot.
    const bool is_short =
        names.size() <= kManyNames || table.empty() || fmt::format("{}.", name).starts_with(table);
    std::string text = is_short ? each : table + "*";
    if (std::find(shown.begin(), shown.end(), text) == shown.end())
      shown.push_back(std::move(text));
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

}  // namespace

std::string unknown_name(std::string_view kind, std::string_view name,
                         std::span<const std::string> allowed) {
  const std::string* nearest = nullptr;
  // Allow a third of the letters to be wrong, so that short names do not match everything.
  auto distance_max = static_cast<uint32_t>(name.size() / 3 + 1);
  for (const std::string& candidate : allowed) {
    const uint32_t distance = edit_distance(name, candidate);
    if (distance <= distance_max && distance < candidate.size()) {
      nearest = &candidate;
      if (distance == 0) break;
      distance_max = distance - 1;
    }
  }
  const std::string hint = nearest == nullptr ? "" : fmt::format(" (did you mean '{}'?)", *nearest);
  return fmt::format("unknown {} '{}'{}; allowed: {}", kind, name, hint, listed(allowed, name));
}

std::string allowed_values(const KeySpec& key) {
  switch (key.type) {
    case KeyType::kUint:
      return key.max == INT64_MAX ? fmt::format("a whole number, {} or more", key.min)
                                  : fmt::format("a whole number from {} to {}", key.min, key.max);
    case KeyType::kDurationMs:
      return key.max == INT64_MAX
                 ? fmt::format("whole milliseconds, {} or more", key.min)
                 : fmt::format("whole milliseconds from {} to {}", key.min, key.max);
    case KeyType::kNumber:
      return fmt::format("a number from {} to {}", key.number_min, key.number_max);
    case KeyType::kBool:
      return "on, off, true, false";
    case KeyType::kText:
      return key.allowed.empty() ? "text that is not empty" : std::string(key.allowed);
    case KeyType::kEndpoint:
      return "address:port, as in 127.0.0.1:12000 or [::1]:12000";
  }
  return "";
}

Result<KeyValue> convert_key(const KeySpec& key, const WrittenKey& written) {
  if (!type_fits(key.type, written.type)) {
    return refusal(key, written, fmt::format("is {}", words(written.type)));
  }
  if (written.text.empty()) return refusal(key, written, "is empty");
  switch (key.type) {
    case KeyType::kUint:
    case KeyType::kDurationMs: {
      const Result<uint64_t> number = whole_number(written.text);
      if (!number) return refusal(key, written, number.error().text);
      if (*number < key.min || *number > key.max) return refusal(key, written, "is out of range");
      if (key.type == KeyType::kUint) return KeyValue(*number);
      return KeyValue(milliseconds(static_cast<int64_t>(*number)));
    }
    case KeyType::kNumber: {
      const Result<double> number = finite_number(written.text);
      if (!number) return refusal(key, written, number.error().text);
      if (*number < key.number_min || *number > key.number_max) {
        return refusal(key, written, "is out of range");
      }
      return KeyValue(*number);
    }
    case KeyType::kBool: {
      const Result<bool> on = on_or_off(written.text);
      if (!on) return refusal(key, written, on.error().text);
      return KeyValue(*on);
    }
    case KeyType::kText:
      return KeyValue(written.text);
    case KeyType::kEndpoint: {
      const Result<Endpoint> endpoint = Endpoint::parse(written.text);
      if (!endpoint) return refusal(key, written, "is not an endpoint");
      return KeyValue(*endpoint);
    }
  }
  return refusal(key, written, "has no type");
}

KeyValues::KeyValues(const KeyTable* table, std::string where)
    : table_(table),
      where_(std::move(where)),
      values_(table->keys().size()),
      written_(table->keys().size(), false) {}

const KeyValue& KeyValues::value_of(std::string_view name) const {
  const int32_t index = table_->index_of(name);
  TRIB_ASSERT(index >= 0);
  return values_[static_cast<size_t>(index)];
}

bool KeyValues::has(std::string_view name) const {
  return !std::holds_alternative<std::monostate>(value_of(name));
}

bool KeyValues::is_written(std::string_view name) const {
  const int32_t index = table_->index_of(name);
  TRIB_ASSERT(index >= 0);
  return written_[static_cast<size_t>(index)];
}

uint64_t KeyValues::uint(std::string_view name) const {
  const auto* value = std::get_if<uint64_t>(&value_of(name));
  TRIB_ASSERT(value != nullptr);
  return *value;
}

double KeyValues::number(std::string_view name) const {
  const auto* value = std::get_if<double>(&value_of(name));
  TRIB_ASSERT(value != nullptr);
  return *value;
}

bool KeyValues::flag(std::string_view name) const {
  const auto* value = std::get_if<bool>(&value_of(name));
  TRIB_ASSERT(value != nullptr);
  return *value;
}

const std::string& KeyValues::text(std::string_view name) const {
  const auto* value = std::get_if<std::string>(&value_of(name));
  TRIB_ASSERT(value != nullptr);
  return *value;
}

const Endpoint& KeyValues::endpoint(std::string_view name) const {
  const auto* value = std::get_if<Endpoint>(&value_of(name));
  TRIB_ASSERT(value != nullptr);
  return *value;
}

Duration KeyValues::duration(std::string_view name) const {
  const auto* value = std::get_if<Duration>(&value_of(name));
  TRIB_ASSERT(value != nullptr);
  return *value;
}

KeyTable::KeyTable(std::string name, std::span<const KeySpec> keys)
    : name_(std::move(name)), keys_(keys.begin(), keys.end()) {
  for (size_t i = 0; i < keys_.size(); i++) {
    TRIB_REQUIRE(index_of(keys_[i].name) == static_cast<int32_t>(i),
                 ("the key '" + std::string(keys_[i].name) + "' stands twice").c_str());
    TRIB_ASSERT(keys_[i].min <= keys_[i].max && keys_[i].number_min <= keys_[i].number_max);
    // The largest value whose ticks fit a Duration.
    TRIB_ASSERT(keys_[i].type != KeyType::kDurationMs || keys_[i].max <= INT64_MAX / 100'000'000);
    if (keys_[i].default_text.empty()) continue;
    TRIB_ASSERT(!keys_[i].required);
    const WrittenKey written{.name = std::string(keys_[i].name),
                             .text = std::string(keys_[i].default_text),
                             .where = name_};
    if (const auto value = convert_key(keys_[i], written); !value) {
      assertion_failed("its default is one of its values", __FILE__, __LINE__,
                       value.error().text.c_str());
    }
  }
}

int32_t KeyTable::index_of(std::string_view name) const {
  for (size_t i = 0; i < keys_.size(); i++) {
    if (keys_[i].name == name) return static_cast<int32_t>(i);
  }
  return -1;
}

Result<KeyValues> KeyTable::read(std::span<const WrittenKey> keys, std::string where) const {
  KeyValues row(this, std::move(where));
  for (const WrittenKey& written : keys) {
    const int32_t found = index_of(written.name);
    if (found < 0) {
      std::vector<std::string> names;
      for (const KeySpec& key : keys_) names.emplace_back(key.name);
      return failure(
          fmt::format("{}: {}", written.where, unknown_name("key", written.name, names)));
    }
    const auto index = static_cast<size_t>(found);
    if (row.written_[index]) {
      return failure(
          fmt::format("{}: key '{}' is given twice; allowed: once", written.where, written.name));
    }
    Result<KeyValue> value = convert_key(keys_[index], written);
    if (!value) return tl::unexpected(value.error());
    row.values_[index] = std::move(*value);
    row.written_[index] = true;
  }
  for (size_t i = 0; i < keys_.size(); i++) {
    if (row.written_[i]) continue;
    if (keys_[i].required) {
      return failure(fmt::format("{}: key '{}' is missing; allowed: {}", row.where_, keys_[i].name,
                                 allowed_values(keys_[i])));
    }
    if (keys_[i].default_text.empty()) continue;
    const WrittenKey written{.name = std::string(keys_[i].name),
                             .text = std::string(keys_[i].default_text),
                             .where = row.where_};
    row.values_[i] = *convert_key(keys_[i], written);  // The constructor has checked it.
  }
  return row;
}

Result<KeyValues> KeyTable::parse(std::string_view text) const {
  const std::string where = "--" + name_;
  std::vector<WrittenKey> written;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      std::vector<std::string_view> names;
      for (const KeySpec& key : keys_) names.push_back(key.name);
      return failure(
          fmt::format("{}: '{}' is not key=value; allowed keys: {}", where, item,
                      names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
    }
    written.push_back({.name = std::string(item.substr(0, equals)),
                       .text = std::string(item.substr(equals + 1)),
                       .where = where});
    begin = end + 1;
  }
  return read(written, where);
}

std::string KeyTable::help() const {
  std::string lines;
  for (const KeySpec& key : keys_) {
    const std::string fallback = key.required ? "; required"
                                 : key.default_text.empty()
                                     ? ""
                                     : fmt::format("; default {}", key.default_text);
    lines += fmt::format("{}{}: {} ({}{})", lines.empty() ? "" : "\n", key.name, key.help,
                         allowed_values(key), fallback);
  }
  return lines;
}

}  // namespace tributary
