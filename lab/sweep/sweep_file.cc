// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep/sweep_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "lab/report/figure_row.h"
#include "lab/report/text_table.h"
#include "lab/scenario_file.h"

namespace tributary::lab {
namespace {

constexpr std::string_view kPrefix = "sweep.";
constexpr std::string_view kRepeat = "sweep.repeat";

/// A key and the values that it takes.
struct Dimension {
  WrittenKey key;  ///< Without the prefix; its text is replaced.
  std::vector<std::string> values;
};

/// What a sweep shows of each point: key in run_json(), column, factor from there to here.
struct Column {
  std::string_view json_key;
  std::string_view name;
  double factor;
};
constexpr Column kColumns[] = {
    {"mean_iteration_ns", "mean_iteration_ms", 1e-6},
    {"total_ns", "total_ms", 1e-6},
    {"degraded_fraction", "degraded_fraction", 1.0},
    {"packets", "packets", 1.0},
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

/// A value as JSON: a number where it is one.
Json value_json(const std::string& text) {
  const Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_number() || parsed.is_boolean() ? parsed : Json(text);
}

/// A sweep being taken apart.
struct Parts {
  std::vector<WrittenKey> fixed;
  std::vector<Dimension> dimensions;
  uint64_t repeats = 1;
};

Result<Parts> take_apart(std::span<const WrittenKey> keys, std::span<const WrittenKey> overrides) {
  Parts parts;
  for (const WrittenKey& key : keys) {
    if (key.name == kRepeat) {
      const Result<uint64_t> repeats = repeats_of(key);
      if (!repeats) return tl::unexpected(repeats.error());
      parts.repeats = *repeats;
    } else if (key.name.starts_with(kPrefix)) {
      Dimension dimension{.key = key, .values = split(key.text)};
      dimension.key.name = key.name.substr(kPrefix.size());
      dimension.key.type = WrittenType::kUntyped;
      parts.dimensions.push_back(std::move(dimension));
    } else {
      parts.fixed.push_back(key);
    }
  }
  for (const WrittenKey& key : overrides) {
    const auto swept = [&key](const Dimension& d) { return d.key.name == key.name; };
    if (std::any_of(parts.dimensions.begin(), parts.dimensions.end(), swept)) {
      return failure(fmt::format("{}: {}={} is swept in the file; allowed: keys that are not",
                                 key.where, key.name, key.text));
    }
    parts.fixed.push_back(key);
  }
  if (parts.dimensions.empty() && parts.repeats == 1) {
    return failure("[sweep] is missing or empty; allowed: keys with lists of values, and repeat");
  }
  return parts;
}

Result<uint64_t> count_points(const Parts& parts) {
  uint64_t count = parts.repeats;
  for (const Dimension& dimension : parts.dimensions) {
    count *= dimension.values.size();
    if (count > kPointsMax) {
      return failure(
          fmt::format("[sweep] has more than {} points; allowed: at most that many", kPointsMax));
    }
  }
  return count;
}

/// The point of this number: its digits in the mixed base of the lists' lengths.
Result<Point> make_point(const Parts& parts, uint64_t number) {
  const uint64_t repeat = number % parts.repeats;
  number /= parts.repeats;
  std::vector<WrittenKey> varied;
  for (auto dimension = parts.dimensions.rbegin(); dimension != parts.dimensions.rend();
       dimension++) {
    WrittenKey key = dimension->key;
    key.text = dimension->values[number % dimension->values.size()];
    number /= dimension->values.size();
    varied.insert(varied.begin(), std::move(key));
  }
  std::vector<WrittenKey> keys = parts.fixed;
  keys.insert(keys.end(), varied.begin(), varied.end());
  Result<Scenario> scenario = make_scenario(keys);
  if (!scenario) return tl::unexpected(scenario.error());
  Point point;
  for (const WrittenKey& key : varied) {
    point.label += fmt::format("{}{}={}", point.label.empty() ? "" : " ", key.name, key.text);
    point.values[key.name] = value_json(key.text);
  }
  scenario->seed += repeat;
  if (parts.repeats > 1) point.label += fmt::format(" seed={}", scenario->seed);
  point.values["seed"] = scenario->seed;
  point.scenario = std::move(*scenario);
  return point;
}

}  // namespace

Result<Sweep> make_sweep(std::span<const WrittenKey> keys, std::span<const WrittenKey> overrides) {
  const Result<Parts> parts = take_apart(keys, overrides);
  if (!parts) return tl::unexpected(parts.error());
  const Result<uint64_t> count = count_points(*parts);
  if (!count) return tl::unexpected(count.error());
  Sweep sweep;
  for (const Dimension& dimension : parts->dimensions) sweep.keys.push_back(dimension.key.name);
  if (parts->repeats > 1) sweep.keys.emplace_back("seed");
  for (uint64_t i = 0; i < *count; i++) {
    Result<Point> point = make_point(*parts, i);
    if (!point) return tl::unexpected(point.error());
    sweep.points.push_back(std::move(*point));
  }
  return sweep;
}

Result<Sweep> load_sweep(const std::string& path, std::span<const WrittenKey> overrides) {
  const Result<std::vector<WrittenKey>> keys = read_keys(path);
  if (!keys) return tl::unexpected(keys.error());
  Result<Sweep> sweep = make_sweep(*keys, overrides);
  // What concerns no single key concerns the file.
  if (!sweep && sweep.error().text.starts_with("[sweep]")) {
    return failure(fmt::format("{}: {}", path, sweep.error().text));
  }
  return sweep;
}

std::string sweep_json_lines(const Sweep& sweep, std::span<const Json> outcomes) {
  std::string text;
  for (size_t i = 0; i < outcomes.size(); i++) {
    if (outcomes[i].is_null()) continue;
    text += Json{{"values", sweep.points[i].values}, {"outcome", outcomes[i]}}.dump() + "\n";
  }
  return text;
}

std::string sweep_csv(const Sweep& sweep, std::span<const Json> outcomes) {
  std::string text;
  for (const std::string& key : sweep.keys) text += csv_field(key) + ",";
  for (const Column& column : kColumns) {
    text += std::string(column.name) + (&column == std::end(kColumns) - 1 ? "\n" : ",");
  }
  for (size_t i = 0; i < outcomes.size(); i++) {
    if (outcomes[i].is_null()) continue;
    const Json& values = sweep.points[i].values;
    for (const std::string& key : sweep.keys) {
      text +=
          csv_field(values[key].is_string() ? values[key].get<std::string>() : values[key].dump()) +
          ",";
    }
    for (const Column& column : kColumns) {
      const double value = outcomes[i].value(std::string(column.json_key), 0.0) * column.factor;
      text += fmt::format("{}{}", value, &column == std::end(kColumns) - 1 ? "\n" : ",");
    }
  }
  return text;
}

std::string sweep_table(const Sweep& sweep, std::span<const Json> outcomes) {
  TextTable table;
  std::vector<std::string> head(sweep.keys.begin(), sweep.keys.end());
  for (const Column& column : kColumns) head.emplace_back(column.name);
  table.add(head);
  for (size_t i = 0; i < outcomes.size(); i++) {
    if (outcomes[i].is_null()) continue;
    std::vector<std::string> line;
    for (const std::string& key : sweep.keys) {
      const Json& value = sweep.points[i].values[key];
      line.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    }
    for (const Column& column : kColumns) {
      line.push_back(
          short_number(outcomes[i].value(std::string(column.json_key), 0.0) * column.factor));
    }
    table.add(std::move(line));
  }
  return table.text();
}

}  // namespace tributary::lab
