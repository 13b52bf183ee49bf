// SPDX-License-Identifier: Apache-2.0
#include "bench/race/race.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "bench/race/network.h"
#include "bench/race/round.h"

namespace tributary::race {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kBytesMax = 400'000'000;
constexpr double kLossMax = 0.5;
/// A lap has enough all-reduces to reach about this size, so that the start of all workers takes a
/// small part of it.
constexpr uint64_t kLapBytes = 10'000'000;
constexpr uint32_t kReductionsMax = 20;
/// Laps in a turn. Short laps need more of them for a median.
constexpr uint32_t kLapsOfSmall = 5;
constexpr uint32_t kLapsOfLarge = 2;
constexpr uint64_t kLargeBytes = 50'000'000;

template <class Table>
std::string names_of(const Table& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Returns the names of the networks on which --servers has a meaning.
std::string nets_with_servers() {
  std::vector<std::string> names;
  for (const NetKind& kind : net_kinds()) {
    if (kind.all_shaped) names.emplace_back(kind.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

bool takes_part(const RaceConfig& config, const System& system) {
  const auto& wanted = config.systems;
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), system.name) != wanted.end();
}

uint32_t reductions_for(uint64_t bytes) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(kLapBytes / bytes, 1, kReductionsMax));
}

uint32_t laps_for(const RaceConfig& config, const RaceCase& race) {
  if (config.laps > 0) return config.laps;
  return race.bytes >= kLargeBytes || race.straggler ? kLapsOfLarge : kLapsOfSmall;
}

class Race {
 public:
  Race(const RaceConfig& config, const RaceHooks& hooks)
      : config_(config), hooks_(hooks), programs_(find_programs(config.tributary)) {}

  RaceResult run();

 private:
  /// Runs all cases of one network.
  void run_on(const NetKind& kind, std::span<const RaceCase> cases);
  void run_case(RaceNetwork& network, const RaceCase& race);
  /// Returns the entries of a case that can run. The others are left out, with a reason.
  std::vector<Entry> runnable_entries(const NetKind& kind, const RaceCase& race);
  void leave_out(const std::string& system, const RaceCase& race, const std::string& why);

  const RaceConfig& config_;
  const RaceHooks& hooks_;
  const Programs programs_;
  uint32_t cases_done_ = 0;
  uint32_t cases_ = 0;
  RaceResult result_;
};

void Race::leave_out(const std::string& system, const RaceCase& race, const std::string& why) {
  result_.left_out.push_back({system, race, why});
}

void Race::run_case(RaceNetwork& network, const RaceCase& race) {
  if (network.kind().may_lose()) {
    if (const auto set = network.set_loss(race.loss); !set) {
      return leave_out("", race, set.error().text);
    }
  }
  const std::vector<Entry> entries = runnable_entries(network.kind(), race);
  std::vector<std::vector<Lap>> laps(entries.size());
  std::vector<bool> out(entries.size());
  for (uint32_t round = 0; round < config_.rounds; round++) {
    for (size_t i = 0; i < entries.size(); i++) {
      if (out[i] || hooks_.interrupted()) continue;
      const RoundPlan plan{.system = entries[i].system,
                           .race = entries[i].race,
                           .round = round,
                           .laps = laps_for(config_, race),
                           .reductions = reductions_for(race.bytes)};
      const auto ran = run_round(plan, network, programs_, hooks_.interrupted);
      if (ran) {
        laps[i].insert(laps[i].end(), ran->begin(), ran->end());
      } else if (!hooks_.interrupted()) {
        leave_out(plan.system->name, plan.race,
                  fmt::format("round {}: {}", round + 1, ran.error().text));
        out[i] = true;  // Its row would lack rounds of the others.
      }
    }
  }
  for (size_t i = 0; i < entries.size(); i++) {
    if (out[i]) continue;
    if (auto row = row_of(entries[i].system->name, entries[i].race, laps[i])) {
      result_.rows.push_back(*row);
    }
  }
}

std::vector<Entry> Race::runnable_entries(const NetKind& kind, const RaceCase& race) {
  std::vector<Entry> runnable;
  for (const Entry& entry : entries_of(config_, race)) {
    // Skip silently: shared memory is not expected in a network's table.
    if (entry.system->uses_shared_memory() && !kind.shared_memory) continue;
    const std::string why = refusal(*entry.system, kind, entry.race, programs_);
    if (why.empty()) {
      runnable.push_back(entry);
    } else {
      leave_out(entry.system->name, entry.race, why);
    }
  }
  return runnable;
}

void Race::run_on(const NetKind& kind, std::span<const RaceCase> cases) {
  uint32_t workers = 0;
  for (const RaceCase& race : cases) workers = std::max(workers, race.workers);
  // The parameter server needs a machine even if Tributary needs none.
  uint32_t spares = 1;
  for (const uint32_t servers : config_.servers) spares = std::max(spares, servers);
  auto network = RaceNetwork::make(kind, workers, spares);
  if (!network) {
    leave_out("", cases.front(), network.error().text);
    cases_done_ += static_cast<uint32_t>(cases.size());
    return;
  }
  for (const RaceCase& race : cases) {
    if (hooks_.interrupted()) return;
    hooks_.progress(fmt::format("case {} of {}: {}, {} workers, {} MB, loss {} %{}", ++cases_done_,
                                cases_, race.net, race.workers,
                                static_cast<double>(race.bytes) * 1e-6, race.loss * 100,
                                race.straggler ? ", one worker late" : ""));
    run_case(*network, race);
  }
}

RaceResult Race::run() {
  const auto begin = Clock::now();
  result_.machine = observe_machine();
  result_.handoff_before_ns = measure_handoff();
  const std::vector<RaceCase> cases = cases_of(config_);
  cases_ = static_cast<uint32_t>(cases.size());
  for (size_t first = 0; first < cases.size() && !hooks_.interrupted();) {
    const auto other =
        std::find_if(cases.begin() + static_cast<std::ptrdiff_t>(first), cases.end(),
                     [&](const RaceCase& race) { return race.net != cases[first].net; });
    const auto end = static_cast<size_t>(other - cases.begin());
    run_on(*find_net_kind(cases[first].net), std::span(cases).subspan(first, end - first));
    first = end;
  }
  result_.interrupted = hooks_.interrupted();
  result_.handoff_after_ns = measure_handoff();
  result_.load_after = observe_machine().load;
  result_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return std::move(result_);
}

}  // namespace

Result<void> check(const RaceConfig& config) {
  for (const std::string& name : config.systems) {
    if (find_system(name) != nullptr) continue;
    return failure(
        fmt::format("--systems {} is not allowed; allowed: {}", name, names_of(systems())));
  }
  for (const std::string& name : config.nets) {
    if (find_net_kind(name) != nullptr) continue;
    return failure(
        fmt::format("--nets {} is not allowed; allowed: {}", name, names_of(net_kinds())));
  }
  for (const uint32_t workers : config.workers) {
    if (workers >= 2 && workers <= kWorkersMax) continue;
    return failure(
        fmt::format("--workers {} is not allowed; allowed: 2 to {}", workers, kWorkersMax));
  }
  for (const uint64_t bytes : config.bytes) {
    if (bytes > 0 && bytes % 4 == 0 && bytes <= kBytesMax) continue;
    return failure(fmt::format("--bytes {} is not allowed; allowed: multiples of 4 up to {}", bytes,
                               kBytesMax));
  }
  for (const uint32_t servers : config.servers) {
    if (servers <= kSparesMax) continue;
    return failure(
        fmt::format("--servers {} is not allowed; allowed: 0 to {}", servers, kSparesMax));
  }
  for (const std::string& name : config.nets) {
    if (config.servers.empty() || find_net_kind(name)->all_shaped) continue;
    return failure(
        fmt::format("--servers is not allowed with --nets {}, where one server has a "
                    "link without limit; allowed: {}",
                    name, nets_with_servers()));
  }
  for (const double loss : config.losses) {
    if (loss >= 0 && loss <= kLossMax) continue;
    return failure(fmt::format("--loss {} is not allowed; allowed: 0 to {}", loss, kLossMax));
  }
  for (const uint32_t wire : config.wires) {
    if (wire == 16 || wire == 32) continue;
    return failure(fmt::format("--wire {} is not allowed; allowed: 16 and 32", wire));
  }
  const bool empty = config.nets.empty() || config.wires.empty() || config.workers.empty() ||
                     config.bytes.empty() || config.losses.empty() || config.rounds == 0;
  if (empty)
    return failure("--nets, --workers, --bytes, --wire, --loss, --rounds: each needs a value");
  return {};
}

std::vector<RaceCase> cases_of(const RaceConfig& config) {
  std::vector<RaceCase> cases;
  for (const std::string& net : config.nets) {
    for (const uint32_t workers : config.workers) {
      for (const uint64_t bytes : config.bytes) {
        for (const uint32_t wire : config.wires) {
          RaceCase one{.net = net, .workers = workers, .bytes = bytes, .wire = wire};
          for (const double loss : config.losses) {
            cases.push_back(one);
            cases.back().loss = loss;
          }
          one.straggler = true;
          if (config.straggler) cases.push_back(one);
        }
      }
    }
  }
  return cases;
}

std::vector<Entry> entries_of(const RaceConfig& config, const RaceCase& race) {
  std::vector<Entry> entries;
  const bool all_shaped = find_net_kind(race.net)->all_shaped;
  for (const System& system : systems()) {
    if (!takes_part(config, system)) continue;
    const bool sharded = all_shaped && system.kind == SystemKind::kTributary && !system.multicast;
    if (!sharded || config.servers.empty()) {
      entries.push_back({&system, race});
      continue;
    }
    for (const uint32_t servers : config.servers) {
      entries.push_back({&system, race});
      entries.back().race.servers = servers;
    }
  }
  return entries;
}

RaceResult run_race(const RaceConfig& config, const RaceHooks& hooks) {
  return Race(config, hooks).run();
}

bool all_sums_correct(const RaceResult& result) {
  return !result.rows.empty() &&
         std::all_of(result.rows.begin(), result.rows.end(),
                     [](const RaceRow& row) { return row.wrong == 0 && row.laps_differ == 0; });
}

}  // namespace tributary::race
