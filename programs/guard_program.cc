// SPDX-License-Identifier: Apache-2.0
#include "programs/guard_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "apps/guard/app.h"
#include "base/endpoint.h"
#include "programs/capture_run.h"
#include "programs/culprit_events.h"
#include "programs/flood_score.h"
#include "traffic/labels.h"

namespace tributary::programs {
namespace {

using guard::Action;
using guard::GuardConfig;
using guard::Level;
using guard::PacketKind;

constexpr KeySpec milliseconds_key(std::string_view name, std::string_view help,
                                   std::string_view default_text, uint64_t min, uint64_t max) {
  return {.name = name,
          .type = KeyType::kDurationMs,
          .help = help,
          .default_text = default_text,
          .min = min,
          .max = max};
}
constexpr KeySpec count_key(std::string_view name, std::string_view help,
                            std::string_view default_text, uint64_t min, uint64_t max) {
  return {.name = name,
          .type = KeyType::kUint,
          .help = help,
          .default_text = default_text,
          .min = min,
          .max = max};
}

static_assert(guard::kTcpFactor == 10, "the help of source-pps says ten times");

constexpr std::array kKeys{
    count_key("source-pps",
              "Packets/s of one kind from a source (IPv6: a /64) to a destination; TCP without "
              "SYN: ten times",
              "100", 1, guard::kPpsMax / guard::kTcpFactor),
    count_key("network-pps", "The same from a /24 (IPv6: a /48)", "200", 1,
              guard::kPpsMax / guard::kTcpFactor),
    count_key("destination-pps", "The same from everywhere", "20000", 1,
              guard::kPpsMax / guard::kTcpFactor),
    KeySpec{.name = "action",
            .type = KeyType::kText,
            .help = "Treatment of a culprit's packets",
            .default_text = "drop",
            .allowed = "drop, police, keep"},
    KeySpec{.name = "allow",
            .type = KeyType::kText,
            .help = "Sources that are never judged, except that packets with broken headers are "
                    "dropped all the same",
            .allowed = "prefixes joined by +, as 10.0.0.0/8+fd00::/8"},
    KeySpec{.name = "dry-run",
            .type = KeyType::kBool,
            .help = "Forwards everything, and counts what it would drop",
            .default_text = "off"},
    milliseconds_key("detect-ms", "Time above its bandwidth that makes a flow a culprit", "3000",
                     1'000, 60'000),
    milliseconds_key("recover-ms", "Time below its bandwidth that ends it", "60000", 1'000,
                     3'600'000),
    milliseconds_key("timeout-ms", "Time until a culprit is released, with timeout-active",
                     "300000", 1'000, 7'200'000),
    KeySpec{.name = "timeout-active",
            .type = KeyType::kBool,
            .help = "Releases culprits after the timeout",
            .default_text = "off"},
    milliseconds_key("timer-period-ms", "Each record is judged once a period", "250", 10, 1'000),
    count_key("destinations-max", "Records of destinations", "16384", 64, guard::kRecordsMax),
    count_key("suspects-max", "Records of suspicious sources and networks", "65536", 64,
              guard::kRecordsMax),
    count_key("culprits-max", "Latest culprits that the report keeps", "1024", 1,
              guard::kCulpritsMax),
};

Result<Action> parse_action(const std::string& text) {
  for (const Action action : {Action::kDrop, Action::kPolice, Action::kKeep}) {
    if (text == to_string(action)) return action;
  }
  return failure(fmt::format("action={} is refused; allowed: drop, police, keep", text));
}

Result<GuardConfig> config_of(const KeyValues& settings, const InstanceTerms& terms) {
  GuardConfig config;
  const auto action = parse_action(settings.text("action"));
  if (!action) return tl::unexpected(action.error());
  for (const auto& [level, key] :
       {std::pair{Level::kSource, "source-pps"}, std::pair{Level::kNetwork, "network-pps"},
        std::pair{Level::kDestination, "destination-pps"}}) {
    guard::LevelConfig& of_level = config.levels[static_cast<size_t>(level)];
    of_level.action = *action;
    of_level.pps.fill(static_cast<uint32_t>(settings.uint(key)));
    of_level.pps[static_cast<size_t>(PacketKind::kTcp)] *= guard::kTcpFactor;
  }
  if (settings.has("allow")) {
    auto allowed = guard::parse_allowed(settings.text("allow"));
    if (!allowed) return failure_in("allow: ", allowed.error());
    config.allowed = *std::move(allowed);
  }
  if (settings.is_written("timeout-ms") && !settings.flag("timeout-active")) {
    return failure("timeout-ms has no effect; allowed: none, or any with timeout-active");
  }
  config.dry_run = settings.flag("dry-run");
  config.detect_time = settings.duration("detect-ms");
  config.recover_time = settings.duration("recover-ms");
  config.timeout_time = settings.duration("timeout-ms");
  config.timeout_active = settings.flag("timeout-active");
  config.timer_period = settings.duration("timer-period-ms");
  config.destinations_max = static_cast<uint32_t>(settings.uint("destinations-max"));
  config.suspects_max = static_cast<uint32_t>(settings.uint("suspects-max"));
  config.report_max = static_cast<uint32_t>(settings.uint("culprits-max"));
  config.hash_seed = terms.seed;
  return config;
}

class GuardInstance {
 public:
  using App = guard::App;
  static constexpr io::Steering kSteering = io::Steering::kByDestination;

  static const KeyTable& settings() {
    static const KeyTable kTable("guard", kKeys);
    return kTable;
  }
  static Result<std::unique_ptr<GuardInstance>> create(const KeyValues& settings,
                                                       const InstanceTerms& terms) {
    const auto config = config_of(settings, terms);
    if (!config) return tl::unexpected(config.error());
    memory::SharedMemory::Config sizes;
    sizes.dram_size_bytes = std::max(sizes.dram_size_bytes, guard::GuardState::dram_bytes(*config));
    auto memory = memory::SharedMemory::create(sizes);
    if (!memory) return tl::unexpected(memory.error());
    std::unique_ptr<GuardInstance> instance(new GuardInstance(*std::move(memory), terms));
    auto state = guard::GuardState::create(instance->memory_, *config, terms.start);
    if (!state) return tl::unexpected(state.error());
    instance->state_ = *std::move(state);
    instance->state_->observe_culprits(
        [raw = instance.get()](const guard::Culprit& culprit) { raw->note_detection(culprit); });
    return instance;
  }

  App app() { return App(*state_); }
  memory::SharedMemory& memory() { return memory_; }
  FloodScore& score() { return score_; }
  void set_time_zero(io::CaptureTime time_zero) { time_zero_ = time_zero; }
  [[nodiscard]] std::vector<OutcomeCount> outcomes() const {
    const auto name_of = [](uint32_t i) {
      return guard::to_string(static_cast<guard::Outcome>(i));
    };
    constexpr auto kFirstEvent = static_cast<uint32_t>(guard::Outcome::kViolation);
    return outcome_counts(state_->counters(), name_of, kFirstEvent);
  }
  [[nodiscard]] std::vector<Gauge> gauges() const {
    return {{"destinations", state_->destination_count()},
            {"suspects", state_->suspect_count()},
            {"culprits", open_count()}};
  }
  /// Returns a line for each of the latest culprits that have not ended, the latest first.
  [[nodiscard]] std::vector<std::string> notices(Instant now) const {
    const guard::Report& report = state_->report();
    std::vector<std::string> lines;
    for (uint64_t i = report.added(); i > report.replaced() && lines.size() < kNoticesMax; i--) {
      const guard::Culprit& culprit = *report.entry(i - 1);
      if (culprit.end == guard::Change::kNone) lines.push_back(notice_of(culprit, now));
    }
    return lines;
  }
  [[nodiscard]] nlohmann::ordered_json details() const {
    nlohmann::ordered_json json;
    const auto culprits = state_->report().culprits();
    add_score(json);
    json["destinations"] = state_->destination_count();
    json["suspects"] = state_->suspect_count();
    json["culprits_left_out"] = state_->report().replaced();
    json["culprits"] = nlohmann::ordered_json::array();
    for (const guard::Culprit& culprit : culprits) json["culprits"].push_back(as_json(culprit));
    return json;
  }
  [[nodiscard]] std::vector<ProgramEvent> take_events() { return events_.take(state_->report()); }

 private:
  GuardInstance(memory::SharedMemory memory, const InstanceTerms& terms)
      : memory_(std::move(memory)), start_(terms.start), time_zero_(terms.time_zero) {}

  [[nodiscard]] io::CaptureTime time_of(Instant at) const {
    return time_zero_ + std::chrono::nanoseconds(in_nanoseconds(at - Instant()));
  }

  /// Notes when the flood was detected: the earliest detection, since it began, of a culprit with
  /// the flood's destination that comes from everywhere or from the flood's sources.
  void note_detection(const guard::Culprit& culprit) {
    if (!score_.flood_began() || !score_.is_flooded(culprit.destination)) return;
    const io::CaptureTime detected_at = time_of(culprit.detected_at);
    Endpoint source;
    source.address = culprit.source;
    const bool is_of_flood =
        culprit.level == Level::kDestination || traffic::label_of(source) == traffic::Label::kFlood;
    if (!is_of_flood || detected_at < *score_.flood_began()) return;
    flood_detected_ = std::min(flood_detected_.value_or(detected_at), detected_at);
  }

  /// Adds the shares of generated traffic that passed, and the time to the flood's detection. The
  /// flood's share counts from two timer periods after that.
  void add_score(nlohmann::ordered_json& json) const {
    const auto put = [&json](const char* name, std::optional<double> value) {
      json[name] = value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
    };
    put("innocent_passed", score_.passed_share(traffic::Label::kInnocent));
    put("flash_crowd_passed", score_.passed_share(traffic::Label::kFlashCrowd));
    std::optional<double> flood_passed, detect_ms;
    if (flood_detected_) {
      detect_ms =
          std::chrono::duration<double, std::milli>(*flood_detected_ - *score_.flood_began())
              .count();
      const auto settled =
          std::chrono::nanoseconds(2 * in_nanoseconds(state_->config().timer_period));
      flood_passed = score_.flood_passed_share(*flood_detected_ + settled);
    }
    put("flood_passed", flood_passed);
    put("detect_ms", detect_ms);
  }

  /// Culprits in a status: enough to see a pattern, and few enough to format between two bursts.
  static constexpr size_t kNoticesMax = 50;

  /// Returns the number of culprits that have not ended.
  [[nodiscard]] uint64_t open_count() const {
    const guard::Report& report = state_->report();
    uint64_t open = 0;
    for (uint64_t i = report.replaced(); i < report.added(); i++) {
      if (report.entry(i)->end == guard::Change::kNone) open++;
    }
    return open;
  }
  [[nodiscard]] static std::string notice_of(const guard::Culprit& culprit, Instant now) {
    return fmt::format(
        "{} from {} to {}: {} packets/s, allowed {}; detected {:.0f} s ago, last above {:.0f} s "
        "ago; action {}, {}",
        to_string(culprit.kind), guard::source_text(culprit), guard::destination_text(culprit),
        culprit.pps_max, culprit.pps_allowed, in_seconds(now - culprit.detected_at),
        in_seconds(now - culprit.above_last), to_string(culprit.action),
        guard::drops_text(culprit));
  }

  [[nodiscard]] nlohmann::ordered_json as_json(const guard::Culprit& culprit) const {
    const auto ns = [this](Instant at) { return time_of(at).time_since_epoch().count(); };
    nlohmann::ordered_json json;
    json["text"] = guard::to_text(culprit, start_);
    json["level"] = to_string(culprit.level);
    json["kind"] = to_string(culprit.kind);
    json["source"] = guard::source_text(culprit);
    json["destination"] = guard::destination_text(culprit);
    json["action"] = to_string(culprit.action);
    json["pps_allowed"] = culprit.pps_allowed;
    json["pps_max"] = culprit.pps_max;
    json["dropped"] = culprit.dry_run ? 0 : culprit.dropped;
    json["would_drop"] = culprit.dry_run ? culprit.dropped : 0;
    json["above_since_ns"] = ns(culprit.above_since);
    json["detected_at_ns"] = ns(culprit.detected_at);
    json["above_last_ns"] = ns(culprit.above_last);
    if (culprit.end != guard::Change::kNone) json["ended_at_ns"] = ns(culprit.ended_at);
    return json;
  }

  memory::SharedMemory memory_;
  const Instant start_;
  io::CaptureTime time_zero_;
  std::unique_ptr<guard::GuardState> state_;
  FloodScore score_;
  std::optional<io::CaptureTime> flood_detected_;
  CulpritEvents events_;
};

}  // namespace

const Program kGuardProgram{
    {{.name = "guard",
      .summary = "Finds floods as suspicious control flow detection does, and drops them",
      .has_flow_records = false,
      .settings = GuardInstance::settings,
      .run = run_program<GuardInstance>},
     /*serve=*/LiveServiceOf<GuardInstance>::start},
    /*mechanisms=*/"policers, record store with REF flags in DRAM, timer threads",
    /*memory=*/"up to 47 MiB; more with destinations-max, suspects-max and culprits-max",
};

}  // namespace tributary::programs
