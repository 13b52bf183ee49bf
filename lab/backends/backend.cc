// SPDX-License-Identifier: Apache-2.0
#include "lab/backends/backend.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "lab/backends/live_node.h"
#include "lab/backends/parameter_server.h"
#include "lab/backends/switchml_trio_node.h"
#include "lab/backends/tofino_node.h"
#include "lab/backends/trio_node.h"
#include "lab/backends/waiting_switch.h"
#include "lab/peers/ring_protocol.h"
#include "lab/peers/sharded_protocol.h"
#include "plan/byteps_equations.h"
#include "tofino/limits.h"
#include "tofino/switchml/program.h"
#include "wire/switchml.h"

namespace tributary::lab {
namespace {

template <class Node>
Result<std::unique_ptr<AggregatorNode>> create(net::Network& network, const AggregatorSpec& spec) {
  auto node = Node::create(network, spec);
  if (!node) return tl::unexpected(node.error());
  return std::unique_ptr<AggregatorNode>(*std::move(node));
}

Result<std::unique_ptr<AggregatorNode>> make_waiting_switch(net::Network& network,
                                                            const AggregatorSpec& spec) {
  return std::unique_ptr<AggregatorNode>(std::make_unique<WaitingSwitch>(network, spec));
}

// Latencies are those of an idle switch; tests/lab/backends/tofino_node_test.cc measures them. The
// numbers of passes are the SwitchML paper's (§5), the slots those of the published program.
constexpr uint32_t kTofinoSlots = tofino::SwitchmlVariant{}.slots;
constexpr SwitchmlDesign kSmallOnTofino{.elements = host::kSwitchmlSmallElements,
                                        .latency = tofino::kPassLatency * 2,
                                        .slots_max = kTofinoSlots};
constexpr SwitchmlDesign kLargeOnTofino{.elements = host::kSwitchmlLargeElements,
                                        .latency = tofino::kPassLatency * 11,
                                        .slots_max = kTofinoSlots};
constexpr SwitchmlDesign kTimingOutOnTofino{.elements = host::kSwitchmlSmallElements,
                                            .times_out = true,
                                            .latency = tofino::kPassLatency * 2,
                                            .slots_max = kTofinoSlots};
/// A PFE takes 30 us with 64 and 200 us with 1024 gradients (Trio paper §6.3), 64 between.
constexpr SwitchmlDesign kOnTrio{.elements = host::kSwitchmlLargeElements,
                                 .latency = microseconds(64),
                                 .slots_max = switchml::kSlotsLimit};

/// SwitchML on the modelled Tofino.
BackendKind on_tofino(Backend id, const char* name, const char* description,
                      const SwitchmlDesign& design) {
  return {.id = id,
          .choice = {name, description},
          .mitigates = design.times_out,
          .switchml = &design,
          .own_ports = true,
          .port = wire::kSwitchmlPort,
          .make = create<TofinoNode>,
          .protocol = switchml_protocol,
          .check = [](const Scenario& scenario, const BackendKind& kind) {
            return check_tofino(scenario, kind);
          }};
}

Result<std::unique_ptr<AggregatorNode>> make_parameter_server(net::Network& network,
                                                              const AggregatorSpec& spec) {
  return std::unique_ptr<AggregatorNode>(std::make_unique<ParameterServer>(network, spec));
}

host::ProtocolFactory make_sharded(const Scenario& scenario, const WorkerSetup& worker) {
  ShardedConfig config{
      .communicator = worker.communicator, .servers = {}, .weights = {}, .train = scenario.train};
  config.communicator.source = worker.rank;
  for (const AggregatorSpec& server : worker.aggregators) {
    config.servers.push_back(server.address);
    config.weights.push_back(server.weight);
  }
  return [config](uint64_t nonce, Instant now) {
    return std::make_unique<ShardedProtocol>(config, nonce, now);
  };
}

std::optional<Refusal> check_sharded(const Scenario& scenario, const BackendKind& kind) {
  if (scenario.aggregators.colocated || scenario.aggregators.spare > 0) return {};
  return Refusal{.key = "aggregators.spare",
                 .text = fmt::format("aggregators.spare=0 is not allowed with backend={} and "
                                     "aggregators.colocated=false; allowed: 1 to 256, or "
                                     "aggregators.colocated=true",
                                     kind.choice.name)};
}

std::optional<Refusal> check_asynchronous(const Scenario& scenario, const BackendKind& kind) {
  const size_t buckets = scenario.model.bucket_bytes.size();
  if (scenario.model.kind == Model::kCustom && buckets == 1) return {};
  return Refusal{
      .key = "model.bucket_bytes",
      .text = fmt::format("{} buckets are not allowed with backend={}; allowed: model=custom "
                          "with one bucket, which has all parameters",
                          buckets, kind.choice.name)};
}

host::ProtocolFactory make_ring(const Scenario& scenario, const WorkerSetup& worker) {
  const uint32_t world = scenario.workers;
  const RingConfig config{.rank = worker.rank,
                          .world = world,
                          .gradients = worker.communicator.gradients,
                          .window = worker.communicator.window,
                          .deadline = worker.communicator.deadline,
                          .repair = worker.communicator.repair,
                          .left = worker.workers[(worker.rank + world - 1) % world],
                          .right = worker.workers[(worker.rank + 1) % world]};
  return [config](uint32_t, Instant now) { return std::make_unique<RingProtocol>(config, now); };
}

}  // namespace

const std::vector<BackendKind>& backend_kinds() {
  static const std::vector<BackendKind> kinds{
      {.id = Backend::kTrioMl,
       .choice = {"trio-ml", "Trio-ML on the modelled PFE, straggler mitigation on"},
       .mitigates = true,
       .hierarchical = true,
       .shares = true,
       .make = create<TrioNode>},
      {.id = Backend::kTrioMlWait,
       .choice = {"trio-ml-wait", "the same without mitigation: it waits for everyone"},
       .hierarchical = true,
       .shares = true,
       .make = create<TrioNode>},
      {.id = Backend::kWaitingSwitch,
       .choice = {"waiting-switch",
                  "a switch at line rate that waits for everyone, or for mitigation.quorum"},
       .takes_quorum = true,
       .make = make_waiting_switch},
      {.id = Backend::kIdeal,
       .choice = {"ideal", "the same switch, and nobody straggles"},
       .straggles = false,
       .make = make_waiting_switch},
      on_tofino(Backend::kSwitchml64, "switchml-64",
                "SwitchML on the modelled Tofino, one pipe, 64 elements a packet", kSmallOnTofino),
      on_tofino(Backend::kSwitchml256, "switchml-256",
                "SwitchML on the modelled Tofino, four pipes, 256 elements a packet",
                kLargeOnTofino),
      on_tofino(Backend::kSwitchml64Timeout, "switchml-64-timeout",
                "switchml-64 whose packet generator gives up slots that wait too long",
                kTimingOutOnTofino),
      {.id = Backend::kSwitchmlOnTrio,
       .choice = {"switchml-on-trio", "SwitchML's program, 256 elements, on the modelled PFE"},
       .switchml = &kOnTrio,
       .port = wire::kSwitchmlPort,
       .make = create<SwitchmlTrioNode>,
       .protocol = switchml_protocol,
       .check = [](const Scenario& scenario,
                   const BackendKind& kind) { return check_switchml(scenario, kind); }},
      {.id = Backend::kLive,
       .choice = {"live", "the live engine's core in virtual time; its work takes no time"},
       .mitigates = true,
       .hierarchical = true,
       .elides = false,
       .trains = false,
       .make = create<LiveNode>},
      {.id = Backend::kAsynchronous,
       .choice = {"asynchronous",
                  "the same core keeps the parameters; nobody waits (BytePS, section 5)"},
       .elides = false,
       .trains = false,
       .asynchronous = true,
       .make = create<LiveNode>,
       .check = check_asynchronous},
      {.id = Backend::kPsDedicated,
       .choice = {"ps-dedicated", "parameter servers on hosts of their own, one for each worker"},
       .placement = Placement::kDedicated,
       .shares = true,
       .make = make_parameter_server,
       .protocol = make_sharded},
      {.id = Backend::kPsColocated,
       .choice = {"ps-colocated",
                  "parameter servers on the workers' hosts, sharing their cables but not their "
                  "cores"},
       .placement = Placement::kColocated,
       .shares = true,
       .make = make_parameter_server,
       .protocol = make_sharded},
      {.id = Backend::kSharded,
       .choice = {"sharded",
                  "aggregators beside the workers and on spare machines, as BytePS weighs them"},
       .placement = Placement::kSharded,
       .shares = true,
       .make = make_parameter_server,
       .protocol = make_sharded,
       .check = check_sharded},
      {.id = Backend::kShardedLive,
       .choice = {"sharded-live",
                  "the same with the live engine's cores; their work takes no time"},
       .placement = Placement::kSharded,
       .mitigates = true,
       .elides = false,
       .trains = false,
       .make = create<LiveNode>,
       .protocol = make_sharded,
       .check = check_sharded},
      {.id = Backend::kRing,
       .choice = {"ring", "ring all-reduce: nobody but the workers adds"},
       .placement = Placement::kWorkers,
       .shares = true,
       .protocol = make_ring},
      {.id = Backend::kOptireduce,
       .choice = {"optireduce",
                  "ps-colocated whose blocks wait at most mitigation.timeout_ms (OptiReduce)"},
       .placement = Placement::kColocated,
       .mitigates = true,
       .shares = true,
       .make = make_parameter_server,
       .protocol = make_sharded},
  };
  return kinds;
}

const BackendKind& backend_kind(Backend backend) {
  const BackendKind& kind = backend_kinds().at(static_cast<size_t>(backend));
  TRIB_ASSERT(kind.id == backend);
  return kind;
}

bool leaves_out_late(const Scenario& scenario, const BackendKind& backend) {
  const uint32_t quorum = scenario.mitigation.quorum;
  return backend.mitigates || (quorum > 0 && quorum < scenario.workers);
}

trio_ml::JobConfig job_of(const Scenario& scenario, const BackendKind& backend) {
  trio_ml::JobConfig job;
  job.sources = scenario.workers;
  job.block_cnt_max = std::max(scenario.window / scenario.train, 1U);
  job.block_grad_max = scenario.gradients;
  job.channels = scenario.host.priorities;
  job.mitigation = backend.mitigates;
  if (leaves_out_late(scenario, backend)) job.history = scenario.mitigation.history;
  job.shared_buffers = scenario.host.retransmission;
  job.timeout = scenario.mitigation.timeout;
  job.timer_threads = scenario.mitigation.timer_threads;
  job.permanent_after = scenario.mitigation.permanent_after;
  // As fast as the port. A simulated reply stands for a train of them.
  job.reply_bits_per_s = scenario.link.rate_bits_per_s / scenario.train;
  if (backend.asynchronous) {
    job.asynchronous = true;
    const auto& bytes = scenario.model.bucket_bytes;
    job.parameters =
        bytes.empty() ? 1 : (bytes[0] + wire::kGradientBytes - 1) / wire::kGradientBytes;
  }
  return job;
}

bool is_tree(const Scenario& scenario, const BackendKind& backend) {
  return backend.hierarchical &&
         (scenario.topology == Topology::kChassis || scenario.topology == Topology::kTwoLevel);
}

double least_traffic(const Scenario& scenario, const BackendKind& backend) {
  const AggregatorsSettings& aggregators = scenario.aggregators;
  switch (backend.placement) {
    case Placement::kSwitch:
    case Placement::kDedicated:
      return 1;
    case Placement::kSharded:
      if (!aggregators.colocated) return 1;
      if (scenario.workers == 1) return 0;
      return plan::byteps_optimum(scenario.workers, aggregators.spare);
    case Placement::kColocated:
    case Placement::kWorkers:
      break;
  }
  return plan::best_ring(scenario.workers);
}

}  // namespace tributary::lab
