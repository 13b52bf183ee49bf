// SPDX-License-Identifier: Apache-2.0
#include "lab/telemetry/precision_run.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <unordered_map>

#include "base/endpoint.h"
#include "tofino/precision/control.h"
#include "traffic/generator.h"

namespace tributary::lab {
namespace {

using tofino::PrecisionFlow;
using tofino::PrecisionSwitch;

constexpr uint32_t kInPort = 0;
constexpr uint64_t kSramBlockBytes = uint64_t{tofino::kSramRows} * tofino::kSramRowBits / 8;
static_assert(kSramBlockBytes == 16'384);
/// Longer than a packet's passes.
constexpr Duration kDrain = milliseconds(1);

class NoSink final : public tofino::SwitchSink {
 public:
  void send(Instant, uint32_t, tofino::PacketView) override {}
};

FlowKey key_of(const PrecisionFlow& flow) {
  FlowKey key;
  key.source = Endpoint::ipv4(flow.from, 0).address;
  key.destination = Endpoint::ipv4(flow.to, 0).address;
  key.source_port = flow.port_from;
  key.destination_port = flow.port_to;
  key.protocol = flow.protocol;
  key.ip_version = 4;
  return key;
}

/// The controller.
class Reader {
 public:
  Reader(PrecisionSwitch& device, FlowReports& reports) : device_(device), reports_(reports) {}

  void read(Instant at) {
    std::unordered_map<FlowKey, uint64_t, FlowHash> counts;
    for (const PrecisionFlow& flow : device_.read()) counts[key_of(flow)] += flow.count;
    for (const auto& [key, packets] : counts) reports_.report(at, key, packets);
    reads_++;
  }
  [[nodiscard]] uint64_t reads() const { return reads_; }

 private:
  PrecisionSwitch& device_;
  FlowReports& reports_;
  uint64_t reads_ = 0;
};

}  // namespace

Result<TelemetryRow> run_precision(const TelemetryComparison& settings, const FlowTruth& truth,
                                   uint64_t memory) {
  const auto slots = static_cast<uint32_t>(std::min<uint64_t>(
      std::bit_floor(memory / PrecisionSwitch::slot_bytes(1)), tofino::kPrecisionSlotsMax));
  NoSink sink;
  auto device = PrecisionSwitch::make({.slots = slots}, sink, settings.seed);
  if (!device) return tl::unexpected(device.error());
  auto generator = traffic::Generator::create(trace_of(settings));
  if (!generator) return tl::unexpected(generator.error());

  FlowReports reports(truth);
  Reader reader(*device, reports);
  tofino::Switch& chip = device->device();
  Instant read_at = Instant() + settings.period;
  Instant last_at;
  while (const auto packet = generator->next()) {
    for (; read_at <= packet->at; read_at = read_at + settings.period) {
      chip.run_until(read_at);
      reader.read(read_at);
    }
    last_at = packet->at;
    chip.arrive(packet->at, kInPort, {packet->frame, static_cast<uint32_t>(packet->frame.size())});
  }
  last_at = last_at + kDrain;
  chip.run_until(last_at);
  reader.read(last_at);

  const tofino::SwitchCounters& counters = chip.counters();
  const auto lost = std::accumulate(counters.dropped.begin(), counters.dropped.end(), uint64_t{0});
  const uint64_t bytes = PrecisionSwitch::slot_bytes(slots);
  const uint64_t blocks = chip.placement().total(tofino::Resource::kSramBlocks);
  return TelemetryRow{.machine = "tofino",
                      .memory_limit = memory,
                      .memory_bytes = bytes,
                      .sram_bytes = blocks * kSramBlockBytes,
                      .places = uint64_t{tofino::kPrecisionRows} * slots,
                      .score = reports.score(),
                      .passes_per_packet = static_cast<double>(counters.passes) /
                                           static_cast<double>(counters.arrived),
                      .lost_packets = lost,
                      .report_bytes = reader.reads() * bytes};
}

}  // namespace tributary::lab
