// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/tofino_node.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/byte_order.h"
#include "host/switchml_protocol.h"
#include "lab/cluster/plan.h"
#include "lab/cluster/tofino_snapshot.h"
#include "microcode/switchml_wire.h"
#include "tofino/limits.h"
#include "tofino/udp_frame.h"

namespace tributary::lab {
namespace {

using tofino::FrameAddress;

/// MAC of rank 0; the others follow. Locally administered (IEEE 802), ours to choose.
constexpr uint64_t kWorkerMac = 0x0200'0000'0100;
/// What on_event() is called with for the pipeline's own time; packets are addresses, never 0.
constexpr uint64_t kPipeline = 0;

uint32_t ipv4_of(const Endpoint& endpoint) {
  uint32_t address = 0;
  for (size_t i = 12; i < endpoint.address.size(); i++)
    address = address << 8 | endpoint.address[i];
  return address;
}

tofino::SwitchmlVariant variant_of(const AggregatorSpec& spec, uint32_t elements) {
  tofino::SwitchmlVariant variant;
  variant.elements = elements;
  variant.switch_ip = ipv4_of(spec.address);
  return variant;
}

/// Local ports from one worker to the next. A quad is one port of 100 Gbit/s or four of a quarter;
/// with 256 elements each worker's quad has a twin in every other pipe.
uint32_t port_stride(uint32_t elements, uint64_t bits_per_s) {
  const bool channel = elements == host::kSwitchmlSmallElements &&
                       bits_per_s <= tofino::kPortRate / tofino::kPortStride;
  return channel ? 1 : tofino::kPortStride;
}

uint32_t workers_max(uint32_t elements, uint64_t bits_per_s) {
  const uint32_t ports = tofino::kFrontPanelPortsPerPipe * tofino::kPortStride;
  return std::min(ports / port_stride(elements, bits_per_s), microcode::kSwitchmlWorkersMax);
}

tl::unexpected<Error> refused(const Scenario& scenario, const char* key, const std::string& value,
                              const std::string& allowed) {
  return failure(fmt::format("{}={} is not allowed; allowed with backend={}: {}", key, value,
                             scenario.backend, allowed));
}

}  // namespace

// --- Settings ------------------------------------------------------------------------------------

host::SwitchmlConfig switchml_config(const SwitchmlSettings& settings, uint32_t elements,
                                     uint32_t train) {
  host::SwitchmlConfig config;
  apply(settings.preset, config);
  config.elements = elements;
  if (settings.pool != 0) config.pool = settings.pool;
  config.pool = std::max(config.pool / train, 1U);
  if (settings.timeout != Duration()) config.timeout = settings.timeout;
  return config;
}

host::ProtocolFactory switchml_worker(const Scenario& scenario, const ClusterPlan& plan,
                                      uint32_t rank, uint32_t elements) {
  host::SwitchmlConfig config = switchml_config(scenario.switchml, elements, scenario.train);
  config.server = plan.aggregators.at(0).address;
  config.rank = rank;
  config.world = scenario.workers;
  config.repair = scenario.host.retransmission;
  config.deadline = scenario.host.deadline;
  return [config](uint32_t, Instant) { return std::make_unique<host::SwitchmlProtocol>(config); };
}

Result<void> check_switchml(const Scenario& scenario, uint32_t elements) {
  for (const auto& [key, link] :
       {std::pair{"link.reorder", &scenario.link}, std::pair{"fabric.reorder", &scenario.fabric}}) {
    if (link->faults.reorder <= 0) continue;
    return refused(scenario, key, fmt::format("{}", link->faults.reorder),
                   "0 (SwitchML tells a slot's uses apart by one bit, so it needs links that keep "
                   "their order)");
  }
  const uint64_t rate = scenario.link.rate_bits_per_s;
  if (rate > tofino::kPortRate) {
    return refused(scenario, "link.rate_gbps", fmt::format("{}", static_cast<double>(rate) / 1e9),
                   fmt::format("up to {}, a port of the chip", tofino::kPortRate / 1'000'000'000));
  }
  const uint32_t most = workers_max(elements, rate);
  if (scenario.workers > most) {
    return refused(
        scenario, "workers", std::to_string(scenario.workers),
        fmt::format("1 to {}, the ports of a pipe at this rate and the bits of SwitchML's "
                    "bitmap",
                    most));
  }
  const uint32_t pool = switchml_config(scenario.switchml, elements, 1).pool;
  const uint32_t slots = tofino::SwitchmlVariant{}.slots;
  if (pool > slots) {
    return refused(scenario, "switchml.pool", std::to_string(pool), fmt::format("1 to {}", slots));
  }
  if (pool % scenario.train != 0) {
    return refused(scenario, "train", std::to_string(scenario.train),
                   fmt::format("what divides the pool of {} slots", pool));
  }
  return {};
}

// --- Building ------------------------------------------------------------------------------------

Result<std::unique_ptr<TofinoNode>> TofinoNode::create(net::Network& network,
                                                       const AggregatorSpec& spec,
                                                       uint32_t elements) {
  std::unique_ptr<TofinoNode> node(new TofinoNode(network, spec, elements));
  if (const auto loaded = node->load_program(); !loaded) return tl::unexpected(loaded.error());
  return node;
}

Result<void> TofinoNode::load_program() {
  tofino::SwitchSink& sink = *this;
  auto device = tofino::SwitchmlSwitch::make(
      variant_of(spec(), elements_), sink,
      spec().values ? tofino::Payload::kCarried : tofino::Payload::kElided, spec().seed,
      spec().train);
  if (!device) return tl::unexpected(device.error());
  device_ = std::make_unique<tofino::SwitchmlSwitch>(*std::move(device));
  wake_at_ = Instant::never();
  tofino::SwitchmlSession session{.workers = {}, .pool_slots = pool_};
  for (uint32_t rank = 0; rank < worker_ips_.size(); rank++) {
    session.workers.push_back({rank * port_stride_, kWorkerMac + rank, worker_ips_[rank]});
  }
  return device_->set_session(session);
}

TofinoNode::TofinoNode(net::Network& network, const AggregatorSpec& spec, uint32_t elements)
    : AggregatorNode(network, spec),
      elements_(elements),
      pool_(switchml_config(spec.switchml, elements, spec.train).pool),
      port_stride_(port_stride(elements, spec.link_bits_per_s)),
      arrived_at_(size_t{2} * pool_) {
  for (const Endpoint& worker : spec.workers) worker_ips_.push_back(ipv4_of(worker));
}

// --- In ------------------------------------------------------------------------------------------

std::optional<uint32_t> TofinoNode::rank_of(const Endpoint& source) const {
  const auto found = std::find(worker_ips_.begin(), worker_ips_.end(), ipv4_of(source));
  if (found == worker_ips_.end()) return std::nullopt;
  return static_cast<uint32_t>(found - worker_ips_.begin());
}

void TofinoNode::aggregate(net::PacketRef packet) {
  const auto rank = rank_of(packet->source);
  if (!rank) {
    strangers_++;
    return;
  }
  const tofino::SwitchmlVariant variant = variant_of(spec(), elements_);
  const auto header = tofino::udp_frame_header(
      {kWorkerMac + *rank, worker_ips_[*rank], packet->source.port},
      {variant.switch_mac, variant.switch_ip, packet->destination.port}, packet->size_bytes);
  const uint32_t size_bytes = tofino::kUdpFrameHeaderBytes + packet->size_bytes;
  frame_.assign(header.begin(), header.end());
  frame_.insert(frame_.end(), packet->stored.begin(), packet->stored.end());
  if (spec().values) frame_.resize(size_bytes);  // What is elided counts as zeros.
  note_arrival(packet->stored);
  device_->device().arrive(network_now(), *rank * port_stride_, {frame_, size_bytes});
  wake();
}

void TofinoNode::note_arrival(std::span<const std::byte> payload) {
  const auto head = microcode::decode_switchml_head(payload);
  if (!head || head->slot >= pool_) return;
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
  const auto head = microcode::decode_switchml_head(payload);
  if (!head || head->slot >= pool_) return;
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

NodeSnapshot TofinoNode::snapshot(const SnapshotWish& wish) {
  const SlotShape shape{variant_of(spec(), elements_).slots, spec().values};
  return tofino_snapshot(name(), device_->device(), shape, wish);
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
  const auto part = [&result](const std::string& name, double value, const char* unit) {
    result.parts.push_back({name, value, unit});
  };
  const auto arrived = static_cast<double>(std::max<uint64_t>(counters.arrived, 1));
  part("passes per packet", static_cast<double>(counters.passes) / arrived, "");
  part("latency of a pass", in_seconds(tofino::kPassLatency) * 1e9, "ns");
  const double recirculated_bits = static_cast<double>(counters.recirculated_bytes) * 8 * train;
  const double seconds_run = in_seconds(elapsed);
  const double recirculated_gbps = seconds_run > 0 ? recirculated_bits / seconds_run / 1e9 : 0;
  part("recirculated", recirculated_gbps, "Gbit/s");
  const tofino::Placement& placement = device.placement();
  part("stages", static_cast<double>(placement.stages.size()), "of a pipe");
  part("stateful ALUs", placement.total(Resource::kStatefulAlus), "of a pipe");
  part("SRAM blocks", placement.total(Resource::kSramBlocks), "of a pipe");
  part("VLIW rows", placement.total(Resource::kVliwRows), "of a pipe");
  const double slots = 2.0 * pool_ * train;  // Two sets (SwitchML paper §4.5).
  part(kMemoryPart, slots * elements_ * sizeof(int32_t) / 1e6, "MB");
  uint64_t dropped = strangers_;
  part("dropped: stranger", static_cast<double>(strangers_) * train, "packets");
  for (const char* counter : {"unknown_worker", "slot_outside_pool"}) {
    dropped += device_->count(counter);
    part(fmt::format("dropped: {}", counter), static_cast<double>(device_->count(counter)) * train,
         "packets");
  }
  for (uint32_t i = 0; i < tofino::kSwitchDropCount; i++) {
    const auto reason = static_cast<SwitchDrop>(i);
    // What the program drops is mostly what it has added.
    if (reason == SwitchDrop::kIngressProgram || reason == SwitchDrop::kEgressProgram) continue;
    dropped += counters[reason];
    part(fmt::format("dropped: {}", name_of(reason)), static_cast<double>(counters[reason]) * train,
         "packets");
  }
  result.dropped = dropped * spec().train;
  result.bottleneck =
      fmt::format("{:.2f} passes a packet, {:.1f} Gbit/s recirculated",
                  static_cast<double>(counters.passes) / arrived, recirculated_gbps);
  return result;
}

}  // namespace tributary::lab
