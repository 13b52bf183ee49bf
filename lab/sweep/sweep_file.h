// SPDX-License-Identifier: Apache-2.0
/// @file
/// A sweep: a scenario, and lists of values for some of its keys; every combination is one point.
///
///   backend = "trio-ml"             # keys as in a scenario file
///   [sweep]
///   model.name = ["resnet50", "vgg11"]
///   straggler.probability = [0, 0.08, 0.16]
///   repeat = 5                      # each point with seeds seed, seed + 1, …
///
/// Shapes:  The first list of the file varies slowest, repetitions fastest.
/// Errors:  As make_scenario(), for every point; a sweep without lists; more than kPointsMax
/// points. Tests:   tests/lab/sweep/sweep_file_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/key_table.h"
#include "base/result.h"
#include "lab/sweep/point.h"

namespace tributary::lab {

/// Beyond this a sweep is most likely a mistake.
inline constexpr uint64_t kPointsMax = 1'000'000;

struct Sweep {
  std::vector<std::string> keys;  ///< That vary, in the order of the file; "seed" last if repeated.
  std::vector<Point> points;
};

/// @param overrides Come after the file's keys; one that the file sweeps is refused.
[[nodiscard]] Result<Sweep> load_sweep(const std::string& path,
                                       std::span<const WrittenKey> overrides);

/// From keys, those of the table [sweep] named "sweep.…".
[[nodiscard]] Result<Sweep> make_sweep(std::span<const WrittenKey> keys,
                                       std::span<const WrittenKey> overrides);

/// The finished points as JSON lines: {"values":…,"outcome":…}, in the order of the points.
[[nodiscard]] std::string sweep_json_lines(const Sweep& sweep, std::span<const Json> outcomes);

/// A line for each finished point: the keys that vary, then the headline figures.
[[nodiscard]] std::string sweep_csv(const Sweep& sweep, std::span<const Json> outcomes);

/// The same for people.
[[nodiscard]] std::string sweep_table(const Sweep& sweep, std::span<const Json> outcomes);

}  // namespace tributary::lab
