// SPDX-License-Identifier: Apache-2.0
#include "bench/race/client/tributary_client.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/endpoint.h"
#include "bench/race/client/ps_client.h"
#include "host/aggregator_list.h"
#include "io/dpdk/open_dpdk_port.h"
#include "io/faults/impaired_port.h"
#include "io/local/local_port.h"
#include "io/udp/udp_port.h"
#include "wire/headers.h"

namespace tributary::race {
namespace {

/// Longest wait for a peer, longer than any race.
constexpr Duration kDeadline = seconds(30);

/// Any port works: each worker has its own address there.
constexpr uint16_t kDevicePort = 49'152;

Result<std::unique_ptr<engine::Port>> open_device(const std::string& text) {
  auto device = io::parse_dpdk_device(text);
  if (!device) return tl::unexpected(device.error());
  auto spec = io::join_dpdk_devices({*std::move(device)});
  if (!spec) return tl::unexpected(spec.error());
  auto opened = io::open_dpdk_port({.spec = *std::move(spec), .udp_port = kDevicePort});
  if (!opened) return tl::unexpected(opened.error());
  return std::move(opened->port);
}

Result<std::unique_ptr<engine::Port>> open_port(const ClientConfig& config,
                                                const Endpoint& server) {
  if (!config.port.empty()) return open_device(config.port);
  io::UdpPortConfig udp;
  udp.peer = server;
  auto port = io::UdpPort::open(udp);
  if (!port) return tl::unexpected(port.error());
  return std::move(*port);
}

/// Opens shared memory to the aggregator of this machine, and a socket or device to others. A
/// colocated aggregator is a part of the system, so a race without its shared memory fails.
Result<std::unique_ptr<engine::Port>> open_port_for_race(const ClientConfig& config,
                                                         uint32_t channel, const Endpoint& server) {
  if (server.to_string() == config.local_server) return io::connect_local_port(server);
  auto port = open_port(config, server);
  if (!port || config.loss <= 0) return port;
  io::ImpairmentConfig impairment;
  impairment.rx.loss = config.loss;
  impairment.tx.loss = config.loss;
  // Each channel of each worker loses different packets.
  impairment.seed = uint64_t{channel} * kWorkersMax + config.rank + 1;
  return io::ImpairedPort::make(std::move(*port), impairment);
}

Result<std::unique_ptr<host::Communicator>> join(const ClientConfig& config) {
  if (config.server.size() != 1) return failure("--server: one list of aggregators is needed");
  auto aggregators = host::parse_aggregators(config.server.front(), wire::kTrioMlPort);
  if (!aggregators) return tl::unexpected(aggregators.error());
  if (auto found = host::resolve(*aggregators); !found) return tl::unexpected(found.error());
  // Let the library choose packet size and window for this path.
  host::CommunicatorConfig session;
  session.server = aggregators->front().address;
  session.aggregators = *std::move(aggregators);
  session.rank = config.rank;
  session.world = config.workers;
  session.gradients = 0;
  session.gradients_flexible = true;
  session.window = 0;
  session.deadline = kDeadline;
  session.wire = config.wire == 16 ? host::WireBits::k16 : host::WireBits::k32;
  return host::Communicator::join(session, [&config](uint32_t channel, const Endpoint& server) {
    return open_port_for_race(config, channel, server);
  });
}

Result<void> run_tributary(const ClientConfig& config) {
  const auto communicator = join(config);
  if (!communicator) return tl::unexpected(communicator.error());
  const bool narrow = config.wire == 16;
  const host::AllReduceOptions options{
      .op = host::ReduceOp::kSum,
      .format = narrow ? host::FloatFormat::kBlockExponent : host::FloatFormat::kFixedScale,
      .scale = kFixedScale};
  const auto reduce = [&](std::span<float> tensor) -> Result<std::vector<PartialSum>> {
    const host::Outcome outcome = (*communicator)->all_reduce(tensor, options);
    if (outcome.status != host::Status::kOk) return failure(outcome.text);
    return partial_sums(outcome.degraded, config.workers);
  };
  return run_laps(config, reduce, narrow ? narrow_tolerance(config.workers) : Tolerance{});
}

Result<void> run_ps(const ClientConfig& config) {
  std::vector<Endpoint> servers;
  for (const std::string& text : config.server) {
    const auto server = Endpoint::parse(text);
    if (!server) return tl::unexpected(server.error());
    servers.push_back(*server);
  }
  auto client = PsClient::connect(servers, config.bytes);
  if (!client) return tl::unexpected(client.error());
  return run_laps(config, [&](std::span<float> tensor) -> Result<std::vector<PartialSum>> {
    if (auto reduced = client->reduce(tensor); !reduced) return tl::unexpected(reduced.error());
    return std::vector<PartialSum>{};
  });
}

}  // namespace

Result<void> run_worker(const ClientConfig& config) {
  if (config.algorithm == kTributaryWorker) return run_tributary(config);
  if (config.algorithm == kPsWorker) return run_ps(config);
  return failure(fmt::format("--algorithm {} is not allowed; allowed: {}, {}", config.algorithm,
                             kTributaryWorker, kPsWorker));
}

std::vector<PartialSum> partial_sums(std::span<const host::DegradedRange> degraded,
                                     uint32_t workers) {
  std::vector<PartialSum> parts;
  for (const host::DegradedRange& range : degraded) {
    uint32_t weight = 0;
    for (uint32_t rank = 0; rank < workers; rank++) {
      if (host::contains(range.sources, rank)) weight += rank + 1;
    }
    parts.push_back({range.element_first, range.element_count, weight});
  }
  return parts;
}

}  // namespace tributary::race
