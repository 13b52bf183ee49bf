// SPDX-License-Identifier: Apache-2.0
/// @file
/// A sweep: a scenario with lists of values for some of its keys. Each combination is one point.
///   backend = "trio-ml"             # keys as in a scenario file
///   [sweep]
///   model.name = ["resnet50", "vgg11"]
///   straggler.probability = [0, 0.08, 0.16]
///   repeat = 5                      # each point with seeds seed, seed + 1, …
///
/// Shapes:  The first list of the file varies slowest, repetitions fastest.
/// Errors:  Refuses values that no scenario may have, keys without effect in any point, and sweeps
///          without lists, with over kPointsMax points or with no valid combination (RefusedPoint).
/// Tests:   tests/lab/sweep/sweep_file_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/key_table.h"
#include "base/result.h"
#include "lab/sweep/point.h"

namespace tributary::lab {

/// A larger sweep is most likely a mistake.
inline constexpr uint64_t kPointsMax = 1'000'000;

/// A combination of values that is not a valid scenario.
struct RefusedPoint {
  std::string label;  ///< As a point's, without its seed.
  Json values;        ///< As a point's, without its seed.
  std::string reason;
};

struct Sweep {
  std::vector<std::string> keys;  ///< The varied ones, in the file's order.
  uint64_t repeats = 1;           ///< Points of each combination, with consecutive seeds.
  std::vector<Point> points;
  std::vector<Json> values;  ///< Shape [points]: an object of the varied keys and the seed.
  std::vector<RefusedPoint> refused;
};

/// Reads a sweep file. @param overrides Set after the file's keys; they must not be swept.
[[nodiscard]] Result<Sweep> load_sweep(const std::string& path,
                                       std::span<const WrittenKey> overrides);

/// Makes a sweep from keys. Those of the table [sweep] are named "sweep.…".
/// @param place Place of the whole sweep, for messages: its path.
[[nodiscard]] Result<Sweep> make_sweep(std::span<const WrittenKey> keys,
                                       std::span<const WrittenKey> overrides,
                                       const std::string& place = "");

}  // namespace tributary::lab
