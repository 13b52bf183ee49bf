// SPDX-License-Identifier: Apache-2.0
#include "lab/backends/tofino_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/byte_order.h"
#include "lab/backends/backend.h"
#include "lab/inspect/latency_summary.h"
#include "lab/inspect/tofino_snapshot.h"
#include "tofino/limits.h"
#include "tofino/pipeline/packet_generator.h"
#include "tofino/pipeline/udp_frame.h"
#include "wire/switchml.h"

namespace tributary::lab {
namespace {

using tofino::FrameAddress;

/// MAC of rank 0; the others follow. Locally administered (IEEE 802).
constexpr uint64_t kWorkerMac = 0x0200'0000'0100;
/// The argument of on_event() for the pipeline's own time. Packets are addresses, never 0.
constexpr uint64_t kPipeline = 0;

tofino::SwitchmlVariant variant_of(const AggregatorSpec& spec) {
  tofino::SwitchmlVariant variant;
  variant.elements = spec.switchml.elements;
  variant.timeout = spec.switchml.times_out;
  variant.switch_ip = spec.address.ipv4_address();
  return variant;
}

/// Returns the local ports from one worker to the next. A quad is one port of 100 Gbit/s or four of
/// 25 Gbit/s. With 256 elements each worker's quad has a twin in every other pipe.
uint32_t port_stride(uint32_t elements, uint64_t bits_per_s) {
  const bool channel = elements == host::kSwitchmlSmallElements &&
                       bits_per_s <= tofino::kPortRate / tofino::kPortStride;
  return channel ? 1 : tofino::kPortStride;
}

uint32_t workers_max(uint32_t elements, uint64_t bits_per_s) {
  const uint32_t ports = tofino::kFrontPanelPortsPerPipe * tofino::kPortStride;
  return std::min(ports / port_stride(elements, bits_per_s), wire::kSwitchmlWorkersMax);
}

/// Returns the time to visit every slot of both sets, with the frames of
/// SwitchmlSwitch::set_timeout().
Duration sweep_time(uint32_t pool, uint32_t elements) {
  const uint32_t frame_bytes = tofino::PacketGenerators::kHeaderBytes +
                               tofino::kUdpFrameHeaderBytes + wire::switchml_bytes(elements);
  return tofino::PacketGenerators::packet_time(frame_bytes) * (int64_t{2} * pool);
}

}  // namespace

std::optional<Refusal> check_tofino(const Scenario& scenario, const BackendKind& backend) {
  const SwitchmlDesign& design = *backend.switchml;
  const uint64_t rate = scenario.link.rate_bits_per_s;
  if (rate > tofino::kPortRate) {
    return refused_by_backend(
        backend, "link.rate_gbps", fmt::format("{}", static_cast<double>(rate) / 1e9),
        fmt::format("up to {}, a port of the chip", tofino::kPortRate / 1'000'000'000));
  }
  const uint32_t most = workers_max(design.elements, rate);
  if (scenario.workers > most) {
    return refused_by_backend(
        backend, "workers", std::to_string(scenario.workers),
        fmt::format("1 to {}, the ports of a pipe at this rate and the bits of SwitchML's bitmap",
                    most));
  }
  if (auto refusal = check_switchml(scenario, backend); refusal || !design.times_out) {
    return refusal;
  }
  const uint32_t pool = switchml_pool(scenario, design);
  const Duration sweep = sweep_time(pool, design.elements);
  if (scenario.mitigation.timeout >= sweep) return {};
  return refused_by_backend(
      backend, "mitigation.timeout_ms",
      fmt::format("{}", in_seconds(scenario.mitigation.timeout) * 1e3),
      fmt::format("{:.3f} or more: the packet generator needs that long to sweep {} slots",
                  std::ceil(in_seconds(sweep) * 1e6) / 1e3, pool));
}

// --- Building ------------------------------------------------------------------------------------

Result<std::unique_ptr<TofinoNode>> TofinoNode::create(net::Network& network,
                                                       const AggregatorSpec& spec) {
  std::unique_ptr<TofinoNode> node(new TofinoNode(network, spec));
  if (const auto loaded = node->load_program(); !loaded) return tl::unexpected(loaded.error());
  return node;
}

Result<void> TofinoNode::load_program() {
  tofino::SwitchSink& sink = *this;
  auto device = tofino::SwitchmlSwitch::make(
      variant_of(spec()), sink,
      spec().values ? tofino::Payload::kCarried : tofino::Payload::kElided, spec().seed,
      spec().train);
  if (!device) return tl::unexpected(device.error());
  device_ = std::make_unique<tofino::SwitchmlSwitch>(*std::move(device));
  wake_at_ = Instant::never();
  tofino::SwitchmlSession session{.workers = {}, .pool_slots = spec().slots};
  for (uint32_t rank = 0; rank < worker_ips_.size(); rank++) {
    session.workers.push_back({rank * port_stride_, kWorkerMac + rank, worker_ips_[rank]});
  }
  if (const auto set = device_->set_session(session); !set) return tl::unexpected(set.error());
  if (!spec().switchml.times_out) return {};
  const auto set = device_->set_timeout({.period = spec().job.timeout,
                                         .first_at = network_now() + spec().job.timeout,
                                         .client_port = spec().workers.at(0).port});
  if (!set) return tl::unexpected(set.error());
  wake();
  return {};
}

TofinoNode::TofinoNode(net::Network& network, const AggregatorSpec& spec)
    : AggregatorNode(network, spec),
      port_stride_(port_stride(spec.switchml.elements, spec.link_bits_per_s)),
      arrived_at_(size_t{2} * spec.slots) {
  for (const Endpoint& worker : spec.workers) worker_ips_.push_back(worker.ipv4_address());
}

// --- In ------------------------------------------------------------------------------------------

std::optional<uint32_t> TofinoNode::rank_of(const Endpoint& source) const {
  const auto found = std::find(worker_ips_.begin(), worker_ips_.end(), source.ipv4_address());
  if (found == worker_ips_.end()) return std::nullopt;
  return static_cast<uint32_t>(found - worker_ips_.begin());
}

void TofinoNode::aggregate(net::PacketRef packet) {
  const auto rank = rank_of(packet->source);
  if (!rank) {
    unknown_sources_++;
    return;
  }
  const tofino::SwitchmlVariant variant = variant_of(spec());
  const auto header = tofino::udp_frame_header(
      {kWorkerMac + *rank, worker_ips_[*rank], packet->source.port},
      {variant.switch_mac, variant.switch_ip, packet->destination.port}, packet->size_bytes);
  const uint32_t size_bytes = tofino::kUdpFrameHeaderBytes + packet->size_bytes;
  frame_.assign(header.begin(), header.end());
  frame_.insert(frame_.end(), packet->stored.begin(), packet->stored.end());
  if (spec().values) frame_.resize(size_bytes);  // Elided bytes count as zeros.
  note_arrival(packet->stored);
  device_->device().arrive(network_now(), *rank * port_stride_, {frame_, size_bytes});
  wake();
}

void TofinoNode::note_arrival(std::span<const std::byte> payload) {
  const auto head = wire::decode_switchml_head(payload);
  if (!head || head->slot >= spec().slots) return;
  arrived_at_[size_t{head->slot} * 2 + (head->set ? 1 : 0)] = network_now();
}

/// Asks to run when the next packet comes back from a loop.
void TofinoNode::wake() {
  const Instant due = device_->device().next_due();
  if (due >= wake_at_) return;
  wake_at_ = due;
  core().schedule(due, EventPriority::kMachine, *this, kPipeline);
}

void TofinoNode::on_event(uint64_t argument) {
  if (argument != kPipeline) return send_last(net::PacketRef::adopt(argument));
  if (network_now() != wake_at_) return;  // An earlier one has come instead.
  wake_at_ = Instant::never();
  device_->device().run_until(network_now());
  wake();
}

// --- Out -----------------------------------------------------------------------------------------

void TofinoNode::send(Instant at, uint32_t, tofino::PacketView frame) {
  const auto udp = tofino::parse_udp_frame(frame.stored, frame.size_bytes);
  if (!udp) return;  // The program makes none; a stranger's would have been dropped by it.
  note_result(at, udp->payload);
  net::PacketRef packet = network().packets().make(
      spec().address, Endpoint::ipv4(udp->to.ip, udp->to.port), udp->payload_bytes, udp->payload);
  core().schedule(at, EventPriority::kMachine, *this, packet.release());
}

void TofinoNode::note_result(Instant at, std::span<const std::byte> payload) {
  const auto head = wire::decode_switchml_head(payload);
  if (!head || head->slot >= spec().slots) return;
  engine::LatencyParts parts;
  parts[engine::LatencyPart::kIngress] =
      at - arrived_at_[size_t{head->slot} * 2 + (head->set ? 1 : 0)];
  latency_.add(parts, spec().train);
}

// --- For people ----------------------------------------------------------------------------------

bool TofinoNode::set_trace(TraceSink& sink) {
  device_->device().set_trace(Tracer(sink, name()));
  return true;
}

NodeSnapshot TofinoNode::snapshot(const SnapshotRequest& request) {
  const SlotShape shape{variant_of(spec()).slots, spec().values};
  return tofino_snapshot(name(), device_->device(), shape, request);
}

AggregatorResult TofinoNode::result(Duration elapsed) const {
  using tofino::Resource;
  using tofino::SwitchDrop;
  const tofino::Switch& device = device_->device();
  const tofino::SwitchCounters& counters = device.counters();
  const auto train = static_cast<double>(spec().train);
  AggregatorResult result;
  result.name = name();
  result.packets = counters.arrived * spec().train;
  result.latency = summarise(latency_.summary());
  const auto arrived = static_cast<double>(std::max<uint64_t>(counters.arrived, 1));
  result.add(PartKind::kPassesPerPacket, static_cast<double>(counters.passes) / arrived, "");
  result.add("latency of a pass", in_seconds(tofino::kPassLatency) * 1e9, "ns");
  const double recirculated_bits = static_cast<double>(counters.recirculated_bytes) * 8 * train;
  const double seconds_run = in_seconds(elapsed);
  const double recirculated_gbps = seconds_run > 0 ? recirculated_bits / seconds_run / 1e9 : 0;
  result.add(PartKind::kRecirculated, recirculated_gbps, "Gbit/s");
  const tofino::Placement& placement = device.placement();
  result.add(PartKind::kStages, static_cast<double>(placement.stages.size()), "of a pipe");
  result.add(PartKind::kStatefulAlus, placement.total(Resource::kStatefulAlus), "of a pipe");
  result.add(PartKind::kSramBlocks, placement.total(Resource::kSramBlocks), "of a pipe");
  result.add("VLIW rows", placement.total(Resource::kVliwRows), "of a pipe");
  const double slots = spec().slots * train;
  result.add(PartKind::kSlots, slots, "of each of two sets");  // SwitchML paper §4.5.
  result.add(PartKind::kMemory, 2 * slots * spec().switchml.elements * sizeof(int32_t) / 1e6, "MB");
  if (spec().switchml.times_out) {
    result.add(PartKind::kSweepingPackets, static_cast<double>(counters.generated) * train,
               "packets");
    result.add(PartKind::kSlotsGivenUp, static_cast<double>(device_->count("closed")) * train, "");
    result.add("late by more than a phase", static_cast<double>(device_->count("late")) * train,
               "packets");
  }
  uint64_t dropped = unknown_sources_;
  result.add("dropped: stranger", static_cast<double>(unknown_sources_) * train, "packets");
  for (const char* counter : {"unknown_worker", "slot_outside_pool"}) {
    dropped += device_->count(counter);
    result.add(fmt::format("dropped: {}", counter),
               static_cast<double>(device_->count(counter)) * train, "packets");
  }
  for (uint32_t i = 0; i < tofino::kSwitchDropCount; i++) {
    const auto reason = static_cast<SwitchDrop>(i);
    // The program mostly drops contributions that it has added.
    if (reason == SwitchDrop::kIngressProgram || reason == SwitchDrop::kEgressProgram) continue;
    dropped += counters[reason];
    result.add(fmt::format("dropped: {}", name_of(reason)),
               static_cast<double>(counters[reason]) * train, "packets");
  }
  result.dropped = dropped * spec().train;
  result.bottleneck =
      fmt::format("{:.2f} passes a packet, {:.1f} Gbit/s recirculated",
                  static_cast<double>(counters.passes) / arrived, recirculated_gbps);
  return result;
}

}  // namespace tributary::lab
