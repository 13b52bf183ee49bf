// SPDX-License-Identifier: Apache-2.0
/// @file
/// Turns Ctrl-C into an event that a program can wait for and react to, without a signal handler.
///
/// Model:   SIGINT and SIGTERM are blocked in all threads. A thread of this class takes them and
///          then calls the reaction, an ordinary function that may lock and allocate. A second
///          signal ends the process at once.
/// Threads: The main thread creates it before any other thread, so that all inherit the blocked
///          signals. The reaction runs on the class's thread. Any thread may call the functions.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "base/time.h"

namespace tributary::cli {

class WorkerInterrupt {
 public:
  WorkerInterrupt();
  ~WorkerInterrupt();
  WorkerInterrupt(const WorkerInterrupt&) = delete;
  WorkerInterrupt& operator=(const WorkerInterrupt&) = delete;

  /// Returns whether a signal has arrived.
  [[nodiscard]] bool requested() const;

  /// Sets the function to call once when the first signal arrives; calls it at once if one has
  /// arrived. After this returns, the previous reaction is not running and will not run.
  void set_reaction(std::function<void()> reaction);

  /// Sleeps for `duration` or until the first signal.
  void sleep_for(Duration duration);

 private:
  void watch(const std::stop_token& stop);

  mutable std::mutex mutex_;  ///< Held while the reaction runs.
  std::condition_variable changed_;
  bool requested_ = false;
  std::function<void()> reaction_;
  std::jthread watcher_;
};

}  // namespace tributary::cli
