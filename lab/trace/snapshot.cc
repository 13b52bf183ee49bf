// SPDX-License-Identifier: Apache-2.0
#include "lab/trace/snapshot.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text_table.h"
#include "lab/trace/time_text.h"

namespace tributary::lab {

std::string snapshot_text(const NodeSnapshot& snapshot, Instant at) {
  std::string text = fmt::format("{} at {}:\n", snapshot.node, time_text(at.since_start()));
  if (snapshot.tables.empty()) return text + "  nothing to show: its inside is not modelled\n";
  for (const SnapshotTable& table : snapshot.tables) {
    text += fmt::format("\n{}: {}\n", table.name, table.title);
    if (table.rows.empty()) continue;
    TextTable lines(table.text_columns);
    lines.add(table.columns);
    for (const auto& row : table.rows) lines.add(row);
    text += lines.text();
    if (table.rows_left_out > 0) text += fmt::format("… {} more\n", table.rows_left_out);
  }
  return text;
}

std::string snapshot_json_line(const NodeSnapshot& snapshot, Instant at) {
  using Json = nlohmann::ordered_json;
  Json json{{"node", snapshot.node}, {"at_ns", nanoseconds_number(at.since_start())}};
  for (const SnapshotTable& table : snapshot.tables) {
    Json rows = Json::array();
    for (const auto& row : table.rows) {
      Json cells = Json::object();
      for (size_t i = 0; i < row.size(); i++) cells[table.columns[i]] = row[i];
      rows.push_back(std::move(cells));
    }
    json[table.name] = std::move(rows);
    if (table.rows_left_out > 0) json[table.name + "_left_out"] = table.rows_left_out;
  }
  return json.dump() + '\n';
}

}  // namespace tributary::lab
