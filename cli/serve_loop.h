// SPDX-License-Identifier: Apache-2.0
/// @file
/// The life of `tributary serve` after its start, whatever it serves: signals, files of counters,
/// reports to the service manager, and the end.
///
/// Threads: One, which waits for the signals. Every other thread blocks them.
/// Errors:  One line on standard error.
/// Tests:   tests/system/service_test.cc, tests/system/output_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/log_control.h"

namespace tributary::cli {

/// A running server's part of serve().
struct Service {
  uint32_t cores = 1;
  std::string what;  ///< For the first line.
  std::vector<std::string> warnings;
  std::function<nlohmann::json()> stats;
  std::function<std::string()> status;  ///< One line; asks every core.
  std::function<bool()> is_in_use;
  std::function<void()> stop;
  std::function<void()> on_ready = [] {};   ///< Called before "ready".
  std::function<void()> begin_end = [] {};  ///< Called when a signal ends the server.
  std::function<void()> reload = {};        ///< Called on SIGHUP; null: SIGHUP ends the server.
  std::function<void()> record = {};        ///< Called on SIGUSR2; null: there is no recorder.
};

struct ServeLoopFlags {
  uint32_t linger_s;
  std::string json_path;  ///< Empty: no file of counters.
  server::LogLevel log_level;
};

/// Blocks the signals that serve() waits for. Call it before any thread starts: threads inherit the
/// mask, so no handler ever interrupts a core.
void block_awaited_signals();

/// Prints the reason for not serving. @return the exit code.
int refuse(const Error& error);

/// Writes the counters at once to check the path, then serves until a signal ends it.
/// @return the exit code.
int serve(const ServeLoopFlags& flags, const Service& service);

}  // namespace tributary::cli
