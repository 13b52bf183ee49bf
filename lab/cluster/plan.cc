// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "base/prng.h"
#include "host/join_plan.h"
#include "host/worker_protocol.h"
#include "lab/cluster/placement.h"
#include "lab/peers/prioritised_protocol.h"
#include "lab/peers/sharded_protocol.h"
#include "net/topology_file.h"

namespace tributary::lab {
namespace {

/// 239.x is for use within an organisation (RFC 2365).
Endpoint group_address() { return Endpoint::ipv4(0xef00'0001, wire::kTrioMlPort); }

Result<net::Topology> shape_of(const Scenario& scenario, const BackendKind& backend, bool tree) {
  if (scenario.topology == Topology::kFile) return net::read_topology_file(scenario.topology_file);
  const net::LinkConfig link = scenario.link;
  const net::LinkConfig fabric = scenario.fabric;
  const uint32_t workers_per_leaf = scenario.workers / scenario.leaves;
  if (tree) {
    const net::TwoLevelShape shape{.leaves = scenario.leaves,
                                   .workers_per_leaf = workers_per_leaf,
                                   .worker_kind = kWorkerKind,
                                   .leaf_kind = kAggregatorKind,
                                   .top_kind = kTopKind,
                                   .link = link,
                                   .uplink = fabric};
    return scenario.topology == Topology::kChassis ? net::chassis(shape) : net::two_level(shape);
  }
  const bool switch_adds = backend.placement == Placement::kSwitch;
  if (scenario.topology != Topology::kLeafSpine) {
    return net::star({.workers = scenario.workers,
                      .worker_kind = kWorkerKind,
                      .switch_kind = switch_adds ? kAggregatorKind : std::string(net::kSwitchKind),
                      .link = link});
  }
  net::Topology topology = net::leaf_spine({.leaves = scenario.leaves,
                                            .workers_per_leaf = workers_per_leaf,
                                            .spines = scenario.spines,
                                            .worker_kind = kWorkerKind,
                                            .link = link,
                                            .uplink = fabric});
  if (switch_adds) net::attach(topology, "aggregator", kAggregatorKind, "leaf-0", fabric);
  return topology;
}

std::vector<const net::NodeSpec*> nodes_of(const net::Topology& topology, const char* kind) {
  std::vector<const net::NodeSpec*> found;
  for (const net::NodeSpec& node : topology.nodes) {
    if (node.kind == kind) found.push_back(&node);
  }
  return found;
}

/// Gives slow cables their rate, in both directions.
void set_slow_links(net::Topology& topology, const Scenario& scenario) {
  const auto workers = nodes_of(topology, kWorkerKind);
  for (const uint32_t rank : scenario.slow_links.workers) {
    const std::string& name = workers[rank]->name;
    for (net::CableSpec& cable : topology.cables) {
      if (cable.a.node != name && cable.b.node != name) continue;
      cable.forth.rate_bits_per_s = scenario.slow_links.rate_bits_per_s;
      cable.back.rate_bits_per_s = scenario.slow_links.rate_bits_per_s;
    }
  }
}

/// Sets each host's direction of its cable: at the NIC's rate, from the NIC's ring.
/// @return the resulting rates, by rank.
std::vector<uint64_t> set_host_side(net::Topology& topology, const Scenario& scenario) {
  std::vector<uint64_t> rates;
  for (const net::NodeSpec* worker : nodes_of(topology, kWorkerKind)) {
    uint64_t rate = scenario.host.nic_bits_per_s;
    for (net::CableSpec& cable : topology.cables) {
      const bool is_a = cable.a.node == worker->name;
      if (!is_a && cable.b.node != worker->name) continue;
      net::LinkConfig& out = is_a ? cable.forth : cable.back;
      rate = std::min(rate, out.rate_bits_per_s);
      out.rate_bits_per_s = rate;
      out.queue_bytes_max = kHostQueueBytesMax;
    }
    rates.push_back(rate);
  }
  return rates;
}

/// Returns the node at the other end of a worker's cable; empty without a cable.
std::string neighbour_of(const net::Topology& topology, const std::string& worker) {
  for (const net::CableSpec& cable : topology.cables) {
    if (cable.a.node == worker) return cable.b.node;
    if (cable.b.node == worker) return cable.a.node;
  }
  return {};
}

/// Refuses workers without a cable, beside which no server can stand.
Result<void> check_cables(const net::Topology& topology) {
  for (const net::NodeSpec* worker : nodes_of(topology, kWorkerKind)) {
    if (!neighbour_of(topology, worker->name).empty()) continue;
    return failure(
        fmt::format("{}: {} has no cable; allowed: one to a switch", worker->where, worker->name));
  }
  return {};
}

/// Refuses cables of a file that lose packets which nobody repairs. The scenario's own links were
/// checked with it.
Result<void> check_losses(const net::Topology& topology, const Scenario& scenario) {
  if (scenario.topology != Topology::kFile || scenario.host.retransmission) return {};
  for (const net::CableSpec& cable : topology.cables) {
    for (const net::LinkConfig* link : {&cable.forth, &cable.back}) {
      if (link->faults.loss <= 0 && link->faults.corrupt <= 0) continue;
      return failure(
          fmt::format("{}: the cable loses packets; allowed with host.retransmission=false: loss=0 "
                      "and corrupt=0",
                      cable.where));
    }
  }
  return {};
}

/// Refuses workers that are not cabled to the one aggregator or have no IPv4 address, and links of
/// a file that reorder packets. The back end checks the scenario's own links.
Result<void> check_own_ports(const net::Topology& topology, const BackendKind& backend) {
  const std::string& aggregator = nodes_of(topology, kAggregatorKind).at(0)->name;
  for (const net::CableSpec& cable : topology.cables) {
    if (cable.forth.faults.reorder <= 0 && cable.back.faults.reorder <= 0) continue;
    return failure(
        fmt::format("{}: the cable from {} to {} changes the order of packets; allowed with "
                    "backend={}: reorder=0",
                    cable.where, cable.a.node, cable.b.node, backend.choice.name));
  }
  for (const net::NodeSpec* worker : nodes_of(topology, kWorkerKind)) {
    if (!worker->address.is_ipv4()) {
      return failure(fmt::format("{}: {} has the address {}; allowed with backend={}: IPv4",
                                 worker->where, worker->name, worker->address.to_string(),
                                 backend.choice.name));
    }
    const std::string neighbour = neighbour_of(topology, worker->name);
    if (neighbour == aggregator) continue;
    return failure(
        fmt::format("topology: {} is cabled to '{}'; allowed with backend={}: '{}', each "
                    "worker at a port of its own",
                    worker->name, neighbour, backend.choice.name, aggregator));
  }
  return {};
}

/// Refuses a topology, generated or from a file, whose nodes do not fit the scenario.
Result<void> check_nodes(const net::Topology& topology, const Scenario& scenario,
                         const BackendKind& backend) {
  const auto refuse = [&](const char* kind, size_t count, const std::string& allowed) {
    return failure(fmt::format("topology_file={}: {} nodes of kind {} are not allowed; allowed: {}",
                               scenario.topology_file, count, kind, allowed));
  };
  const size_t workers = nodes_of(topology, kWorkerKind).size();
  if (workers != scenario.workers) {
    return refuse(kWorkerKind, workers, fmt::format("{}, as workers says", scenario.workers));
  }
  for (const char* added : {kServerKind, kBackgroundKind}) {
    const size_t count = nodes_of(topology, added).size();
    if (count > 0) return refuse(added, count, "none; they are added where they are needed");
  }
  const size_t tops = nodes_of(topology, kTopKind).size();
  if (tops > (backend.hierarchical ? 1U : 0U)) {
    return refuse(kTopKind, tops,
                  backend.hierarchical ? "at most 1"
                                       : fmt::format("none with backend={}", backend.choice.name));
  }
  const size_t aggregators = nodes_of(topology, kAggregatorKind).size();
  if (backend.placement != Placement::kSwitch) {
    if (aggregators == 0) return check_cables(topology);
    return refuse(kAggregatorKind, aggregators,
                  fmt::format("none with backend={}", backend.choice.name));
  }
  if (aggregators == 0 || (aggregators > 1 && tops == 0)) {
    return refuse(kAggregatorKind, aggregators,
                  fmt::format("1, or several below one of kind {}", kTopKind));
  }
  return backend.own_ports ? check_own_ports(topology, backend) : Result<void>();
}

AggregatorSpec spec_of(const net::NodeSpec& node, const trio_ml::JobConfig& job) {
  AggregatorSpec spec;
  spec.name = node.name;
  spec.address = node.address;
  spec.job = job;
  return spec;
}

/// @param leaf_of By rank: the number of the leaf that the worker is cabled to.
void plan_tree(ClusterPlan& plan, const Scenario& scenario, const BackendKind& backend,
               const std::vector<uint32_t>& leaf_of) {
  const net::NodeSpec& top = *nodes_of(plan.topology, kTopKind).at(0);
  for (const net::NodeSpec* leaf : nodes_of(plan.topology, kAggregatorKind)) {
    const auto index = static_cast<uint32_t>(plan.aggregators.size());
    const auto first = std::find(leaf_of.begin(), leaf_of.end(), index);
    AggregatorSpec spec = spec_of(*leaf, job_of(scenario, backend));
    spec.job.sources = static_cast<uint32_t>(std::count(first, leaf_of.end(), index));
    spec.job.world = scenario.workers;
    spec.job.rank_base = static_cast<uint32_t>(first - leaf_of.begin());
    spec.job.upstream = top.address;
    spec.job.upstream_source = index;
    plan.aggregators.push_back(spec);
  }
  AggregatorSpec spec = spec_of(top, job_of(scenario, backend));
  spec.job.sources = static_cast<uint32_t>(plan.aggregators.size());
  spec.job.sources_are_aggregators = true;
  spec.job.world = scenario.workers;
  spec.job.timeout = spec.job.timeout * kTopTimeoutFactor;
  spec.job.reply_bits_per_s =
      std::max(scenario.link.rate_bits_per_s, scenario.fabric.rate_bits_per_s) / scenario.train;
  plan.aggregators.push_back(spec);
}

/// Returns each worker's aggregator by number, by rank; zero if there is one aggregator. A leaf
/// knows its first rank and its number of workers, so the ranks of a leaf must be consecutive.
Result<std::vector<uint32_t>> leaves_of_workers(const net::Topology& topology, bool tree) {
  std::vector<uint32_t> leaf_of;
  const auto leaves = nodes_of(topology, kAggregatorKind);
  for (const net::NodeSpec* worker : nodes_of(topology, kWorkerKind)) {
    const std::string neighbour = neighbour_of(topology, worker->name);
    const auto leaf = std::find_if(leaves.begin(), leaves.end(), [&](const net::NodeSpec* node) {
      return node->name == neighbour;
    });
    if (tree && leaf == leaves.end()) {
      return failure(fmt::format("{}: {} is cabled to '{}'; allowed below a {}: a node of kind {}",
                                 worker->where, worker->name, neighbour, kTopKind,
                                 kAggregatorKind));
    }
    leaf_of.push_back(tree ? static_cast<uint32_t>(leaf - leaves.begin()) : 0);
  }
  for (uint32_t leaf = 0; leaf < leaves.size() && tree; leaf++) {
    const auto first = std::find(leaf_of.begin(), leaf_of.end(), leaf);
    const auto end =
        std::find_if(first, leaf_of.end(), [&](uint32_t other) { return other != leaf; });
    if (first == leaf_of.end() || std::find(end, leaf_of.end(), leaf) != leaf_of.end()) {
      return failure(fmt::format("{}: {} has workers whose ranks do not follow each other, or none",
                                 leaves[leaf]->where, leaves[leaf]->name));
    }
  }
  return leaf_of;
}

void plan_single(ClusterPlan& plan, const Scenario& scenario, const BackendKind& backend) {
  const net::NodeSpec& node = *nodes_of(plan.topology, kAggregatorKind).at(0);
  AggregatorSpec spec = spec_of(node, job_of(scenario, backend));
  if (backend.asynchronous) return plan.aggregators.push_back(spec);
  spec.job.group = group_address();
  net::GroupSpec group{.address = {}, .receivers = {}, .senders = {node.name}, .where = "plan"};
  for (const net::NodeSpec* worker : nodes_of(plan.topology, kWorkerKind)) {
    group.receivers.push_back(worker->name);
  }
  for (uint32_t channel = 0; channel < spec.job.channels; channel++) {
    group.address = trio_ml::channel_of(spec.job, channel).group;
    plan.topology.groups.push_back(group);
  }
  plan.aggregators.push_back(spec);
}

/// Plans the servers that place_servers() has placed. Each adds its part of every tensor.
void plan_servers(ClusterPlan& plan, const Scenario& scenario, const BackendKind& backend,
                  const std::vector<uint32_t>& weights) {
  const auto nodes = nodes_of(plan.topology, kServerKind);
  TRIB_ASSERT(nodes.size() == weights.size());
  if (nodes.empty()) return;
  const auto windows = window_shares(std::max(scenario.window / scenario.train, 1U), weights);
  for (size_t i = 0; i < nodes.size(); i++) {
    AggregatorSpec spec = spec_of(*nodes[i], job_of(scenario, backend));
    spec.job.block_cnt_max = std::bit_ceil(windows[i]);
    spec.weight = weights[i];
    plan.aggregators.push_back(spec);
  }
}

void plan_workers(ClusterPlan& plan, const Scenario& scenario, const BackendKind& backend,
                  const std::vector<uint32_t>& leaf_of) {
  uint32_t rank = 0;
  for (const net::NodeSpec* node : nodes_of(plan.topology, kWorkerKind)) {
    // Peers know each other by plan.aggregators and plan.workers.
    const AggregatorSpec aggregator =
        plan.aggregators.empty() ? AggregatorSpec() : plan.aggregators[leaf_of[rank]];
    WorkerNodeConfig worker;
    worker.name = node->name;
    worker.address = node->address;
    worker.communicator.server = aggregator.address;
    worker.communicator.rank = rank;
    worker.communicator.source = rank - aggregator.job.rank_base;
    worker.communicator.world = scenario.workers;
    worker.communicator.gradients = scenario.gradients;
    worker.communicator.window = std::max(scenario.window / scenario.train, 1U);
    worker.communicator.deadline = scenario.host.deadline;
    worker.communicator.repair = scenario.host.retransmission;
    worker.communicator.asynchronous = backend.asynchronous;
    worker.communicator.priorities = scenario.host.priorities;
    worker.nic_bits_per_s = plan.nic_bits_per_s.at(rank);
    worker.packet_cost = scenario.host.cost_of_packet(backend.elements(scenario));
    worker.receive_buffer_bytes = scenario.host.receive_buffer_bytes;
    worker.train = scenario.train;
    plan.workers.push_back(worker);
    rank++;
  }
}

/// Returns the protocol of a worker. Null: Trio-ML's, with `setup.communicator`.
host::ProtocolFactory protocol_of(const Scenario& scenario, const BackendKind& backend,
                                  const WorkerSetup& setup) {
  return backend.protocol != nullptr ? backend.protocol(scenario, setup) : host::ProtocolFactory();
}

/// Returns the protocol of a worker that sends by priority: the back end's, once for each channel.
host::ProtocolFactory prioritised(const Scenario& scenario, const BackendKind& backend,
                                  const WorkerSetup& setup) {
  const uint32_t priorities = scenario.host.priorities;
  host::JoinPlan join(setup.communicator);
  const host::JoinPlan::Terms terms{.gradients = scenario.gradients, .channels = priorities};
  TRIB_ASSERT(join.agree({&terms, 1}).has_value());  // There is one aggregator in the list.
  std::vector<host::ProtocolFactory> streams;
  for (uint32_t channel = 0; channel < priorities; channel++) {
    const host::CommunicatorConfig config =
        channel == 0 ? join.first_channel(0) : join.further_channel(0, channel);
    TRIB_ASSERT(join.place(0, channel).priority == channel);
    host::ProtocolFactory stream = protocol_of(scenario, backend,
                                               {.rank = setup.rank,
                                                .communicator = config,
                                                .aggregators = setup.aggregators,
                                                .workers = setup.workers});
    if (!stream) {
      stream = [config](uint64_t nonce, Instant now) {
        return std::make_unique<host::WorkerProtocol>(config, nonce, now);
      };
    }
    streams.push_back(std::move(stream));
  }
  const uint8_t job_id = setup.communicator.job_id;
  return [streams, job_id](uint64_t nonce, Instant now) {
    return std::make_unique<PrioritisedProtocol>(streams, job_id, nonce, now);
  };
}

}  // namespace

Result<ClusterPlan> plan_cluster(const Scenario& scenario, const BackendKind& backend,
                                 const std::vector<uint32_t>& background_to) {
  Prng seeds(scenario.seed);
  ClusterPlan plan;
  plan.network_seed = seeds.any_u64();
  auto topology = shape_of(scenario, backend, is_tree(scenario, backend));
  if (!topology) return tl::unexpected(topology.error());
  plan.topology = *std::move(topology);
  if (const auto good = check_nodes(plan.topology, scenario, backend); !good) {
    return tl::unexpected(good.error());
  }
  if (const auto good = check_losses(plan.topology, scenario); !good) {
    return tl::unexpected(good.error());
  }
  const bool tree = !nodes_of(plan.topology, kTopKind).empty();
  const auto leaf_of = leaves_of_workers(plan.topology, tree);
  if (!leaf_of) return tl::unexpected(leaf_of.error());
  set_slow_links(plan.topology, scenario);
  plan.nic_bits_per_s = set_host_side(plan.topology, scenario);
  const std::vector<uint32_t> weights = place_servers(plan, scenario, backend);
  if (tree) {
    plan_tree(plan, scenario, backend, *leaf_of);
  } else if (backend.placement == Placement::kSwitch) {
    plan_single(plan, scenario, backend);
  } else {
    plan_servers(plan, scenario, backend, weights);
  }
  for (AggregatorSpec& spec : plan.aggregators) {
    spec.pfe = scenario.pfe;
    if (backend.switchml != nullptr) {
      spec.switchml = *backend.switchml;
      spec.slots = switchml_config(scenario, *backend.switchml).pool;
    }
    spec.link_bits_per_s = scenario.link.rate_bits_per_s;
    spec.address.port = backend.port;
    spec.quorum = scenario.mitigation.quorum;
    spec.host = scenario.host;
    spec.train = scenario.train;
    spec.seed = seeds.any_u64();
  }
  plan_workers(plan, scenario, backend, *leaf_of);
  std::vector<Endpoint> addresses;
  for (const WorkerNodeConfig& worker : plan.workers) addresses.push_back(worker.address);
  for (AggregatorSpec& spec : plan.aggregators) spec.workers = addresses;
  for (uint32_t rank = 0; rank < scenario.workers; rank++) {
    WorkerNodeConfig& worker = plan.workers[rank];
    const WorkerSetup setup{.rank = rank,
                            .communicator = worker.communicator,
                            .aggregators = plan.aggregators,
                            .workers = addresses};
    worker.protocol = scenario.host.priorities > 1 ? prioritised(scenario, backend, setup)
                                                   : protocol_of(scenario, backend, setup);
  }
  for (uint32_t i = 0; i < scenario.workers; i++) plan.worker_seeds.push_back(seeds.any_u64());
  for (size_t i = 0; i < background_to.size(); i++) {
    const std::string at = neighbour_of(plan.topology, plan.host_nodes[background_to[i]]);
    const std::string name = i == 0 ? kBackgroundKind : fmt::format("{}-{}", kBackgroundKind, i);
    net::attach(plan.topology, name, kBackgroundKind, at, scenario.link);
  }
  return plan;
}

}  // namespace tributary::lab
