// SPDX-License-Identifier: Apache-2.0
#include "traffic/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tributary::traffic {
namespace {

constexpr std::array kFloodKinds{FloodKind::kSyn, FloodKind::kAmplification, FloodKind::kPulse};

/// The first error of a list of checks.
class Checks {
 public:
  template <class T>
  Checks& range(const char* name, T value, T min, T max) {
    if (!(value >= min && value <= max) && result_) {
      result_ = failure(
          fmt::format("{}={} is out of range; allowed: from {} to {}", name, value, min, max));
    }
    return *this;
  }
  Checks& range(const char* name, Duration value, Duration min) {
    return range(name, in_seconds(value), in_seconds(min), kSecondsMax);
  }
  [[nodiscard]] const Result<void>& result() const { return result_; }

 private:
  Result<void> result_;
};

void check_flood(Checks& checks, const FloodConfig& flood) {
  checks.range("flood rate", flood.rate, 1.0, kRateMax)
      .range("flood start", flood.start, Duration())
      .range("flood length", flood.length, nanoseconds(1))
      .range("flood sources", flood.sources, uint32_t{1}, kFloodSourcesLimit)
      .range("pulse on", flood.pulse_on, milliseconds(1))
      .range("pulse off", flood.pulse_off, Duration());
}

void check_flash_crowd(Checks& checks, const FlashCrowdConfig& crowd) {
  checks.range("flash crowd sources", crowd.sources, uint32_t{1}, kFlashCrowdSourcesLimit)
      .range("flash crowd start", crowd.start, Duration())
      .range("flash crowd spread", crowd.spread, nanoseconds(1));
}

}  // namespace

const char* to_string(FloodKind kind) {
  switch (kind) {
    case FloodKind::kSyn:
      return "syn";
    case FloodKind::kAmplification:
      return "amplification";
    case FloodKind::kPulse:
      return "pulse";
  }
  return "unknown";
}

std::optional<FloodKind> parse_flood_kind(std::string_view name) {
  for (const FloodKind kind : kFloodKinds) {
    if (name == to_string(kind)) return kind;
  }
  return std::nullopt;
}

Result<void> check(const Config& config) {
  const BackgroundConfig& background = config.background;
  Checks checks;
  checks.range("packets", config.packets, uint64_t{1}, kPacketsMax)
      .range("length", config.length, Duration())
      .range("flows", background.flows, uint32_t{1}, kFlowsMax)
      .range("zipf", background.zipf, 0.0, kZipfMax)
      .range("rate", background.rate, 1.0, kRateMax)
      .range("churn", background.churn, 0.0,
             std::min(kRateMax, kChurnPerPacketMax * background.rate))
      .range("servers", background.servers, uint32_t{1}, kServersMax)
      .range("IPv6 percent", background.ipv6_percent, uint32_t{0}, uint32_t{100})
      .range("UDP percent", background.udp_percent, uint32_t{0}, uint32_t{100});
  if (config.flood) check_flood(checks, *config.flood);
  if (config.flash_crowd) check_flash_crowd(checks, *config.flash_crowd);
  return checks.result();
}

}  // namespace tributary::traffic
