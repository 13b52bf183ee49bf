// SPDX-License-Identifier: Apache-2.0
#include "lab/trace/trace_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "lab/trace/time_text.h"

namespace tributary::lab {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the meaning of a line's first word, for readers new to the chips.
const char* meaning(TraceKind kind) {
  switch (kind) {
    case TraceKind::kArrive:
      return "the packet's last bit is here";
    case TraceKind::kSend:
      return "a packet leaves";
    case TraceKind::kDrop:
      return "the packet is dropped; the name of its counter";
    case TraceKind::kLink:
      return "the packet's last bit leaves the link's sender";
    case TraceKind::kThread:
      return "a thread of a packet processing engine (PPE) begins";
    case TraceKind::kInstruction:
      return "the thread executes a microcode instruction";
    case TraceKind::kRequest:
      return "the thread asks memory or hash unit for something (XTXN)";
    case TraceKind::kReply:
      return "the reply has arrived; the fields show the parts of the wait";
    case TraceKind::kEnd:
      return "the thread is done and free for another packet";
    case TraceKind::kHold:
      return "the packet waits until earlier ones of its sender are done";
    case TraceKind::kPass:
      return "the packet goes through a pipeline";
    case TraceKind::kParser:
      return "the parser is in this state";
    case TraceKind::kHeader:
      return "the parser has read this header";
    case TraceKind::kTable:
      return "a table is looked up in, and its action done";
    case TraceKind::kGateway:
      return "a condition decides which tables come next";
    case TraceKind::kRegister:
      return "a stateful ALU reads and changes a register";
    case TraceKind::kField:
      return "an action changes a field of the packet";
    case TraceKind::kTraffic:
      return "the traffic manager decides where the packet goes";
  }
  return "";
}

std::string fields_text(const TraceEvent& event) {
  std::string text;
  for (const TraceField& field : event.fields) {
    if (!text.empty()) text += "  ";
    text += fmt::format("{}={}", field.name, trace_value_text(field.value));
  }
  return text;
}

/// Returns the length of the longest text, for the width of a column.
template <class F>
size_t width_of(const std::vector<const TraceEvent*>& events, F&& text_of) {
  size_t width = 0;
  for (const TraceEvent* event : events) width = std::max(width, text_of(*event).size());
  return width;
}

/// Orders by time, then by arrival: the events lie in one vector in arrival order.
bool is_before(const TraceEvent* a, const TraceEvent* b) {
  return std::pair(a->at, a) < std::pair(b->at, b);
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

/// Groups are ordered by their first event. Events without a packet are grouped by thread.
struct GroupKey {
  std::string node;
  uint64_t packet;
  uint64_t thread_run;  ///< Without a packet: the start of a thread, or a single event.
  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};

class Grouping {
 public:
  void add(const TraceEvent& event) {
    GroupKey key{event.node, event.packet, 0};
    if (event.packet == 0) key.thread_run = run_of(event);
    const auto [place, is_new] = index_.try_emplace(key, groups_.size());
    if (is_new) groups_.emplace_back();
    groups_[place->second].push_back(&event);
  }
  [[nodiscard]] std::vector<std::vector<const TraceEvent*>> take() {
    for (auto& group : groups_) {
      std::sort(group.begin(), group.end(), is_before);
    }
    return std::move(groups_);
  }

 private:
  uint64_t run_of(const TraceEvent& event) {
    const TraceValue* thread = event.find("thread");
    if (thread == nullptr) return ++runs_;
    uint64_t& run = run_by_thread_[event.node + ' ' + trace_value_text(*thread)];
    if (run == 0 || event.kind == TraceKind::kThread) run = ++runs_;
    return run;
  }

  std::map<GroupKey, size_t> index_;
  std::vector<std::vector<const TraceEvent*>> groups_;
  std::map<std::string, uint64_t> run_by_thread_;
  uint64_t runs_ = 0;
};

std::string head_of(const std::vector<const TraceEvent*>& group) {
  const TraceEvent& first = *group.front();
  const std::string about =
      first.packet == 0
          ? std::string(first.kind == TraceKind::kLink ? "a packet" : "a timer's thread")
          : fmt::format("packet {}", first.packet);
  return fmt::format("{}, {}, at {}:\n", first.node, about, time_text(first.at.since_start()));
}

std::string group_text(const std::vector<const TraceEvent*>& group) {
  const Instant begin = group.front()->at;
  const auto relative = [&](const TraceEvent& event) {
    return fmt::format("+{}", nanoseconds_text(event.at - begin));
  };
  const size_t time_width = width_of(group, relative);
  const size_t what_width = width_of(group, [](const TraceEvent& event) { return event.what; });
  std::string text = head_of(group);
  for (const TraceEvent* event : group) {
    text +=
        trimmed(fmt::format("  {:>{}} ns  {:<11}  {:<{}}  {}", relative(*event), time_width,
                            to_string(event->kind), event->what, what_width, fields_text(*event))) +
        '\n';
  }
  return text;
}

std::string ending(const TraceLog& log) {
  std::set<TraceKind> used;
  for (const TraceEvent& event : log.events()) used.insert(event.kind);
  std::string text;
  for (const TraceKind kind : used) {
    text += fmt::format("  {:<11}  {}\n", to_string(kind), meaning(kind));
  }
  if (!text.empty()) text = "What the lines say:\n" + text;
  if (log.more_count() > 0) text += fmt::format("… {} more\n", log.more_count());
  return text;
}

std::vector<const TraceEvent*> by_time(const TraceLog& log) {
  std::vector<const TraceEvent*> events;
  for (const TraceEvent& event : log.events()) events.push_back(&event);
  std::sort(events.begin(), events.end(), is_before);
  return events;
}

struct JsonValue {
  Json operator()(TraceHex value) const { return value.value; }
  Json operator()(Duration value) const { return nanoseconds_number(value); }
  template <class T>
  Json operator()(const T& value) const {
    return value;
  }
};

Json json_of(const TraceEvent& event) {
  Json fields = Json::object();
  for (const TraceField& field : event.fields) {
    // A duration's key ends with its unit, as in all files of this project.
    const bool is_time = std::holds_alternative<Duration>(field.value);
    fields[is_time ? field.name + "_ns" : field.name] = std::visit(JsonValue{}, field.value);
  }
  return {{"at_ns", nanoseconds_number(event.at.since_start())},
          {"node", event.node},
          {"packet", event.packet},
          {"kind", to_string(event.kind)},
          {"what", event.what},
          {"fields", std::move(fields)}};
}

}  // namespace

void TraceLog::on_event(const TraceEvent& event) {
  seen_count_++;
  if (!selector_.wants(event)) return;
  if (events_.size() < limit_) {
    events_.push_back(event);
  } else {
    more_count_++;
  }
}

std::string trace_text(const TraceLog& log) {
  Grouping grouping;
  for (const TraceEvent& event : log.events()) grouping.add(event);
  std::string text;
  for (const auto& group : grouping.take()) text += group_text(group) + '\n';
  return text + ending(log);
}

std::string event_line(const TraceEvent& event) {
  const std::string packet = event.packet == 0 ? "-" : fmt::format("{}", event.packet);
  return trimmed(fmt::format("{:>14}  {}  {:>4}  {:<11}  {}  {}",
                             nanoseconds_text(event.at.since_start()), event.node, packet,
                             to_string(event.kind), event.what, fields_text(event)));
}

std::string trace_text_by_time(const TraceLog& log) {
  std::string text;
  for (const TraceEvent* event : by_time(log)) text += event_line(*event) + '\n';
  return text + ending(log);
}

std::string trace_json_lines(const TraceLog& log) {
  std::string text;
  for (const TraceEvent* event : by_time(log)) text += json_of(*event).dump() + '\n';
  return text + Json{{"more", log.more_count()}}.dump() + '\n';
}

}  // namespace tributary::lab
