// SPDX-License-Identifier: Apache-2.0
#include "lab/report/figure_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/text_table.h"

namespace tributary::lab {
namespace {

using Json = nlohmann::ordered_json;

std::string ratio_of(const FigureRow& row) {
  if (!row.paper || *row.paper == 0.0) return "-";
  return fmt::format("{:.3f}", row.here / *row.paper);
}

std::string percent(double share) {
  return std::isfinite(share) ? fmt::format("{:.1f} %", 100 * share) : "-";
}

/// The optional parts of a table.
struct Columns {
  bool samples = false;
  bool shares = false;
  bool dropouts = false;                  ///< A worker left the job in some run.
  std::vector<std::string> explanations;  ///< Each once.

  explicit Columns(std::span<const FigureRow> rows) {
    for (const FigureRow& row : rows) {
      samples |= row.sample.has_value();
      shares |= row.shares.has_value();
      dropouts |= row.shares && row.shares->dropped_out > 0;
      if (!row.explained.empty() && number_of(row.explained) > explanations.size()) {
        explanations.push_back(row.explained);
      }
    }
  }
  /// Returns the place of an explanation, from 1; past the end if it is new.
  [[nodiscard]] size_t number_of(const std::string& text) const {
    const auto found = std::find(explanations.begin(), explanations.end(), text);
    return static_cast<size_t>(found - explanations.begin()) + 1;
  }
};

std::vector<std::string> table_head(const Columns& columns, const std::string& x_name) {
  std::vector<std::string> cells{"series", x_name, "paper", "here", "ratio", "unit"};
  if (columns.samples) cells.insert(cells.end(), {"std. error", "lowest", "highest", "seeds"});
  if (columns.shares) cells.insert(cells.end(), {"degraded", "skipped", "missed"});
  if (columns.dropouts) cells.emplace_back("dropped out");
  return cells;
}

std::vector<std::string> table_line(const FigureRow& row, const Columns& columns) {
  std::string ratio = ratio_of(row);
  if (!row.explained.empty()) ratio += fmt::format(" [{}]", columns.number_of(row.explained));
  std::vector<std::string> cells{row.series,
                                 short_number(row.x),
                                 row.paper ? short_number(*row.paper) : "-",
                                 short_number(row.here),
                                 std::move(ratio),
                                 row.unit};
  if (columns.samples && row.sample) {
    cells.insert(cells.end(),
                 {short_number(row.sample->standard_error), short_number(row.sample->low),
                  short_number(row.sample->high), std::to_string(row.sample->count)});
  } else if (columns.samples) {
    cells.insert(cells.end(), 4, "-");
  }
  if (columns.shares && row.shares) {
    cells.insert(cells.end(), {percent(row.shares->degraded), percent(row.shares->skipped),
                               percent(row.shares->missed)});
  } else if (columns.shares) {
    cells.insert(cells.end(), 3, "-");
  }
  if (columns.dropouts) cells.push_back(row.shares ? percent(row.shares->dropped_out) : "-");
  return cells;
}

Json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json row_json(const FigureRow& row) {
  const auto of_sample = [&row](double Sample::*value) {
    return row.sample ? number_or_null((*row.sample).*value) : Json(nullptr);
  };
  const auto share = [&row](double BlockShares::*value) {
    return row.shares ? number_or_null((*row.shares).*value) : Json(nullptr);
  };
  return {{"figure", row.figure},
          {"series", row.series},
          {"x", number_or_null(row.x)},
          {"paper", number_or_null(row.paper)},
          {"here", number_or_null(row.here)},
          {"unit", row.unit},
          {"spread", of_sample(&Sample::deviation)},
          {"standard_error", of_sample(&Sample::standard_error)},
          {"low", of_sample(&Sample::low)},
          {"high", of_sample(&Sample::high)},
          {"seeds", row.sample ? row.sample->count : 1},
          {"degraded", share(&BlockShares::degraded)},
          {"skipped", share(&BlockShares::skipped)},
          {"missed", share(&BlockShares::missed)},
          {"dropped_out", share(&BlockShares::dropped_out)},
          {"dropout_iteration", share(&BlockShares::dropout_iteration)},
          {"explained", row.explained.empty() ? Json(nullptr) : Json(row.explained)},
          {"seed", row.seed},
          {"settings", row.settings.empty() ? Json(nullptr) : Json(row.settings)},
          {"model_digest", row.model_digest.empty() ? Json(nullptr) : Json(row.model_digest)}};
}

std::string csv_cell(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return csv_field(value.get<std::string>());
  // fmt writes whole numbers without ".0".
  return value.is_number_float() ? fmt::format("{}", value.get<double>()) : value.dump();
}

}  // namespace

std::string short_number(double value) {
  if (!std::isfinite(value)) return "-";
  if (value == 0.0) return "0";
  const double size = std::fabs(value);
  if (size < 1e-4 || size >= 1e6) return fmt::format("{:.4g}", value);
  // Enough decimals for four significant digits; all digits before the point stay.
  const int before = static_cast<int>(std::floor(std::log10(size))) + 1;
  std::string text = fmt::format("{:.{}f}", value, std::max(0, 4 - before));
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

RowTable table_of(std::span<const FigureRow> rows, const std::string& x_name) {
  const Columns columns(rows);
  RowTable table{.lines = {table_head(columns, x_name)}, .explanations = columns.explanations};
  for (const FigureRow& row : rows) table.lines.push_back(table_line(row, columns));
  return table;
}

std::string as_table(std::span<const FigureRow> rows, const std::string& x_name) {
  RowTable cells = table_of(rows, x_name);
  TextTable table({0, 5});
  for (std::vector<std::string>& line : cells.lines) table.add(std::move(line));
  std::string text = table.text();
  for (size_t i = 0; i < cells.explanations.size(); i++) {
    text += fmt::format("[{}] {}\n", i + 1, cells.explanations[i]);
  }
  return text;
}

std::string as_json(std::span<const FigureRow> rows) {
  std::string text = "[";
  for (size_t i = 0; i < rows.size(); i++) {
    text += i == 0 ? "\n" : ",\n";
    text += row_json(rows[i]).dump();
  }
  return text + (rows.empty() ? "]\n" : "\n]\n");
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string as_csv(std::span<const FigureRow> rows) {
  std::vector<std::string> cells;
  const Json head = row_json({});
  for (const auto& [key, value] : head.items()) cells.push_back(key);
  std::string text = fmt::format("{}\n", fmt::join(cells, ","));
  for (const FigureRow& row : rows) {
    cells.clear();
    const Json json = row_json(row);
    for (const auto& [key, value] : json.items()) cells.push_back(csv_cell(value));
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

}  // namespace tributary::lab
