// SPDX-License-Identifier: Apache-2.0
/// @file
/// A comparison: each back end with the same models, workers, losses and stragglers. A file has the
/// keys of a scenario and a table [compare], as experiments/compare.toml.
///
/// Model:   A case is one of models x workers x loss x straggling. A cell is a back end in a case:
///          one scenario, with each seed if it involves chance. Settings win over a cell's values.
///          Trains have up to 64 packets, fewer where tensors are short.
/// Shapes:  Cells in the order of cases, then of back ends.
/// Errors:  A back end that refuses a case gives a cell with the reason and no point. If no cell
///          has a point, the first reason is the error.
/// Tests:   tests/lab/compare/comparison_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/key_table.h"
#include "base/result.h"
#include "lab/scenario_file.h"
#include "lab/sweep/point.h"

namespace tributary::lab {

struct CompareLists {
  std::vector<Backend> backends;
  std::vector<Model> models;
  std::vector<uint32_t> workers;
  std::vector<double> loss;
  std::vector<double> straggling;
  std::optional<Backend> baseline = {};  ///< None: the first back end.
};

struct CompareCase {
  Model model = Model::kResnet50;
  uint32_t workers = 0;
  double loss = 0;
  double straggling = 0;
};

struct CompareCell {
  size_t case_index = 0;
  Backend backend = Backend::kTrioMl;
  Scenario scenario = {};  ///< The defaults if refused.
  /// Index of the first seed's point in Comparison::points; none if refused. The others follow.
  std::optional<size_t> point = {};
  uint32_t seeds = 0;        ///< Number of points.
  std::string refusal = {};  ///< The reason.
};

struct Comparison {
  Backend baseline = Backend::kTrioMl;
  std::string settings;  ///< Over the comparison's own: "workers=2 iterations=5"; empty: none.
  std::vector<CompareCase> cases;
  std::vector<CompareCell> cells;  ///< Shape [cases x back ends].
  std::vector<Point> points;
};

/// Returns the lists of a comparison without settings. It takes seconds.
[[nodiscard]] CompareLists default_compare_lists();

/// Moves the keys "compare.…" of a file from `keys` into `lists`. Refuses unknown ones.
[[nodiscard]] Result<void> take_compare_keys(std::vector<WrittenKey>& keys, CompareLists& lists);

/// Reads the list named `name` ("backends") from text with commas. Refuses an unknown name, an
/// empty list, a value that stands twice, and values that the list's scenario key refuses.
/// @param where Place of the text, for messages.
[[nodiscard]] Result<void> set_compare_list(CompareLists& lists, const std::string& name,
                                            const std::string& text, const std::string& where);

/// Makes the cells. All back ends of a case have the same seeds.
/// @param settings Keys that are set over every cell's scenario. Refuses a key without effect in
///                 any cell.
/// @param seeds    Number of seeds of each cell that involves chance, from the scenario's seed on;
///                 not 0.
[[nodiscard]] Result<Comparison> make_comparison(const CompareLists& lists,
                                                 std::span<const WrittenKey> settings,
                                                 uint32_t seeds = 1);

/// Returns whether a seed decides anything: some worker may straggle, or a link has faults.
[[nodiscard]] bool involves_chance(const Scenario& scenario);

}  // namespace tributary::lab
