// SPDX-License-Identifier: Apache-2.0
#include "recorder/perfetto.h"

#include <fmt/format.h>

#include <set>
#include <tuple>

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
  explicit Trace(std::span<const TimedEvent> events)
      : begin_ns_(events.empty() ? 0 : events.front().at_ns) {}

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

  [[nodiscard]] std::string take(std::span<const Recording> recordings) {
    uint64_t lost = 0;
    for (const Recording& recording : recordings) lost += recording.lost();
    return fmt::format(
        "{{\"traceEvents\":[\n{}\n],\"displayTimeUnit\":\"ns\",\"otherData\":{{\"begin\":{},"
        "\"events_lost\":{},\"spans_left_out\":{}}}}}\n",
        text_, quoted(time_text(begin_ns_) + " UTC"), lost, spans_left_out_);
  }

 private:
  /// The process, the job and the block of a span.
  using SpanKey = std::tuple<uint32_t, uint16_t, uint32_t>;

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
      if (open_.contains(key)) return;
      if (spans_ == kSpansMax) {
        spans_left_out_++;
        return;
      }
      spans_++;
      open_.insert(key);
    } else if (open_.erase(key) == 0) {
      return;  // Its beginning is lost.
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
  std::set<SpanKey> open_;
  uint32_t spans_ = 0;
  uint64_t spans_left_out_ = 0;
};

}  // namespace

std::string as_perfetto(std::span<const Recording> recordings, std::span<const TimedEvent> events) {
  Trace trace(events);
  trace.add_names(recordings);
  for (const TimedEvent& timed : events) trace.add(recordings[timed.recording], timed);
  return trace.take(recordings);
}

}  // namespace tributary::recorder
