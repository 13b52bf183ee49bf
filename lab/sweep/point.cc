// SPDX-License-Identifier: Apache-2.0
#include "lab/sweep/point.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fnv.h"
#include "lab/run.h"
#include "lab/sweep/plain_file.h"
#include "lab/workload/delay_trace.h"

namespace tributary::lab {
namespace {

/// Raise it when outcomes that earlier programs kept must not be used.
constexpr std::string_view kOutcomeVersion = "2";

/// Largest file that a point may name: the longest trace of delays.
constexpr uint64_t kFileBytesMax = DelayTrace::kRowsMax * DelayTrace::kLineBytesMax;

uint64_t fnv1a(std::string_view text) {
  return fnv_bytes(kFnvStart, std::as_bytes(std::span(text)));
}

/// Returns the text of a file; nothing for an empty path.
std::string text_of_file(const std::string& path) {
  if (path.empty()) return {};
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

}  // namespace

Result<void> check_effects(std::span<const Point> points, std::span<const Setting> settings) {
  std::vector<const Scenario*> scenarios;
  scenarios.reserve(points.size());
  for (const Point& point : points) scenarios.push_back(&point.scenario);
  return check_effects(scenarios, settings);
}

Result<void> check_point_files(const Point& point) {
  for (const auto& [key, path] : {std::pair("topology_file", &point.scenario.topology_file),
                                  std::pair("straggler.trace", &point.scenario.straggler.trace)}) {
    if (path->empty()) continue;
    const auto good = check_plain_file(*path, kFileBytesMax);
    if (!good) return failure(fmt::format("{}: {}: {}", point.label, key, good.error().text));
  }
  return {};
}

std::string point_key(const Point& point) {
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}\n{}", kOutcomeVersion, scenario_text(point.scenario),
                  text_of_file(point.scenario.topology_file),
                  text_of_file(point.scenario.straggler.trace), point.extra);
  return fmt::format("{:016x}", fnv1a(text));
}

Result<PointOutcome> run_point(const Point& point) {
  if (point.run) return point.run(point.scenario);
  Result<RunResult> result = run_scenario(point.scenario);
  if (!result) return tl::unexpected(result.error());
  return PointOutcome{.result = *std::move(result), .accuracy = {}};
}

}  // namespace tributary::lab
