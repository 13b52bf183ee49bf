// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes the keys of lab/scenario_keys.cc: one function for each kind of value.
///
/// Shapes:  `field` takes a Scenario, const or not, and returns a reference to the key's member.
/// Tests:   tests/lab/scenario_file_test.cc
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/time.h"
#include "lab/scenario_file.h"
#include "net/link_config.h"

namespace tributary::lab {

/// The type of the key's member.
template <class F>
using Member = std::remove_reference_t<std::invoke_result_t<F, Scenario&>>;

/// Returns the change that sets a member to `value`.
template <class F>
ScenarioChange set_to(F field, Member<F> value) {
  return [field, value = std::move(value)](Scenario& s) { field(s) = value; };
}

/// For members whose every value is allowed.
inline bool any_value(const Scenario&) { return true; }

template <class F>
ScenarioKey uint_key(std::string_view name, uint64_t min, uint64_t max, std::string_view help,
                     F field) {
  return {.spec = {.name = name, .type = KeyType::kUint, .help = help, .min = min, .max = max},
          .show = [field](const Scenario& s) { return fmt::format("{}", field(s)); },
          .read = [field](const KeyValue& value) -> Result<ScenarioChange> {
            return set_to(field, static_cast<Member<F>>(std::get<uint64_t>(value)));
          },
          .allows = [field, min,
                     max](const Scenario& s) { return field(s) >= min && field(s) <= max; }};
}

/// A depth in bytes. 0 switches it off and is stored as the largest number.
template <class F>
ScenarioKey depth_key(std::string_view name, std::string_view help, F field) {
  return {.spec = {.name = name, .type = KeyType::kUint, .help = help},
          .show =
              [field](const Scenario& s) {
                return fmt::format("{}", field(s) == UINT64_MAX ? 0 : field(s));
              },
          .read = [field](const KeyValue& value) -> Result<ScenarioChange> {
            const auto depth = std::get<uint64_t>(value);
            return set_to(field, depth == 0 ? UINT64_MAX : depth);
          },
          .allows = any_value};
}

/// The range of a key's number.
struct NumberRange {
  double min;
  double max;
};
/// A number that is stored in another unit. `to_key` and `from_key` convert.
template <class F, class ToKey, class FromKey>
ScenarioKey converted_key(std::string_view name, NumberRange range, std::string_view help, F field,
                          ToKey to_key, FromKey from_key) {
  return {
      .spec = {.name = name,
               .type = KeyType::kNumber,
               .help = help,
               .number_min = range.min,
               .number_max = range.max},
      .show = [field, to_key](const Scenario& s) { return fmt::format("{}", to_key(field(s))); },
      .read = [field, from_key](const KeyValue& value) -> Result<ScenarioChange> {
        return set_to(field, from_key(std::get<double>(value)));
      },
      .allows =
          [field, range, to_key](const Scenario& s) {
            const double number = to_key(field(s));
            return number >= range.min && number <= range.max;
          }};
}

template <class F>
ScenarioKey number_key(std::string_view name, double min, double max, std::string_view help,
                       F field) {
  const auto same = [](double number) { return number; };
  return converted_key(name, {min, max}, help, field, same, same);
}

template <class F>
ScenarioKey probability_key(std::string_view name, std::string_view help, F field) {
  return number_key(name, 0.0, 1.0, help, field);
}

/// A link's rate in 10^9 bit/s, stored in bit/s. 0 is not allowed.
template <class F>
ScenarioKey gbps_key(std::string_view name, std::string_view help, F field) {
  constexpr double kBitsPerGbit = 1e9;
  return converted_key(
      name, {0.001, static_cast<double>(net::kRateBitsPerSecondMax) / kBitsPerGbit}, help, field,
      [](uint64_t rate) { return static_cast<double>(rate) / kBitsPerGbit; },
      [](double gbps) { return static_cast<uint64_t>(std::llround(gbps * kBitsPerGbit)); });
}

/// The range of a time.
struct TimeRange {
  Duration min = Duration();
  Duration max = seconds(1'000'000);  ///< Far below the end of Duration (2.9 years).
};

/// A time, in the unit at the end of the key's name.
template <class F>
ScenarioKey time_key(std::string_view name, std::string_view help, F field, TimeRange range = {}) {
  const double ticks = name.ends_with("_ns")   ? static_cast<double>(nanoseconds(1).ticks())
                       : name.ends_with("_us") ? static_cast<double>(microseconds(1).ticks())
                       : name.ends_with("_ms") ? static_cast<double>(milliseconds(1).ticks())
                                               : static_cast<double>(seconds(1).ticks());
  const auto number_of = [ticks](Duration time) {
    return static_cast<double>(time.ticks()) / ticks;
  };
  return converted_key(
      name, {number_of(range.min), number_of(range.max)}, help, field, number_of,
      [ticks](double number) { return Duration::from_ticks(std::llround(number * ticks)); });
}

template <class F>
ScenarioKey flag_key(std::string_view name, std::string_view help, F field) {
  return {.spec = {.name = name, .type = KeyType::kBool, .help = help},
          .show = [field](const Scenario& s) { return field(s) ? "true" : "false"; },
          .read = [field](const KeyValue& value) -> Result<ScenarioChange> {
            return set_to(field, std::get<bool>(value));
          },
          .allows = any_value};
}

/// A value of an enumeration and its name.
template <class T>
struct Named {
  std::string name;
  T value;
};

template <class F>
ScenarioKey enum_key(std::string_view name, std::string_view help,
                     std::vector<Named<Member<F>>> values, F field) {
  std::vector<std::string> names;
  for (const auto& named : values) names.push_back(named.name);
  return {.spec = {.name = name, .type = KeyType::kText, .help = help},
          .show =
              [field, values](const Scenario& s) {
                for (const auto& named : values) {
                  if (named.value == field(s)) return named.name;
                }
                return std::string("?");
              },
          .read = [field, values, names](const KeyValue& value) -> Result<ScenarioChange> {
            const auto& text = std::get<std::string>(value);
            for (const auto& named : values) {
              if (named.name == text) return set_to(field, named.value);
            }
            return failure("is refused: " + unknown_name("name", text, names));
          },
          .allows =
              [field, values](const Scenario& s) {
                return std::any_of(values.begin(), values.end(),
                                   [&](const auto& named) { return named.value == field(s); });
              },
          .names = names};
}

/// An enumeration whose values are named in their order.
template <class F>
ScenarioKey ordered_key(std::string_view name, std::string_view help,
                        const std::vector<std::string>& names, F field) {
  std::vector<Named<Member<F>>> values;
  for (size_t i = 0; i < names.size(); i++) {
    values.push_back({names[i], static_cast<Member<F>>(i)});
  }
  return enum_key(name, help, std::move(values), field);
}

/// A text with a form of its own. `parse` refuses other texts.
template <class F>
ScenarioKey parsed_key(std::string_view name, std::string_view help, F field,
                       std::string (*show)(const Member<F>&),
                       Result<Member<F>> (*parse)(const std::string&)) {
  return {.spec = {.name = name, .type = KeyType::kText, .help = help},
          .show = [field, show](const Scenario& s) { return show(field(s)); },
          .read = [field, parse](const KeyValue& value) -> Result<ScenarioChange> {
            Result<Member<F>> parsed = parse(std::get<std::string>(value));
            if (!parsed) return tl::unexpected(parsed.error());
            return set_to(field, std::move(*parsed));
          },
          .allows = any_value};
}

/// A list, separated by commas.
template <class F>
ScenarioKey list_key(std::string_view name, std::string_view help, F field,
                     std::string (*show)(const Member<F>&),
                     Result<Member<F>> (*parse)(const std::string&)) {
  ScenarioKey key = parsed_key(name, help, field, show, parse);
  key.is_list = true;
  return key;
}

template <class F>
ScenarioKey text_key(std::string_view name, std::string_view help, F field) {
  return parsed_key(
      name, help, field, [](const std::string& text) { return text; },
      [](const std::string& text) -> Result<std::string> { return text; });
}

}  // namespace tributary::lab
