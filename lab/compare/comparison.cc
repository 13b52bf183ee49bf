// SPDX-License-Identifier: Apache-2.0
#include "lab/compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lab/backends/backend.h"
#include "lab/scenario_file.h"

namespace tributary::lab {
namespace {

constexpr std::string_view kPrefix = "compare.";
/// Of each cell unless a setting says otherwise: enough for stragglers to come, few enough for
/// seconds.
constexpr uint32_t kIterations = 20;
/// Packets that one simulated packet stands for, for back ends that can. Its error is bounded by
/// tests/lab/cluster; see docs/experiments.md.
constexpr uint32_t kTrain = 64;

struct List {
  const char* name;
  std::vector<std::string> CompareLists::*values;
};
constexpr List kLists[] = {{"backends", &CompareLists::backends},
                           {"models", &CompareLists::models},
                           {"workers", &CompareLists::workers},
                           {"loss", &CompareLists::loss},
                           {"straggling", &CompareLists::straggling}};
constexpr const char* kBaseline = "baseline";

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

/// A case and how it was written.
struct WrittenCase {
  CompareCase values;
  std::vector<WrittenKey> keys;
};

WrittenKey key(std::string name, std::string text) {
  return {.name = std::move(name), .text = std::move(text), .where = ""};
}

/// Converts the values of a case by the keys that they stand for; refuses wrong ones.
Result<WrittenCase> make_case(const std::string& model, const std::string& workers,
                              const std::string& loss, const std::string& straggling) {
  WrittenCase made;
  made.keys = {key("model.name", model), key("workers", workers), key("link.loss", loss),
               key("straggler.probability", straggling)};
  Scenario scenario;
  for (const WrittenKey& written : made.keys) {
    if (auto set = set_key(scenario, written); !set) return tl::unexpected(set.error());
  }
  made.values = {.model = model,
                 .workers = scenario.workers,
                 .loss = scenario.link.faults.loss,
                 .straggling = scenario.straggler.probability};
  if (made.values.loss > 0) made.keys.push_back(key("host.retransmission", "true"));
  if (made.values.straggling > 0) made.keys.push_back(key("straggler.pattern", "slow-worker"));
  return made;
}

Result<std::vector<WrittenCase>> make_cases(const CompareLists& lists) {
  std::vector<WrittenCase> cases;
  for (const std::string& model : lists.models) {
    for (const std::string& workers : lists.workers) {
      for (const std::string& loss : lists.loss) {
        for (const std::string& straggling : lists.straggling) {
          Result<WrittenCase> made = make_case(model, workers, loss, straggling);
          if (!made) return tl::unexpected(made.error());
          cases.push_back(std::move(*made));
        }
      }
    }
  }
  return cases;
}

/// A back end in a case, as keys of a scenario.
std::vector<WrittenKey> keys_of_cell(const WrittenCase& written, const BackendKind& backend,
                                     std::span<const WrittenKey> settings) {
  std::vector<WrittenKey> keys{key("iterations", fmt::format("{}", kIterations)),
                               key("train", fmt::format("{}", backend.trains ? kTrain : 1)),
                               key("payload", backend.elides ? "elided" : "real"),
                               key("backend", backend.choice.name)};
  keys.insert(keys.end(), written.keys.begin(), written.keys.end());
  keys.insert(keys.end(), settings.begin(), settings.end());
  return keys;
}

Point point_of(const CompareCase& of, const CompareCell& cell) {
  Point point;
  point.label = fmt::format("{} {} workers={} loss={} straggling={}", cell.backend, of.model,
                            of.workers, of.loss, of.straggling);
  point.scenario = cell.scenario;
  return point;
}

/// Refuses what is wrong whoever the back end is: names and settings.
Result<void> check_lists(const CompareLists& lists, std::span<const WrittenKey> settings) {
  Scenario scenario;
  for (const std::string& backend : lists.backends) {
    if (auto set = set_key(scenario, key("backend", backend)); !set) return set;
  }
  for (const WrittenKey& setting : settings) {
    if (auto set = set_key(scenario, setting); !set) return set;
    for (const char* listed :
         {"backend", "model.name", "workers", "link.loss", "straggler.probability"}) {
      if (setting.name != listed) continue;
      return failure(fmt::format("{}{}={} is compared; allowed: a list of its own, see --help",
                                 setting.where.empty() ? "" : setting.where + ": ", setting.name,
                                 setting.text));
    }
  }
  const auto& backends = lists.backends;
  if (std::find(backends.begin(), backends.end(), lists.baseline) != backends.end()) return {};
  return failure(fmt::format("baseline='{}' is not allowed; allowed: {}", lists.baseline,
                             fmt::join(backends, ", ")));
}

}  // namespace

CompareLists default_compare_lists() {
  return {.backends = {"ideal", "trio-ml", "switchml-256", "switchml-64", "switchml-64-timeout",
                       "switchml-on-trio", "ps-dedicated", "ps-colocated", "ring"},
          .models = {"resnet50"},
          .workers = {"6"},
          .loss = {"0"},
          .straggling = {"0", "0.16"},
          .baseline = ""};
}

Result<void> set_compare_list(CompareLists& lists, const std::string& name, const std::string& text,
                              const std::string& where) {
  const std::string place = where.empty() ? "" : where + ": ";
  if (name == kBaseline) {
    lists.baseline = text;
    return {};
  }
  std::vector<std::string> names{kBaseline};
  for (const List& list : kLists) {
    names.emplace_back(list.name);
    if (name != list.name) continue;
    (lists.*list.values) = split(text);
    if (!(lists.*list.values).empty()) return {};
    return failure(fmt::format("{}{}='' is not allowed; allowed: a list of values", place, name));
  }
  return failure(place + unknown_name("list", name, names));
}

Result<void> take_compare_keys(std::vector<WrittenKey>& keys, CompareLists& lists) {
  std::vector<WrittenKey> others;
  for (WrittenKey& written : keys) {
    if (!written.name.starts_with(kPrefix)) {
      others.push_back(std::move(written));
      continue;
    }
    const auto set =
        set_compare_list(lists, written.name.substr(kPrefix.size()), written.text, written.where);
    if (!set) return set;
  }
  keys = std::move(others);
  return {};
}

Result<Comparison> make_comparison(const CompareLists& lists,
                                   std::span<const WrittenKey> settings) {
  CompareLists wanted = lists;
  if (wanted.baseline.empty() && !wanted.backends.empty()) {
    wanted.baseline = wanted.backends.front();
  }
  if (auto good = check_lists(wanted, settings); !good) return tl::unexpected(good.error());
  const auto cases = make_cases(wanted);
  if (!cases) return tl::unexpected(cases.error());
  Comparison comparison;
  comparison.baseline = wanted.baseline;
  for (const WrittenCase& written : *cases) {
    for (const std::string& backend : wanted.backends) {
      CompareCell cell{.case_index = comparison.cases.size(),
                       .backend = backend,
                       .scenario = {},
                       .point = {},
                       .refusal = {}};
      auto scenario = make_scenario(keys_of_cell(written, *find_backend_kind(backend), settings));
      if (scenario) {
        cell.scenario = std::move(*scenario);
        cell.point = comparison.points.size();
        comparison.points.push_back(point_of(written.values, cell));
      } else {
        cell.refusal = scenario.error().text;
      }
      comparison.cells.push_back(std::move(cell));
    }
    comparison.cases.push_back(written.values);
  }
  if (comparison.points.empty()) return failure(comparison.cells.front().refusal);
  return comparison;
}

}  // namespace tributary::lab
