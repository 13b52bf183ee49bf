// SPDX-License-Identifier: Apache-2.0
/// @file
/// The life of a server in the terminal, whatever it serves: warnings, "ready", signals, the file
/// of its counters, the reports to the service manager, and its end.
///
/// Threads: The main thread. Block the signals before any other thread starts.
/// Errors:  One line that begins with the server's title, or with --log json an event of the log. A
///          file that cannot be written fails it.
/// Tests:   tests/system/service_test.cc, tests/system/vxlan_test.cc, tests/system/output_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/log/log.h"

namespace tributary::cli {

/// Blocks the signals that end a server or ask it for a file: SIGINT, SIGTERM, SIGUSR1, SIGUSR2
/// and, unless it is ignored, SIGHUP. Threads that start later inherit this, so no handler ever
/// interrupts a core.
void block_awaited_signals();

/// The parts of serve() that differ between servers.
struct Service {
  std::string title;  ///< Begins each line on standard error: "tributary serve".
  std::string what;   ///< For the first line.
  uint32_t cores = 1;
  server::Log* log = nullptr;  ///< Must be set for serve(). Without level info: no first line.
  std::string json_path;       ///< File for the counters; empty: none.
  uint32_t linger_s = 0;       ///< Longest wait at the end while is_in_use().
  std::vector<std::string> warnings;
  std::function<nlohmann::json()> stats;
  std::function<std::string()> status;  ///< One line; asks every core.
  std::function<bool()> is_in_use = [] { return false; };
  std::function<void()> stop;
  /// Returns the index of a core that stop(), tick() or stats() waits for; null: a second signal
  /// does not end the server. See SecondSignal.
  std::function<std::optional<uint32_t>()> late_core = {};
  std::string program = {};                 ///< The name of the program that late_core() is about.
  std::function<void()> on_ready = [] {};   ///< Called before "ready".
  std::function<void()> begin_end = [] {};  ///< Called when a signal ends the server.
  std::function<void()> tick = {};          ///< Called every second and after stop(); null: never.
  std::function<void()> reload = {};        ///< Called on SIGHUP; null: SIGHUP ends the server.
  std::function<void()> record = {};        ///< Called on SIGUSR2; null: there is no recorder.
};

/// Writes the counters at once to check the path, then serves until a signal ends it.
/// @pre block_awaited_signals() @return the exit code.
[[nodiscard]] int serve(const Service& service);

/// Writes something about the server: a line for people, "TITLE: TEXT", or with --log json the
/// event of the log.
void say(const Service& service, server::LogLevel level, const char* event,
         const server::LogFields& fields, const std::string& text);

/// Prints a refusal. @return 1 for ErrorKind::kPassing, because a later start may succeed; else
/// kExitUsage.
int refuse(const std::string& title, const Error& error);

}  // namespace tributary::cli
