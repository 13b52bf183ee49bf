// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compares flow telemetry on the modelled Trio with PRECISION on the modelled Tofino over one
/// seeded trace, at several memory sizes.
///
/// Model:   Each machine gets the most records or slots that fit in a memory size. Both report once
///          in each period: Trio's timers export records, and Tofino's controller reads all slots.
/// Units:   Memory in bytes: of the records with their index, or of the slots. The whole SRAM
///          blocks of the placed Tofino program are reported beside them.
/// Threads: Cells run on several threads; the rows do not depend on their number.
/// Errors:  One line with the setting, its value and the allowed values.
/// Memory:  Some 200 bytes for each flow of the trace and thread.
/// Tests:   tests/lab/telemetry/telemetry_comparison_test.cc, tests/system/lab_test.cc
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/telemetry/flow_reports.h"
#include "traffic/config.h"

namespace tributary::lab {

/// Bounds of the settings. The traces have IPv4 only, because the sketch's slots hold IPv4 flows.
inline constexpr uint32_t kTelemetryFlowsMax = 1'000'000;
inline constexpr uint64_t kTelemetryPacketsMax = 100'000'000;
inline constexpr uint32_t kTelemetryTopMax = 10'000;
inline constexpr double kTelemetryRateMax = 10'000'000;
/// The smallest memory holds two slots of each row, and a few records.
inline constexpr uint64_t kTelemetryMemoryMin = 1'024;
inline constexpr uint64_t kTelemetryMemoryMax = uint64_t{1} << 29;
inline constexpr uint32_t kTelemetryMemoriesMax = 32;
inline constexpr uint32_t kTelemetryPeriodMsMax = 60'000;

/// The memory sizes of a run without others, as parse_memories() reads them.
inline constexpr const char* kTelemetryMemories = "16K,64K,256K,1M,4M";

struct TelemetryComparison {
  uint32_t flows = 20'000;       ///< In progress at any time.
  uint64_t packets = 1'000'000;  ///< Of the trace.
  double zipf = 1.1;
  double rate = 500'000;  ///< Packets per second.
  double churn = 1'000;   ///< Flows that end, and begin, per second.
  uint64_t seed = 1;
  uint32_t top = 100;  ///< The threshold is the count of the flow of this rank.
  /// Time between two reports. Reading the slots takes no time, which favours the Tofino.
  Duration period = milliseconds(100);
  std::vector<uint64_t> memories;  ///< Bytes; at least one.
};

/// Parses sizes with commas between: digits, and K or M for multiples of 2^10 or 2^20.
/// @param where Name of the setting, for messages.
[[nodiscard]] Result<std::vector<uint64_t>> parse_memories(const std::string& where,
                                                           const std::string& text);
/// Refuses values out of range.
[[nodiscard]] Result<void> check(const TelemetryComparison& settings);
/// Returns the trace of the settings.
[[nodiscard]] traffic::Config trace_of(const TelemetryComparison& settings);

/// The result of one machine with one memory size.
struct TelemetryRow {
  std::string machine;        ///< "trio" or "tofino".
  uint64_t memory_limit = 0;  ///< The size that was offered.
  uint64_t memory_bytes = 0;  ///< The size in use: of the records and their index, or of the slots.
  /// Tofino: the SRAM blocks that the placed program takes. A register has whole blocks, and a
  /// spare.
  std::optional<uint64_t> sram_bytes = {};
  uint64_t places = 0;  ///< Records or slots.
  FlowScore score = {};
  std::optional<double> instructions_per_packet = {};  ///< Trio.
  std::optional<double> passes_per_packet = {};        ///< Tofino: 1 and the recirculations.
  /// Packets that belong to no record or slot when they are counted: refused by a full store. A
  /// sketch does not refuse; its evicted counts show as errors.
  std::optional<uint64_t> uncounted_packets = {};
  uint64_t lost_packets = 0;  ///< By the machine, because it was too slow.
  uint64_t report_bytes = 0;  ///< IPFIX messages, or slots that the controller read.
};

struct TelemetryResult {
  uint64_t packets = 0;
  uint64_t flows = 0;  ///< Flows of the whole trace, churn included.
  uint64_t large_flows = 0;
  uint64_t threshold = 0;  ///< Packets of the smallest large flow.
  std::vector<TelemetryRow> rows;
};

/// Runs all cells. @param threads Most threads; 0 for one on each core.
[[nodiscard]] Result<TelemetryResult> run_telemetry(const TelemetryComparison& settings,
                                                    uint32_t threads);

}  // namespace tributary::lab
