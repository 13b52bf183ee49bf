// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ends a server at the second SIGINT or SIGTERM if a core does not return from its program. The
/// first signal ends it in the usual way, which waits for every core.
///
/// Model:   serve() blocks both signals and waits for them. While it asks the cores for something,
///          a handler takes them instead, so that a core that never answers cannot hold the
///          process.
/// Threads: The main thread. One object at a time.
/// Errors:  The line names the program and the core; the exit status is 1.
/// Tests:   tests/cli/serve/second_signal_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tributary::cli {

class SecondSignal {
 public:
  /// Returns the index of a core that this process waits for. Called in a signal handler.
  using LateCore = std::function<std::optional<uint32_t>()>;

  /// @param title Begins the line.
  /// @param program Its name.
  SecondSignal(const std::string& title, const std::string& program, LateCore late_core);
  ~SecondSignal();
  SecondSignal(const SecondSignal&) = delete;
  SecondSignal& operator=(const SecondSignal&) = delete;

  /// Lets the handler take the signals. @pre both are blocked, or the handler takes them.
  static void unblock();
  /// Blocks the signals, so that the caller can wait for them.
  static void block();
  /// Returns whether a signal has come.
  [[nodiscard]] static bool has_come();
  /// Records a signal that the caller has waited for.
  static void note();
};

}  // namespace tributary::cli
