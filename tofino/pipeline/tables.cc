// SPDX-License-Identifier: Apache-2.0
#include "tofino/pipeline/tables.h"

#include <fmt/format.h>

#include "tofino/compile/check.h"

namespace tributary::tofino {

Tables::Tables(std::shared_ptr<const Program> program) : program_(std::move(program)) {
  for (const Table& table : program_->tables) state_.push_back(state_of(table, table.entries));
  classify();
}

void Tables::classify() {
  generation_++;
  match_class_.clear();
  for (TableId id = 0; id < state_.size(); id++) {
    TableId first = 0;
    while (!state_[first].match.has_same_matches(state_[id].match)) first++;
    match_class_.push_back(first);
  }
}

Tables::State Tables::state_of(const Table& table, std::vector<Entry> entries) const {
  MatchTable match(*program_, table, entries);
  State state{std::move(entries), std::move(match), {}, {}};
  const auto add_row = [&](ActionId action, const std::vector<uint32_t>& parameters) {
    state.rows.push_back({action, static_cast<uint32_t>(state.parameters.size())});
    state.parameters.insert(state.parameters.end(), parameters.begin(), parameters.end());
  };
  for (const Entry& entry : state.entries) add_row(entry.action, entry.parameters);
  add_row(table.default_action, table.default_parameters);
  return state;
}

Result<TableId> Tables::find(std::string_view name) const {
  for (TableId id = 0; id < program_->tables.size(); id++) {
    if (program_->tables[id].name == name) return id;
  }
  return failure(fmt::format("program '{}' has no table '{}'", program_->name, name));
}

Result<ActionId> Tables::find_action(std::string_view name) const {
  for (ActionId id = 0; id < program_->actions.size(); id++) {
    if (program_->actions[id].name == name) return id;
  }
  return failure(fmt::format("program '{}' has no action '{}'", program_->name, name));
}

Result<void> Tables::set_entries(TableId table, std::vector<Entry> entries) {
  const Table& shape = program_->tables[table];
  if (entries.size() > shape.size) {
    return failure(fmt::format("table '{}': {} entries; its size is {}", shape.name, entries.size(),
                               shape.size));
  }
  for (const Entry& entry : entries) {
    if (auto good = check_entry(*program_, shape, entry); !good) return good;
  }
  state_[table] = state_of(shape, std::move(entries));
  classify();
  return {};
}

Result<void> Tables::add_entry(TableId table, Entry entry) {
  std::vector<Entry> entries = state_[table].entries;
  entries.push_back(std::move(entry));
  return set_entries(table, std::move(entries));
}

}  // namespace tributary::tofino
