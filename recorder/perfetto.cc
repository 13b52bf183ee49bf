// SPDX-License-Identifier: Apache-2.0
#include "recorder/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

namespace tributary::recorder {
namespace {

bool begins_blocks(Kind kind) { return kind == Kind::kArrived || kind == Kind::kSent; }

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

/// The process, the job and the block of a span.
using SpanKey = std::tuple<uint32_t, uint16_t, uint32_t>;

/// The spans that have begun and not ended, at most `count_max`. The oldest one is forgotten for a
/// further one. The trace leaves it out in any case: at least `count_max` spans have begun since.
class OpenSpans {
 public:
  explicit OpenSpans(uint64_t count_max) : count_max_(count_max) {}

  /// Begins a span. @return its number; nothing if it is open already.
  std::optional<uint64_t> begin(const SpanKey& key) {
    const auto [at, is_new] = numbers_.try_emplace(key, begun_);
    if (!is_new) return std::nullopt;
    keys_.emplace_hint(keys_.end(), begun_, key);
    if (keys_.size() > count_max_) {
      numbers_.erase(keys_.begin()->second);
      keys_.erase(keys_.begin());
    }
    return begun_++;
  }
  /// Ends a span. @return its number; nothing if it is not open.
  std::optional<uint64_t> end(const SpanKey& key) {
    const auto at = numbers_.find(key);
    if (at == numbers_.end()) return std::nullopt;
    const uint64_t number = at->second;
    numbers_.erase(at);
    keys_.erase(number);
    return number;
  }
  /// Returns the spans that have begun so far.
  [[nodiscard]] uint64_t begun() const { return begun_; }

 private:
  const uint64_t count_max_;
  uint64_t begun_ = 0;
  std::map<SpanKey, uint64_t> numbers_;
  std::map<uint64_t, SpanKey> keys_;  ///< By their numbers: the oldest one is the first.
};

class Trace {
 public:
  Trace(std::span<const TimedEvent> events, uint64_t spans_max)
      : begin_ns_(events.empty() ? 0 : events.front().at_ns), open_(spans_max) {
    const uint64_t spans = span_count(events, spans_max);
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
  /// Returns the spans that the events begin.
  static uint64_t span_count(std::span<const TimedEvent> events, uint64_t spans_max) {
    OpenSpans open(spans_max);
    for (const TimedEvent& timed : events) {
      const Event& event = timed.event;
      if (!begins_blocks(event.kind) && !ends_blocks(event.kind)) continue;
      for (uint32_t i = 0; i < event.count; i++) {
        const SpanKey key{timed.recording, event.job, event.block + i};
        static_cast<void>(ends_blocks(event.kind) ? open.end(key) : open.begin(key));
      }
    }
    return open.begun();
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
    // Nothing: the block has begun already, or its beginning is lost.
    const std::optional<uint64_t> number = begins ? open_.begin(key) : open_.end(key);
    if (!number || *number < spans_left_out_) return;
    add_line(
        fmt::format("{{\"ph\":\"{}\",\"cat\":\"block\",\"name\":\"block {}\",\"id2\":{{"
                    "\"local\":\"{}.{}\"}},\"ts\":{},\"pid\":{},\"tid\":{},\"args\":{{"
                    "\"job\":{}}}}}",
                    begins ? 'b' : 'e', block, timed.event.job, block, time_of(timed),
                    timed.recording + 1, timed.section + 1, timed.event.job));
  }

  const int64_t begin_ns_;
  std::string text_;
  OpenSpans open_;
  uint64_t spans_left_out_ = 0;  ///< The spans with lower numbers.
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
