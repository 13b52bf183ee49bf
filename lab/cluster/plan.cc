// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "base/assert.h"
#include "base/prng.h"
#include "host/join_plan.h"
#include "host/trio_ml/worker_protocol.h"
#include "lab/cluster/cable_limits.h"
#include "lab/cluster/placement.h"
#include "lab/peers/prioritised_protocol.h"
#include "lab/peers/sharded_protocol.h"
#include "lab/workload/straggler.h"

namespace tributary::lab {
namespace {

/// Returns a job's multicast group. 239.x is for use within an organisation (RFC 2365).
Endpoint group_address(uint8_t job_id) {
  return Endpoint::ipv4(0xef00'0000 + job_id, wire::kTrioMlPort);
}

/// Sets each host's direction of its cable: at the NIC's rate, from the NIC's ring.
/// @return the resulting rates, by rank.
std::vector<uint64_t> set_host_side(net::Topology& topology, const Scenario& scenario,
                                    const std::vector<std::string>& workers) {
  std::vector<uint64_t> rates;
  for (const std::string& worker : workers) {
    uint64_t rate = scenario.host.nic_bits_per_s;
    for (net::CableSpec& cable : topology.cables) {
      const bool is_a = cable.a.node == worker;
      if (!is_a && cable.b.node != worker) continue;
      net::LinkConfig& out = is_a ? cable.forth : cable.back;
      rate = std::min(rate, out.rate_bits_per_s);
      out.rate_bits_per_s = rate;
      out.queue_bytes_max = kHostQueueBytesMax;
    }
    rates.push_back(rate);
  }
  return rates;
}

/// Returns the direction of a host's cable that leads to the host. A host without a cable has the
/// default; net::build() refuses anything attached beside it.
net::LinkConfig link_to(const net::Topology& topology, const std::string& host) {
  for (const net::CableSpec& cable : topology.cables) {
    if (cable.a.node == host) return cable.back;
    if (cable.b.node == host) return cable.forth;
  }
  return {};
}

/// Returns the lowest rate of a cable, in either direction. A host's NIC limits its direction.
uint64_t slowest_rate(const net::Topology& topology) {
  uint64_t slowest = UINT64_MAX;
  for (const net::CableSpec& cable : topology.cables) {
    slowest = std::min({slowest, cable.forth.rate_bits_per_s, cable.back.rate_bits_per_s});
  }
  return slowest;
}

/// Adds a source of traffic at the switch of a worker's host, on a cable like the host's.
void add_background(ClusterPlan& plan, const Scenario& scenario, size_t number, uint32_t rank) {
  const std::string& host = plan.host_nodes[rank];
  const net::LinkConfig link = link_to(plan.topology, host);
  const double rate =
      static_cast<double>(link.rate_bits_per_s) * scenario.straggler.background_share;
  plan.background_bits_per_s.push_back(static_cast<uint64_t>(rate));
  net::attach(plan.topology, background_name(plan.place, number), kBackgroundKind,
              neighbour_of(plan.topology, host), link);
}

AggregatorSpec spec_of(const net::NodeSpec& node, const trio_ml::JobConfig& job) {
  AggregatorSpec spec;
  spec.name = node.name;
  spec.address = node.address;
  spec.job = job;
  return spec;
}

const net::NodeSpec& node_called(const net::Topology& topology, const std::string& name) {
  return *std::find_if(topology.nodes.begin(), topology.nodes.end(),
                       [&](const net::NodeSpec& node) { return node.name == name; });
}

/// The aggregators that a job's workers speak with.
struct Leaves {
  std::vector<std::string> nodes;  ///< In the topology's order; without a tree, the only one.
  std::vector<uint32_t> of_rank;   ///< Each worker's leaf: an index into `nodes`, else 0.

  [[nodiscard]] uint32_t first_rank(uint32_t leaf) const {
    return static_cast<uint32_t>(std::find(of_rank.begin(), of_rank.end(), leaf) - of_rank.begin());
  }
  [[nodiscard]] uint32_t worker_count(uint32_t leaf) const {
    return static_cast<uint32_t>(std::count(of_rank.begin(), of_rank.end(), leaf));
  }
};

/// The ranks that a result names. Above kSourcesMax workers a result has no room for all of them,
/// so each leaf numbers its own from 0.
struct RankNames {
  uint32_t world;
  bool of_leaf;  ///< Whether each leaf numbers its own workers.
};

RankNames rank_names(const Scenario& scenario, const Leaves& leaves) {
  if (scenario.workers <= wire::kSourcesMax || leaves.nodes.empty()) {
    return {.world = scenario.workers, .of_leaf = false};
  }
  uint32_t most = 0;
  for (uint32_t leaf = 0; leaf < leaves.nodes.size(); leaf++) {
    most = std::max(most, leaves.worker_count(leaf));
  }
  return {.world = most, .of_leaf = true};
}

void plan_tree(ClusterPlan& plan, const Scenario& scenario, const BackendKind& backend,
               const Leaves& leaves) {
  const net::NodeSpec& top = *nodes_of(plan.topology, kTopKind).at(0);
  const RankNames names = rank_names(scenario, leaves);
  for (uint32_t leaf = 0; leaf < leaves.nodes.size(); leaf++) {
    AggregatorSpec spec =
        spec_of(node_called(plan.topology, leaves.nodes[leaf]), job_of(scenario, backend));
    spec.job.sources = leaves.worker_count(leaf);
    spec.job.world = names.world;
    spec.job.rank_base = names.of_leaf ? 0 : leaves.first_rank(leaf);
    spec.job.upstream = top.address;
    spec.job.upstream_source = leaf;
    plan.aggregators.push_back(spec);
  }
  AggregatorSpec spec = spec_of(top, job_of(scenario, backend));
  spec.job.sources = static_cast<uint32_t>(plan.aggregators.size());
  spec.job.sources_are_aggregators = true;
  spec.job.ranks_overlap = names.of_leaf;
  spec.job.world = names.world;
  spec.job.timeout = spec.job.timeout * kTopTimeoutFactor;
  spec.job.reply_bits_per_s =
      std::max(scenario.link.rate_bits_per_s, scenario.fabric.rate_bits_per_s) / scenario.train;
  plan.aggregators.push_back(spec);
}

/// Finds the leaf of each worker below a top. A leaf knows its first rank and its number of
/// workers, so the ranks of a leaf must be consecutive. A job on all hosts must use all leaves.
Result<Leaves> leaves_of_tree(const net::Topology& topology, const JobPlace& place) {
  Leaves leaves;
  std::vector<std::string> neighbours;
  for (const std::string& worker : place.workers) {
    neighbours.push_back(neighbour_of(topology, worker));
  }
  const bool whole = place.workers.size() == nodes_of(topology, kWorkerKind).size();
  std::map<std::string, uint32_t> numbers;
  for (const net::NodeSpec* leaf : nodes_of(topology, kAggregatorKind)) {
    const auto first = std::find(neighbours.begin(), neighbours.end(), leaf->name);
    const auto end = std::find_if(first, neighbours.end(),
                                  [&](const auto& other) { return other != leaf->name; });
    if (std::find(end, neighbours.end(), leaf->name) != neighbours.end() ||
        (whole && first == neighbours.end())) {
      return failure(fmt::format("{}: {} has workers whose ranks do not follow each other, or none",
                                 leaf->where, leaf->name));
    }
    if (first == neighbours.end()) continue;
    numbers[leaf->name] = static_cast<uint32_t>(leaves.nodes.size());
    leaves.nodes.push_back(leaf->name);
  }
  for (size_t rank = 0; rank < neighbours.size(); rank++) {
    const auto found = numbers.find(neighbours[rank]);
    if (found == numbers.end()) {
      const net::NodeSpec& worker = node_called(topology, place.workers[rank]);
      return failure(fmt::format("{}: {} is cabled to '{}'; allowed below a {}: a node of kind {}",
                                 worker.where, worker.name, neighbours[rank], kTopKind,
                                 kAggregatorKind));
    }
    leaves.of_rank.push_back(found->second);
  }
  return leaves;
}

Result<Leaves> leaves_of_workers(const net::Topology& topology, const JobPlace& place,
                                 bool switch_adds) {
  if (switch_adds && !nodes_of(topology, kTopKind).empty()) return leaves_of_tree(topology, place);
  Leaves leaves;
  leaves.of_rank.assign(place.workers.size(), 0);
  if (switch_adds) leaves.nodes.push_back(nodes_of(topology, kAggregatorKind).at(0)->name);
  return leaves;
}

void plan_single(ClusterPlan& plan, const Scenario& scenario, const BackendKind& backend,
                 const std::string& aggregator) {
  const net::NodeSpec& node = node_called(plan.topology, aggregator);
  AggregatorSpec spec = spec_of(node, job_of(scenario, backend));
  if (backend.asynchronous) return plan.aggregators.push_back(spec);
  spec.job.group = group_address(plan.place.job_id);
  net::GroupSpec group{
      .address = {}, .receivers = plan.place.workers, .senders = {aggregator}, .where = "plan"};
  for (uint32_t channel = 0; channel < spec.job.channels; channel++) {
    group.address = trio_ml::channel_of(spec.job, channel).group;
    plan.topology.groups.push_back(group);
  }
  plan.aggregators.push_back(spec);
}

/// Plans the servers that place_servers() has placed. Each adds its part of every tensor.
void plan_servers(ClusterPlan& plan, const Scenario& scenario, const BackendKind& backend,
                  const std::vector<uint32_t>& weights) {
  if (weights.empty()) return;
  const auto windows = window_shares(std::max(scenario.window / scenario.train, 1U), weights);
  for (uint32_t i = 0; i < weights.size(); i++) {
    const net::NodeSpec& node = node_called(plan.topology, server_name(plan.place, i));
    AggregatorSpec spec = spec_of(node, job_of(scenario, backend));
    spec.job.block_cnt_max = std::bit_ceil(windows[i]);
    spec.weight = weights[i];
    plan.aggregators.push_back(spec);
  }
}

void plan_workers(ClusterPlan& plan, const Scenario& scenario, const BackendKind& backend,
                  const Leaves& leaves) {
  const RankNames names = rank_names(scenario, leaves);
  for (uint32_t rank = 0; rank < plan.place.workers.size(); rank++) {
    const net::NodeSpec& node = node_called(plan.topology, plan.place.workers[rank]);
    // Peers know each other by plan.aggregators and plan.workers.
    const AggregatorSpec aggregator =
        plan.aggregators.empty() ? AggregatorSpec() : plan.aggregators[leaves.of_rank[rank]];
    const uint32_t first =
        names.of_leaf ? leaves.first_rank(leaves.of_rank[rank]) : aggregator.job.rank_base;
    WorkerNodeConfig worker;
    worker.name = node.name;
    worker.address = node.address;
    worker.communicator.server = aggregator.address;
    worker.communicator.job_id = plan.place.job_id;
    worker.communicator.source = rank - first;
    worker.communicator.rank = names.of_leaf ? rank - first : rank;
    worker.communicator.world = names.world;
    worker.communicator.gradients = scenario.gradients;
    worker.communicator.window = std::max(scenario.window / scenario.train, 1U);
    worker.communicator.deadline = scenario.host.deadline;
    worker.communicator.repair = scenario.host.retransmission;
    worker.communicator.asynchronous = backend.asynchronous;
    worker.communicator.priorities = scenario.host.priorities;
    worker.nic_bits_per_s = plan.nic_bits_per_s.at(rank);
    worker.packet_cost = scenario.host.cost_of_packet(backend.elements(scenario));
    worker.receive_buffer_bytes = scenario.host.receive_buffer_bytes;
    worker.congestion = scenario.host.congestion;
    worker.train = scenario.train;
    plan.workers.push_back(worker);
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

std::string background_name(const JobPlace& place, size_t number) {
  const std::string name =
      number == 0 ? kBackgroundKind : fmt::format("{}-{}", kBackgroundKind, number);
  return place.prefix + name;
}

Result<void> plan_job(ClusterPlan& plan, const Scenario& scenario, const BackendKind& backend,
                      Prng& seeds, const std::vector<uint32_t>& background_to) {
  const bool switch_adds = backend.placement == Placement::kSwitch;
  const auto leaves = leaves_of_workers(plan.topology, plan.place, switch_adds);
  if (!leaves) return tl::unexpected(leaves.error());
  plan.nic_bits_per_s = set_host_side(plan.topology, scenario, plan.place.workers);
  const std::vector<uint32_t> weights = place_servers(plan, scenario, backend);
  // A job inside one leaf of a larger tree needs no other aggregator.
  const bool climbs =
      switch_adds && !nodes_of(plan.topology, kTopKind).empty() &&
      (leaves->nodes.size() > 1 || nodes_of(plan.topology, kAggregatorKind).size() == 1);
  if (climbs) {
    plan_tree(plan, scenario, backend, *leaves);
  } else if (switch_adds) {
    plan_single(plan, scenario, backend, leaves->nodes.at(0));
  } else {
    plan_servers(plan, scenario, backend, weights);
  }
  for (AggregatorSpec& spec : plan.aggregators) {
    spec.job.id = plan.place.job_id;
    spec.pfe = scenario.pfe;
    if (backend.switchml != nullptr) {
      spec.switchml = *backend.switchml;
      spec.slots = switchml_config(scenario, *backend.switchml).pool;
    }
    spec.link_bits_per_s = scenario.link.rate_bits_per_s;
    spec.address.port = backend.port;
    spec.quorum = scenario.mitigation.quorum;
    spec.host = scenario.host;
    spec.keeps_marks = scenario.host.congestion != host::CongestionControl::kNone;
    spec.train = scenario.train;
    spec.seed = seeds.any_u64();
  }
  plan_workers(plan, scenario, backend, *leaves);
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
    add_background(plan, scenario, i, background_to[i]);
  }
  plan.slowest_bits_per_s = slowest_rate(plan.topology);
  return {};
}

Result<void> check_files(const Scenario& scenario) {
  if (const auto trace = check_trace(scenario); !trace) return trace;
  if (scenario.topology != Topology::kFile) return {};
  const auto plan = plan_cluster(scenario, backend_kind(scenario.backend), {});
  if (!plan) return tl::unexpected(plan.error());
  return {};
}

Result<ClusterPlan> plan_cluster(const Scenario& scenario, const BackendKind& backend,
                                 const std::vector<uint32_t>& background_to) {
  Prng seeds(scenario.seed);
  ClusterPlan plan;
  plan.network_seed = seeds.any_u64();
  auto topology = plan_network(scenario, backend, is_tree(scenario, backend));
  if (!topology) return tl::unexpected(topology.error());
  plan.topology = *std::move(topology);
  for (const net::NodeSpec* worker : nodes_of(plan.topology, kWorkerKind)) {
    plan.place.workers.push_back(worker->name);
  }
  if (const auto planned = plan_job(plan, scenario, backend, seeds, background_to); !planned) {
    return tl::unexpected(planned.error());
  }
  if (scenario.topology != Topology::kFile) return plan;
  if (const auto fit = check_cable_limits(plan.topology, scenario, backend, plan.place.workers);
      !fit) {
    return tl::unexpected(fit.error());
  }
  return plan;
}

}  // namespace tributary::lab
