// SPDX-License-Identifier: Apache-2.0
/// @file
/// Progress of a long run: a line on standard error for people, or lines on standard output for
/// programs.
///
/// Model:   Prints nothing for the first second. Then, on a terminal, it overwrites one line
///          twice a second; elsewhere (a log file) it prints a line every ten seconds. With a
///          report period it prints "done N wrong W degraded D" to standard output instead, once
///          in each period with progress and at the end.
/// Threads: Prints from a thread of its own; one other thread calls update().
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <thread>

#include "base/time.h"

namespace tributary::cli {

class WorkerProgress {
 public:
  /// @param iterations      Number of iterations in the run.
  /// @param iteration_bytes Bytes of one iteration's tensor.
  /// @param report_every    Period of the lines for programs; 0: lines for people.
  WorkerProgress(uint64_t iterations, uint64_t iteration_bytes, Duration report_every);
  /// Clears the line on a terminal, or prints the last report.
  ~WorkerProgress();
  WorkerProgress(const WorkerProgress&) = delete;
  WorkerProgress& operator=(const WorkerProgress&) = delete;

  void update(uint64_t iterations_done, uint64_t wrong, uint64_t degraded_blocks);

 private:
  void print_until_stopped(const std::stop_token& stop);
  void print_line(double elapsed_s) const;
  void report_until_stopped(const std::stop_token& stop, Duration period);

  const uint64_t iterations_;
  const uint64_t iteration_bytes_;
  const bool terminal_;
  // Relaxed: each figure is printed by itself, so no order among them matters.
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> wrong_{0};
  std::atomic<uint64_t> degraded_blocks_{0};
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread printer_;
};

}  // namespace tributary::cli
