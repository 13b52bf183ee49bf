// SPDX-License-Identifier: Apache-2.0
#include "cli/launch/aggregator_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <variant>

#include "base/cpus.h"
#include "base/endpoint.h"
#include "base/key_table.h"
#include "base/number_text.h"
#include "cli/plan/plan_report.h"
#include "io/udp/resolve.h"
#include "wire/headers.h"
#include "wire/trio_ml.h"

namespace tributary::cli {
namespace {

constexpr const char* kColocated = "colocated";
/// An upper aggregator waits so many timeouts of a lower one: a lower block may take two before its
/// sum goes up.
constexpr int64_t kUpperTimeouts = 3;

/// Returns how many aggregators to start on this machine; nothing if the text is not allowed.
std::optional<uint32_t> aggregator_count(const LaunchConfig& config) {
  if (config.aggregators == kColocated) return 1;
  const auto number = convert_key(
      {.name = "aggregators", .type = KeyType::kUint, .min = 1, .max = kLaunchAggregatorsMax},
      {.name = "aggregators", .text = config.aggregators, .where = ""});
  if (!number) return std::nullopt;
  return static_cast<uint32_t>(std::get<uint64_t>(*number));
}

/// Returns the time after which the aggregator stops waiting for a straggler. A rank that misses
/// two blocks in a row may sleep for long, so the others should not wait a timeout for each block.
/// The rank returns with its next contribution.
Duration permanent_after(const LaunchConfig& config) {
  constexpr Duration kLeast = milliseconds(10);  // Minimum of the job key permanent_ms.
  if (config.permanent_after > Duration()) return config.permanent_after;
  if (config.straggler_timeout == Duration()) return Duration();
  return std::max(config.straggler_timeout * 2, kLeast);
}

/// Inserts `number` before the file's extension.
std::string numbered(const std::string& path, size_t number) {
  const std::filesystem::path file(path);
  const std::string name =
      fmt::format("{}-{}{}", file.stem().string(), number, file.extension().string());
  return (file.parent_path() / name).string();
}

/// Returns the channels of a rank: its threads times its priorities, as the URL's keys say. Ranks
/// refuse values that are not allowed; here they count as 1.
uint64_t channels_of(const LaunchConfig& config) {
  uint64_t channels = 1;
  for (const std::string& option : config.url_options) {
    for (const std::string_view key : {"threads=", "priorities="}) {
      if (!option.starts_with(key)) continue;
      const uint64_t number = parse_number<uint64_t>(option.substr(key.size())).value_or(0);
      if (number >= 1 && number <= wire::kChannelsMax) channels *= number;
    }
  }
  return std::min<uint64_t>(channels, wire::kChannelsMax);
}

/// The job of one aggregator.
struct JobShape {
  uint32_t sources = 1;
  int64_t timeouts = 1;   ///< Factor of the straggler timeouts.
  std::string tree = {};  ///< Its keys of a tree, with a comma before each.
};

/// Tells whether --job-option gives a key of the job.
bool gives_job_key(const LaunchConfig& config, std::string_view key) {
  const std::string start = fmt::format(",{}=", key);
  return std::ranges::any_of(config.job_options, [&start](const std::string& option) {
    return ("," + option).find(start) != std::string::npos;
  });
}

/// Returns the keys that launch sets itself.
std::string own_keys_of_job(const LaunchConfig& config, const JobShape& shape) {
  std::string job = fmt::format("id={},sources={},window={},block_grad_max=4095,history={}",
                                config.job_id, shape.sources, config.job_window, config.history);
  if (const uint64_t channels = channels_of(config); channels > 1) {
    job += fmt::format(",channels={}", channels);
  }
  if (config.straggler_timeout > Duration()) {
    job += fmt::format(",mitigation=on,timeout_ms={}",
                       in_milliseconds(config.straggler_timeout * shape.timeouts));
  }
  // A rank that sleeps in its script still sends keep-alives, so only a dead one is silent.
  const bool mitigates =
      config.straggler_timeout > Duration() || gives_job_key(config, "mitigation");
  if (mitigates && !gives_job_key(config, "silence")) job += ",silence=end";
  if (const Duration permanent = permanent_after(config); permanent > Duration()) {
    job += fmt::format(",permanent_ms={}", in_milliseconds(permanent * shape.timeouts));
  }
  if (config.auth != auth::Mode::kNone) job += fmt::format(",auth={}", to_string(config.auth));
  return job;
}

std::string job_of(const LaunchConfig& config, const JobShape& shape) {
  std::string job = own_keys_of_job(config, shape);
  for (const std::string& option : config.job_options) job += "," + option;
  return job + shape.tree;
}

ProgramPlan plan_aggregator(const LaunchConfig& config, const HostFacts& facts, const Ranks& ranks,
                            const std::string& address, const JobShape& shape) {
  ProgramPlan plan{.name = "the aggregator",
                   .program = facts.program,
                   .arguments = {"serve", "--listen", address, "--job", job_of(config, shape),
                                 "--log-level", "warn"},
                   .environment = {}};
  if (config.aggregator_cpu_percent < 100) {
    plan.arguments.insert(plan.arguments.end(),
                          {"--cpu-percent", fmt::format("{}", config.aggregator_cpu_percent)});
  }
  // Ranks on other machines may still ask for their last results.
  if (spans_machines(config, ranks)) {
    plan.arguments.insert(plan.arguments.end(), {"--linger-s", fmt::format("{}", kLinger.count())});
  }
  return plan;
}

/// Plans `config.aggregators` aggregators on this machine, each with the same share.
Aggregators plan_here(const LaunchConfig& config, const HostFacts& facts, const Ranks& ranks) {
  Aggregators plan;
  for (const uint16_t port : facts.aggregator_ports) {
    const std::string address = fmt::format("127.0.0.1:{}", port);
    plan.list += (plan.list.empty() ? "" : ",") + address;
    plan.started.push_back(plan_aggregator(config, facts, ranks, address, {ranks.world}));
    plan.started.back().share = address;
  }
  return plan;
}

/// Adds a lower aggregator for each of the report's, and replaces the list by theirs. Their ports
/// are the same on every machine, because the ranks compare their lists.
Result<void> add_lower(const LaunchConfig& config, const HostFacts& facts, const Ranks& ranks,
                       const PlanReport& report, Aggregators& plan) {
  plan.reduce_locally = true;
  std::vector<std::string> lower(report.machines.endpoints.size());
  uint32_t port = config.local_port;
  for (size_t i = 0; i < lower.size(); i++) {
    if (report.assignment.weights[i] == 0) continue;
    const auto upper = io::resolve(report.machines.endpoints[i], wire::kTrioMlPort);
    if (!upper) return failure(fmt::format("--workers, --servers: {}", upper.error().text));
    lower[i] = fmt::format("127.0.0.1:{}", port);
    const std::string tree =
        fmt::format(",upstream={},upstream_source={},rank_base={},world={}", upper->to_string(),
                    config.node_rank, ranks.first, ranks.world);
    // The socket also sends to the upper aggregator, so it cannot be bound to 127.0.0.1.
    const std::string address = fmt::format("{}:{}", upper->is_ipv4() ? "0.0.0.0" : "[::]", port++);
    plan.started.push_back(plan_aggregator(config, facts, ranks, address,
                                           {.sources = config.processes, .tree = tree}));
    plan.started.back().share = report.machines.endpoints[i];
  }
  if (port > UINT16_MAX) {
    return failure(fmt::format("--local-port {} leaves too few ports; allowed: up to {}",
                               config.local_port, UINT16_MAX - lower.size()));
  }
  plan.list = list_of_servers(lower, report.assignment.weights);
  return {};
}

Result<Aggregators> plan_colocated(const LaunchConfig& config, const HostFacts& facts,
                                   const Ranks& ranks) {
  const auto report = make_plan_report({.flags = config.machines, .job_id = config.job_id});
  if (!report) return tl::unexpected(report.error());
  Aggregators plan{.started = {}, .list = report->servers};
  const bool reduce_locally = config.local_reduce && config.processes > 1;
  if (report->assignment.weights[config.node_rank] > 0) {
    const std::string& own = report->machines.endpoints[config.node_rank];
    // The machine's own name may stand for an address that others do not reach. They may find
    // either an IPv4 or an IPv6 address under it, and [::] takes both.
    const bool is_ipv4 = Endpoint::parse(own).has_value() && !own.starts_with('[');
    const std::string every = is_ipv4 || !facts.has_ipv6 ? "0.0.0.0" : "[::]";
    JobShape shape{.sources = ranks.world};
    if (reduce_locally) {
      shape = {.sources = ranks.world / config.processes,
               .timeouts = kUpperTimeouts,
               .tree = fmt::format(",sources_are_aggregators=on,world={}", ranks.world)};
    }
    plan.started.push_back(
        plan_aggregator(config, facts, ranks, every + own.substr(own.rfind(':')), shape));
    plan.started.back().share = own;
  }
  if (!reduce_locally) return plan;
  if (const auto added = add_lower(config, facts, ranks, *report, plan); !added) {
    return tl::unexpected(added.error());
  }
  return plan;
}

/// Returns the CPUs of an aggregator: the list, which begins at another place for each. A server's
/// first core runs on the first CPU of its list.
std::string cpus_of(std::vector<int> cpus, size_t aggregator) {
  const auto first = cpus.begin() + static_cast<std::ptrdiff_t>(aggregator % cpus.size());
  std::rotate(cpus.begin(), first, cpus.end());
  return fmt::format("{}", fmt::join(cpus, ","));
}

/// Refuses a key that launch sets itself: a job takes each key once.
Result<void> check_job_options(const LaunchConfig& config) {
  const std::string own = "," + own_keys_of_job(config, {});
  for (const std::string& option : config.job_options) {
    for (size_t begin = 0; begin < option.size();) {
      const size_t end = std::min(option.find(',', begin), option.size());
      const std::string key = option.substr(begin, option.find('=', begin) - begin);
      if (own.find("," + key + "=") != std::string::npos) {
        return failure(fmt::format(
            "--job-option {}: tributary launch sets {} itself; to change it, see the flags in "
            "tributary launch --help",
            option, key));
      }
      begin = end + 1;
    }
  }
  return {};
}

/// Refuses flags of aggregators that launch starts, if it starts none.
Result<void> check_flags_of_started(const LaunchConfig& config) {
  if (config.server.empty() || config.backend != kOwnBackend) return {};
  const LaunchConfig usual{};
  struct Flag {
    bool given;
    const char* name;
    const char* remedy;
  };
  const std::array flags{
      Flag{config.straggler_timeout != usual.straggler_timeout, "--timeout-ms",
           "the job's keys mitigation=on and timeout_ms"},
      Flag{config.permanent_after != usual.permanent_after, "--permanent-ms",
           "the job's key permanent_ms"},
      Flag{config.job_window != usual.job_window, "--window", "the job's key window"},
      Flag{config.history != usual.history, "--history", "the job's key history"},
      Flag{!config.job_options.empty(), "--job-option", "the job's keys"},
      Flag{config.aggregator_cpu_percent != usual.aggregator_cpu_percent,
           "--aggregator-cpu-percent", "tributary serve --cpu-percent"},
      Flag{!config.serve_json_path.empty(), "--serve-json", "tributary serve --json"}};
  for (const Flag& flag : flags) {
    if (!flag.given) continue;
    return failure(fmt::format(
        "{} is for aggregators that tributary launch starts, and --server {} uses running ones; "
        "to fix: set {} where they run",
        flag.name, config.server, flag.remedy));
  }
  return {};
}

/// Refuses flags that have no effect without another one.
Result<void> check_flags_without_effect(const LaunchConfig& config) {
  if (config.backend != kOwnBackend) return {};
  const LaunchConfig usual{};
  if (config.permanent_after > Duration() && config.straggler_timeout == Duration() &&
      !gives_job_key(config, "mitigation")) {
    return failure("--permanent-ms needs --timeout-ms");
  }
  if (!config.machines.workers.empty() || config.machines.servers != "0") return {};
  if (config.local_reduce != usual.local_reduce) return failure("--local-reduce needs --workers");
  if (config.local_port != usual.local_port) return failure("--local-port needs --workers");
  return {};
}

/// Refuses the keys by which ranks find each other.
Result<void> check_url_options(const LaunchConfig& config) {
  for (const std::string& option : config.url_options) {
    const std::string key = option.substr(0, option.find('='));
    if (key != "rank" && key != "world" && key != "source") continue;
    return failure(fmt::format(
        "--url-option {}: tributary launch sets {} itself; to change it, see --processes, --world "
        "and --first-rank in tributary launch --help",
        option, key));
  }
  return {};
}

}  // namespace

Result<std::vector<int>> aggregator_cpus(const LaunchConfig& config, const HostFacts& facts) {
  if (config.aggregator_cpus.empty()) return std::vector<int>();
  auto cpus = parse_cpus(config.aggregator_cpus, facts.cpus);
  if (!cpus) return failure(fmt::format("--aggregator-cpus: {}", cpus.error().text));
  return cpus;
}

bool spans_machines(const LaunchConfig& config, const Ranks& ranks) {
  return ranks.world != config.processes;
}

uint32_t free_ports_wanted(const LaunchConfig& config) {
  const bool none =
      config.backend != kOwnBackend || !config.server.empty() || !config.machines.workers.empty();
  return none ? 0 : aggregator_count(config).value_or(1);
}

Result<void> check_aggregators(const LaunchConfig& config) {
  if (const auto checked = check_job_options(config); !checked) return checked;
  if (const auto checked = check_url_options(config); !checked) return checked;
  const bool colocated = config.aggregators == kColocated;
  if (!colocated && !aggregator_count(config)) {
    return failure(fmt::format("--aggregators {} is not allowed; allowed: 1 to {}, or colocated",
                               config.aggregators, kLaunchAggregatorsMax));
  }
  const bool one = config.aggregators == "1";
  if (!one && !config.server.empty()) {
    return failure(fmt::format(
        "--aggregators {} starts aggregators, and --server {} uses running ones; allowed: one of "
        "the two",
        config.aggregators, config.server));
  }
  if (const auto checked = check_flags_of_started(config); !checked) return checked;
  if (const auto checked = check_flags_without_effect(config); !checked) return checked;
  if (config.machines.workers.empty()) {
    if (config.machines.servers != "0") return failure("--servers needs --workers");
    if (config.node_rank != 0) return failure("--node-rank needs --workers");
    return {};
  }
  if (!colocated) return failure("--workers needs --aggregators colocated");
  if (config.world != 0 || config.rank_first != 0) {
    return failure(
        "--world and --first-rank follow from --workers, -n and --node-rank; leave them "
        "out");
  }
  return {};
}

Result<Aggregators> plan_aggregators(const LaunchConfig& config, const HostFacts& facts,
                                     const Ranks& ranks) {
  if (config.backend != kOwnBackend) return Aggregators{};
  if (!config.server.empty()) return Aggregators{.started = {}, .list = config.server};
  auto plan = config.machines.workers.empty() ? Result<Aggregators>(plan_here(config, facts, ranks))
                                              : plan_colocated(config, facts, ranks);
  if (!plan) return plan;
  const auto cpus = aggregator_cpus(config, facts);
  if (!cpus) return tl::unexpected(cpus.error());
  const bool several = plan->started.size() > 1;
  for (size_t i = 0; i < plan->started.size(); i++) {
    ProgramPlan& one = plan->started[i];
    if (several) one.name = fmt::format("aggregator {}", i);
    if (!cpus->empty()) {
      one.arguments.insert(one.arguments.end(), {"--cpus", cpus_of(*cpus, i)});
    }
    if (config.serve_json_path.empty()) continue;
    one.arguments.emplace_back("--json");
    one.arguments.push_back(several ? numbered(config.serve_json_path, i) : config.serve_json_path);
  }
  return plan;
}

}  // namespace tributary::cli
