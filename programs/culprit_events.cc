// SPDX-License-Identifier: Apache-2.0
#include "programs/culprit_events.h"

#include <fmt/format.h>

#include <algorithm>

namespace tributary::programs {
namespace {

ProgramEvent beginning_of(const guard::Culprit& culprit) {
  return {.at = culprit.detected_at,
          .is_warning = true,
          .name = "culprit_detected",
          .fields = {{"reason", fmt::format("{}_bandwidth", to_string(culprit.level))},
                     {"kind", to_string(culprit.kind)},
                     {"source", guard::source_text(culprit)},
                     {"destination", guard::destination_text(culprit)},
                     {"pps", culprit.pps_max},
                     {"pps_allowed", culprit.pps_allowed},
                     {"above_ms", in_milliseconds(culprit.detected_at - culprit.above_since)},
                     {"action", to_string(culprit.action)}}};
}

ProgramEvent end_of(const guard::Culprit& culprit) {
  const bool recovered = culprit.end == guard::Change::kRecovered;
  return {.at = culprit.ended_at,
          .is_warning = false,
          .name = "culprit_ended",
          .fields = {{"reason", recovered ? "recovered" : "timed_out"},
                     {"kind", to_string(culprit.kind)},
                     {"source", guard::source_text(culprit)},
                     {"destination", guard::destination_text(culprit)},
                     {culprit.dry_run ? "would_drop" : "dropped", culprit.dropped},
                     {"lasted_ms", in_milliseconds(culprit.ended_at - culprit.detected_at)}}};
}

/// @param at Time of the oldest culprit that the report has kept.
ProgramEvent left_out(uint64_t culprits, Instant at) {
  return {.at = at,
          .is_warning = true,
          .name = "culprits_left_out",
          .fields = {{"culprits", culprits}}};
}

}  // namespace

std::vector<ProgramEvent> CulpritEvents::take(const guard::Report& report) {
  std::vector<ProgramEvent> events;
  const uint64_t kept_from = report.replaced();
  if (kept_from > noted_) {
    events.push_back(left_out(kept_from - noted_, report.entry(kept_from)->detected_at));
  }
  for (noted_ = std::max(noted_, kept_from); noted_ < report.added(); noted_++) {
    events.push_back(beginning_of(*report.entry(noted_)));
    open_.insert(noted_);
  }
  std::erase_if(open_, [&](uint64_t number) {
    const guard::Culprit* const culprit = report.entry(number);
    if (culprit == nullptr) return true;  // The report has replaced it, so its end stays unknown.
    if (culprit->end == guard::Change::kNone) return false;
    events.push_back(end_of(*culprit));
    return true;
  });
  return events;
}

}  // namespace tributary::programs
