// SPDX-License-Identifier: Apache-2.0
/// @file
/// Several recordings as one timeline, as text and as JSON.
///
/// Model:   Times become UTC by the offsets in each file. Recordings with one FileHeader::boot
///          share a clock, so their order is exact to a burst. Those of other machines are as far
///          apart as the machines' clocks (NTP: about a millisecond).
/// Memory:  One TimedEvent for each event. The output goes to its sink line by line.
/// Units:   Nanoseconds since 1970-01-01 00:00 UTC.
/// Errors:  None: a time out of range wraps around, so its event is shown at a wrong time.
/// Threads: Pure functions.
/// Tests:   tests/recorder/timeline_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/recording.h"

namespace tributary::recorder {

/// The events to show. An event that is not about a block does not pass `block`; likewise `rank`.
struct Filter {
  std::optional<uint32_t> job{};
  std::optional<uint32_t> block{};
  std::optional<uint32_t> rank{};
  /// Results, which are about all ranks, pass `rank`. The spans of a trace need them as their ends.
  bool ends_pass_rank = false;

  [[nodiscard]] bool passes(const Event& event) const;
};

struct TimedEvent {
  int64_t at_ns = 0;       ///< UTC.
  uint32_t recording = 0;  ///< Its place among the recordings.
  uint32_t section = 0;    ///< Its place in the recording.
  uint32_t place = 0;      ///< Its place among the events of the section.
  Event event{};
};

/// Returns the events that pass, in the order of their times.
[[nodiscard]] std::vector<TimedEvent> merge(std::span<const Recording> recordings,
                                            const Filter& filter = {});

/// Tells whether all recordings have one clock.
[[nodiscard]] bool share_clock(std::span<const Recording> recordings);

/// Returns "2026-11-23 20:15:00.123456789" for a time in UTC.
[[nodiscard]] std::string time_text(int64_t at_ns);

/// Takes the next part of an output.
using TextSink = std::function<void(std::string_view)>;

/// Writes a line for each recording, one about the clocks, and one for each event.
void write_text(std::span<const Recording> recordings, std::span<const TimedEvent> events,
                const TextSink& sink);
/// Writes an object with `files`, `one_clock` and `rows`, and a final newline.
void write_json(std::span<const Recording> recordings, std::span<const TimedEvent> events,
                const TextSink& sink);

}  // namespace tributary::recorder
