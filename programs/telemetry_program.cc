// SPDX-License-Identifier: Apache-2.0
#include "programs/telemetry_program.h"

#include <algorithm>
#include <array>
#include <utility>

#include "apps/telemetry/app.h"
#include "programs/capture_run.h"
#include "programs/flow_records.h"

namespace tributary::programs {
namespace {

using telemetry::TelemetryConfig;

constexpr std::array kKeys{
    KeySpec{.name = "flows-max",
            .type = KeyType::kUint,
            .help = "Flow records; a new flow is refused and counted when all are taken",
            .default_text = "262144",
            .min = 1,
            .max = telemetry::kFlowsLimit},
    KeySpec{.name = "inactive-timeout-ms",
            .type = KeyType::kDurationMs,
            .help = "A flow without a packet for this long ends",
            .default_text = "60000",
            .min = in_milliseconds(telemetry::kTimeoutMin),
            .max = in_milliseconds(telemetry::kTimeoutMax)},
    KeySpec{.name = "active-timeout-ms",
            .type = KeyType::kDurationMs,
            .help = "A flow that lasts this long is exported, and goes on",
            .default_text = "60000",
            .min = in_milliseconds(telemetry::kTimeoutMin),
            .max = in_milliseconds(telemetry::kTimeoutMax)},
    KeySpec{.name = "export-on-fin",
            .type = KeyType::kBool,
            .help = "Ends a flow at the first visit after a FIN or RST",
            .default_text = "off"},
    KeySpec{.name = "timer-threads",
            .type = KeyType::kUint,
            .help = "Timer threads that share the scan of the records",
            .default_text = "100",
            .min = 1,
            .max = timers::PeriodicTimers::kThreadCountMax},
    KeySpec{.name = "collector",
            .type = KeyType::kEndpoint,
            .help = "Receives the records as IPFIX messages, when the program runs on traffic",
            .default_text = "127.0.0.1:4739"},
    KeySpec{.name = "message-bytes-max",
            .type = KeyType::kUint,
            .help = "Largest IPFIX message",
            .default_text = "1400",
            .min = wire::kIpfixMessageBytesMin,
            .max = telemetry::kMessageBytesLimit},
    KeySpec{.name = "heavy-hitters",
            .type = KeyType::kUint,
            .help = "Number of largest flows in the report",
            .default_text = "10",
            .min = 0,
            .max = telemetry::kHeavyHittersLimit},
};

/// Returns nanoseconds since 1970. A capture may claim any time; IPFIX expresses those from 1970 to
/// 2106.
int64_t epoch_of(io::CaptureTime time_zero) {
  return std::clamp<int64_t>(time_zero.time_since_epoch().count(), 0, wire::kIpfixTimeMaxNs);
}

TelemetryConfig config_of(const KeyValues& settings, const InstanceTerms& terms) {
  TelemetryConfig config;
  config.flows_max = static_cast<uint32_t>(settings.uint("flows-max"));
  config.inactive_timeout = settings.duration("inactive-timeout-ms");
  config.active_timeout = settings.duration("active-timeout-ms");
  config.export_on_fin = settings.flag("export-on-fin");
  config.timer_threads = static_cast<uint32_t>(settings.uint("timer-threads"));
  config.collector = settings.endpoint("collector");
  config.message_bytes_max = static_cast<uint32_t>(settings.uint("message-bytes-max"));
  config.heavy_hitters = static_cast<uint32_t>(settings.uint("heavy-hitters"));
  config.hash_seed = terms.seed;
  config.observation_domain = terms.core;
  config.epoch_ns = epoch_of(terms.time_zero);
  return config;
}

class TelemetryInstance {
 public:
  using App = telemetry::App;
  static constexpr io::Steering kSteering = io::Steering::kByFlow;

  static const KeyTable& settings() {
    static const KeyTable kTable("telemetry", kKeys);
    return kTable;
  }
  static Result<std::unique_ptr<TelemetryInstance>> create(const KeyValues& settings,
                                                           const InstanceTerms& terms) {
    auto memory = memory::SharedMemory::create({});
    if (!memory) return tl::unexpected(memory.error());
    std::unique_ptr<TelemetryInstance> instance(new TelemetryInstance(*std::move(memory)));
    auto state = telemetry::TelemetryState::create(instance->memory_, config_of(settings, terms),
                                                   terms.start);
    if (!state) return tl::unexpected(state.error());
    instance->state_ = *std::move(state);
    return instance;
  }
  static Result<void> check_capture(const KeyValues& settings) {
    if (!settings.is_written("collector")) return {};
    return failure(
        "collector has no effect over a capture; allowed: none, or any with tributary serve; to "
        "keep the records: --records or --ipfix");
  }
  static Result<CaptureOutput::MessageHandler> message_handler(const RunRequest& request) {
    auto created = FlowRecords::create(request.records, request.ipfix);
    if (!created) return tl::unexpected(created.error());
    const auto records = std::make_shared<FlowRecords>(*std::move(created));
    return [records](std::span<const std::byte> message) { return records->write(message); };
  }

  App app() { return App(*state_); }
  memory::SharedMemory& memory() { return memory_; }
  void set_time_zero(io::CaptureTime time_zero) { state_->set_epoch(epoch_of(time_zero)); }
  [[nodiscard]] std::vector<OutcomeCount> outcomes() const {
    return outcome_counts(state_->counters(), [](uint32_t i) {
      return telemetry::to_string(static_cast<telemetry::Outcome>(i));
    });
  }
  [[nodiscard]] std::vector<Gauge> gauges() const { return {{"flows", state_->flow_count()}}; }
  [[nodiscard]] nlohmann::ordered_json details() const {
    const telemetry::ExportCounters& exports = state_->exports();
    nlohmann::ordered_json json;
    json["records"] = exports.records;
    json["records_by_reason"] = nlohmann::ordered_json::object();
    for (uint32_t i = 1; i < wire::kFlowEndReasonCount; i++) {
      json["records_by_reason"][to_string(static_cast<wire::FlowEndReason>(i))] =
          exports.records_by_reason[i];
    }
    json["exported"] = {{"packets", exports.exported.packets}, {"octets", exports.exported.bytes}};
    json["flows_in_store"] = state_->flow_count();
    json["heavy_hitters"] = nlohmann::ordered_json::array();
    for (const auto& entry : state_->heavy_hitters().sorted()) {
      const wire::IpfixFlow flow = state_->to_ipfix({.key = entry.key, .span = {}, .total = {}});
      nlohmann::ordered_json hitter = as_json(flow);
      for (const char* key : {"start_ns", "end_ns", "tcp_flags", "end_reason"}) hitter.erase(key);
      hitter["packets"] = entry.total.packets;
      hitter["octets"] = entry.total.bytes;
      json["heavy_hitters"].push_back(std::move(hitter));
    }
    return json;
  }

 private:
  explicit TelemetryInstance(memory::SharedMemory memory) : memory_(std::move(memory)) {}

  memory::SharedMemory memory_;
  std::unique_ptr<telemetry::TelemetryState> state_;
};

}  // namespace

const Program kTelemetryProgram{
    {{.name = "telemetry",
      .summary = "Keeps one record for each flow, and exports ended and long-lived flows as IPFIX",
      .has_flow_records = true,
      .settings = TelemetryInstance::settings,
      .run = run_program<TelemetryInstance>},
     /*serve=*/LiveServiceOf<TelemetryInstance>::start},
    /*mechanisms=*/"record store with REF flags in DRAM, RMW operations, timer threads",
    /*memory=*/"some 240 bytes for each flow, up to flows-max",
};

}  // namespace tributary::programs
