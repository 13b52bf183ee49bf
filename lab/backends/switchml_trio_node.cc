// SPDX-License-Identifier: Apache-2.0
#include "lab/backends/switchml_trio_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lab/backends/trio_node.h"
#include "lab/inspect/pfe_report.h"
#include "lab/inspect/switchml_words.h"

namespace tributary::lab {
namespace {

/// The only session's place.
constexpr uint32_t kPlace = 0;

switchml::ShardConfig shard_config(const AggregatorSpec& spec) {
  return {.sessions_max = 1, .slots_max = spec.slots};
}

/// The outcomes of accepted packets; all others are refusals.
constexpr std::array kAccepted{switchml::Outcome::kAggregated, switchml::Outcome::kSlotCompleted,
                               switchml::Outcome::kResultSent, switchml::Outcome::kRetransmitted,
                               switchml::Outcome::kDuplicate};

}  // namespace

Result<std::unique_ptr<SwitchmlTrioNode>> SwitchmlTrioNode::create(net::Network& network,
                                                                   const AggregatorSpec& spec) {
  const auto parameters = parameters_of(spec.pfe, spec.train);
  if (!parameters) return tl::unexpected(parameters.error());
  auto memory = memory::SharedMemory::create({});
  if (!memory) return tl::unexpected(memory.error());
  std::unique_ptr<SwitchmlTrioNode> node(new SwitchmlTrioNode(network, spec, *std::move(memory)));
  auto shard = switchml::Shard::create(shard_config(spec), 0, 1, node->memory_);
  if (!shard) return tl::unexpected(shard.error());
  node->shard_ = *std::move(shard);
  if (const auto begun = node->begin_session(); !begun) return tl::unexpected(begun.error());
  engine::PfeSink& sink = *node;
  node->pfe_ = std::make_unique<engine::Pfe<switchml::App>>(
      network.core(), *parameters, node->memory_, switchml::App(*node->shard_), sink);
  return node;
}

SwitchmlTrioNode::SwitchmlTrioNode(net::Network& network, const AggregatorSpec& spec,
                                   memory::SharedMemory memory)
    : AggregatorNode(network, spec), memory_(std::move(memory)) {}

SwitchmlTrioNode::~SwitchmlTrioNode() = default;

Result<void> SwitchmlTrioNode::begin_session() {
  const auto workers = static_cast<uint32_t>(spec().workers.size());
  shard_->begin_session(
      kPlace, {.workers = workers, .elements = spec().switchml.elements, .slots = spec().slots});
  for (uint32_t rank = 0; rank < workers; rank++) {
    if (const auto set = shard_->set_worker(kPlace, rank, spec().workers[rank]); !set) return set;
  }
  return {};
}

void SwitchmlTrioNode::aggregate(net::PacketRef packet) {
  pfe_->arrive(packet->stored, packet->size_bytes, packet->source, spec().train);
}

void SwitchmlTrioNode::send(std::span<const std::byte> stored, uint32_t size_bytes,
                            std::span<const Endpoint> destinations) {
  AggregatorNode::send(stored, size_bytes, destinations);
}

// --- For people ----------------------------------------------------------------------------------

engine::TraceWord SwitchmlTrioNode::Words::message(std::span<const std::byte> stored,
                                                   uint32_t) const {
  return switchml_message(stored, true);
}

engine::TraceWord SwitchmlTrioNode::Words::target(const void*) const { return {}; }

std::string SwitchmlTrioNode::Words::drop_reason(uint32_t reason) const {
  if (reason >= static_cast<uint32_t>(switchml::Outcome::kCount)) return "unknown reason";
  return switchml::to_string(static_cast<switchml::Outcome>(reason));
}

bool SwitchmlTrioNode::set_trace(TraceSink& sink) {
  pfe_->set_trace(Tracer(sink, name()), words_);
  return true;
}

NodeSnapshot SwitchmlTrioNode::snapshot(const SnapshotRequest& request) {
  return {.node = name(), .tables = pfe_tables(pfe_->view(request.at, words_), request.rows_max)};
}

AggregatorResult SwitchmlTrioNode::result(Duration) const {
  AggregatorResult result = pfe_result(name(), pfe_->report());
  const switchml::Counters& counters = std::as_const(*shard_).counters();
  for (uint32_t i = 0; i < counters.size(); i++) {
    const auto outcome = static_cast<switchml::Outcome>(i);
    const uint64_t packets = counters[i].packets * spec().train;
    const bool accepted = std::find(kAccepted.begin(), kAccepted.end(), outcome) != kAccepted.end();
    if (packets == 0 || accepted) continue;
    result.dropped += packets;
    result.add(fmt::format("dropped: {}", switchml::to_string(outcome)),
               static_cast<double>(packets), "packets");
  }
  const auto memory =
      static_cast<double>(switchml::memory_bytes(shard_config(spec()), 1) * spec().train);
  result.add(PartKind::kMemory, memory / 1e6, "MB");
  result.add(PartKind::kSlots, static_cast<double>(spec().slots) * spec().train,
             "of each of two sets");
  return result;
}

}  // namespace tributary::lab
