// SPDX-License-Identifier: Apache-2.0
#include "server/control/late_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/control/history.h"

namespace tributary::control {

using nlohmann::json;

void add_lateness(Cells& cells, const json& lateness_ms) {
  const int64_t now = lateness_ms.empty() ? 0 : lateness_ms.back().get<int64_t>();
  int64_t longest = 0;
  for (const json& each : lateness_ms) longest = std::max(longest, each.get<int64_t>());
  const bool is_bad = milliseconds(now) > kStallShown;
  cells.push_back(Cell::text(duration_text(now), is_bad ? "bad" : ""));
  cells.push_back(Cell::text(duration_text(longest)));
  cells.push_back(Cell::html(lateness_strip(lateness_ms)));
}

std::string late_rows(const json& lateness) {
  std::vector<Cells> rows;
  for (const json& row : lateness) {
    Cells cells{Cell::text(std::to_string(row["job"].get<uint32_t>())),
                Cell::text(ranks_text(row["ranks"]))};
    add_lateness(cells, row["lateness_ms"]);
    rows.push_back(std::move(cells));
  }
  return table_rows(rows, "There is no rank.");
}

std::string left_out_text(const json& history) {
  const auto count = history["lateness_left_out"].get<uint64_t>();
  if (count == 0) return {};
  return fmt::format("{} ranks with less lateness are on the pages of the jobs.", count);
}

/// Makes one row for each rank that reports the beginnings of all-reduces. A drawing cannot show an
/// unknown lateness, so it shows 0 instead.
std::string begin_rows(const json& sources, const json& all_reduces) {
  std::vector<Cells> rows;
  for (size_t i = 0; i < all_reduces["lateness_ms"].size() && i < sources.size(); i++) {
    json lateness = all_reduces["lateness_ms"][i];
    const auto is_unknown = [](const json& each) { return each.is_null(); };
    if (std::ranges::all_of(lateness, is_unknown)) continue;
    std::ranges::replace_if(lateness, is_unknown, json(0));
    Cells cells{Cell::text(ranks_text(sources[i]["ranks"]))};
    add_lateness(cells, lateness);
    rows.push_back(std::move(cells));
  }
  return table_rows(rows, "No worker has reported an all-reduce of this session.");
}

std::string begin_range_text(const json& all_reduces) {
  const json& numbers = all_reduces["numbers"];
  if (numbers.empty()) return {};
  return fmt::format("All-reduces {} to {}, {} of them.",
                     count_text(numbers.front().get<uint64_t>()),
                     count_text(numbers.back().get<uint64_t>()), count_text(numbers.size()));
}

}  // namespace tributary::control
