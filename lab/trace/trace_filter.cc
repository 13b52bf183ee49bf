// SPDX-License-Identifier: Apache-2.0
#include "lab/trace/trace_filter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "base/key_table.h"

namespace tributary::lab {
namespace {

std::optional<uint64_t> number_in(const TraceEvent& event, const std::string& name) {
  const TraceValue* value = event.find(name);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<uint64_t>(value)) return *number;
  if (const auto* number = std::get_if<int64_t>(value); number != nullptr && *number >= 0) {
    return static_cast<uint64_t>(*number);
  }
  if (const auto* hex = std::get_if<TraceHex>(value)) return hex->value;
  return std::nullopt;
}

}  // namespace

Result<std::set<TraceKind>> parse_trace_kinds(const std::string& text) {
  std::set<TraceKind> kinds;
  std::istringstream words(text);
  std::string word;
  while (std::getline(words, word, ',')) {
    const auto kind = trace_kind(word);
    if (!kind) {
      std::vector<std::string> allowed;
      for (uint32_t i = 0; i < kTraceKindCount; i++) {
        allowed.emplace_back(to_string(static_cast<TraceKind>(i)));
      }
      return failure(unknown_name("kind", word, allowed));
    }
    kinds.insert(*kind);
  }
  return kinds;
}

TraceSelector::TraceSelector(TraceFilter filter) : filter_(std::move(filter)) {
  const auto add = [&](const char* name, const std::optional<uint64_t>& value) {
    if (value) conditions_.push_back({.name = name, .value = *value});
  };
  add("job", filter_.job);
  add("block", filter_.block);
  add("slot", filter_.slot);
  add("port", filter_.port);
  add("source", filter_.source);
}

void TraceSelector::learn(const TraceEvent& event) {
  if (conditions_.empty() || event.packet == 0) return;
  if (event.kind != TraceKind::kArrive && event.kind != TraceKind::kHeader) return;
  auto& of_node = about_[event.node];
  About& about = of_node.try_emplace(event.packet, conditions_.size()).first->second;
  for (size_t i = 0; i < conditions_.size(); i++) {
    const auto number = number_in(event, conditions_[i].name);
    if (!number) continue;
    if (!about[i]) about[i] = number;
    conditions_[i].seen_min = std::min(conditions_[i].seen_min, *number);
    conditions_[i].seen_max = std::max(conditions_[i].seen_max, *number);
  }
  if (of_node.size() > kPacketsKnown) of_node.erase(of_node.begin());
}

bool TraceSelector::is_about(const TraceEvent& event, size_t condition) const {
  const uint64_t wanted = conditions_[condition].value;
  if (number_in(event, conditions_[condition].name) == wanted) return true;
  const auto of_node = about_.find(event.node);
  if (of_node == about_.end()) return false;
  const auto known = of_node->second.find(event.packet);
  return known != of_node->second.end() && known->second[condition] == wanted;
}

std::string TraceSelector::values_seen_text() const {
  std::string text;
  for (const Condition& condition : conditions_) {
    text += fmt::format("{}={} was asked for, ", condition.name, condition.value);
    text += condition.seen_min > condition.seen_max
                ? "no packet had one; "
                : fmt::format("there were {} to {}; ", condition.seen_min, condition.seen_max);
  }
  return text;
}

bool TraceSelector::wants(const TraceEvent& event) {
  learn(event);
  if (event.at < filter_.from || event.at > filter_.to) return false;
  if (!filter_.node.empty() && event.node != filter_.node) return false;
  if (filter_.packet && event.packet != *filter_.packet) return false;
  if (!filter_.kinds.empty() && !filter_.kinds.contains(event.kind)) return false;
  for (size_t i = 0; i < conditions_.size(); i++) {
    if (!is_about(event, i)) return false;
  }
  return true;
}

}  // namespace tributary::lab
