// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep/sweep_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "lab/scenario_file.h"

namespace tributary::lab {
namespace {

constexpr std::string_view kPrefix = "sweep.";
constexpr std::string_view kRepeat = "sweep.repeat";
constexpr std::string_view kSeed = "seed";

/// A value of a swept key, as it was written and read once.
struct SweptValue {
  std::string text;
  Setting setting;
};

struct Dimension {
  std::string key;  ///< Without the prefix.
  std::vector<SweptValue> values;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

Result<uint64_t> repeats_of(const WrittenKey& key) {
  const KeySpec spec{.name = "repeat", .type = KeyType::kUint, .min = 1, .max = kPointsMax};
  WrittenKey written = key;
  written.name = spec.name;
  const Result<KeyValue> value = convert_key(spec, written);
  if (!value) return tl::unexpected(value.error());
  return std::get<uint64_t>(*value);
}

/// Returns a value as JSON: a number or a truth value where it is one, else text.
Json value_json(const std::string& text) {
  const Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_number() || parsed.is_boolean() ? parsed : Json(text);
}

/// The keys of a sweep, sorted by their use.
struct Parts {
  std::vector<Setting> fixed;
  std::vector<Dimension> dimensions;
  uint64_t repeats = 1;
};

/// Returns the value that a setting gives its key, in the only way to write it.
std::string shown(const Setting& setting) {
  Scenario scenario;
  setting.set(scenario);
  return find_scenario_key(setting.name)->show(scenario);
}

/// Refuses a key whose values are lists, and a value that stands twice: its runs would count as
/// further seeds.
Result<Dimension> read_dimension(const WrittenKey& written) {
  WrittenKey key = written;
  key.name = written.name.substr(kPrefix.size());
  key.type = WrittenType::kUntyped;
  if (key.name == kSeed) {
    return failure(fmt::format(
        "{}: seed={} cannot be swept; allowed: repeat = {}, for as many seeds of each point, "
        "from the key seed on",
        key.where, key.text, split(written.text).size()));
  }
  if (const ScenarioKey* known = find_scenario_key(key.name); known != nullptr && known->is_list) {
    return failure(
        fmt::format("{}: {} cannot be swept, because its values are lists; allowed: {} = "
                    "VALUE outside [sweep], and keys with single values in it",
                    key.where, key.name, key.name));
  }
  Dimension dimension{.key = key.name, .values = {}};
  std::set<std::string> seen;
  for (std::string& text : split(written.text)) {
    key.text = text;
    Result<Setting> setting = read_setting(key);
    if (!setting) return tl::unexpected(setting.error());
    if (!seen.insert(shown(*setting)).second) {
      return failure(fmt::format(
          "{}: {}={} stands twice in the list; allowed: each value once; for more seeds of each "
          "point set repeat",
          key.where, key.name, text));
    }
    dimension.values.push_back({.text = std::move(text), .setting = std::move(*setting)});
  }
  return dimension;
}

Result<void> add_fixed(Parts& parts, const WrittenKey& key) {
  Result<Setting> setting = read_setting(key);
  if (!setting) return tl::unexpected(setting.error());
  parts.fixed.push_back(std::move(*setting));
  return {};
}

Result<void> add_key(Parts& parts, const WrittenKey& key) {
  if (key.name == kRepeat) {
    const Result<uint64_t> repeats = repeats_of(key);
    if (!repeats) return tl::unexpected(repeats.error());
    parts.repeats = *repeats;
    return {};
  }
  if (!key.name.starts_with(kPrefix)) return add_fixed(parts, key);
  Result<Dimension> dimension = read_dimension(key);
  if (!dimension) return tl::unexpected(dimension.error());
  parts.dimensions.push_back(std::move(*dimension));
  return {};
}

Result<void> add_override(Parts& parts, const WrittenKey& key) {
  const auto swept = [&key](const Dimension& dimension) { return dimension.key == key.name; };
  if (std::any_of(parts.dimensions.begin(), parts.dimensions.end(), swept)) {
    return failure(fmt::format("{}: {}={} is swept in the file; allowed: keys that are not",
                               key.where.empty() ? "--" + key.name : key.where, key.name,
                               key.text));
  }
  return add_fixed(parts, key);
}

Result<Parts> take_apart(std::span<const WrittenKey> keys, std::span<const WrittenKey> overrides) {
  Parts parts;
  for (const WrittenKey& key : keys) {
    if (const Result<void> added = add_key(parts, key); !added) {
      return tl::unexpected(added.error());
    }
  }
  for (const WrittenKey& key : overrides) {
    if (const Result<void> added = add_override(parts, key); !added) {
      return tl::unexpected(added.error());
    }
  }
  return parts;
}

Result<uint64_t> count_points(const Parts& parts, const std::string& place) {
  const std::string prefix = place.empty() ? "" : place + ": ";
  if (parts.dimensions.empty() && parts.repeats == 1) {
    return failure(fmt::format(
        "{}[sweep] is missing or empty; allowed: keys with lists of values, and repeat; "
        "for a single run use: tributary lab run {}",
        prefix, place));
  }
  uint64_t count = parts.repeats;
  for (const Dimension& dimension : parts.dimensions) {
    count *= dimension.values.size();
    if (count > kPointsMax) {
      return failure(fmt::format("{}[sweep] has more than {} points; allowed: at most that many",
                                 prefix, kPointsMax));
    }
  }
  return count;
}

/// Refuses a key, swept or not, that has no effect in any of the points.
Result<void> check_keys(const Sweep& sweep, const Parts& parts) {
  std::vector<Setting> settings = parts.fixed;
  for (const Dimension& dimension : parts.dimensions) {
    settings.push_back(dimension.values.front().setting);
  }
  return check_effects(sweep.points, settings);
}

/// Adds the point of this number: its digits in the mixed base of the lists' lengths.
void add_point(Sweep& sweep, const Parts& parts, uint64_t number) {
  const uint64_t repeat = number % parts.repeats;
  number /= parts.repeats;
  std::vector<const SweptValue*> varied(parts.dimensions.size());
  for (size_t i = varied.size(); i-- > 0;) {
    const std::vector<SweptValue>& values = parts.dimensions[i].values;
    varied[i] = &values[number % values.size()];
    number /= values.size();
  }
  std::vector<Setting> settings = parts.fixed;
  for (const SweptValue* value : varied) settings.push_back(value->setting);
  Result<Scenario> scenario = make_scenario(std::span<const Setting>(settings));
  Point point;
  Json values = Json::object();
  for (size_t i = 0; i < varied.size(); i++) {
    const std::string& key = parts.dimensions[i].key;
    point.label += fmt::format("{}{}={}", point.label.empty() ? "" : " ", key, varied[i]->text);
    values[key] = value_json(varied[i]->text);
  }
  if (!scenario) {
    // Each repetition would be refused for the same reason.
    if (repeat == 0) {
      sweep.refused.push_back({.label = std::move(point.label),
                               .values = std::move(values),
                               .reason = scenario.error().text});
    }
    return;
  }
  scenario->seed += repeat;
  if (parts.repeats > 1) point.label += fmt::format(" seed={}", scenario->seed);
  values["seed"] = scenario->seed;
  point.scenario = std::move(*scenario);
  sweep.points.push_back(std::move(point));
  sweep.values.push_back(std::move(values));
}

}  // namespace

Result<Sweep> make_sweep(std::span<const WrittenKey> keys, std::span<const WrittenKey> overrides,
                         const std::string& place) {
  const Result<Parts> parts = take_apart(keys, overrides);
  if (!parts) return tl::unexpected(parts.error());
  const Result<uint64_t> count = count_points(*parts, place);
  if (!count) return tl::unexpected(count.error());
  Sweep sweep;
  for (const Dimension& dimension : parts->dimensions) sweep.keys.push_back(dimension.key);
  sweep.repeats = parts->repeats;
  for (uint64_t i = 0; i < *count; i++) add_point(sweep, *parts, i);
  if (sweep.points.empty()) return failure(sweep.refused.front().reason);
  if (!sweep.points.front().scenario.captures.empty()) {
    return failure(fmt::format(
        "{}: capture is not allowed in a sweep, whose runs would write one file; allowed: none",
        place));
  }
  if (const auto good = check_keys(sweep, *parts); !good) return tl::unexpected(good.error());
  return sweep;
}

Result<Sweep> load_sweep(const std::string& path, std::span<const WrittenKey> overrides) {
  const Result<std::vector<WrittenKey>> keys = read_keys(path);
  if (!keys) return tl::unexpected(keys.error());
  if (const auto good = check_command(*keys, path, "sweep"); !good) {
    return tl::unexpected(good.error());
  }
  return make_sweep(*keys, overrides, path);
}

}  // namespace tributary::lab
