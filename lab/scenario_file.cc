// SPDX-License-Identifier: Apache-2.0
#include "lab/scenario_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/toml_file.h"

namespace tributary::lab {
namespace {

/// "x.toml:3: " if the place is known.
std::string place_prefix(const std::string& where) { return where.empty() ? "" : where + ": "; }

/// Names of choices, for keys whose type is text.
bool is_text(KeyType type) { return type == KeyType::kText || type == KeyType::kEndpoint; }

/// Puts the place of the key that check() complains about ("key=value …") before its message.
Error placed(const Error& error, const std::map<std::string, std::string>& places) {
  const std::string key = error.text.substr(0, error.text.find('='));
  const auto found = places.find(key);
  return {(found == places.end() ? "" : place_prefix(found->second)) + error.text};
}

}  // namespace

std::string allowed_values(const ScenarioKey& key) {
  if (!key.names) return tributary::allowed_values(key.spec);
  return fmt::format("{}", fmt::join(key.names(), ", "));
}

const ScenarioKey* find_scenario_key(std::string_view name) {
  for (const ScenarioKey& key : scenario_keys()) {
    if (key.spec.name == name) return &key;
  }
  return nullptr;
}

Result<void> set_key(Scenario& scenario, const WrittenKey& written) {
  const ScenarioKey* key = find_scenario_key(written.name);
  if (key == nullptr) {
    std::vector<std::string> names;
    for (const ScenarioKey& known : scenario_keys()) names.emplace_back(known.spec.name);
    return failure(place_prefix(written.where) + unknown_name("key", written.name, names));
  }
  // Where nothing is a meaning of its own, it can be written.
  if (written.text.empty() && is_text(key->spec.type)) return key->set(scenario, std::string());
  const Result<KeyValue> value = convert_key(key->spec, written);
  if (!value) return tl::unexpected(value.error());
  if (const Result<void> set = key->set(scenario, *value); !set) {
    return failure(fmt::format("{}{}={} {}", place_prefix(written.where), written.name,
                               written.text, set.error().text));
  }
  return {};
}

Result<WrittenKey> split_setting(std::string_view text, std::string where) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return failure(fmt::format("{}: '{}' is not key=value; allowed: key=value", where, text));
  }
  return WrittenKey{.name = std::string(text.substr(0, equals)),
                    .text = std::string(text.substr(equals + 1)),
                    .where = std::move(where)};
}

Result<std::vector<WrittenKey>> read_keys(const std::string& path) {
  const Result<toml::table> file = parse_toml_file(path, path);
  if (!file) return tl::unexpected(file.error());
  return keys_of(*file, path);
}

Result<Scenario> make_scenario(std::span<const WrittenKey> keys) {
  Scenario scenario;
  std::map<std::string, std::string> places;
  for (const WrittenKey& key : keys) {
    if (const Result<void> set = set_key(scenario, key); !set) return tl::unexpected(set.error());
    places[key.name] = key.where;
  }
  if (const Result<void> checked = check(scenario); !checked) {
    return tl::unexpected(placed(checked.error(), places));
  }
  return scenario;
}

std::string scenario_text(const Scenario& scenario) {
  std::string text;
  for (const ScenarioKey& key : scenario_keys()) {
    const std::string value = key.show(scenario);
    text += is_text(key.spec.type) ? fmt::format("{} = \"{}\"\n", key.spec.name, value)
                                   : fmt::format("{} = {}\n", key.spec.name, value);
  }
  return text;
}

std::string scenario_help() {
  std::string lines;
  const Scenario defaults;
  for (const ScenarioKey& key : scenario_keys()) {
    const std::string fallback = key.show(defaults);
    lines += fmt::format("{}: {} ({}; default {})\n", key.spec.name, key.spec.help,
                         allowed_values(key), fallback.empty() ? "none" : fallback);
  }
  return lines;
}

}  // namespace tributary::lab
