// SPDX-License-Identifier: Apache-2.0
/// @file
/// `tributary doctor`: tells whether this machine can run the appliance or a worker, what slows it
/// down, and the command that fixes each problem.
///
/// Threads: One.
/// Errors:  run_doctor() prints one line for a result file that cannot be written.
/// Tests:   tests/cli/doctor/doctor_test.cc
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "cli/doctor/machine_facts.h"
#include "wire/headers.h"

namespace tributary::cli {

enum class Verdict : uint8_t {
  kOk,
  kCostsSpeed,  ///< Works, but slower than it could.
  kWrong,       ///< Does not work.
};
[[nodiscard]] const char* to_string(Verdict verdict);

struct Finding {
  std::string what;
  std::string found;
  Verdict verdict = Verdict::kOk;
  std::string remedy;  ///< The command or step that fixes it; empty for kOk.
};

/// Judges the facts; returns at least one finding for each.
[[nodiscard]] std::vector<Finding> examine(const MachineFacts& facts);

/// Returns the worst verdict of the findings; kOk if there are none.
[[nodiscard]] Verdict worst(std::span<const Finding> findings);

/// Returns the findings as text: one line each, with the remedy below.
[[nodiscard]] std::string as_text(std::span<const Finding> findings);
/// Returns {"verdict": …, "findings": [{"what", "found", "verdict", "remedy"}, …]}.
[[nodiscard]] std::string as_json(std::span<const Finding> findings);

struct DoctorOptions {
  std::string json;  ///< Result file; empty for none.
  uint16_t port = wire::kTrioMlPort;
  std::vector<std::string> dpdk;   ///< Devices as given to `serve --port`.
  std::vector<std::string> ports;  ///< Ports of a packet program, as given to `serve --program`.
  uint32_t workers = 0;            ///< Worker machines of a job; 0: do not examine links.
  double worker_gbit = 0;          ///< Rate of their links; 0: as this machine's.
  double server_gbit = 0;          ///< Rate of this machine's link; 0: as its interfaces tell.
  bool measure_sum = false;        ///< Measure how fast a core adds gradients.
};

/// Declares the command.
CLI::App* add_doctor(CLI::App& app, DoctorOptions& options);

/// Runs the command.
/// @return 0 unless something is wrong or the result file cannot be written.
[[nodiscard]] int run_doctor(const DoctorOptions& options, std::ostream& out, std::ostream& err);

}  // namespace tributary::cli
