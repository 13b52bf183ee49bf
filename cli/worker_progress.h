// SPDX-License-Identifier: Apache-2.0
/// @file
/// A line on standard error that says how far a long run is.
///
/// Model:   Nothing for the first two seconds. Then, on a terminal, one line that is written over
///          twice a second; elsewhere (a log file) a line every ten seconds.
/// Threads: Prints from a thread of its own; update() is called by one other thread.
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
  /// @param iterations       How many there will be.
  /// @param iteration_bytes  What one moves.
  WorkerProgress(uint64_t iterations, uint64_t iteration_bytes);
  /// Wipes the line on a terminal.
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
  // Figures for people: each is shown as it is, so no order among them matters (relaxed).
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> wrong_{0};
  std::atomic<uint64_t> degraded_blocks_{0};
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread printer_;
};

}  // namespace tributary::cli
