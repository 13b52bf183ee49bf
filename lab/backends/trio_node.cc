// SPDX-License-Identifier: Apache-2.0
#include "lab/backends/trio_node.h"

#include <fmt/format.h>

#include <algorithm>

#include "auth/keys.h"
#include "lab/inspect/pfe_report.h"
#include "lab/inspect/trio_snapshot.h"
#include "wire/trio_ml.h"

namespace tributary::lab {
namespace {

/// Room beside a job's own memory for allocations' alignment.
constexpr uint64_t kMemorySlackBytes = uint64_t{1} << 20;

/// The longest message that a PFE must decode in the lab, where nothing is sealed: a join. Only
/// notices of a mismatch also have a source mask; workers of a scenario never differ.
constexpr uint32_t kMessageBytesMax =
    wire::TrioMlHeader::kBytes + wire::kExtensionBytes + wire::kControlBodyBytes;
constexpr uint32_t kHeaderBytesMax = engine::kHeadBytes - kMessageBytesMax;
static_assert(engine::Parameters().header_bytes <= kHeaderBytesMax);

}  // namespace

Result<engine::Parameters> parameters_of(const PfeSettings& settings, uint32_t train) {
  auto parameters = engine::preset(settings.generation);
  if (!parameters) return parameters;
  parameters->fidelity = settings.fidelity;
  parameters->train_max = train;
  for (const ParameterOverride& change : settings.overrides) {
    if (change.name == "header_bytes" && change.value > kHeaderBytesMax) {
      return failure(fmt::format(
          "header_bytes={} is not allowed; allowed: 0 to {} B, with which a packet's head holds a "
          "request to join",
          change.value, kHeaderBytesMax));
    }
    const auto set = engine::set_parameter(*parameters, change.name, change.value);
    if (!set) return tl::unexpected(set.error());
  }
  if (const auto good = engine::check(*parameters); !good) return tl::unexpected(good.error());
  return parameters;
}

Result<std::unique_ptr<TrioNode>> TrioNode::create(net::Network& network,
                                                   const AggregatorSpec& spec) {
  const auto parameters = parameters_of(spec.pfe, spec.train);
  if (!parameters) return tl::unexpected(parameters.error());
  memory::SharedMemory::Config config;
  config.dram_size_bytes = std::max(config.dram_size_bytes, job_bytes(spec) + kMemorySlackBytes);
  auto memory = memory::SharedMemory::create(config);
  if (!memory) return tl::unexpected(memory.error());
  std::unique_ptr<TrioNode> node(new TrioNode(network, spec, *std::move(memory)));
  if (const auto placed = node->shard_.place_hash_tables(); !placed) {
    return tl::unexpected(placed.error());
  }
  if (const auto added = node->add_job(spec.job, spec.seed); !added) {
    return tl::unexpected(added.error());
  }
  for (const AggregatorSpec::FurtherJob& further : spec.further) {
    const auto added = node->add_job(further.job, further.seed);
    if (!added) return tl::unexpected(added.error());
  }
  engine::PfeSink& sink = *node;
  node->pfe_ = std::make_unique<engine::Pfe<trio_ml::App>>(
      network.core(), *parameters, node->memory_, trio_ml::App(node->shard_), sink);
  return node;
}

TrioNode::TrioNode(net::Network& network, const AggregatorSpec& spec, memory::SharedMemory memory)
    : AggregatorNode(network, spec),
      memory_(std::move(memory)),
      shard_(0, 1, spec.address.port, memory_) {}

TrioNode::~TrioNode() = default;

Result<void> TrioNode::add_job(const trio_ml::JobConfig& job, uint64_t seed) {
  for (uint32_t channel = 0; channel < job.channels; channel++) {
    const trio_ml::JobConfig one = trio_ml::channel_of(job, channel);
    sessions_.push_back(std::make_unique<trio_ml::Session>(one, auth::key_of_seed(seed + channel)));
    const auto added = shard_.add_job(one, *sessions_.back(), network_now());
    if (!added) return tl::unexpected(added.error());
  }
  return {};
}

uint64_t TrioNode::job_bytes(const AggregatorSpec& spec) {
  const auto bytes_of = [](const trio_ml::JobConfig& job) {
    // A channel's window has at least as many places as the job's limit on blocks.
    const uint64_t table_bytes = trio_ml::BlockTable::memory_bytes(2 * job.block_cnt_max);
    return (trio_ml::memory_bytes(job, 1) + table_bytes) * job.channels;
  };
  uint64_t bytes = bytes_of(spec.job);
  for (const AggregatorSpec::FurtherJob& further : spec.further) bytes += bytes_of(further.job);
  return bytes;
}

void TrioNode::aggregate(net::PacketRef packet) {
  pfe_->arrive(packet->stored, packet->size_bytes, packet->source, spec().train);
}

void TrioNode::send(std::span<const std::byte> stored, uint32_t size_bytes,
                    std::span<const Endpoint> destinations) {
  AggregatorNode::send(stored, size_bytes, destinations);
}

bool TrioNode::set_trace(TraceSink& sink) {
  pfe_->set_trace(Tracer(sink, name()), words_);
  return true;
}

NodeSnapshot TrioNode::snapshot(const SnapshotRequest& request) {
  const engine::PfeView view = pfe_->view(request.at, words_);
  NodeSnapshot snapshot{.node = name(), .tables = pfe_tables(view, request.rows_max)};
  snapshot.tables.push_back(trio_block_table(shard_, request, view.at));
  return snapshot;
}

AggregatorResult TrioNode::result(Duration) const {
  AggregatorResult result = pfe_result(name(), pfe_->report());
  // The job counts simulated packets; each stands for `train`.
  const auto memory = static_cast<double>(job_bytes(spec()) * spec().train);
  result.add(PartKind::kMemory, memory / 1e6, "MB");
  if (!spec().further.empty()) return result;  // Each job has a window of its own.
  result.add(PartKind::kSlots, static_cast<double>(spec().job.block_cnt_max) * spec().train,
             "of the window");
  return result;
}

}  // namespace tributary::lab
