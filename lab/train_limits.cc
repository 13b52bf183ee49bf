// SPDX-License-Identifier: Apache-2.0
#include "lab/train_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "net/packet.h"
#include "wire/switchml.h"
#include "wire/trio_ml.h"

namespace tributary::lab {
namespace {

/// Returns the links that exist in the scenario and that its keys set. At a switch that adds, each
/// worker has a cable of its own, and a leaf sends one stream of sums up. The cable of a server,
/// and the cable of an aggregator behind a leaf, carry the packets of all workers.
std::vector<SharedLink> links_of(const Scenario& scenario, const BackendKind& backend) {
  if (scenario.topology == Topology::kFile) return {};
  const bool servers = backend.placement != Placement::kSwitch;
  std::vector<SharedLink> links{{"link.", &scenario.link, servers ? scenario.workers : 1}};
  const bool leaf_spine = scenario.topology == Topology::kLeafSpine;
  if (leaf_spine || is_tree(scenario, backend)) {
    links.push_back({"fabric.", &scenario.fabric, servers || leaf_spine ? scenario.workers : 1});
  }
  return links;
}

Refusal refused(const std::string& key, uint64_t value, const std::string& allowed) {
  return {.key = key,
          .text = fmt::format("{}={} is not allowed; allowed: {}", key, value, allowed)};
}

/// Returns the longest train, a power of two, that `bytes` bytes can hold if a packet has `each`
/// bytes; at least 1.
uint64_t longest_train(uint64_t bytes, uint64_t each) {
  return std::max<uint64_t>(std::bit_floor(bytes / each), 1);
}

}  // namespace

uint64_t wire_bytes_of_packet(const Scenario& scenario, const BackendKind& backend) {
  const uint32_t elements = backend.elements(scenario);
  const uint64_t payload = backend.switchml != nullptr
                               ? wire::switchml_bytes(elements)
                               : uint64_t{elements} * wire::kGradientBytes +
                                     wire::TrioMlHeader::kBytes + wire::kExtensionBytes;
  return payload + net::kWireOverheadBytes;
}

std::optional<Refusal> check_queue(const Scenario& scenario, const BackendKind& backend,
                                   const SharedLink& link) {
  const uint64_t packet_bytes = wire_bytes_of_packet(scenario, backend);
  const uint64_t queue_bytes = link.config->queue_bytes_max;
  const std::string key = link.prefix + "queue_bytes";
  if (queue_bytes < packet_bytes) {
    return refused(key, queue_bytes,
                   fmt::format("at least {}, one packet of {} gradients", packet_bytes,
                               backend.elements(scenario)));
  }
  if (scenario.train * packet_bytes <= queue_bytes) return {};
  return refused(
      "train", scenario.train,
      fmt::format("1 to {}: that many packets of {} bytes fit into {}={}",
                  longest_train(queue_bytes, packet_bytes), packet_bytes, key, queue_bytes));
}

std::optional<Refusal> check_queues(const Scenario& scenario, const BackendKind& backend) {
  for (const SharedLink& link : links_of(scenario, backend)) {
    if (auto refusal = check_queue(scenario, backend, link)) return refusal;
  }
  return {};
}

std::optional<Refusal> check_mark(const Scenario& scenario, const BackendKind& backend,
                                  const SharedLink& link) {
  if (scenario.host.congestion == host::CongestionControl::kNone || scenario.train == 1) return {};
  const uint64_t each = link.workers * wire_bytes_of_packet(scenario, backend);
  if (scenario.train * each <= link.config->ecn_bytes) return {};
  return refused(
      "train", scenario.train,
      fmt::format("1 to {} with host.congestion={}: a window is at least one train, and a train "
                  "of each of {} workers must stay below {}ecn_bytes={}",
                  longest_train(link.config->ecn_bytes, each),
                  host::name_of(scenario.host.congestion), link.workers, link.prefix,
                  link.config->ecn_bytes));
}

std::optional<Refusal> check_marks(const Scenario& scenario, const BackendKind& backend) {
  for (const SharedLink& link : links_of(scenario, backend)) {
    if (auto refusal = check_mark(scenario, backend, link)) return refusal;
  }
  return {};
}

}  // namespace tributary::lab
