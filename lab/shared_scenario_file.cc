// SPDX-License-Identifier: Apache-2.0
#include "lab/shared_scenario_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/number_text.h"
#include "base/prng.h"
#include "base/toml_file.h"
#include "lab/scenario_file.h"

namespace tributary::lab {
namespace {

constexpr char kJobTable[] = "job";
constexpr char kWorkersKey[] = "workers";
constexpr double kStartMsMax = 1e9;

const KeyTable& own_keys() {
  static const std::array<KeySpec, 4> kKeys{
      KeySpec{.name = "name", .type = KeyType::kText, .help = "its name", .required = true},
      KeySpec{.name = "hosts", .type = KeyType::kText, .help = "hosts of its workers: 0-3,8"},
      KeySpec{.name = "racks", .type = KeyType::kText, .help = "leaves with its workers"},
      KeySpec{.name = "start_ms",
              .type = KeyType::kNumber,
              .help = "when its workers join",
              .default_text = "0",
              .number_max = kStartMsMax}};
  static const KeyTable kTable(kJobTable, kKeys);
  return kTable;
}

/// Returns whether a key concerns the network, which all jobs share.
bool is_of_network(std::string_view key) {
  static constexpr std::array<std::string_view, 7> kNames{
      "topology", "topology_file", "leaves", "spines", "train", "capture", "limit_s"};
  static constexpr std::array<std::string_view, 4> kTables{"link.", "fabric.", "pfe.", "timeline."};
  return std::find(kNames.begin(), kNames.end(), key) != kNames.end() ||
         std::any_of(kTables.begin(), kTables.end(),
                     [&](std::string_view table) { return key.starts_with(table); });
}

/// Parses "0-3,8". Sorts the numbers.
Result<std::vector<uint32_t>> parse_ranges(const std::string& text, const std::string& prefix,
                                           const char* key) {
  constexpr uint32_t kMost = kWorkersMax - 1;
  const auto refuse = [&](const std::string& item) {
    return failure(
        fmt::format("{}{}='{}' is not a list; allowed: numbers and ranges from 0 to {}, each "
                    "number once, as in \"0-3,8\"",
                    prefix, key, item, kMost));
  };
  std::set<uint32_t> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t dash = std::min(item.find('-'), item.size());
    const auto low = parse_number<uint32_t>(item.substr(0, dash));
    const auto high = dash == item.size() ? low : parse_number<uint32_t>(item.substr(dash + 1));
    if (!low || !high || *low > *high || *high > kMost) return refuse(item);
    for (uint32_t number = *low; number <= *high; number++) {
      if (!numbers.insert(number).second) return refuse(item);
    }
  }
  return std::vector<uint32_t>(numbers.begin(), numbers.end());
}

/// A job as its table has it, before it has hosts.
struct WrittenJob {
  SharedJob job;
  std::string prefix;   ///< Begins its error messages.
  bool counts = false;  ///< True if it states its number of workers.
  std::vector<uint32_t> racks;
};

/// Reads the tables of one file.
class Reader {
 public:
  Reader(const std::string& path, std::span<const WrittenKey> settings)
      : path_(path), flags_(settings.begin(), settings.end()) {}

  Result<SharedScenario> read() {
    const Result<toml::table> file = parse_toml_file(path_, path_);
    if (!file) return tl::unexpected(file.error());
    const toml::node* const node = file->get(kJobTable);
    if (node == nullptr || !node->is_array_of_tables()) {
      return failure(fmt::format("{}: job is not a list of tables; allowed: [[job]]",
                                 node == nullptr ? path_ : place_of(path_, *node)));
    }
    if (auto good = read_top(*file); !good) return tl::unexpected(good.error());
    const toml::array& tables = *node->as_array();
    for (size_t i = 0; i < tables.size(); i++) {
      if (auto good = read_job(*tables[i].as_table()); !good) return tl::unexpected(good.error());
    }
    if (auto good = check_shared_keys(); !good) return tl::unexpected(good.error());
    std::sort(jobs_.begin(), jobs_.end(),
              [](const WrittenJob& a, const WrittenJob& b) { return a.job.name < b.job.name; });
    for (WrittenJob& written : jobs_) {
      if (auto good = place(written); !good) return tl::unexpected(good.error());
    }
    SharedScenario scenario{.network = network_, .jobs = {}};
    for (WrittenJob& written : jobs_) {
      adapt(written);
      scenario.jobs.push_back(std::move(written.job));
    }
    if (auto good = check(scenario); !good) {
      const bool placed = good.error().text.starts_with(path_);
      return failure((placed ? "" : path_ + ": ") + good.error().text);
    }
    return scenario;
  }

 private:
  Result<void> read_top(const toml::table& file) {
    std::vector<WrittenKey> keys = keys_of(file, path_);
    std::erase_if(keys, [](const WrittenKey& key) { return key.name == kJobTable; });
    auto settings = read_settings(keys);
    if (!settings) return tl::unexpected(settings.error());
    top_ = *std::move(settings);
    settings = read_settings(flags_);
    if (!settings) return tl::unexpected(settings.error());
    overrides_ = *std::move(settings);
    for (const Setting& setting : top_) setting.set(network_);
    for (const Setting& setting : overrides_) setting.set(network_);
    return {};
  }

  Result<void> read_job(const toml::table& table) {
    WrittenJob written;
    const std::string where = place_of(path_, table);
    std::vector<WrittenKey> own;
    std::vector<WrittenKey> keys;
    bool has_seed = false;
    for (WrittenKey& key : keys_of(table, path_)) {
      if (is_of_network(key.name)) {
        return failure(fmt::format("{}: {} concerns the network; allowed: above the first [[job]]",
                                   key.where, key.name));
      }
      written.counts = written.counts || key.name == kWorkersKey;
      has_seed = has_seed || key.name == "seed";
      const bool is_list = key.name == "hosts" || key.name == "racks";
      if (is_list) key.type = WrittenType::kUntyped;
      (own_keys().index_of(key.name) >= 0 ? own : keys).push_back(std::move(key));
    }
    const auto row = own_keys().read(own, where);
    if (!row) return tl::unexpected(row.error());
    const auto settings = read_settings(keys);
    if (!settings) return tl::unexpected(settings.error());
    SharedJob& job = written.job;
    job.name = row->text("name");
    job.where = where;
    job.start = Duration::from_ticks(
        std::llround(row->number("start_ms") * static_cast<double>(milliseconds(1).ticks())));
    written.prefix = fmt::format("{}: job '{}': ", where, job.name);
    for (const Setting& setting : top_) setting.set(job.scenario);
    if (!has_seed) job.scenario.seed = seed_of(job.name);
    for (const Setting& setting : *settings) setting.set(job.scenario);
    for (const Setting& setting : overrides_) {
      if (setting.name != kWorkersKey) setting.set(job.scenario);
    }
    if (auto good = check_effects(job.scenario, *settings); !good) return good;
    if (row->has("hosts") && row->has("racks")) {
      return failure(written.prefix + "it has hosts and racks; allowed: one of them");
    }
    for (const auto& [key, numbers] :
         {std::pair("hosts", &job.hosts), std::pair("racks", &written.racks)}) {
      if (!row->has(key)) continue;
      auto parsed = parse_ranges(row->text(key), written.prefix, key);
      if (!parsed) return tl::unexpected(parsed.error());
      *numbers = *std::move(parsed);
    }
    if (!written.counts && job.hosts.empty()) {
      return failure(written.prefix + "it has no workers; allowed: workers = N, or hosts");
    }
    if (!written.counts) job.scenario.workers = static_cast<uint32_t>(job.hosts.size());
    jobs_.push_back(std::move(written));
    return {};
  }

  /// Refuses keys above the jobs, and flags, that have no effect in any job.
  [[nodiscard]] Result<void> check_shared_keys() const {
    // Until adapt() a job also has the keys of the network.
    std::vector<const Scenario*> scenarios;
    for (const WrittenJob& written : jobs_) scenarios.push_back(&written.job.scenario);
    if (auto good = check_effects(scenarios, top_, "job"); !good) return good;
    return check_effects(scenarios, overrides_, "job");
  }

  [[nodiscard]] uint64_t seed_of(const std::string& name) const {
    // FNV-1a, so that a job's seed does not depend on the other jobs.
    uint64_t hash = 0xcbf2'9ce4'8422'2325;
    for (const char letter : name) {
      hash = (hash ^ static_cast<uint8_t>(letter)) * 0x0000'0100'0000'01b3;
    }
    return Prng(network_.seed ^ hash).any_u64() >> 1;  // Keys are TOML's, up to 2^63 - 1.
  }

  [[nodiscard]] bool has_racks() const {
    return network_.topology != Topology::kStar && network_.topology != Topology::kFile;
  }
  [[nodiscard]] uint32_t rack_of(uint32_t host) const {
    return host / std::max(network_.workers / network_.leaves, 1U);
  }

  /// Gives the job its hosts, unless it names them.
  Result<void> place(WrittenJob& written) {
    SharedJob& job = written.job;
    if (!job.hosts.empty()) return {};
    if (!written.racks.empty() && !has_racks()) {
      return failure(
          fmt::format("{}racks={} is not allowed; allowed: topology chassis, two-level or "
                      "leaf-spine",
                      written.prefix, fmt::join(written.racks, ",")));
    }
    for (const uint32_t rack : written.racks) {
      if (rack < network_.leaves) continue;
      return failure(fmt::format("{}racks={} is not allowed; allowed: 0 to {}", written.prefix,
                                 rack, network_.leaves - 1));
    }
    const size_t turns = std::max<size_t>(written.racks.size(), 1);
    size_t without = 0;  // Racks in a row without a free host.
    for (size_t turn = 0; job.hosts.size() < job.scenario.workers && without < turns;
         turn = (turn + 1) % turns) {
      const auto host =
          free_host(written.racks.empty() ? std::nullopt : std::optional(written.racks[turn]));
      without = host ? 0 : without + 1;
      if (!host) continue;
      job.hosts.push_back(*host);
      taken_.insert(*host);
    }
    if (job.hosts.size() < job.scenario.workers) {
      return failure(
          fmt::format("{}workers={} is not allowed; allowed: up to {}, the hosts that other "
                      "jobs leave",
                      written.prefix, job.scenario.workers, job.hosts.size()));
    }
    std::sort(job.hosts.begin(), job.hosts.end());
    return {};
  }

  [[nodiscard]] std::optional<uint32_t> free_host(std::optional<uint32_t> rack) {
    if (!named_taken_) {
      for (const WrittenJob& written : jobs_) {
        taken_.insert(written.job.hosts.begin(), written.job.hosts.end());
      }
      named_taken_ = true;
    }
    for (uint32_t host = 0; host < network_.workers; host++) {
      if ((!rack || rack_of(host) == *rack) && !taken_.contains(host)) return host;
    }
    return std::nullopt;
  }

  /// Rewrites the scenario's hosts and racks for the job's own ranks.
  void adapt(WrittenJob& written) const {
    SharedJob& job = written.job;
    Scenario& scenario = job.scenario;
    scenario.captures.clear();
    scenario.timeline = {};
    scenario.slow_links.workers.clear();
    scenario.slow_uplinks.racks.clear();
    for (uint32_t rank = 0; rank < job.hosts.size(); rank++) {
      const auto& slow = network_.slow_links.workers;
      if (std::find(slow.begin(), slow.end(), job.hosts[rank]) != slow.end()) {
        scenario.slow_links.workers.push_back(rank);
      }
    }
    if (has_racks()) name_stragglers(job);
    // The job's own shape is that of its workers; the network knows the leaves.
    scenario.topology = Topology::kStar;
    scenario.topology_file.clear();
    scenario.leaves = Scenario().leaves;
  }

  /// Names the workers of the straggling racks one by one.
  void name_stragglers(SharedJob& job) const {
    Scenario& scenario = job.scenario;
    std::set<uint32_t> stragglers(scenario.straggler.workers.begin(),
                                  scenario.straggler.workers.end());
    for (uint32_t rank = 0; rank < job.hosts.size(); rank++) {
      const auto& racks = scenario.straggler.racks;
      const bool named =
          std::find(racks.begin(), racks.end(), rack_of(job.hosts[rank])) != racks.end();
      if (named) stragglers.insert(rank);
    }
    scenario.straggler.workers.assign(stragglers.begin(), stragglers.end());
    scenario.straggler.racks.clear();
  }

  const std::string path_;
  const std::vector<WrittenKey> flags_;
  std::vector<Setting> top_;
  std::vector<Setting> overrides_;
  Scenario network_;
  std::vector<WrittenJob> jobs_;
  std::set<uint32_t> taken_;
  bool named_taken_ = false;
};

}  // namespace

Result<bool> names_jobs(const std::string& path) {
  const Result<toml::table> file = parse_toml_file(path, path);
  if (!file) return tl::unexpected(file.error());
  return file->contains(kJobTable);
}

Result<SharedScenario> read_shared_scenario(const std::string& path,
                                            std::span<const WrittenKey> settings) {
  return Reader(path, settings).read();
}

std::string shared_scenario_text(const SharedScenario& scenario) {
  std::string text = scenario_text(scenario.network);
  for (const SharedJob& job : scenario.jobs) {
    text += fmt::format("\n[[job]]\nname = \"{}\"\nhosts = \"{}\"\nstart_ms = {}\n", job.name,
                        fmt::join(job.hosts, ","), as_ms(job.start));
    const std::string own = scenario_text(job.scenario);
    for (size_t begin = 0; begin < own.size();) {
      const size_t end = own.find('\n', begin) + 1;
      const std::string line = own.substr(begin, end - begin);
      if (!is_of_network(line.substr(0, line.find(' ')))) text += line;
      begin = end;
    }
  }
  return text;
}

}  // namespace tributary::lab
