// SPDX-License-Identifier: Apache-2.0
#include "lab/compare/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "base/assert.h"
#include "lab/backends/backend.h"
#include "lab/workload/ddp_workload.h"

namespace tributary::lab {
namespace {

constexpr std::string_view kPrefix = "compare.";
/// Iterations of each cell unless a setting says otherwise: enough for stragglers to appear, and
/// few enough for seconds.
constexpr uint32_t kIterations = 20;
/// Most packets that one simulated packet represents, where the back end allows trains. The tests
/// tests/lab/straggling_run_test.cc bound the error; see docs/lab-models.md, Trains.
constexpr uint32_t kTrainMax = 64;
/// Least trains in the part of an iteration's gradients that goes through one switch, server or
/// step of a ring. An exchange ends with whole trains, which adds a constant: 0.11 ms with trains
/// of 64 and four dedicated servers. Assumed: 24, with which that is 5.8 % of the time; with 64 it
/// is 2.3.
constexpr uint64_t kTrainsMin = 24;
constexpr const char* kBaseline = "baseline";

/// A list, the scenario key that reads its values, and the way to add one.
struct List {
  const char* name;
  const char* key;
  void (*clear)(CompareLists& lists);
  /// Adds the value that a scenario has after the key was set.
  void (*add)(CompareLists& lists, const Scenario& scenario);
};
constexpr List kLists[] = {
    {"backends", "backend", [](CompareLists& lists) { lists.backends.clear(); },
     [](CompareLists& lists, const Scenario& s) { lists.backends.push_back(s.backend); }},
    {"models", "model.name", [](CompareLists& lists) { lists.models.clear(); },
     [](CompareLists& lists, const Scenario& s) { lists.models.push_back(s.model.kind); }},
    {"workers", "workers", [](CompareLists& lists) { lists.workers.clear(); },
     [](CompareLists& lists, const Scenario& s) { lists.workers.push_back(s.workers); }},
    {"loss", "link.loss", [](CompareLists& lists) { lists.loss.clear(); },
     [](CompareLists& lists, const Scenario& s) { lists.loss.push_back(s.link.faults.loss); }},
    {"straggling", "straggler.probability", [](CompareLists& lists) { lists.straggling.clear(); },
     [](CompareLists& lists, const Scenario& s) {
       lists.straggling.push_back(s.straggler.probability);
     }}};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

/// Returns a scenario in which a list's key has the value of `text`.
Result<Scenario> read_value(const char* key, const std::string& text, const std::string& where) {
  const Result<Setting> setting = read_setting({.name = key, .text = text, .where = where});
  if (!setting) return tl::unexpected(setting.error());
  Scenario scenario;
  setting->set(scenario);
  return scenario;
}

std::vector<CompareCase> cases_of(const CompareLists& lists) {
  std::vector<CompareCase> cases;
  for (const Model model : lists.models) {
    for (const uint32_t workers : lists.workers) {
      for (const double loss : lists.loss) {
        for (const double straggling : lists.straggling) {
          cases.push_back(
              {.model = model, .workers = workers, .loss = loss, .straggling = straggling});
        }
      }
    }
  }
  return cases;
}

/// Returns the number of equal parts of a tensor, each with a server or a step of its own.
uint32_t parts_of(const Scenario& scenario, const BackendKind& backend) {
  switch (backend.placement) {
    case Placement::kSwitch:
      return 1;
    case Placement::kSharded:
      return (scenario.aggregators.colocated ? scenario.workers : 0) + scenario.aggregators.spare;
    case Placement::kDedicated:
    case Placement::kColocated:
    case Placement::kWorkers:
      break;
  }
  return scenario.workers;
}

/// Returns the longest train, a power of two up to kTrainMax, that leaves each part kTrainsMin
/// trains and that the scenario allows.
uint32_t train_of(Scenario scenario) {
  const BackendKind& backend = backend_kind(scenario.backend);
  scenario.train = 1;
  // Sizes of a scenario that will be refused may be 0.
  const uint64_t packets =
      workload_of(scenario).elements() / std::max(backend.elements(scenario), 1U);
  const uint64_t of_part = packets / std::max(parts_of(scenario, backend), 1U);
  const auto longest = static_cast<uint32_t>(
      std::bit_floor(std::clamp<uint64_t>(of_part / kTrainsMin, 1, kTrainMax)));
  for (scenario.train = longest; scenario.train > 1; scenario.train /= 2) {
    const auto refusal = find_refusal(scenario);
    if (!refusal || refusal->key != "train") break;
  }
  return scenario.train;
}

/// Sets the settings over a cell's scenario. Chooses its train unless they have one.
Result<Scenario> with_settings(std::span<const Setting> settings, const Scenario& cell) {
  Scenario scenario = cell;
  bool has_train = false;
  for (const Setting& setting : settings) {
    setting.set(scenario);
    has_train = has_train || setting.name == "train";
  }
  if (!has_train) scenario.train = train_of(scenario);
  return make_scenario(settings, std::move(scenario));
}

/// Returns the scenario of a back end in a case, before the settings and without trains. Loss needs
/// retransmission.
Scenario scenario_of(const CompareCase& at, const BackendKind& backend) {
  Scenario scenario;
  scenario.iterations = kIterations;
  scenario.payload = backend.elides ? Payload::kElided : Payload::kReal;
  scenario.backend = backend.id;
  scenario.model.kind = at.model;
  scenario.workers = at.workers;
  scenario.link.faults.loss = at.loss;
  scenario.host.retransmission = at.loss > 0;
  scenario.straggler.probability = at.straggling;
  if (at.straggling > 0) scenario.straggler.pattern = Straggling::kSlowWorker;
  return scenario;
}

/// Adds the cell's points, one for each seed.
void add_points(std::vector<Point>& points, const CompareCase& of, CompareCell& cell,
                uint32_t seeds) {
  cell.point = points.size();
  cell.seeds = involves_chance(cell.scenario) ? seeds : 1;
  for (uint32_t i = 0; i < cell.seeds; i++) {
    Point point;
    point.label = fmt::format("{} {} workers={} loss={} straggling={}", name_of(cell.backend),
                              name_of(of.model), of.workers, of.loss, of.straggling);
    point.scenario = cell.scenario;
    point.scenario.seed += i;
    if (cell.seeds > 1) point.label += fmt::format(" seed={}", point.scenario.seed);
    points.push_back(std::move(point));
  }
}

/// Returns the settings as the flag --set has them, with blanks between.
std::string settings_text(std::span<const WrittenKey> settings) {
  std::vector<std::string> all;
  for (const WrittenKey& setting : settings) {
    all.push_back(fmt::format("{}={}", setting.name, setting.text));
  }
  return fmt::format("{}", fmt::join(all, " "));
}

/// Refuses settings of keys that are compared, and a baseline that is not.
Result<void> check_lists(const CompareLists& lists, std::span<const WrittenKey> settings) {
  for (const WrittenKey& setting : settings) {
    for (const List& list : kLists) {
      if (setting.name != list.key) continue;
      return failure(fmt::format("{}{}={} is compared; allowed: a list of its own, see --help",
                                 setting.where.empty() ? "" : setting.where + ": ", setting.name,
                                 setting.text));
    }
  }
  const auto& backends = lists.backends;
  const Backend baseline = lists.baseline.value_or(backends.front());
  if (std::find(backends.begin(), backends.end(), baseline) != backends.end()) return {};
  std::vector<std::string> names;
  for (const Backend backend : backends) names.push_back(name_of(backend));
  return failure(fmt::format("baseline='{}' is not allowed; allowed: {}", name_of(baseline),
                             fmt::join(names, ", ")));
}

}  // namespace

CompareLists default_compare_lists() {
  return {.backends = {Backend::kIdeal, Backend::kTrioMl, Backend::kSwitchml256,
                       Backend::kSwitchml64, Backend::kSwitchml64Timeout, Backend::kSwitchmlOnTrio,
                       Backend::kPsDedicated, Backend::kPsColocated, Backend::kRing},
          .models = {Model::kResnet50},
          .workers = {6},
          .loss = {0},
          .straggling = {0, 0.16}};
}

Result<void> set_compare_list(CompareLists& lists, const std::string& name, const std::string& text,
                              const std::string& where) {
  const std::string place = where.empty() ? "" : where + ": ";
  if (name == kBaseline) {
    const auto scenario = read_value("backend", text, where);
    if (!scenario) return tl::unexpected(scenario.error());
    lists.baseline = scenario->backend;
    return {};
  }
  std::vector<std::string> names{kBaseline};
  for (const List& list : kLists) {
    names.emplace_back(list.name);
    if (name != list.name) continue;
    const std::vector<std::string> items = split(text);
    if (items.empty()) {
      return failure(fmt::format("{}{}='' is not allowed; allowed: a list of values", place, name));
    }
    list.clear(lists);
    std::set<std::string> seen;
    for (const std::string& item : items) {
      const auto scenario = read_value(list.key, item, where);
      if (!scenario) return tl::unexpected(scenario.error());
      if (!seen.insert(find_scenario_key(list.key)->show(*scenario)).second) {
        return failure(
            fmt::format("{}{}={} stands twice; allowed: each value once", place, name, item));
      }
      list.add(lists, *scenario);
    }
    return {};
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

bool involves_chance(const Scenario& scenario) {
  const net::LinkFaults none{.reorder_max = scenario.link.faults.reorder_max};
  const net::LinkFaults none_in_fabric{.reorder_max = scenario.fabric.faults.reorder_max};
  // A topology file sets faults of its own.
  return scenario.topology == Topology::kFile ||
         !scenario.straggler.pattern.contains(Straggling::kNone) || scenario.link.faults != none ||
         scenario.fabric.faults != none_in_fabric;
}

Result<Comparison> make_comparison(const CompareLists& lists, std::span<const WrittenKey> settings,
                                   uint32_t seeds) {
  TRIB_ASSERT(!lists.backends.empty() && seeds > 0);
  const Result<std::vector<Setting>> read = read_settings(settings);
  if (!read) return tl::unexpected(read.error());
  if (auto good = check_lists(lists, settings); !good) return tl::unexpected(good.error());
  Comparison comparison;
  comparison.baseline = lists.baseline.value_or(lists.backends.front());
  comparison.cases = cases_of(lists);
  comparison.settings = settings_text(settings);
  for (size_t i = 0; i < comparison.cases.size(); i++) {
    const CompareCase& at = comparison.cases[i];
    for (const Backend backend : lists.backends) {
      CompareCell cell{.case_index = i, .backend = backend};
      auto scenario = with_settings(*read, scenario_of(at, backend_kind(backend)));
      if (scenario) {
        cell.scenario = *std::move(scenario);
        add_points(comparison.points, at, cell, seeds);
      } else {
        cell.refusal = scenario.error().text;
      }
      comparison.cells.push_back(std::move(cell));
    }
  }
  if (comparison.points.empty()) return failure(comparison.cells.front().refusal);
  if (!comparison.points.front().scenario.captures.empty()) {
    return failure(
        "capture is not allowed in a comparison, whose runs would write one file; allowed: none");
  }
  if (const auto good = check_effects(comparison.points, *read); !good) {
    return tl::unexpected(good.error());
  }
  return comparison;
}

}  // namespace tributary::lab
