// SPDX-License-Identifier: Apache-2.0
#include "recorder/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace tributary::recorder {
namespace {

bool begins_blocks(Kind kind) { return kind == Kind::kArrived || kind == Kind::kSent; }

bool ends_blocks(Kind kind) {
  return kind == Kind::kCompleted || kind == Kind::kDegraded || kind == Kind::kResult ||
         kind == Kind::kDegradedResult;
}

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

class Trace {
 public:
  Trace(std::span<const TimedEvent> events, uint64_t spans_max)
      : begin_ns_(events.empty() ? 0 : events.front().at_ns) {
    const uint64_t spans = span_count(events);
    spans_left_out_ = spans - std::min(spans, spans_max);
  }

  void add_names(std::span<const Recording> recordings) {
    for (uint32_t i = 0; i < recordings.size(); i++) {
      const Recording& recording = recordings[i];
      add_name("process_name", i, 0, recording.title() + " on " + recording.host);
      for (uint32_t k = 0; k < recording.sections.size(); k++) {
        add_name("thread_name", i, k, recording.track_of(recording.sections[k]));
      }
    }
  }

  void add(const Recording& recording, const TimedEvent& timed) {
    add_instant(recording, timed);
    const Event& event = timed.event;
    if (!begins_blocks(event.kind) && !ends_blocks(event.kind)) return;
    for (uint32_t i = 0; i < event.count; i++) add_edge(timed, event.block + i);
  }

  [[nodiscard]] PerfettoTrace take(std::span<const Recording> recordings) {
    uint64_t lost = 0;
    for (const Recording& recording : recordings) lost += recording.lost();
    std::string json = fmt::format(
        "{{\"traceEvents\":[\n{}\n],\"displayTimeUnit\":\"ns\",\"otherData\":{{\"begin\":{},"
        "\"events_lost\":{},\"spans_left_out\":{}}}}}\n",
        text_, quoted(time_text(begin_ns_) + " UTC"), lost, spans_left_out_);
    return {.json = std::move(json), .spans_left_out = spans_left_out_};
  }

 private:
  /// The process, the job and the block of a span.
  using SpanKey = std::tuple<uint32_t, uint16_t, uint32_t>;

  /// Returns the spans that the events begin.
  static uint64_t span_count(std::span<const TimedEvent> events) {
    uint64_t count = 0;
    std::set<SpanKey> open;
    for (const TimedEvent& timed : events) {
      const Event& event = timed.event;
      if (!begins_blocks(event.kind) && !ends_blocks(event.kind)) continue;
      for (uint32_t i = 0; i < event.count; i++) {
        const SpanKey key{timed.recording, event.job, event.block + i};
        if (ends_blocks(event.kind)) {
          open.erase(key);
        } else if (open.insert(key).second) {
          count++;
        }
      }
    }
    return count;
  }

  [[nodiscard]] std::string time_of(const TimedEvent& timed) const {
    const auto since = static_cast<uint64_t>(timed.at_ns) - static_cast<uint64_t>(begin_ns_);
    return fmt::format("{}.{:03}", since / 1000, since % 1000);
  }
  void add_line(const std::string& line) {
    if (!text_.empty()) text_ += ",\n";
    text_ += line;
  }
  void add_name(const char* what, uint32_t process, uint32_t thread, const std::string& name) {
    add_line(fmt::format(
        "{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}", what,
        process + 1, thread + 1, quoted(name)));
  }
  void add_instant(const Recording& recording, const TimedEvent& timed) {
    const Event& event = timed.event;
    std::string args = fmt::format("\"job\":{}", event.job);
    if (event.rank != kNoRank) args += fmt::format(",\"rank\":{}", event.rank);
    if (event.count > 0)
      args += fmt::format(",\"block\":{},\"blocks\":{}", event.block, event.count);
    if (event.value != 0) args += fmt::format(",\"value\":{}", event.value);
    const std::string detail = recording.detail_of(event);
    if (!detail.empty()) args += ",\"detail\":" + quoted(detail);
    add_line(fmt::format(
        "{{\"ph\":\"i\",\"s\":\"t\",\"name\":\"{}\",\"cat\":\"event\",\"ts\":{},"
        "\"pid\":{},\"tid\":{},\"args\":{{{}}}}}",
        name_of(event.kind), time_of(timed), timed.recording + 1, timed.section + 1, args));
  }
  /// Begins the span of a block at its first event, and ends it at its result.
  void add_edge(const TimedEvent& timed, uint32_t block) {
    const SpanKey key{timed.recording, timed.event.job, block};
    const bool begins = begins_blocks(timed.event.kind);
    if (begins) {
      const auto [at, is_new] = open_.try_emplace(key, spans_ >= spans_left_out_);
      if (!is_new) return;
      spans_++;
      if (!at->second) return;
    } else {
      const auto at = open_.find(key);
      if (at == open_.end()) return;  // Its beginning is lost.
      const bool is_shown = at->second;
      open_.erase(at);
      if (!is_shown) return;
    }
    add_line(
        fmt::format("{{\"ph\":\"{}\",\"cat\":\"block\",\"name\":\"block {}\",\"id2\":{{"
                    "\"local\":\"{}.{}\"}},\"ts\":{},\"pid\":{},\"tid\":{},\"args\":{{"
                    "\"job\":{}}}}}",
                    begins ? 'b' : 'e', block, timed.event.job, block, time_of(timed),
                    timed.recording + 1, timed.section + 1, timed.event.job));
  }

  const int64_t begin_ns_;
  std::string text_;
  std::map<SpanKey, bool> open_;  ///< Whether the span is in the trace.
  uint64_t spans_ = 0;            ///< That have begun.
  uint64_t spans_left_out_ = 0;
};

}  // namespace

PerfettoTrace as_perfetto(std::span<const Recording> recordings, std::span<const TimedEvent> events,
                          uint64_t spans_max) {
  Trace trace(events, spans_max);
  trace.add_names(recordings);
  for (const TimedEvent& timed : events) trace.add(recordings[timed.recording], timed);
  return trace.take(recordings);
}

}  // namespace tributary::recorder
