// SPDX-License-Identifier: Apache-2.0
/// @file
/// The fault campaign of packet programs: each seed is generated traffic over a faulty wire, run
/// through a program on both machines, and judged.
///
/// Model:   Promises of every program: each packet has exactly one outcome, and is forwarded or
///          dropped. Of filter and telemetry: both machines forward the same bytes. Of telemetry:
///          the exported records hold each accounted packet once, and no flow more than it sent.
/// Exact:   A seed gives the same result on each machine and with each number of threads.
/// Threads: run_program_faults() belongs to one; a campaign has as many as requested.
/// Errors:  An Error if the machine has no memory for the files. Broken promises are in the result.
/// Tests:   tests/lab/program_faults/program_faults_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "programs/program.h"
#include "traffic/config.h"

namespace tributary::lab {

/// A fault of the wire, or of the machine that captured it.
enum class WireFault : uint8_t {
  kLoss,
  kDuplication,
  kReordering,  ///< A packet swaps its place with its successor.
  kTruncation,  ///< The frame ends early.
  kCut,         ///< The capture lacks the frame's end.
  kCorruption,  ///< One to three bits flip.
  kGarbage,     ///< A frame of random bytes.
  kClockStep,  ///< The capture's clock jumps: back by up to a second, or ahead by up to 100 seconds.
  kCount,
};
inline constexpr uint32_t kWireFaultCount = static_cast<uint32_t>(WireFault::kCount);
[[nodiscard]] const char* to_string(WireFault fault);

struct ProgramFaultPlan {
  uint64_t seed = 0;
  traffic::Config traffic;
  std::array<double, kWireFaultCount> rates{};  ///< Probability per packet; 0: never.
  std::vector<WrittenKey> settings;             ///< Settings of the program.
};
[[nodiscard]] ProgramFaultPlan draw_program_plan(std::string_view program, uint64_t seed);

struct ProgramFaultResult {
  uint64_t seed = 0;
  uint64_t packets = 0;  ///< Packets that reached the program.
  std::array<uint64_t, kWireFaultCount> faults{};
  uint64_t refused_packets = 0;       ///< Packets of flows without room in a store, both machines.
  uint64_t digest = 0;                ///< Digest of the files that both machines wrote.
  std::vector<std::string> breaches;  ///< Broken promises, one line each.
};

[[nodiscard]] Result<ProgramFaultResult> run_program_faults(const programs::Program& program,
                                                            const ProgramFaultPlan& plan);

struct ProgramCampaign {
  uint64_t first_seed = 1;
  uint64_t seeds = 100;
  uint32_t threads = 1;
  /// Called after each run, one call at a time, with the number of runs done.
  std::function<void(uint64_t runs_done)> on_progress = {};
};

struct ProgramCampaignReport {
  uint64_t seeds = 0;
  uint64_t failed_seeds = 0;
  uint64_t packets = 0;
  uint64_t refused_packets = 0;
  uint64_t digest = 0;  ///< Digest of all runs, in any order.
  std::array<uint64_t, kWireFaultCount> faults{};
  std::vector<ProgramFaultResult> failures;  ///< The first kProgramFailuresMax, by seed.
};
inline constexpr size_t kProgramFailuresMax = 3;

[[nodiscard]] Result<ProgramCampaignReport> run_program_campaign(const programs::Program& program,
                                                                 const ProgramCampaign& campaign);

}  // namespace tributary::lab
