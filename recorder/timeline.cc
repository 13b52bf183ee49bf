// SPDX-License-Identifier: Apache-2.0
#include "recorder/timeline.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/time.h"

namespace tributary::recorder {
namespace {

/// Adds modulo 2^64: a file may state any number.
int64_t sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

/// Compares the whole field, and so the time namespaces too.
bool has_clock_of(const FileHeader& a, const FileHeader& b) {
  return a.boot == b.boot && a.boot[0] != '\0';
}

/// Returns the offset from the times of a recording to UTC.
int64_t to_utc(const Recording& recording, const Recording& first) {
  if (!has_clock_of(recording.header, first.header)) return recording.header.to_realtime_ns;
  // By the clock that both share, so that a step of the wall clock between the files has no effect.
  const int64_t shared =
      sum(first.header.to_realtime_ns, -std::max(first.header.to_monotonic_ns, -INT64_MAX));
  return sum(recording.header.to_monotonic_ns, shared);
}

std::string blocks_text(const Event& event) {
  if (event.count == 0) return {};
  if (event.count == 1) return fmt::format("block {}", event.block);
  // Block ids wrap.
  return fmt::format("blocks {}-{}", event.block, event.block + event.count - 1);
}

std::string recording_line(const Recording& recording) {
  const FileHeader& header = recording.header;
  std::string text = fmt::format(
      "{}: {}, host {}, pid {}, written {} UTC ({}{}): {} events, {} lost{}\n",
      recording.path.empty() ? "recording" : recording.path, recording.title(), recording.host,
      header.pid, time_text(sum(header.at_ns, header.to_realtime_ns)), name_of(header.cause),
      header.signal == 0 ? "" : fmt::format(", signal {}", header.signal), recording.event_count(),
      recording.lost(),
      recording.left_out() == 0 ? "" : fmt::format(", {} left out", recording.left_out()));
  for (const Section& section : recording.sections) {
    if (section.damaged == 0) continue;
    text += fmt::format("  {}: {} damaged entries\n", recording.track_of(section), section.damaged);
  }
  if (!recording.problem.empty()) text += fmt::format("  incomplete: {}\n", recording.problem);
  return text;
}

std::string event_line(const Recording& recording, const TimedEvent& timed) {
  const Event& event = timed.event;
  std::string text =
      fmt::format("{}  {:<22} {:<19} job {}", time_text(timed.at_ns),
                  recording.title() + " " + recording.track_of(recording.sections[timed.section]),
                  name_of(event.kind), event.job);
  if (event.rank != kNoRank) text += fmt::format(" rank {}", event.rank);
  if (event.count > 0) text += " " + blocks_text(event);
  if (const std::string detail = recording.detail_of(event); !detail.empty()) text += " " + detail;
  if (is_wait(event.kind)) text += fmt::format(" for {} ms", event.value);
  if (event.kind == Kind::kSessionStarted) text += fmt::format(" sources {}", event.value);
  if (event.open) text += " (goes on)";
  return text + "\n";
}

nlohmann::ordered_json file_json(const Recording& recording) {
  return {{"path", recording.path},
          {"title", recording.title()},
          {"host", recording.host},
          {"pid", recording.header.pid},
          {"cause", name_of(recording.header.cause)},
          {"signal", recording.header.signal},
          {"events", recording.event_count()},
          {"lost", recording.lost()},
          {"left_out", recording.left_out()},
          {"problem", recording.problem}};
}

nlohmann::ordered_json row_json(const Recording& recording, const TimedEvent& timed) {
  const Event& event = timed.event;
  nlohmann::ordered_json row{{"at_ns", timed.at_ns},
                             {"file", timed.recording},
                             {"track", recording.track_of(recording.sections[timed.section])},
                             {"event", name_of(event.kind)},
                             {"job", event.job}};
  if (event.rank != kNoRank) row["rank"] = event.rank;
  if (event.count > 0) row.update({{"block", event.block}, {"blocks", event.count}});
  if (std::string detail = recording.detail_of(event); !detail.empty()) {
    row["detail"] = std::move(detail);
  }
  if (event.value != 0) row["value"] = event.value;
  if (event.open) row["open"] = true;
  return row;
}

/// Returns one line. A path may have bytes that are not UTF-8, for which U+FFFD is written.
std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

bool Filter::passes(const Event& event) const {
  if (job && event.job != *job) return false;
  const bool is_exempt = ends_pass_rank && event.rank == kNoRank && ends_blocks(event.kind);
  if (rank && event.rank != *rank && !is_exempt) return false;
  // Modulo 2^32, like the block ids of a run.
  return !block || static_cast<uint32_t>(*block - event.block) < event.count;
}

std::vector<TimedEvent> merge(std::span<const Recording> recordings, const Filter& filter) {
  std::vector<TimedEvent> events;
  size_t count = 0;  // Of millions, so the vector must not grow by copies.
  for (const Recording& recording : recordings) {
    for (const Section& section : recording.sections) {
      count += std::ranges::count_if(section.events,
                                     [&](const Event& event) { return filter.passes(event); });
    }
  }
  events.reserve(count);
  for (uint32_t i = 0; i < recordings.size(); i++) {
    const Recording& recording = recordings[i];
    const int64_t offset_ns = to_utc(recording, recordings[0]);
    for (uint32_t k = 0; k < recording.sections.size(); k++) {
      const std::vector<Event>& recorded = recording.sections[k].events;
      for (uint32_t place = 0; place < recorded.size(); place++) {
        if (!filter.passes(recorded[place])) continue;
        events.push_back({.at_ns = sum(recorded[place].at_ns, offset_ns),
                          .recording = i,
                          .section = k,
                          .place = place,
                          .event = recorded[place]});
      }
    }
  }
  // Events of one time stay in the order in which they stand.
  std::ranges::sort(events, {}, [](const TimedEvent& timed) {
    return std::tuple(timed.at_ns, timed.recording, timed.section, timed.place);
  });
  return events;
}

bool share_clock(std::span<const Recording> recordings) {
  return std::ranges::all_of(recordings, [&](const Recording& each) {
    return has_clock_of(each.header, recordings[0].header);
  });
}

std::string time_text(int64_t at_ns) {
  int64_t part_ns = at_ns % kNanosecondsPerSecond;
  int64_t whole_s = at_ns / kNanosecondsPerSecond;
  if (part_ns < 0) {
    part_ns += kNanosecondsPerSecond;
    whole_s--;
  }
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:09}", fmt::gmtime(static_cast<std::time_t>(whole_s)),
                     part_ns);
}

void write_text(std::span<const Recording> recordings, std::span<const TimedEvent> events,
                const TextSink& sink) {
  for (const Recording& recording : recordings) sink(recording_line(recording));
  if (recordings.size() > 1) {
    sink(share_clock(recordings)
             ? "clocks: one machine; the order is exact to a burst of packets\n"
             : "clocks: several machines or time namespaces; the order is as exact as their clocks "
               "agree\n");
  }
  for (const TimedEvent& timed : events) sink(event_line(recordings[timed.recording], timed));
  if (events.empty()) sink("no events\n");
}

void write_json(std::span<const Recording> recordings, std::span<const TimedEvent> events,
                const TextSink& sink) {
  sink("{\n  \"files\": [");
  const char* separator = "\n    ";
  for (const Recording& recording : recordings) {
    sink(separator + json_text(file_json(recording)));
    separator = ",\n    ";
  }
  sink(fmt::format("\n  ],\n  \"one_clock\": {},\n  \"rows\": [", share_clock(recordings)));
  separator = "\n    ";
  for (const TimedEvent& timed : events) {
    sink(separator + json_text(row_json(recordings[timed.recording], timed)));
    separator = ",\n    ";
  }
  sink("\n  ]\n}\n");
}

}  // namespace tributary::recorder
