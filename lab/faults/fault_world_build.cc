// SPDX-License-Identifier: Apache-2.0
// Builds the world of a plan: aggregators, hosts, cables.
#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "host/switchml/switchml_protocol.h"
#include "lab/faults/fault_world.h"
#include "wire/switchml.h"
#include "wire/trio_ml.h"

namespace tributary::lab {
namespace {

/// Ratio of timeouts between levels: a lower aggregator may wait two timeouts before it sends up.
constexpr int64_t kTimeoutsPerLevel = 3;
/// Rate of a cable inside the aggregator's socket: practically infinite.
constexpr uint64_t kInnerRate = 10'000'000'000'000;

constexpr uint32_t kPrivateNet = 10U << 24;

Endpoint aggregator_address(uint32_t index) {
  return Endpoint::ipv4(kPrivateNet | (index + 1) << 8 | 1, wire::kTrioMlPort);
}
Endpoint switch_address() { return Endpoint::ipv4(kPrivateNet | 1U << 8 | 1, wire::kSwitchmlPort); }

/// Returns a worker's configuration with the live worker's timeout, so that pauses of a few
/// milliseconds have no effect.
host::SwitchmlConfig switchml_worker_config(const JobPlan& what, uint32_t rank) {
  return {.server = switch_address(),
          .rank = rank,
          .world = what.world,
          .elements = what.gradients,
          .pool = what.window,
          .timeout = milliseconds(10),
          .deadline = what.deadline};
}

/// Unwraps the result for a drawn configuration, which must be valid.
template <class T>
T must(Result<T> result) {
  TRIB_ASSERT(result.has_value());
  return *std::move(result);
}

}  // namespace

FaultWorld::FaultWorld(const FaultPlan& plan)
    : plan_(plan),
      network_(core_, plan.seed),
      seeds_(Prng(plan.seed ^ 0xacce55).any_u64()),
      loss_judge_(LossJudge::round_of(plan)) {
  const auto aggregators = static_cast<uint32_t>(plan.parent.size());
  const auto jobs = static_cast<uint32_t>(plan.jobs.size());
  leaf_of_.resize(jobs);
  source_of_.resize(jobs);
  for (uint32_t job = 0; job < jobs; job++) assign_ranks(job);
  ports_used_.assign(aggregators, 0);
  upward_.resize(aggregators);
  judges_.resize(aggregators);
  for (uint32_t i = 0; i < aggregators; i++) {
    if (plan.protocol == wire::Protocol::kSwitchml) {
      build_switch();
    } else {
      build_aggregator(i);
    }
  }
  for (uint32_t i = 1; i < aggregators; i++) {
    if (plan.is_root(i)) continue;
    AggregatorNode& lower = *aggregators_[i];
    const uint32_t port = ports_used_[i]++;
    lower.table().set_route(aggregators_[plan.parent[i]]->address(), {&port, 1});
    build_cable(plan.parent[i], lower.id(), port, lower.address(), upward_[i]);
  }
  workers_.resize(jobs);
  worker_cables_.resize(jobs);
  sharded_.resize(jobs);
  for (uint32_t job = 0; job < jobs; job++) build_job(job);
}

FaultWorld::~FaultWorld() = default;

Endpoint FaultWorld::worker_address(uint32_t job, uint32_t rank) {
  return Endpoint::ipv4(kPrivateNet | (job + 1) << 16 | (rank + 1), wire::kTrioMlPort);
}
Endpoint FaultWorld::stranger_address() {
  return Endpoint::ipv4(kPrivateNet | 200U << 16 | 1, wire::kTrioMlPort);
}

std::vector<uint32_t> FaultWorld::children_of(uint32_t aggregator) const {
  std::vector<uint32_t> children;
  for (uint32_t i = 1; i < plan_.parent.size(); i++) {
    if (plan_.parent[i] == aggregator && i != aggregator) children.push_back(i);
  }
  return children;
}

uint32_t FaultWorld::height_of(uint32_t aggregator) const {
  uint32_t height = 0;
  for (const uint32_t child : children_of(aggregator)) {
    height = std::max(height, 1 + height_of(child));
  }
  return height;
}

uint32_t FaultWorld::root_of(uint32_t job) const { return plan_.jobs[job].alone_at.value_or(0); }

/// Distributes the ranks over the leaves in equal runs.
void FaultWorld::assign_ranks(uint32_t job) {
  const JobPlan& what = plan_.jobs[job];
  std::vector<uint32_t> leaves;
  for (uint32_t i = 0; i < plan_.parent.size(); i++) {
    if (!plan_.has_children(i)) leaves.push_back(i);
  }
  if (what.alone_at) leaves = {*what.alone_at};
  if (what.sharded) leaves = {0};
  const auto leaf_count = static_cast<uint32_t>(leaves.size());
  for (uint32_t rank = 0; rank < what.world; rank++) {
    const uint32_t leaf = leaves[rank * leaf_count / what.world];
    const bool first = rank == 0 || leaf_of_[job].back() != leaf;
    leaf_of_[job].push_back(leaf);
    source_of_[job].push_back(first ? 0 : source_of_[job].back() + 1);
  }
}

trio_ml::JobConfig FaultWorld::job_config(uint32_t aggregator, uint32_t job) const {
  const JobPlan& what = plan_.jobs[job];
  const std::vector<uint32_t>& leaf_of = leaf_of_[job];
  trio_ml::JobConfig config = what.config;
  if (plan_.attack && !plan_.attack->servers.empty()) {
    const ServerPlan& server = plan_.attack->servers[aggregator];
    config.block_cnt_max = server.block_cnt_max;
    config.block_grad_max = server.block_grad_max;
    config.room_bytes = server.room_bytes;
  }
  if (what.alone_at || what.sharded) {
    config.sources = what.world;
    return config;
  }
  config.world = what.world;
  const std::vector<uint32_t> children = children_of(aggregator);
  for (uint32_t i = 0; i < height_of(aggregator); i++) {
    config.timeout = config.timeout * kTimeoutsPerLevel;
  }
  if (children.empty()) {
    const auto first = std::find(leaf_of.begin(), leaf_of.end(), aggregator);
    config.rank_base = static_cast<uint32_t>(first - leaf_of.begin());
    config.sources = static_cast<uint32_t>(std::count(leaf_of.begin(), leaf_of.end(), aggregator));
  } else {
    config.sources = static_cast<uint32_t>(children.size());
    config.sources_are_aggregators = true;
  }
  if (aggregator != 0) {
    const std::vector<uint32_t> siblings = children_of(plan_.parent[aggregator]);
    config.upstream = aggregator_address(plan_.parent[aggregator]);
    config.upstream_source = static_cast<uint32_t>(
        std::find(siblings.begin(), siblings.end(), aggregator) - siblings.begin());
  }
  return config;
}

std::vector<trio_ml::JobConfig> FaultWorld::jobs_of(uint32_t aggregator) const {
  std::vector<trio_ml::JobConfig> configs;
  for (uint32_t job = 0; job < plan_.jobs.size(); job++) {
    const auto& alone_at = plan_.jobs[job].alone_at;
    if (!alone_at || *alone_at == aggregator) configs.push_back(job_config(aggregator, job));
  }
  if (plan_.attack && plan_.attack->plain && plan_.attack->plain->aggregator == aggregator) {
    configs.push_back(plan_.attack->plain->config);
  }
  return configs;
}

void FaultWorld::build_aggregator(uint32_t index) {
  std::vector<trio_ml::JobConfig> jobs = jobs_of(index);
  TRIB_ASSERT(!jobs.empty());
  AggregatorSpec spec;
  spec.name = fmt::format("aggregator{}", index);
  spec.address = aggregator_address(index);
  spec.job = jobs.front();
  spec.seed = seeds_.any_u64();
  jobs.erase(jobs.begin());
  live_.push_back(nullptr);
  modelled_.push_back(nullptr);
  servers_.push_back(nullptr);
  if (plan_.machine == FaultMachine::kPfe) {
    TRIB_ASSERT(jobs.empty());
    auto node = must(TrioNode::create(network_, spec));
    modelled_.back() = node.get();
    aggregators_.push_back(std::move(node));
  } else {
    auto node = must(LiveNode::create(network_, spec, jobs));
    live_.back() = node.get();
    servers_.back() = node.get();
    aggregators_.push_back(std::move(node));
  }

  // A contribution refused for lack of a buffer would count as both arrived and missing.
  const bool steady = !plan_.kinds.has(FaultKind::kAggregatorPause) &&
                      !plan_.kinds.has(FaultKind::kClockStep) &&
                      !plan_.kinds.has(FaultKind::kMemoryRefusal);
  for (uint32_t job = 0; job < plan_.jobs.size(); job++) {
    const JobPlan& what = plan_.jobs[job];
    const bool flat = plan_.parent.size() == 1 || what.alone_at == index || plan_.sharded;
    const bool judged =
        flat && what.config.mitigation && !plan_.kinds.has(FaultKind::kDisagreement);
    judges_[index].push_back(
        judged ? std::make_unique<PromptnessJudge>(job_config(index, job), steady) : nullptr);
  }
}

void FaultWorld::build_switch() {
  const JobPlan& what = plan_.jobs.front();
  AggregatorSpec spec;
  spec.name = "switch";
  spec.address = switch_address();
  spec.switchml.elements = what.gradients;
  spec.slots = what.window;
  spec.link_bits_per_s = link_config().rate_bits_per_s;
  spec.seed = seeds_.any_u64();
  for (uint32_t rank = 0; rank < what.world; rank++) {
    spec.workers.push_back(worker_address(0, rank));
  }
  live_.push_back(nullptr);
  modelled_.push_back(nullptr);
  servers_.push_back(nullptr);
  judges_.front().push_back(nullptr);
  if (plan_.machine == FaultMachine::kTofino) {
    auto node = must(TofinoNode::create(network_, spec));
    tofino_ = node.get();
    aggregators_.push_back(std::move(node));
    return;
  }
  if (plan_.machine == FaultMachine::kPfe) {
    auto node = must(SwitchmlTrioNode::create(network_, spec));
    modelled_switch_ = node.get();
    aggregators_.push_back(std::move(node));
    return;
  }
  auto node = must(SwitchmlLiveNode::create(network_, spec,
                                            {.workers = what.world,
                                             .elements = what.gradients,
                                             .slots = what.window,
                                             .watches_ports = plan_.configured}));
  live_switch_ = node.get();
  servers_.back() = node.get();
  aggregators_.push_back(std::move(node));
}

net::LinkConfig FaultWorld::link_config() const {
  return {.propagation = plan_.propagation, .faults = plan_.links};
}

FaultWire::Scramble FaultWorld::scramble_for(const Endpoint& lower) const {
  if (plan_.protocol == wire::Protocol::kSwitchml) return scramble_switchml_message;
  const bool in_tree = std::any_of(aggregators_.begin(), aggregators_.end(),
                                   [&](const auto& node) { return node->address() == lower; });
  return in_tree ? scramble_tree_message : scramble_message;
}

void FaultWorld::build_cable(uint32_t upper, net::NodeId lower, uint32_t lower_port,
                             const Endpoint& address, Cable& cable) {
  AggregatorNode& aggregator = *aggregators_[upper];
  const uint32_t port = ports_used_[upper]++;
  wires_.push_back(std::make_unique<FaultWire>(network_, fmt::format("wire{}", wires_.size()),
                                               upper, seeds_.any_u64(), *this,
                                               scramble_for(address)));
  FaultWire& wire = *wires_.back();
  wire.set_scramble(plan_.scramble);
  if (plan_.attack) wire.set_tamper(plan_.attack->tamper);
  net::LinkConfig inner;
  inner.rate_bits_per_s = kInnerRate;
  inner.propagation = Duration();
  must(network_.connect(aggregator.id(), port, wire.id(), FaultWire::kInnerPort, inner, inner));
  cable.outward = must(network_.connect(wire.id(), FaultWire::kOuterPort, lower, lower_port,
                                        link_config(), link_config()));
  cable.wire = &wire;
  cable.upper_port = port;
  aggregator.table().set_route(address, {&port, 1});
}

void FaultWorld::connect_stranger(net::NodeId node, uint32_t port, uint32_t aggregator,
                                  std::span<const Endpoint> addresses) {
  const uint32_t upper_port = ports_used_[aggregator]++;
  must(network_.connect(aggregators_[aggregator]->id(), upper_port, node, port, {}, {}));
  for (const Endpoint& address : addresses) {
    aggregators_[aggregator]->table().set_route(address, {&upper_port, 1});
  }
}

void FaultWorld::connect_client(net::NodeId node, uint32_t aggregator, const Endpoint& address) {
  client_cables_.emplace_back();
  build_cable(aggregator, node, 0, address, client_cables_.back());
}

/// Sends the results of a multicast group to all workers of the job, which have one aggregator.
void FaultWorld::route_group(uint32_t job) {
  const Endpoint& group = plan_.jobs[job].config.group;
  if (!group.is_set()) return;
  std::vector<uint32_t> ports;
  for (const auto& cables : worker_cables_[job]) ports.push_back(cables.front().upper_port);
  aggregators_[leaf_of_[job][0]]->table().set_group(group, ports);
}

std::vector<host::Aggregator> FaultWorld::whole_list(uint32_t job) const {
  std::vector<host::Aggregator> list;
  for (uint32_t i = 0; i < plan_.parent.size(); i++) {
    const Endpoint address = aggregator_address(i);
    list.push_back({.name = address.to_string(),
                    .weight = plan_.jobs[job].sharded->weights[i],
                    .address = address});
  }
  return list;
}

/// Returns the factory of a sharded rank's processes. Each takes the list that is set at its start.
host::ProtocolFactory FaultWorld::sharded_process(const host::CommunicatorConfig& config,
                                                  uint32_t job) {
  sharded_[job][config.rank].list = whole_list(job);
  return [this, config, job](uint64_t nonce, Instant now) {
    Sharded& rank = sharded_[job][config.rank];
    host::CommunicatorConfig own = config;
    own.aggregators = rank.list;
    auto process = std::make_unique<ShardedRank>(own, nonce, now);
    rank.process = process.get();
    return process;
  };
}

/// Connects a host by its one port to a cable for each aggregator.
void FaultWorld::connect_shards(uint32_t job, uint32_t rank) {
  Sharded& sharded = sharded_[job][rank];
  const net::NodeId host = workers_[job][rank]->id();
  sharded.forwarder =
      std::make_unique<net::Forwarder>(network_, fmt::format("job{}.ports{}", job, rank));
  net::LinkConfig inner;
  inner.propagation = Duration();
  const uint32_t host_port = 0;
  must(network_.connect(host, 0, sharded.forwarder->id(), host_port, inner, inner));
  sharded.forwarder->table().set_route(worker_address(job, rank), {&host_port, 1});
  std::vector<Cable>& cables = worker_cables_[job][rank];
  cables.resize(aggregators_.size());
  for (uint32_t i = 0; i < aggregators_.size(); i++) {
    const uint32_t port = 1 + i;
    sharded.forwarder->table().set_route(aggregators_[i]->address(), {&port, 1});
    build_cable(i, sharded.forwarder->id(), port, worker_address(job, rank), cables[i]);
  }
}

void FaultWorld::build_job(uint32_t job) {
  const JobPlan& what = plan_.jobs[job];
  worker_cables_[job].resize(what.world);
  sharded_[job].resize(what.world);
  for (uint32_t rank = 0; rank < what.world; rank++) {
    WorkerNodeConfig config;
    config.name = fmt::format("job{}.rank{}", job, rank);
    config.address = worker_address(job, rank);
    config.communicator.server = aggregator_address(leaf_of_[job][rank]);
    config.communicator.job_id = what.config.id;
    config.communicator.rank = rank;
    config.communicator.source = source_of_[job][rank];
    config.communicator.world = what.world;
    config.communicator.gradients = what.gradients;
    config.communicator.window = what.window;
    config.communicator.deadline = what.deadline;
    config.communicator.auth = what.config.auth;
    if (plan_.protocol == wire::Protocol::kSwitchml) {
      config.new_ports = plan_.configured;
      config.protocol = [worker = switchml_worker_config(what, rank)](uint32_t, Instant) {
        return std::make_unique<host::SwitchmlProtocol>(worker);
      };
    }
    if (what.sharded) config.protocol = sharded_process(config.communicator, job);
    workers_[job].push_back(std::make_unique<WorkerNode>(network_, config, seeds_.any_u64()));
    std::vector<Cable>& cables = worker_cables_[job][rank];
    if (what.sharded) {
      connect_shards(job, rank);
    } else {
      build_cable(leaf_of_[job][rank], workers_[job][rank]->id(), 0, config.address,
                  cables.emplace_back());
    }
    if (!LossJudge::judges(plan_)) continue;
    for (const Cable& cable : cables) {
      network_.set_tap(cable.outward + 1, [this, &cable](Instant at, const net::Packet& packet) {
        loss_judge_.on_sent(packet.stored, lost_by(cable), at);
      });
    }
  }
  route_group(job);
}

}  // namespace tributary::lab
