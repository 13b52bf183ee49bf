// SPDX-License-Identifier: Apache-2.0
#include "tests/support/virtual_net.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"

namespace tributary::testing {

class VirtualNet::ReceiverNode final : public net::Node {
 public:
  ReceiverNode(net::Network& network, const Endpoint& at, std::string name, Receiver receiver)
      : address(at), id(network.add_node(*this, std::move(name))), receiver_(std::move(receiver)) {}

  void receive(uint32_t, net::PacketRef packet) override {
    receiver_(packet->stored, packet->source);
  }

  const Endpoint address;
  const net::NodeId id;

 private:
  const Receiver receiver_;
};

VirtualNet::VirtualNet(uint64_t seed, const net::LinkFaults& faults, Duration delay)
    : faults_(faults),
      delay_(delay),
      network_(core_, seed),
      forwarder_(network_, "forwarder"),
      seeds_(~seed) {}

VirtualNet::~VirtualNet() = default;

Endpoint VirtualNet::address(uint32_t kind, uint32_t index) {
  constexpr uint32_t kPrivateNet = 10U << 24;
  return Endpoint::ipv4(kPrivateNet | kind << 16 | (index + 1), wire::kTrioMlPort);
}

void VirtualNet::attach(net::NodeId node, const Endpoint& at) {
  net::LinkConfig to_forwarder;
  to_forwarder.propagation = delay_;
  to_forwarder.faults = faults_;
  net::LinkConfig from_forwarder;
  from_forwarder.propagation = Duration();
  const uint32_t port = ports_used_++;
  TRIB_ASSERT(
      network_.connect(node, 0, forwarder_.id(), port, to_forwarder, from_forwarder).has_value());
  forwarder_.table().set_route(at, {&port, 1});
  addresses_.push_back(at);
  route_everybody_to(at);
}

/// Aggregators have one cable, to the forwarder.
void VirtualNet::route_everybody_to(const Endpoint& at) {
  const uint32_t port = 0;
  for (const auto& aggregator : aggregators_) aggregator->table().set_route(at, {&port, 1});
}

uint32_t VirtualNet::add_aggregator(const trio_ml::JobConfig& job, const Endpoint& at) {
  lab::AggregatorSpec spec;
  spec.name = fmt::format("aggregator{}", aggregators_.size());
  spec.address = at;
  spec.job = job;
  spec.seed = seeds_.any_u64();
  auto node = lab::LiveNode::create(network_, spec);
  TRIB_ASSERT(node.has_value());
  attach((*node)->id(), at);
  job_ids_.push_back(job.id);
  aggregators_.push_back(*std::move(node));
  for (const Endpoint& known : addresses_) route_everybody_to(known);
  return static_cast<uint32_t>(aggregators_.size()) - 1;
}

uint32_t VirtualNet::add_worker(const host::CommunicatorConfig& config, const Endpoint& at) {
  lab::WorkerNodeConfig node;
  node.name = fmt::format("worker{}", workers_.size());
  node.address = at;
  node.communicator = config;
  workers_.push_back(std::make_unique<lab::WorkerNode>(network_, node, seeds_.any_u64()));
  attach(workers_.back()->id(), at);
  workers_.back()->start();
  return worker_count() - 1;
}

void VirtualNet::add_workers(const Endpoint& server, uint32_t world, uint32_t gradients,
                             uint32_t window) {
  for (uint32_t rank = 0; rank < world; rank++) {
    host::CommunicatorConfig config;
    config.server = server;
    config.rank = rank;
    config.world = world;
    config.gradients = gradients;
    config.window = window;
    add_worker(config, address(1, rank));
  }
}

void VirtualNet::add_receiver(const Endpoint& at, Receiver receiver) {
  receivers_.push_back(std::make_unique<ReceiverNode>(
      network_, at, fmt::format("receiver{}", receivers_.size()), std::move(receiver)));
  attach(receivers_.back()->id, at);
}

void VirtualNet::send(const Endpoint& from, const Endpoint& to,
                      std::span<const std::byte> payload) {
  const auto sender = std::find_if(receivers_.begin(), receivers_.end(),
                                   [&](const auto& node) { return node->address == from; });
  TRIB_ASSERT(sender != receivers_.end());
  network_.transmit(
      (*sender)->id, 0,
      network_.packets().make(from, to, static_cast<uint32_t>(payload.size()), payload));
}

void VirtualNet::at(Instant time, std::function<void()> action) {
  actions_.push_back(std::move(action));
  core_.schedule(std::max(time, now()), EventPriority::kControl, *this, actions_.size() - 1);
}

void VirtualNet::on_event(uint64_t argument) {
  const std::function<void()> action = std::move(actions_[argument]);
  action();
}

bool VirtualNet::run_until(Instant limit, const std::function<bool()>& until) {
  if (core_.run_until(limit, until)) return true;
  core_.run_until(limit);
  return until();
}

trio_ml::Job& VirtualNet::job(uint32_t aggregator) {
  return *aggregators_.at(aggregator)->shard().job(job_ids_.at(aggregator));
}

uint64_t VirtualNet::count(uint32_t aggregator, trio_ml::Outcome outcome) const {
  return aggregators_.at(aggregator)->shard().counters()[static_cast<uint32_t>(outcome)].packets;
}

}  // namespace tributary::testing
