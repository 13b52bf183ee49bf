// SPDX-License-Identifier: Apache-2.0
#include "cli/lab/stepper.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/key_table.h"
#include "base/number_text.h"
#include "lab/trace/time_text.h"
#include "lab/trace/trace_log.h"
#include "net/network.h"

namespace tributary::cli {

// --- The run's side -----------------------------------------------------------------------------

Result<void> Stepper::begin(const lab::RunInside& inside) {
  inside_.emplace(inside);
  for (lab::InspectedNode* const node : inside.aggregators) {
    const bool modelled = node->set_trace(*this);
    if (node_ == nullptr && modelled) node_ = node;
  }
  if (node_ == nullptr && !inside.aggregators.empty()) node_ = inside.aggregators.front();
  console_.write("Nothing has happened yet. 'help' lists the commands.\n");
  return {};
}

void Stepper::on_event(const TraceEvent& event) {
  if (goal_ == Goal::kPacket && event.kind == TraceKind::kArrive) {
    hit_ |= !packet_wanted_ || event.packet == *packet_wanted_;
  }
  if (match_ != nullptr) hit_ |= match_->wants(event);
  if (!shows()) return;
  lines_++;
  if (lines_ <= kLinesMax) console_.write(lab::event_line(event) + "\n");
}

bool Stepper::shows() const {
  if (show_ != Show::kSteps) return show_ == Show::kAlways;
  return goal_ == Goal::kEvents || goal_ == Goal::kPacket;
}

bool Stepper::reached(Instant next) const {
  switch (goal_) {
    case Goal::kEvents:
      return events_left_ == 0;
    case Goal::kPacket:
    case Goal::kMatch:
      return hit_;
    case Goal::kTime:
      return next > until_;
    case Goal::kEnd:
      return false;
  }
  return false;
}

void Stepper::report_stop() {
  if (lines_ > kLinesMax) console_.write(fmt::format("… {} more\n", lines_ - kLinesMax));
  if (goal_ == Goal::kEvents && shows() && lines_ == 0 && inside_->core.executed_count() > 0) {
    console_.write("nothing inside the modelled machines: links and workers\n");
  }
  lines_ = 0;
}

bool Stepper::before_event(Instant next) {
  next_at_ = next;
  if (!reached(next)) {
    if (goal_ == Goal::kEvents) events_left_--;
    return true;
  }
  report_stop();
  here_ = goal_ == Goal::kTime ? until_ : inside_->core.now();
  for (;;) {
    console_.write(fmt::format("[{}] ", lab::time_text(here_.since_start())));
    const auto line = console_.read_line();
    if (!line) {
      quit_ = true;
      return false;
    }
    std::istringstream stream(*line);
    Words words{std::istream_iterator<std::string>(stream), {}};
    if (words.empty()) continue;
    if (const Next go_on = execute(words)) return *go_on;
  }
}

void Stepper::end() {
  report_stop();
  const std::string at = lab::time_text(inside_->core.now().since_start());
  console_.write(fmt::format("{} at {}\n", quit_ ? "left" : "the run has ended", at));
}

// --- Commands -----------------------------------------------------------------------------------

struct Stepper::Command {
  std::string name;
  Next (Stepper::*run)(const Words& words);
  std::string use;
  std::string text;
};

const std::vector<Stepper::Command>& Stepper::commands() {
  static const std::vector<Command> commands{
      {"next", &Stepper::next, "next [N]", "the next event, or the next N"},
      {"packet", &Stepper::packet, "packet [N]", "go on until a packet, or packet N, arrives"},
      {"until", &Stepper::until, "until TIME", "go on to a time, as in: until 12us"},
      {"block", &Stepper::match, "block N", "go on until something happens to block N"},
      {"slot", &Stepper::match, "slot N", "go on until something happens to slot N"},
      {"run", &Stepper::run, "run", "go on to the end"},
      {"print", &Stepper::print, "print TABLE [N] [all]",
       "the inside of the node; without TABLE: what there is. N: one row, or one slot's"},
      {"where", &Stepper::where, "where", "time, node, what comes next"},
      {"node", &Stepper::node, "node NAME", "print another node's inside"},
      {"show", &Stepper::show, "show steps|always|never",
       "what happens is shown for next and packet, for every command, or for none"},
      {"help", &Stepper::help, "help", "this list"},
      {"quit", &Stepper::leave, "quit", "end the run here"},
  };
  return commands;
}

Stepper::Next Stepper::execute(const Words& words) {
  for (const Command& command : commands()) {
    if (command.name == words[0]) return (this->*command.run)(words);
  }
  std::vector<std::string> names;
  for (const Command& command : commands()) names.push_back(command.name);
  return complain(unknown_name("command", words[0], names));
}

Stepper::Next Stepper::complain(std::string_view text) {
  console_.write(fmt::format("{}\n", text));
  return std::nullopt;
}

std::optional<uint64_t> Stepper::number(const Words& words, std::optional<uint64_t> fallback) {
  if (words.size() < 2 && fallback) return fallback;
  const std::string text = words.size() < 2 ? "" : words[1];
  const auto value = parse_number<uint64_t>(text);
  if (words.size() <= 2 && value) return value;
  complain(fmt::format("{}: '{}' is not allowed; allowed: one whole number, 0 or more", words[0],
                       fmt::join(words.begin() + 1, words.end(), " ")));
  return std::nullopt;
}

void Stepper::go_for(Goal goal) {
  goal_ = goal;
  hit_ = false;
  match_ = nullptr;
  lines_ = 0;
}

Stepper::Next Stepper::next(const Words& words) {
  const auto count = number(words, 1);
  if (!count) return std::nullopt;
  if (*count == 0) return complain("next: 0 is not allowed; allowed: a whole number, 1 or more");
  go_for(Goal::kEvents);
  events_left_ = *count - 1;
  return true;
}

Stepper::Next Stepper::packet(const Words& words) {
  packet_wanted_ = std::nullopt;
  if (words.size() > 1) {
    packet_wanted_ = number(words, std::nullopt);
    if (!packet_wanted_) return std::nullopt;
  }
  go_for(Goal::kPacket);
  return true;
}

Stepper::Next Stepper::until(const Words& words) {
  const auto time = lab::parse_time(words.size() == 2 ? words[1] : "");
  if (!time) return complain("until: " + time.error().text);
  if (Instant(*time) < here_) {
    return complain(fmt::format("until: {} is over; allowed: from {} on", words[1],
                                lab::time_text(here_.since_start())));
  }
  go_for(Goal::kTime);
  until_ = Instant(*time);
  if (next_at_ <= until_) return true;
  here_ = until_;  // Nothing happens until then.
  return std::nullopt;
}

Stepper::Next Stepper::match(const Words& words) {
  const auto wanted = number(words, std::nullopt);
  if (!wanted) return std::nullopt;
  lab::TraceFilter filter;
  (words[0] == "block" ? filter.block : filter.slot) = *wanted;
  go_for(Goal::kMatch);
  match_ = std::make_unique<lab::TraceSelector>(filter);
  return true;
}

Stepper::Next Stepper::run(const Words&) {
  go_for(Goal::kEnd);
  return true;
}

Stepper::Next Stepper::leave(const Words&) {
  quit_ = true;
  return false;
}

Stepper::Next Stepper::where(const Words&) {
  console_.write(fmt::format("at {}, after {} events; the next one is at {}; print shows {}\n",
                             lab::time_text(here_.since_start()), inside_->core.executed_count(),
                             lab::time_text(next_at_.since_start()),
                             node_ == nullptr ? "no node" : node_->name()));
  return std::nullopt;
}

Stepper::Next Stepper::node(const Words& words) {
  std::vector<std::string> names;
  for (lab::InspectedNode* const node : inside_->aggregators) {
    names.push_back(node->name());
    if (words.size() == 2 && node->name() == words[1]) {
      node_ = node;
      return where(words);
    }
  }
  return complain(unknown_name("node", words.size() < 2 ? "" : words[1], names));
}

Stepper::Next Stepper::show(const Words& words) {
  const std::vector<std::string> choices{"steps", "always", "never"};
  const auto chosen = std::find(choices.begin(), choices.end(), words.size() < 2 ? "" : words[1]);
  if (chosen == choices.end()) {
    return complain(unknown_name("choice", words.size() < 2 ? "" : words[1], choices));
  }
  show_ = static_cast<Show>(chosen - choices.begin());
  return std::nullopt;
}

Stepper::Next Stepper::help(const Words&) {
  for (const Command& command : commands()) {
    console_.write(fmt::format("  {:<24} {}\n", command.use, command.text));
  }
  return std::nullopt;
}

// --- Printing -----------------------------------------------------------------------------------

lab::SnapshotTable Stepper::links_table() const {
  lab::SnapshotTable table{.name = "links",
                           .title = "what each has sent, and what waits to be",
                           .columns = {"link", "packets", "bytes", "queue bytes"},
                           .rows = {},
                           .text_columns = {0}};
  for (net::LinkId link = 0; link < inside_->network.link_count(); link++) {
    const net::LinkCounters counters = inside_->network.counters(link);
    table.add(
        {inside_->network.link_name(link), fmt::format("{}", counters.packets),
         fmt::format("{}", counters.bytes), fmt::format("{}", inside_->network.queue_bytes(link))},
        kLinesMax);
  }
  return table;
}

namespace {

constexpr char kAll[] = "all";

/// Tells whether the node's snapshot selects a table's row by number. print_table() selects the
/// rows of other tables, by their first cell.
bool snapshot_selects_row(const std::string& table) {
  return table == "blocks" || table == "registers";
}

}  // namespace

void Stepper::print_table(const lab::NodeSnapshot& snapshot, const std::string& name,
                          std::optional<uint64_t> row) {
  std::vector<std::string> names;
  for (const lab::SnapshotTable& table : snapshot.tables) {
    names.push_back(table.name);
    if (table.name != name) continue;
    lab::SnapshotTable one = table;
    if (row && !snapshot_selects_row(name)) {
      std::erase_if(one.rows, [&](const auto& cells) { return cells[0] != std::to_string(*row); });
    }
    if (row && one.rows.empty()) {
      complain(fmt::format("print: there is no {} in {}; 'print {}' lists them", *row, name, name));
      return;
    }
    console_.write(lab::snapshot_text({snapshot.node, {one}}, here_));
    if (one.rows_left_out > 0) {
      const std::string chosen = row ? fmt::format("{} ", *row) : "";
      console_.write(fmt::format("'print {} {}{}' shows them\n", name, chosen, kAll));
    }
    return;
  }
  complain(unknown_name("table", name, names));
}

Stepper::Next Stepper::print(const Words& asked) {
  Words words = asked;
  const bool all = words.size() > 2 && words.back() == kAll;
  if (all) words.pop_back();
  std::optional<uint64_t> row;
  if (words.size() > 2) {
    row = number({words.begin() + 1, words.end()}, std::nullopt);
    if (!row) return std::nullopt;
  }
  lab::NodeSnapshot snapshot;
  if (node_ != nullptr) {
    lab::SnapshotRequest request{.at = here_, .block = {}, .slot = {}};
    if (words.size() > 2 && words[1] == "blocks") request.block = row;
    if (words.size() > 2 && words[1] == "registers") request.slot = row;
    // print_table() looks for the row among all rows.
    if (all || (row && !snapshot_selects_row(words[1]))) request.rows_max = SIZE_MAX;
    snapshot = node_->snapshot(request);
  }
  snapshot.tables.push_back(links_table());
  if (words.size() > 1) {
    print_table(snapshot, words[1], row);
    return std::nullopt;
  }
  for (const lab::SnapshotTable& table : snapshot.tables) {
    console_.write(fmt::format("  {:<10} {}\n", table.name, table.title));
  }
  return std::nullopt;
}

}  // namespace tributary::cli
