// SPDX-License-Identifier: Apache-2.0
#include "lab/shared_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "lab/backends/backend.h"
#include "lab/scenario_file.h"
#include "memory/shared_memory.h"
#include "wire/trio_ml.h"

namespace tributary::lab {
namespace {

std::string prefix_of(const SharedJob& job) {
  const std::string place = job.where.empty() ? "" : job.where + ": ";
  return fmt::format("{}job '{}': ", place, job.name);
}

tl::unexpected<Error> refused(const SharedJob& job, const std::string& key,
                              const std::string& value, const std::string& allowed) {
  return failure(
      fmt::format("{}{}={} is not allowed; allowed: {}", prefix_of(job), key, value, allowed));
}

/// Returns a scenario with only the network's keys, for a back end to which everything else is
/// free.
Scenario network_alone(const Scenario& network) {
  Scenario alone;
  alone.backend = Backend::kRing;
  // A ring cannot be a tree, but leaves and uplinks of a leaf-spine follow the same rules.
  const bool has_leaves =
      network.topology != Topology::kStar && network.topology != Topology::kFile;
  alone.topology = has_leaves ? Topology::kLeafSpine : network.topology;
  alone.topology_file = network.topology_file;
  alone.leaves = network.leaves;
  alone.spines = network.spines;
  alone.workers = network.workers;
  alone.link = network.link;
  alone.fabric = network.fabric;
  alone.slow_links = network.slow_links;
  alone.slow_uplinks = network.slow_uplinks;
  alone.train = network.train;
  alone.window = std::max(alone.window, network.train);
  alone.pfe = network.pfe;
  alone.timeline = network.timeline;
  alone.captures = network.captures;
  alone.limit = network.limit;
  // Each job's own setting is checked with it.
  alone.gradients = 1;
  alone.host.retransmission = true;
  return alone;
}

/// The uplinks exist whichever back ends the jobs have.
Result<void> check_network(const Scenario& network) { return check(network_alone(network)); }

Result<void> check_name(const SharedJob& job) {
  constexpr size_t kLongest = 32;
  const bool good = !job.name.empty() && job.name.size() <= kLongest &&
                    std::all_of(job.name.begin(), job.name.end(), [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
                    });
  if (good) return {};
  return refused(job, "name", "'" + job.name + "'",
                 fmt::format("1 to {} lower-case letters, digits and dashes", kLongest));
}

Result<void> check_backend(const SharedJob& job) {
  if (backend_kind(job.scenario.backend).shares) return {};
  std::vector<std::string> names;
  for (const BackendKind& kind : backend_kinds()) {
    if (kind.shares) names.push_back(kind.choice.name);
  }
  return refused(job, "backend", name_of(job.scenario.backend),
                 fmt::format("{}: the others cannot share a network", fmt::join(names, ", ")));
}

Result<void> check_hosts(const SharedScenario& scenario, const SharedJob& job,
                         std::map<uint32_t, const SharedJob*>& taken) {
  if (job.hosts.empty() || job.hosts.size() != job.scenario.workers) {
    return refused(job, "workers", std::to_string(job.scenario.workers),
                   fmt::format("{}, the number of its hosts", job.hosts.size()));
  }
  if (!std::is_sorted(job.hosts.begin(), job.hosts.end())) {
    return refused(job, "hosts", fmt::format("{}", fmt::join(job.hosts, ",")), "in order");
  }
  for (const uint32_t host : job.hosts) {
    if (host >= scenario.network.workers) {
      return refused(job, "hosts", std::to_string(host),
                     fmt::format("0 to {}", scenario.network.workers - 1));
    }
    const auto [other, is_new] = taken.emplace(host, &job);
    if (is_new) continue;
    return refused(job, "hosts", std::to_string(host),
                   fmt::format("hosts without a worker; '{}' has this one", other->second->name));
  }
  return {};
}

/// Refuses jobs that need more ids or more memory of a switch than there are.
Result<void> check_switches(const SharedScenario& scenario) {
  uint64_t ids = 0;
  uint64_t bytes = 0;
  for (const SharedJob& job : scenario.jobs) {
    ids += job.scenario.host.priorities;
    const BackendKind& backend = backend_kind(job.scenario.backend);
    if (backend.placement != Placement::kSwitch) continue;
    Scenario unscaled = job.scenario;
    unscaled.train = 1;
    unscaled.workers = std::min(unscaled.workers, wire::kSourcesMax);
    const trio_ml::JobConfig config = job_of(unscaled, backend);
    bytes += trio_ml::memory_bytes(config, 1) * config.channels;
  }
  if (ids >= wire::kJobsMax) {
    return failure(fmt::format("the jobs have {} priorities together; allowed: up to {}", ids,
                               wire::kJobsMax - 1));
  }
  const uint64_t available = memory::SharedMemory::Config().dram_size_bytes;
  if (bytes <= available) return {};
  constexpr double kGib = 1 << 30;
  return failure(fmt::format(
      "the jobs need {:.1f} GiB of a switch's memory; allowed: {:.0f} GiB, with smaller "
      "window, gradients or mitigation.history",
      static_cast<double>(bytes) / kGib, static_cast<double>(available) / kGib));
}

}  // namespace

std::optional<double> JobResult::slowdown() const {
  if (!alone || alone->ticks() == 0) return std::nullopt;
  return static_cast<double>(run.mean_iteration.ticks()) / static_cast<double>(alone->ticks());
}

Result<void> check(const SharedScenario& scenario) {
  if (scenario.jobs.empty() || scenario.jobs.size() > kSharedJobsMax) {
    return failure(fmt::format("{} jobs are not allowed; allowed: 1 to {}", scenario.jobs.size(),
                               kSharedJobsMax));
  }
  if (auto good = check_network(scenario.network); !good) return good;
  std::map<uint32_t, const SharedJob*> taken;
  std::set<std::string> names;
  for (const SharedJob& job : scenario.jobs) {
    if (auto good = check_name(job); !good) return good;
    if (!names.insert(job.name).second) {
      return refused(job, "name", "'" + job.name + "'", "a name once");
    }
    if (auto good = check_backend(job); !good) return good;
    if (auto good = check_hosts(scenario, job, taken); !good) return good;
    if (job.start < Duration()) return refused(job, "start_ms", "below 0", "0 or more");
    if (job.scenario.workers > wire::kSourcesMax &&
        backend_kind(job.scenario.backend).placement != Placement::kWorkers) {
      return refused(
          job, "workers", std::to_string(job.scenario.workers),
          fmt::format("1 to {} for a job that aggregates in a shared network", wire::kSourcesMax));
    }
    if (auto refusal = find_refusal(job.scenario)) {
      return failure(prefix_of(job) + refusal->text);
    }
  }
  return check_switches(scenario);
}

}  // namespace tributary::lab
