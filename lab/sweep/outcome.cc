// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep/outcome.h"

#include <utility>

namespace tributary::lab {

Json outcome_json(const PointOutcome& outcome) {
  Json json = run_json(outcome.result);
  if (outcome.accuracy.empty()) return json;
  Json curve = Json::array();
  for (const AccuracyStep& step : outcome.accuracy) {
    curve.push_back({as_ns(step.at), step.accuracy});
  }
  json["accuracy"] = std::move(curve);
  return json;
}

std::optional<PointOutcome> read_outcome(const Json& json) {
  auto result = read_run_json(json);
  if (!result) return std::nullopt;
  PointOutcome outcome{.result = *std::move(result), .accuracy = {}};
  if (!json.contains("accuracy")) return outcome;
  for (const Json& step : json["accuracy"]) {
    if (!step.is_array() || step.size() != 2 || !step[1].is_number()) return std::nullopt;
    const std::optional<Duration> at = read_duration(step[0]);
    if (!at) return std::nullopt;
    outcome.accuracy.push_back({.at = *at, .accuracy = step[1].get<double>()});
  }
  return outcome;
}

}  // namespace tributary::lab
