// SPDX-License-Identifier: Apache-2.0
#include "lab/figures/figure.h"

#include <cmath>
#include <utility>

namespace tributary::lab {

const std::vector<Figure>& figures() {
  static const std::vector<Figure> all{
      alternatives(), asynchronous(),      byteps_12(),        byteps_13(),  byteps_14(),
      byteps_15(),    byteps_16(),         constants(),        permanent(),  scheduling(),
      switchml_3(),   switchml_6(),        switchml_7(),       switchml_9(), trio_12(),
      trio_13(),      trio_13_iteration(), trio_13_settings(), trio_14(),    trio_15(),
      trio_16(),      trio_generations()};
  return all;
}

Result<Point> figure_point(const FigureOptions& options, std::string label, Scenario scenario) {
  scenario.seed = options.seed;
  Result<Scenario> made = make_scenario(options.settings, std::move(scenario), label);
  if (!made) return tl::unexpected(made.error());
  Point point;
  point.label = std::move(label);
  point.scenario = *std::move(made);
  return point;
}

Result<std::vector<Point>> all_or_error(std::vector<Result<Point>> made) {
  std::vector<Point> points;
  for (Result<Point>& point : made) {
    if (!point) return tl::unexpected(point.error());
    points.push_back(std::move(*point));
  }
  return points;
}

FigureRow figure_row(const FigureOptions& options, const char* figure, std::string series, double x,
                     double here, const char* unit) {
  return {.figure = figure,
          .series = std::move(series),
          .x = x,
          .here = here,
          .unit = unit,
          .seed = options.seed};
}

void compare_with_paper(const FigureOptions& options, FigureRow& row, double paper,
                        std::string cause) {
  constexpr double kAgrees = 0.1;
  row.paper = paper;
  if (!options.quick && std::abs(row.here / paper - 1) > kAgrees) row.explained = std::move(cause);
}

}  // namespace tributary::lab
