// SPDX-License-Identifier: Apache-2.0
/// @file
/// A comparison: every back end with the same models, workers, losses and stragglers.
///
///   iterations = 20                            # keys as in a scenario file
///   [compare]
///   backends = ["trio-ml", "ring"]             # who is compared
///   models = ["resnet50", "vgg11"]
///   workers = [6, 12]
///   loss = [0, 0.001]                          # of each packet on each link
///   straggling = [0, 0.16]                     # probability of a delay (slow-worker)
///   baseline = "ring"                          # speed-ups are against it
///
/// Model:   A case is one of models x workers x loss x straggling; a cell is a back end in it, one
///          scenario. What a case needs (retransmission under loss, the pattern of stragglers) and
///          what a back end needs (no trains, real payload, where it can nothing else) is set
///          before the settings, which win.
/// Shapes:  Cells in the order of cases, then of back ends; points are those cells that can run.
/// Exact:   Equal options and outcomes give equal bytes.
/// Errors:  Unknown keys, names and wrong values, as make_scenario(). What a back end refuses of a
///          case is not an error: its cell says why and has no point, unless no cell has one.
/// Threads: Pure functions.
/// Tests:   tests/lab/compare/comparison_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/key_table.h"
#include "base/result.h"
#include "lab/sweep/point.h"

namespace tributary::lab {

/// Lists of values as written; each is converted as the key it stands for.
struct CompareLists {
  std::vector<std::string> backends;
  std::vector<std::string> models;
  std::vector<std::string> workers;
  std::vector<std::string> loss;
  std::vector<std::string> straggling;
  std::string baseline;
};

struct CompareCase {
  std::string model;
  uint32_t workers = 0;
  double loss = 0;
  double straggling = 0;
};

struct CompareCell {
  size_t case_index = 0;
  std::string backend;
  Scenario scenario;            ///< Empty where refused.
  std::optional<size_t> point;  ///< Index into Comparison::points.
  std::string refusal;          ///< Why it has none.
};

struct Comparison {
  std::string baseline;
  std::vector<CompareCase> cases;
  std::vector<CompareCell> cells;  ///< Shape [cases x back ends].
  std::vector<Point> points;
};

/// What is compared unless somebody says otherwise: seconds of work.
[[nodiscard]] CompareLists default_compare_lists();

/// Takes the keys "compare.…" of a file out of `keys` and into `lists`. Refuses unknown ones.
[[nodiscard]] Result<void> take_compare_keys(std::vector<WrittenKey>& keys, CompareLists& lists);

/// Sets the list of that name ("backends") from text with commas. Refuses an unknown name and an
/// empty list. @param where Of the text, for messages.
[[nodiscard]] Result<void> set_compare_list(CompareLists& lists, const std::string& name,
                                            const std::string& text, const std::string& where);

/// @param settings Over every cell's scenario.
[[nodiscard]] Result<Comparison> make_comparison(const CompareLists& lists,
                                                 std::span<const WrittenKey> settings);

}  // namespace tributary::lab
