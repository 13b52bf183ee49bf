// SPDX-License-Identifier: Apache-2.0
#include "lab/telemetry/trio_run.h"

#include <algorithm>
#include <optional>

#include "apps/telemetry/app.h"
#include "base/assert.h"
#include "base/event_core.h"
#include "engine/model/pfe.h"
#include "lab/scenario.h"
#include "memory/record_store.h"
#include "memory/shared_memory.h"
#include "programs/run_on_model.h"
#include "traffic/generator.h"
#include "wire/ipfix.h"

namespace tributary::lab {
namespace {

using telemetry::FlowRecord;
using telemetry::TelemetryState;

/// The collector of the records; forwarded packets go nowhere.
class Collector final : public engine::PfeSink {
 public:
  Collector(const EventCore& core, FlowReports& reports) : core_(core), reports_(reports) {}

  void send(std::span<const std::byte> stored, uint32_t, std::span<const Endpoint>) override {
    const auto message = wire::decode_ipfix(stored);
    TRIB_ASSERT(message.has_value());  // The program has written it.
    for (const wire::IpfixFlow& flow : message->flows) {
      reports_.add(core_.now(), telemetry::flow_key_of(flow), flow.packets);
    }
    bytes_ += stored.size();
  }
  void forward(std::span<const std::byte>, uint32_t, const Endpoint&, uint64_t) override {}

  [[nodiscard]] uint64_t bytes() const { return bytes_; }

 private:
  const EventCore& core_;
  FlowReports& reports_;
  uint64_t bytes_ = 0;
};

/// Returns the most records that fit in `memory`.
Result<uint32_t> records_in(uint64_t memory) {
  uint32_t fits = 0;
  uint32_t too_many = telemetry::kFlowsLimit + 1;
  while (fits + 1 < too_many) {
    const uint32_t records = fits + (too_many - fits) / 2;
    const auto bytes = trio_store_bytes(records);
    if (!bytes) return tl::unexpected(bytes.error());
    (*bytes <= memory ? fits : too_many) = records;
  }
  return std::max(fits, 1U);
}

}  // namespace

Result<uint64_t> trio_store_bytes(uint32_t records) {
  auto memory = memory::SharedMemory::create({});
  if (!memory) return tl::unexpected(memory.error());
  using Store = memory::RecordStore<FlowKey, FlowRecord, apps::FlowKeyHash>;
  if (const auto place = Store::place_in(*memory, records); !place) {
    return tl::unexpected(place.error());
  }
  return memory->used_bytes(memory::Range::kDram) + uint64_t{records} * sizeof(FlowKey);
}

Result<TelemetryRow> run_trio(const TelemetryComparison& settings, const FlowTruth& truth,
                              uint64_t memory_limit) {
  const auto records = records_in(memory_limit);
  if (!records) return tl::unexpected(records.error());
  const auto bytes = trio_store_bytes(*records);
  if (!bytes) return tl::unexpected(bytes.error());
  auto memory = memory::SharedMemory::create({});
  if (!memory) return tl::unexpected(memory.error());
  const auto state =
      TelemetryState::create(*memory,
                             {.flows_max = *records,
                              .hash_seed = settings.seed,
                              .inactive_timeout = settings.period,
                              .active_timeout = settings.period,
                              .collector = Endpoint::ipv4(0x7f000001, wire::kIpfixPort),
                              .heavy_hitters = 0},
                             Instant());
  if (!state) return tl::unexpected(state.error());
  const auto parameters = engine::preset(PfeSettings{}.generation);
  if (!parameters) return tl::unexpected(parameters.error());
  auto generator = traffic::Generator::create(trace_of(settings));
  if (!generator) return tl::unexpected(generator.error());

  EventCore core;
  FlowReports reports(truth);
  Collector collector(core, reports);
  engine::Pfe<telemetry::App> pfe(core, *parameters, *memory, telemetry::App(**state), collector);
  std::optional<traffic::TrafficPacket> packet;
  programs::feed_pfe(core, pfe, [&]() -> std::optional<programs::TimedBytes> {
    packet = generator->next();
    if (!packet) return std::nullopt;
    return programs::TimedBytes{packet->at, packet->frame};
  });

  const engine::Report report = pfe.report();
  const auto& counters = (*state)->counters();
  const auto packets_of = [&counters](telemetry::Outcome outcome) {
    return counters[static_cast<uint32_t>(outcome)].packets;
  };
  return TelemetryRow{.machine = "trio",
                      .memory_limit = memory_limit,
                      .memory_bytes = *bytes,
                      .places = *records,
                      .score = reports.score(),
                      .instructions_per_packet = report.instructions_per_packet,
                      .uncounted_packets = packets_of(telemetry::Outcome::kStoreFull) +
                                           packets_of(telemetry::Outcome::kIndexFull),
                      .lost_packets = report.refused_full + report.refused_too_long,
                      .report_bytes = collector.bytes()};
}

}  // namespace tributary::lab
