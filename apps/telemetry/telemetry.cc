// SPDX-License-Identifier: Apache-2.0
#include "apps/telemetry/telemetry.h"

#include <algorithm>
#include <string>

#include "base/assert.h"

namespace tributary::telemetry {
namespace {

using wire::FlowEndReason;

/// Visits of a record in one active timeout; a flow is found at most a quarter late.
constexpr int64_t kAgeVisits = 4;
constexpr uint64_t kBufferAlignment = 64;

Result<void> check_range(const char* key, uint64_t value, uint64_t min, uint64_t max) {
  if (value >= min && value <= max) return {};
  return failure(std::string(key) + " = " + std::to_string(value) +
                 "; allowed: " + std::to_string(min) + " to " + std::to_string(max));
}

Result<void> check_timeout(const char* key, Duration value) {
  if (value >= kTimeoutMin && value <= kTimeoutMax) return {};
  return failure(std::string(key) + " = " + std::to_string(in_nanoseconds(value)) +
                 " ns; allowed: 1 ms to 3600 s");
}

uint64_t buffer_bytes(const TelemetryConfig& config) {
  return (config.message_bytes_max + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

/// Allocates `size_bytes` and returns them as a span.
Result<std::span<std::byte>> allocate(memory::SharedMemory& memory, memory::Range range,
                                      uint64_t size_bytes) {
  const auto address = memory.allocate(range, size_bytes, kBufferAlignment);
  if (!address) return tl::unexpected(address.error());
  return std::span(memory.at(*address), size_bytes);
}

}  // namespace

const char* to_string(Outcome outcome) {
  static constexpr std::array<const char*, kOutcomeCount> kNames{
      "accounted",     "store_full",    "index_full",       "not_frame", "not_ip",
      "too_many_tags", "bad_ip_header", "headers_too_long", "truncated"};
  return outcome < Outcome::kCount ? kNames[static_cast<uint32_t>(outcome)] : "unknown";
}

Result<void> check(const TelemetryConfig& config) {
  const std::array checks{
      check_range("flows_max", config.flows_max, 1, kFlowsLimit),
      check_timeout("inactive_timeout", config.inactive_timeout),
      check_timeout("active_timeout", config.active_timeout),
      check_range("timer_threads", config.timer_threads, 1,
                  timers::PeriodicTimers::kThreadCountMax),
      check_range("message_bytes_max", config.message_bytes_max, wire::kIpfixMessageBytesMin,
                  kMessageBytesLimit),
      check_range("heavy_hitters", config.heavy_hitters, 0, kHeavyHittersLimit)};
  for (const Result<void>& result : checks) {
    if (!result) return result;
  }
  if (!config.collector.is_set()) {
    return failure(
        "collector is not set; allowed: ADDRESS:PORT of an IPFIX collector, such as "
        "127.0.0.1:4739");
  }
  if (config.epoch_ns < 0 || config.epoch_ns > wire::kIpfixTimeMaxNs) {
    return failure("epoch_ns = " + std::to_string(config.epoch_ns) + "; allowed: 0 to " +
                   std::to_string(wire::kIpfixTimeMaxNs));
  }
  return {};
}

Result<std::unique_ptr<TelemetryState>> TelemetryState::create(memory::SharedMemory& memory,
                                                               const TelemetryConfig& config,
                                                               Instant start) {
  if (const Result<void> checked = check(config); !checked) {
    return tl::unexpected(checked.error());
  }
  const auto timers_of = [&](Duration period) {
    return timers::PeriodicTimers::create(
        {.thread_count = config.timer_threads, .period = period, .record_count = config.flows_max},
        start);
  };
  const auto idle_timers = timers_of(config.inactive_timeout);
  if (!idle_timers) return tl::unexpected(idle_timers.error());
  const auto age_timers = timers_of(config.active_timeout / kAgeVisits);
  if (!age_timers) return tl::unexpected(age_timers.error());

  const auto place = Store::place_in(memory, config.flows_max);
  if (!place) return tl::unexpected(place.error());
  const auto shared = allocate(memory, memory::Range::kSram, sizeof(Shared));
  if (!shared) return tl::unexpected(shared.error());
  const auto buffers =
      allocate(memory, memory::Range::kDram, buffer_bytes(config) * MessagePool::kCount);
  if (!buffers) return tl::unexpected(buffers.error());
  return std::unique_ptr<TelemetryState>(new TelemetryState(
      config, *place, std::construct_at(reinterpret_cast<Shared*>(shared->data())), *buffers,
      *idle_timers, *age_timers));
}

TelemetryState::TelemetryState(const TelemetryConfig& config, const Store::Place& place,
                               Shared* shared, std::span<std::byte> buffers,
                               const timers::PeriodicTimers& idle_timers,
                               const timers::PeriodicTimers& age_timers)
    : config_(config),
      store_({.capacity = config.flows_max, .hash_seed = config.hash_seed, .place = place}),
      shared_(shared),
      pool_(buffers),
      idle_timers_(idle_timers),
      age_timers_(age_timers),
      heavy_hitters_(config.heavy_hitters),
      epoch_ns_(config.epoch_ns) {}

// --- Packets ---

Admission TelemetryState::insert(const apps::FlowKey& key, uint64_t arrived_at) {
  const auto [status, record] = store_.create(key);
  switch (status) {
    case memory::CreateStatus::kStoreFull:
      return {.refusal = Outcome::kStoreFull};
    case memory::CreateStatus::kIndexFull:
      return {.refusal = Outcome::kIndexFull};
    case memory::CreateStatus::kCreated:
      record->state = kInUse;
      record->spans[0].first_at = record->spans[0].last_at = arrived_at;
      break;
    case memory::CreateStatus::kExists:
      break;
  }
  return admit_to(*record);
}

// --- Timers ---

uint64_t TelemetryState::scan_idle(uint32_t begin, uint32_t end) {
  uint64_t idle = 0;
  store_.scan_idle(begin, end, [&](uint32_t slot, const apps::FlowKey&, const FlowRecord&) {
    idle |= uint64_t{1} << (slot - begin);
  });
  return idle;
}

FlowAge TelemetryState::age_of(uint32_t slot) {
  FlowRecord& record = store_.at(slot);
  const FlowSpan& span = record.current();
  return {.draining = (record.state & kDraining) != 0,
          .first_at = span.first_at,
          .last_at = span.last_at,
          .tcp_flags = span.tcp_flags};
}

RemovedFlow TelemetryState::remove(uint32_t slot, FlowEndReason reason) {
  RemovedFlow flow;
  if (!store_.is_live(slot)) return flow;
  FlowRecord& record = store_.at(slot);
  constexpr uint64_t kEnd = wire::kTcpFin | wire::kTcpRst;
  if (reason == FlowEndReason::kIdle && store_.is_referenced(slot)) return flow;
  if (reason == FlowEndReason::kEndOfFlow && (record.current().tcp_flags & kEnd) == 0) return flow;
  if ((record.state & kExporting) != 0 || !record.spans[0].is_settled() ||
      !record.spans[1].is_settled()) {
    exports_.records_in_use++;
    return flow;
  }
  const uint64_t current = record.state & kCurrentSpan;
  for (const uint64_t index : {1 - current, current}) {
    const FlowSpan& span = record.spans[index];
    if (span.counted.packets == 0) continue;  // Exported at the active timeout.
    FlowExport& out = flow.exports[flow.count++];
    record.exported.packets += span.counted.packets;
    record.exported.bytes += span.counted.bytes;
    out = copy_span(slot, span);
    out.total = record.exported;
    out.reason = index == current ? reason : FlowEndReason::kActive;
  }
  flow.removed = true;
  record.state = 0;
  store_.erase(store_.key_at(slot));
  return flow;
}

FlowExport TelemetryState::copy_span(uint32_t slot, const FlowSpan& span) const {
  return {.key = store_.key_at(slot), .span = span, .total = {}};
}

// --- Exports ---

void TelemetryState::note_export(const FlowExport& flow) {
  exports_.records++;
  exports_.records_by_reason[static_cast<uint32_t>(flow.reason)]++;
  exports_.exported.packets += flow.span.counted.packets;
  exports_.exported.bytes += flow.span.counted.bytes;
  heavy_hitters_.note(flow.key, flow.total);
}

void TelemetryState::note_message(uint32_t bytes) {
  exports_.messages++;
  exports_.message_bytes += bytes;
}

wire::IpfixFlow TelemetryState::to_ipfix(const FlowExport& flow) const {
  wire::IpfixFlow record = ipfix_flow_of(flow.key);
  record.tcp_flags = static_cast<uint16_t>(flow.span.tcp_flags);
  record.end_reason = flow.reason;
  record.packets = flow.span.counted.packets;
  record.octets = flow.span.counted.bytes;
  record.start_ns = since_1970_ns(instant_of(flow.span.first_at));
  record.end_ns = since_1970_ns(instant_of(flow.span.last_at));
  return record;
}

void TelemetryState::set_epoch(int64_t epoch_ns) {
  TRIB_ASSERT(epoch_ns >= 0 && epoch_ns <= wire::kIpfixTimeMaxNs);
  epoch_ns_ = epoch_ns;
}

int64_t TelemetryState::since_1970_ns(Instant at) const {
  // Neither part reaches half of the range: no overflow.
  return std::clamp(epoch_ns_ + in_nanoseconds(at.since_start()), int64_t{0},
                    wire::kIpfixTimeMaxNs);
}

}  // namespace tributary::telemetry
