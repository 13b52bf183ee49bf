// SPDX-License-Identifier: Apache-2.0
#include "lab/inspect/run_tracer.h"

#include <fmt/format.h>

#include "base/key_table.h"
#include "lab/inspect/switchml_words.h"
#include "lab/inspect/trio_words.h"
#include "net/network.h"

namespace tributary::lab {
namespace {

/// Returns a packet in words. The aggregator's UDP port at one of its ends tells the protocol.
engine::TraceWord word_of(uint16_t aggregator_port, const net::Packet& packet) {
  const bool to_aggregator = packet.destination.port == aggregator_port;
  if (is_switchml_port(aggregator_port)) {
    return switchml_message(packet.stored, to_aggregator);
  }
  const bool from_aggregator = packet.source.port == aggregator_port;
  if (to_aggregator || from_aggregator) return trio_message(packet.stored, packet.size_bytes);
  return {.name = "datagram"};
}

void trace_packet(const Tracer& tracer, uint16_t aggregator_port, Instant at,
                  const net::Packet& packet) {
  engine::TraceWord word = word_of(aggregator_port, packet);
  word.fields.emplace_back("bytes", packet.size_bytes);
  word.fields.emplace_back("from", packet.source.to_string());
  word.fields.emplace_back("to", packet.destination.to_string());
  tracer.emit(at, 0, TraceKind::kLink, std::move(word.name), std::move(word.fields));
}

}  // namespace

Result<void> check_trace_node(const RunInside& inside, const std::string& name) {
  std::vector<std::string> names;
  for (InspectedNode* const node : inside.aggregators) names.push_back(node->name());
  for (net::LinkId link = 0; link < inside.network.link_count(); link++) {
    names.push_back(inside.network.link_name(link));
  }
  for (const std::string& known : names) {
    if (known == name) return {};
  }
  return failure(unknown_name("node", name, names));
}

void trace_links(const RunInside& inside, const std::string& only, TraceSink& sink,
                 std::vector<Tracer>& tracers) {
  const uint16_t port =
      inside.aggregators.empty() ? uint16_t{0} : inside.aggregators.front()->address().port;
  tracers.assign(inside.network.link_count(), Tracer());
  for (net::LinkId link = 0; link < inside.network.link_count(); link++) {
    const std::string name = inside.network.link_name(link);
    if (!only.empty() && only != name) continue;
    tracers[link] = Tracer(sink, name);
    inside.network.set_tap(link, [&tracer = tracers[link], port](Instant at, const net::Packet& p) {
      trace_packet(tracer, port, at, p);
    });
  }
}

Result<void> RunTracer::begin(const RunInside& inside) {
  core_ = &inside.core;
  if (!config_.node.empty()) {
    if (const auto known = check_trace_node(inside, config_.node); !known) return known;
  }
  bool any = false;
  for (InspectedNode* const node : inside.aggregators) {
    if (!config_.node.empty() && node->name() != config_.node) continue;
    nodes_.push_back(node);
    if (sink_ != nullptr) any |= node->set_trace(*sink_);
  }
  if (sink_ == nullptr) return {};
  // If --node matches no node, it names a link.
  const bool links = config_.links || (nodes_.empty() && !config_.node.empty());
  if (links) trace_links(inside, nodes_.empty() ? config_.node : "", *sink_, link_tracers_);
  if (any || links) return {};
  return failure(
      "the inside of this back end is not modelled, so only its links can be traced (--links); "
      "back ends with a modelled inside: trio-ml, trio-ml-wait, switchml-64, "
      "switchml-64-timeout, switchml-256, switchml-on-trio");
}

void RunTracer::take_snapshots(Instant at) {
  SnapshotRequest request = config_.request;
  request.at = at;
  for (InspectedNode* const node : nodes_) snapshots_.push_back({at, node->snapshot(request)});
}

bool RunTracer::before_event(Instant next) {
  for (; taken_ < config_.at.size() && next > config_.at[taken_]; taken_++) {
    take_snapshots(config_.at[taken_]);
  }
  const bool only_snapshots = sink_ == nullptr && taken_ == config_.at.size();
  had_enough_ = only_snapshots || next > config_.to;
  ended_at_ = core_->now();
  return !had_enough_;
}

void RunTracer::end() {
  ended_at_ = core_->now();
  // Snapshots that are due, without a later event.
  for (; taken_ < config_.at.size() && config_.at[taken_] <= ended_at_; taken_++) {
    take_snapshots(config_.at[taken_]);
  }
}

std::vector<Instant> RunTracer::missed() const {
  return {config_.at.begin() + static_cast<ptrdiff_t>(taken_), config_.at.end()};
}

}  // namespace tributary::lab
