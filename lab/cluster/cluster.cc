// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.h"
#include "lab/cluster/cable_limits.h"

namespace tributary::lab {
namespace {

/// Merges the jobs' specifications of each aggregator. A node that several jobs name serves all of
/// them.
std::vector<AggregatorSpec> merged(const std::vector<std::unique_ptr<JobRun>>& jobs) {
  std::vector<AggregatorSpec> all;
  for (const auto& job : jobs) {
    for (AggregatorSpec spec : job->plan().aggregators) {
      spec.values = job->has_values();
      const auto same = std::find_if(all.begin(), all.end(), [&](const AggregatorSpec& other) {
        return other.name == spec.name;
      });
      if (same == all.end()) {
        all.push_back(std::move(spec));
        continue;
      }
      same->values = same->values || spec.values;
      same->keeps_marks = same->keeps_marks || spec.keeps_marks;
      same->further.push_back({.job = spec.job, .seed = spec.seed});
    }
  }
  return all;
}

/// Returns the back end that stands for a network's: one that adds in switches, if there is any.
const BackendKind& network_backend(const SharedScenario& scenario) {
  const BackendKind* kind = &backend_kind(scenario.jobs.front().scenario.backend);
  for (const SharedJob& job : scenario.jobs) {
    const BackendKind& other = backend_kind(job.scenario.backend);
    if (other.placement == Placement::kSwitch) kind = &other;
  }
  return *kind;
}

}  // namespace

Result<std::unique_ptr<Cluster>> Cluster::create(const Scenario& scenario,
                                                 Duration typical_iteration,
                                                 TensorExchange* exchange) {
  auto job = JobRun::create(
      {.name = "", .scenario = scenario, .typical_iteration = typical_iteration, .start = {}},
      exchange);
  if (!job) return tl::unexpected(job.error());
  auto plan = plan_cluster(scenario, (*job)->backend(), (*job)->background_to());
  if (!plan) return tl::unexpected(plan.error());
  const uint64_t seed = plan->network_seed;
  net::Topology topology = std::move(plan->topology);
  (*job)->set_plan(*std::move(plan));
  std::vector<std::unique_ptr<JobRun>> jobs;
  jobs.push_back(*std::move(job));
  return build(scenario, std::move(jobs), std::move(topology), seed);
}

Result<std::unique_ptr<Cluster>> Cluster::create(const SharedScenario& scenario,
                                                 std::span<const Duration> typical_iterations) {
  const Scenario& network = scenario.network;
  const bool tree =
      network.topology == Topology::kChassis || network.topology == Topology::kTwoLevel;
  auto topology = plan_network(network, network_backend(scenario), tree);
  if (!topology) return tl::unexpected(topology.error());
  std::vector<std::string> hosts;
  for (const net::NodeSpec* host : nodes_of(*topology, kWorkerKind)) hosts.push_back(host->name);
  std::vector<std::unique_ptr<JobRun>> jobs;
  uint32_t job_id = 1;
  for (size_t i = 0; i < scenario.jobs.size(); i++) {
    const SharedJob& shared = scenario.jobs[i];
    auto job = JobRun::create({.name = shared.name,
                               .scenario = shared.scenario,
                               .typical_iteration = typical_iterations[i],
                               .start = shared.start},
                              nullptr);
    if (!job) return failure(fmt::format("job '{}': {}", shared.name, job.error().text));
    ClusterPlan plan;
    plan.topology = *std::move(topology);
    plan.place.job_id = static_cast<uint8_t>(job_id);
    plan.place.prefix = shared.name + "-";
    for (const uint32_t host : shared.hosts) plan.place.workers.push_back(hosts.at(host));
    Prng seeds(shared.scenario.seed);
    plan.network_seed = seeds.any_u64();  // Drawn as for a job alone.
    auto planned =
        plan_job(plan, shared.scenario, (*job)->backend(), seeds, (*job)->background_to());
    if (planned && network.topology == Topology::kFile) {
      planned =
          check_cable_limits(plan.topology, shared.scenario, (*job)->backend(), plan.place.workers);
    }
    if (!planned) return failure(fmt::format("job '{}': {}", shared.name, planned.error().text));
    topology = std::move(plan.topology);
    (*job)->set_plan(std::move(plan));
    jobs.push_back(*std::move(job));
    job_id += shared.scenario.host.priorities;
  }
  return build(network, std::move(jobs), *std::move(topology), Prng(network.seed).any_u64());
}

Cluster::Cluster(const Scenario& network, std::vector<std::unique_ptr<JobRun>> jobs,
                 uint64_t network_seed)
    : network_scenario_(network),
      network_(core_, network_seed, network.train),
      jobs_(std::move(jobs)),
      aggregator_specs_(merged(jobs_)) {}

Cluster::~Cluster() = default;

// --- Building ---

Result<std::unique_ptr<Cluster>> Cluster::build(const Scenario& network,
                                                std::vector<std::unique_ptr<JobRun>> jobs,
                                                net::Topology topology, uint64_t network_seed) {
  std::unique_ptr<Cluster> cluster(new Cluster(network, std::move(jobs), network_seed));
  if (const auto built = cluster->build(topology); !built) return tl::unexpected(built.error());
  return cluster;
}

Result<void> Cluster::build(const net::Topology& topology) {
  auto built =
      net::build(topology, network_, [this](const net::NodeSpec& spec) { return make_node(spec); });
  if (!built) return tl::unexpected(built.error());
  built_ = *std::move(built);
  for (const auto& job : jobs_) job->make_trainers(core_);
  if (const auto begun = begin_captures(); !begun) return begun;
  return find_timeline();
}

Result<void> Cluster::begin_captures() {
  for (const Scenario::Capture& wanted : network_scenario_.captures) {
    const auto link = network_.find_link(wanted.link);
    if (!link) return failure("capture: " + link.error().text);
    auto writer = net::PcapWriter::open(wanted.path);
    if (!writer) return failure("capture: " + writer.error().text);
    captures_.push_back(*std::move(writer));
    captures_.back().attach(network_, *link);
  }
  return {};
}

Result<void> Cluster::find_timeline() {
  const std::string& wanted = network_scenario_.timeline.link;
  if (wanted.empty()) return {};
  const auto link = network_.find_link(wanted);
  if (!link) return failure("timeline.link: " + link.error().text);
  for (const Scenario::Capture& capture : network_scenario_.captures) {
    if (capture.link != wanted) continue;
    return failure(
        fmt::format("timeline.link={} is captured, too; allowed: a link without capture", wanted));
  }
  timeline_link_ = *link;
  return {};
}

Result<net::BuiltNode> Cluster::make_node(const net::NodeSpec& spec) {
  for (const auto& job : jobs_) {
    if (auto made = job->make_node(network_, spec)) return *made;
  }
  if (spec.kind == kWorkerKind) {  // A host without a worker.
    WorkerNodeConfig idle;
    idle.name = spec.name;
    idle.address = spec.address;
    idle_hosts_.push_back(std::make_unique<WorkerNode>(network_, idle, /*seed=*/0));
    return net::BuiltNode{idle_hosts_.back()->id(), nullptr, false};
  }
  return make_aggregator(spec);
}

Result<net::BuiltNode> Cluster::make_aggregator(const net::NodeSpec& spec) {
  const auto wanted =
      std::find_if(aggregator_specs_.begin(), aggregator_specs_.end(),
                   [&](const AggregatorSpec& aggregator) { return aggregator.name == spec.name; });
  if (wanted == aggregator_specs_.end()) {  // No job uses it: it only forwards.
    idle_switches_.push_back(std::make_unique<net::Forwarder>(network_, spec.name));
    const net::Station station = idle_switches_.back()->station();
    return net::BuiltNode{station.node, station.table, station.forwards};
  }
  const auto owner = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& job) {
    const auto& specs = job->plan().aggregators;
    return std::any_of(specs.begin(), specs.end(),
                       [&](const AggregatorSpec& one) { return one.name == spec.name; });
  });
  auto made = (*owner)->backend().make(network_, *wanted);
  if (!made) return tl::unexpected(made.error());
  aggregators_.push_back(*std::move(made));
  AggregatorNode& node = *aggregators_.back();
  return net::BuiltNode{node.id(), &node.table(), true};
}

// --- Running ---

template <class F>
bool Cluster::advance(Instant end, F&& done) {
  if (observer_ == nullptr) [[likely]]
    return core_.run_until(end, done);
  return advance_observed(end, done);
}

bool Cluster::advance_observed(Instant end, const std::function<bool()>& done) {
  bool all = false;
  core_.run_until(end, [&] {
    all = done();
    if (all || core_.next_at() > end) return all;
    ended_by_observer_ = !observer_->before_event(core_.next_at());
    return ended_by_observer_;
  });
  return all;
}

/// Begins the time that results are about. Joins come before it.
void Cluster::begin_counting() {
  began_at_ = core_.now();
  for (net::LinkId link = 0; link < network_.link_count(); link++) {
    sent_before_.push_back(sent_bytes(network_, link));
  }
  if (!timeline_link_) return;
  network_.set_tap(*timeline_link_, [this](Instant leaves_at, const net::Packet&) {
    const auto bin = static_cast<size_t>((leaves_at - began_at_).ticks() /
                                         network_scenario_.timeline.bin.ticks());
    if (bin >= kTimelineBinsMax) {
      timeline_later_ += network_scenario_.train;
      return;
    }
    if (bin >= timeline_.size()) timeline_.resize(bin + 1);
    timeline_[bin] += network_scenario_.train;
  });
}

Result<void> Cluster::step(JobRun& job) {
  const JobRun::Phase before = job.phase();
  const bool is_first = !trains_;
  if (before == JobRun::Phase::kJoining && is_first && job.is_due()) {
    trains_ = true;
    begin_counting();
  }
  const auto stepped = job.step(core_.now());
  if (stepped || before != JobRun::Phase::kTraining) return stepped;
  RunResult network;
  collect_network(network);
  std::string text;
  for (const Loss& loss : losses(network)) text += loss.text + "; ";
  return failure(text + stepped.error().text);
}

Result<void> Cluster::run_jobs() {
  const auto is_any_due = [this] {
    for (const auto& job : jobs_) {
      if (job->is_due()) return true;
    }
    return false;
  };
  while (true) {
    Instant milestone = Instant::never();
    bool ended = true;
    for (const auto& job : jobs_) {
      if (const auto stepped = step(*job); !stepped) return stepped;
      milestone = std::min(milestone, job->next_milestone());
      ended = ended && job->phase() == JobRun::Phase::kEnded;
    }
    if (ended) return {};
    const bool due = advance(milestone, is_any_due);
    if (ended_by_observer_) return failure(kEndedByObserver);
    if (!due) core_.run_until(milestone);
  }
}

Result<void> Cluster::run_to_end(RunObserver* observer) {
  if (observer != nullptr) {
    observer_ = observer;
    for (const auto& aggregator : aggregators_) inspected_.push_back(aggregator.get());
    if (const auto begun = observer->begin({core_, network_, inspected_}); !begun) return begun;
  }
  auto ran = run_jobs();
  for (net::PcapWriter& capture : captures_) {
    if (!ran) break;
    ran = capture.finish();
  }
  if (observer != nullptr) observer->end();
  return ran;
}

Result<RunResult> Cluster::run(RunObserver* observer) {
  TRIB_ASSERT(jobs_.size() == 1);
  if (const auto ran = run_to_end(observer); !ran) return tl::unexpected(ran.error());
  RunResult result = jobs_[0]->collect(network_, core_.now());
  result.timeline = timeline_;
  result.timeline_later = timeline_later_;
  collect_network(result);
  result.bottleneck = bottleneck(result);
  result.warnings = job_warnings(*jobs_[0], result);
  std::ranges::move(train_warnings(result), std::back_inserter(result.warnings));
  std::ranges::move(fidelity_warnings(result), std::back_inserter(result.warnings));
  if (const auto good = check_faithful(result.aggregators); !good) {
    return tl::unexpected(good.error());
  }
  return result;
}

Result<SharedResult> Cluster::run_shared(RunObserver* observer) {
  if (const auto ran = run_to_end(observer); !ran) return tl::unexpected(ran.error());
  SharedResult result;
  RunResult all;
  for (const auto& job : jobs_) {
    JobResult one;
    one.name = job->name();
    one.backend = job->scenario().backend;
    one.began_at = job->began_at().since_start();
    one.run = job->collect(network_, core_.now());
    std::ranges::move(job_warnings(*job, one.run), std::back_inserter(result.warnings));
    all.workers.insert(all.workers.end(), one.run.workers.begin(), one.run.workers.end());
    result.jobs.push_back(std::move(one));
  }
  collect_network(all);
  if (const auto good = check_faithful(all.aggregators); !good) {
    return tl::unexpected(good.error());
  }
  result.bottleneck = bottleneck(all);
  std::ranges::move(train_warnings(all), std::back_inserter(result.warnings));
  std::ranges::move(fidelity_warnings(all), std::back_inserter(result.warnings));
  result.total = core_.now() - began_at_;
  result.links = std::move(all.links);
  result.aggregators = std::move(all.aggregators);
  result.timeline = timeline_;
  result.timeline_later = timeline_later_;
  result.packets = all.packets;
  result.events = all.events;
  result.digest = all.digest;
  return result;
}

}  // namespace tributary::lab
