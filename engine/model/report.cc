// SPDX-License-Identifier: Apache-2.0
#include "engine/model/report.h"

#include <fmt/format.h>

namespace tributary::engine {
namespace {

/// A resource in use for more than this share of the time limits the machine. Assumed: a queue
/// grows without bound as the share approaches 1; here it is still a few services long.
constexpr double kLimitShare = 0.85;

double percent(double share) { return share * 100; }

}  // namespace

std::string bottleneck(const Report& report) {
  // Threads come last, because they are all taken as soon as anything else is short.
  const ResourceUse* limit = nullptr;
  const ResourceUse* fullest = nullptr;
  for (const ResourceUse& resource : report.resources) {
    if (fullest == nullptr || resource.share > fullest->share) fullest = &resource;
    if (resource.share < kLimitShare) continue;
    if (limit == nullptr || limit->name == "threads") limit = &resource;
  }
  if (limit != nullptr) return fmt::format("{}: {:.0f} % busy", limit->name, percent(limit->share));
  if (fullest == nullptr || report.active == Duration()) return "nothing: no packet came";

  const LatencySummary& latency = report.adding.count > 0 ? report.adding : report.latency;
  uint32_t largest = 0;
  for (uint32_t i = 1; i < kLatencyPartCount; i++) {
    if (latency.parts_mean.spent[i] > latency.parts_mean.spent[largest]) largest = i;
  }
  const double mean = static_cast<double>(latency.mean.ticks());
  const double part = static_cast<double>(latency.parts_mean.spent[largest].ticks());
  return fmt::format("none inside (fullest: {}, {:.0f} % busy); {:.0f} % of a packet's time is {}",
                     fullest->name, percent(fullest->share), mean > 0 ? percent(part / mean) : 0,
                     to_string(static_cast<LatencyPart>(largest)));
}

}  // namespace tributary::engine
