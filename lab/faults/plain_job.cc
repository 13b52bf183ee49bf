// SPDX-License-Identifier: Apache-2.0
#include "lab/faults/plain_job.h"

#include <fmt/format.h>

#include <algorithm>

namespace tributary::lab {
namespace {

constexpr uint32_t kGenerations = 5;
/// Longer than a round trip with reordering takes (fault_plan.cc).
constexpr Duration kRetryAfter = milliseconds(15);

Endpoint client_address(uint32_t source) {
  return Endpoint::ipv4(10U << 24 | 100U << 16 | (source + 1), wire::kTrioMlPort);
}

}  // namespace

/// A client's host.
class PlainJob::Host final : public net::Node {
 public:
  Host(const PlainJobPlan& plan, uint32_t source, FaultWorld& world)
      : world_(world),
        id_(world.network().add_node(*this, fmt::format("plain{}", source))),
        own_(client_address(source)),
        server_(world.address_of(plan.aggregator)),
        client(
            {.job_id = plan.config.id,
             .source = static_cast<uint8_t>(source),
             .gradients = plan.gradients,
             .blocks = plan.blocks,
             .window = plan.config.block_cnt_max,
             .generations = kGenerations,
             .retry_after = kRetryAfter},
            [this](std::span<const std::byte> bytes) { send(bytes); },
            [this](Duration after, std::function<void()> action) {
              world_.at(world_.core().now() + after, std::move(action));
            }) {
    world.connect_client(id_, plan.aggregator, own_);
  }

  void receive(uint32_t, net::PacketRef packet) override {
    if (packet->source == server_) client.receive(packet->stored);
  }

 private:
  void send(std::span<const std::byte> bytes) {
    world_.network().transmit(
        id_, 0,
        world_.network().packets().make(own_, server_, static_cast<uint32_t>(bytes.size()), bytes));
  }

  FaultWorld& world_;
  const net::NodeId id_;
  const Endpoint own_;
  const Endpoint server_;

 public:
  PlainClient client;
};

PlainJob::PlainJob(const PlainJobPlan& plan, FaultWorld& world, Journal& journal)
    : plan_(plan), journal_(journal) {
  for (uint32_t i = 0; i < plan.config.sources; i++) {
    hosts_.push_back(std::make_unique<Host>(plan, i, world));
  }
}

PlainJob::~PlainJob() = default;

void PlainJob::start() {
  for (const auto& host : hosts_) host->client.run();
}

void PlainJob::on_restart(uint32_t aggregator) {
  if (aggregator != plan_.aggregator) return;
  uint32_t newest = 0;
  for (const auto& host : hosts_) newest = std::max(newest, host->client.generation());
  for (const auto& host : hosts_) host->client.start_over(newest + 1);
}

bool PlainJob::done() const {
  return std::all_of(hosts_.begin(), hosts_.end(),
                     [](const auto& host) { return host->client.done(); });
}

void PlainJob::check() {
  const uint64_t all = (uint64_t{1} << plan_.config.sources) - 1;
  for (uint32_t i = 0; i < hosts_.size(); i++) {
    const PlainClient& client = hosts_[i]->client;
    if (!client.done()) {
      journal_.breach(Breach::kStuck, fmt::format("plain client {} is in generation {} of {}", i,
                                                  client.generation(), client.generations()));
    }
    for (const PlainClient::Result& result : client.results()) {
      const std::string wrong = client.check(result, all, /*degraded=*/false);
      if (wrong.empty()) continue;
      journal_.breach(Breach::kWrong, fmt::format("plain client {}: {}", i, wrong));
      break;
    }
  }
}

}  // namespace tributary::lab
