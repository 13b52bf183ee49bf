// SPDX-License-Identifier: Apache-2.0
#include "lab/report/figure_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "lab/report/text_table.h"

namespace tributary::lab {
namespace {

using Json = nlohmann::ordered_json;

std::string ratio_of(const FigureRow& row) {
  if (!row.paper || *row.paper == 0.0) return "-";
  return fmt::format("{:.3f}", row.here / *row.paper);
}

std::vector<std::string> table_line(const FigureRow& row) {
  std::string here = short_number(row.here);
  if (row.spread) here += " ±" + short_number(*row.spread);
  return {row.series, short_number(row.x), row.paper ? short_number(*row.paper) : "-",
          here,       ratio_of(row),       row.unit};
}

Json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

std::string number_or_nothing(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : std::string();
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

std::string as_table(std::span<const FigureRow> rows, const std::string& x_name) {
  TextTable table({0, 5});
  table.add({"series", x_name, "paper", "here", "ratio", "unit"});
  for (const FigureRow& row : rows) table.add(table_line(row));
  return table.text();
}

std::string as_json(std::span<const FigureRow> rows) {
  std::string text = "[";
  for (size_t i = 0; i < rows.size(); i++) {
    const FigureRow& row = rows[i];
    const Json json{{"figure", row.figure},
                    {"series", row.series},
                    {"x", number_or_null(row.x)},
                    {"paper", number_or_null(row.paper)},
                    {"here", number_or_null(row.here)},
                    {"unit", row.unit},
                    {"spread", number_or_null(row.spread)},
                    {"seed", row.seed}};
    text += i == 0 ? "\n" : ",\n";
    text += json.dump();
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
  std::string text = "figure,series,x,paper,here,unit,spread,seed\n";
  for (const FigureRow& row : rows) {
    text += fmt::format("{},{},{},{},{},{},{},{}\n", csv_field(row.figure), csv_field(row.series),
                        number_or_nothing(row.x), number_or_nothing(row.paper),
                        number_or_nothing(row.here), csv_field(row.unit),
                        number_or_nothing(row.spread), row.seed);
  }
  return text;
}

}  // namespace tributary::lab
