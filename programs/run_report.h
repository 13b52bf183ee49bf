// SPDX-License-Identifier: Apache-2.0
/// @file
/// The result of a run of a program over a capture, for people and for programs.
///
/// Units:   Bytes are bytes on the wire, without the frame check sequence.
/// Threads: Plain data.
/// Tests:   tests/programs/program_test.cc, tests/system/programs_test.cc
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/accounting.h"
#include "engine/model/parameters.h"
#include "engine/model/report.h"
#include "memory/rmw.h"
#include "programs/capture_feed.h"
#include "programs/capture_output.h"

namespace tributary::programs {

/// The packets of one outcome that a program counts.
struct OutcomeCount {
  std::string name;
  memory::PacketByteCounter counter;
  bool is_event = false;  ///< Counts events beside the packets, such as records erased.
};

/// The results that only the modelled machine has.
struct ModelReport {
  engine::Parameters parameters;
  engine::Report pfe;
  engine::Accounting accounting;
};

/// The packet rate at which the program would use up one resource of the modelled chip: a
/// prediction, labelled so. Assumes that a packet needs as much of it as in the run, and that timer
/// threads keep the share of the time that they had.
struct RateLimit {
  std::string resource;
  double packets_per_s = 0;
};
/// Returns the lowest limit; nothing if no packet was processed.
[[nodiscard]] std::optional<RateLimit> rate_limit(const engine::Report& report);

struct RunReport {
  std::string program;
  CaptureFeed::Counts input;
  CaptureOutput::Counts output;
  uint64_t dropped = 0;        ///< By the program.
  uint64_t ended_wrongly = 0;  ///< Packets that the program did not forward or drop once.
  std::vector<OutcomeCount> outcomes;
  double seconds = 0;                ///< Wall-clock time of this process.
  std::optional<ModelReport> model;  ///< On the modelled machine only.
  /// The program's further results, as an object.
  nlohmann::ordered_json details = nlohmann::ordered_json::object();
};

[[nodiscard]] nlohmann::ordered_json as_json(const RunReport& report);
/// Return several lines. The second takes the statistics of a LiveService.
[[nodiscard]] std::string as_text(const RunReport& report);
[[nodiscard]] std::string live_text(std::string_view program, const nlohmann::json& stats);

}  // namespace tributary::programs
