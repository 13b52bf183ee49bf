// SPDX-License-Identifier: Apache-2.0
/// @file
/// A progress line on standard error for a long run.
///
/// Model:   Prints nothing for the first two seconds. Then, on a terminal, it overwrites one line
///          twice a second; elsewhere (a log file) it prints a line every ten seconds.
/// Threads: Prints from a thread of its own; one other thread calls update().
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <thread>

namespace tributary::cli {

class WorkerProgress {
 public:
  /// @param iterations      Number of iterations in the run.
  /// @param iteration_bytes Bytes of one iteration's tensor.
  WorkerProgress(uint64_t iterations, uint64_t iteration_bytes);
  /// Clears the line on a terminal.
  ~WorkerProgress();
  WorkerProgress(const WorkerProgress&) = delete;
  WorkerProgress& operator=(const WorkerProgress&) = delete;

  void update(uint64_t iterations_done, uint64_t wrong, uint64_t degraded_blocks);

 private:
  void print_until_stopped(const std::stop_token& stop);
  void print_line(double elapsed_s) const;

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
