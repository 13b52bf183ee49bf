// SPDX-License-Identifier: Apache-2.0
#include "lab/backends/live_node.h"

#include <span>
#include <string>

#include "auth/keys.h"
#include "base/byte_order.h"

namespace tributary::lab {
namespace {

uint64_t memory_needed(const std::vector<trio_ml::JobConfig>& jobs) {
  // Each of a job's few arrays may be aligned to a page.
  constexpr uint64_t kSlackBytes = 64 << 10;
  uint64_t size = kSlackBytes;
  for (const trio_ml::JobConfig& job : jobs) {
    size += trio_ml::memory_bytes(job, /*shard_count=*/1) + kSlackBytes;
  }
  return size;
}

/// Returns a number that differs between the aggregators of a network.
uint64_t number_of(const Endpoint& address) {
  const std::string text = address.to_string();
  return load_be<uint64_t>(auth::hash(std::as_bytes(std::span(text))).data());
}

}  // namespace

struct LiveNode::TrioMl final : Process {
  TrioMl(engine::PortQueue& queue, uint16_t port, memory::SharedMemory memory_in)
      : memory(std::move(memory_in)),
        shard(0, 1, port, memory),
        core(0, queue, trio_ml::App(shard), {}) {}
  void run_once(Instant now) override { core.run_once(now); }
  Instant next_due() override { return core.program().next_due(); }

  memory::SharedMemory memory;
  std::vector<std::unique_ptr<trio_ml::Session>> sessions;
  trio_ml::Shard shard;
  engine::LiveCore<trio_ml::App> core;
};

LiveNode::LiveNode(net::Network& network, const AggregatorSpec& spec,
                   std::vector<trio_ml::JobConfig> jobs)
    : LiveHost(network, spec), jobs_(std::move(jobs)), seeds_(spec.seed) {}

LiveNode::~LiveNode() = default;

Result<std::unique_ptr<LiveNode>> LiveNode::create(
    net::Network& network, const AggregatorSpec& spec,
    const std::vector<trio_ml::JobConfig>& more_jobs) {
  std::vector<trio_ml::JobConfig> jobs;
  for (uint32_t channel = 0; channel < spec.job.channels; channel++) {
    jobs.push_back(trio_ml::channel_of(spec.job, channel));
  }
  jobs.insert(jobs.end(), more_jobs.begin(), more_jobs.end());
  std::unique_ptr<LiveNode> node(new LiveNode(network, spec, std::move(jobs)));
  if (const auto begun = node->begin_process(); !begun) return tl::unexpected(begun.error());
  return node;
}

Result<std::unique_ptr<LiveHost::Process>> LiveNode::make_process(engine::PortQueue& queue,
                                                                  Instant now) {
  auto memory =
      memory::SharedMemory::create({.sram_size_bytes = 0, .dram_size_bytes = memory_needed(jobs_)});
  if (!memory) return tl::unexpected(memory.error());
  auto process = std::make_unique<TrioMl>(queue, address().port, *std::move(memory));
  for (trio_ml::JobConfig job : jobs_) {
    job.aggregator_id = number_of(address());
    process->sessions.push_back(
        std::make_unique<trio_ml::Session>(job, auth::key_of_seed(seeds_.any_u64())));
    const auto added = process->shard.add_job(job, *process->sessions.back(), now);
    if (!added) return tl::unexpected(added.error());
  }
  return std::unique_ptr<Process>(std::move(process));
}

void LiveNode::on_round() {
  if (observer_ != nullptr) observer_->on_round(*this);
}

trio_ml::Shard& LiveNode::shard() { return static_cast<TrioMl*>(process())->shard; }
const trio_ml::Shard& LiveNode::shard() const { return static_cast<TrioMl*>(process())->shard; }

}  // namespace tributary::lab
