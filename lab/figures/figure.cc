// SPDX-License-Identifier: Apache-2.0
#include "lab/figures/figure.h"

#include <fmt/format.h>

#include <utility>

#include "lab/scenario_file.h"

namespace tributary::lab {

const std::vector<Figure>& figures() {
  static const std::vector<Figure> all{switchml_3(), switchml_6(), switchml_7(),
                                       switchml_9(), trio_12(),    trio_13(),
                                       trio_14(),    trio_15(),    trio_16()};
  return all;
}

Result<Point> figure_point(const FigureOptions& options, std::string label,
                           const std::vector<std::string>& keys) {
  std::vector<WrittenKey> written;
  for (const std::string& key : keys) {
    Result<WrittenKey> setting = split_setting(key, label);
    if (!setting) return tl::unexpected(setting.error());
    written.push_back(std::move(*setting));
  }
  written.push_back({.name = "seed", .text = fmt::format("{}", options.seed), .where = label});
  written.insert(written.end(), options.settings.begin(), options.settings.end());
  Result<Scenario> scenario = make_scenario(written);
  if (!scenario) return tl::unexpected(scenario.error());
  Point point;
  point.label = std::move(label);
  point.scenario = std::move(*scenario);
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

}  // namespace tributary::lab
