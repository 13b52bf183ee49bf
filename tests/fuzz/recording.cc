// SPDX-License-Identifier: Apache-2.0
// A recording of the flight recorder, and everything that shows one.
#include "recorder/recording.h"

#include <nlohmann/json.hpp>

#include "recorder/flight_recorder.h"
#include "recorder/perfetto.h"
#include "recorder/timeline.h"
#include "tests/fuzz/fuzz_target.h"

namespace tributary::fuzz {
namespace {

void run(std::span<const uint8_t> input) {
  const auto recording = recorder::read_recording(std::as_bytes(input));
  if (!recording) {
    EXPECT_LE(recording.error().text.size(), 200U);
    return;
  }
  EXPECT_LE(recording->event_count(), input.size() / sizeof(recorder::Words));
  const std::vector<recorder::Recording> twice{*recording, *recording};
  const auto events = recorder::merge(twice);
  EXPECT_EQ(events.size(), 2 * recording->event_count());
  EXPECT_LE(recorder::merge(twice, {.job = 1, .block = 5, .rank = 2}).size(), events.size());
  std::string text;
  const auto append = [&text](std::string_view part) { text += part; };
  recorder::write_text(twice, events, append);
  EXPECT_FALSE(text.empty());
  text.clear();
  recorder::write_json(twice, events, append);
  EXPECT_TRUE(nlohmann::json::accept(text));
  // Each event may have thousands of blocks.
  if (events.size() > 20) return;
  EXPECT_TRUE(nlohmann::json::accept(recorder::as_perfetto(twice, events).json));
}

std::vector<Bytes> seeds() {
  recorder::RecorderConfig config{.name = "rack1", .events = 64};
  recorder::add_label(config.labels, recorder::Domain::kOutcome, 7, "late");
  recorder::FlightRecorder recorder(config);
  recorder::Writer* const core = recorder.add_writer(0);
  core->note({.kind = recorder::Kind::kRefused, .detail = 7, .job = 1, .block = 5, .count = 1},
             Instant());
  core->add(recorder::Kind::kArrived, 1, 2, 5, Instant(microseconds(1)));
  const std::string text = recording_of(recorder, recorder::Cause::kStall);
  return {Bytes(text.begin(), text.end())};
}

TRIB_FUZZ_TARGET(recording);

}  // namespace
}  // namespace tributary::fuzz
