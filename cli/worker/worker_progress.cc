// SPDX-License-Identifier: Apache-2.0
#include "cli/worker/worker_progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "cli/console.h"
#include "cli/status_line.h"

namespace tributary::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// A run shorter than this needs no progress line.
constexpr auto kQuiet = std::chrono::seconds(1);
constexpr auto kTerminalPeriod = std::chrono::milliseconds(500);
constexpr auto kLogPeriod = std::chrono::seconds(10);

}  // namespace

WorkerProgress::WorkerProgress(uint64_t iterations, uint64_t iteration_bytes, Duration report_every)
    : iterations_(iterations),
      iteration_bytes_(iteration_bytes),
      terminal_(isatty(STDERR_FILENO) == 1),
      printer_([this, report_every](const std::stop_token& stop) {
        if (report_every > Duration()) {
          report_until_stopped(stop, report_every);
        } else {
          print_until_stopped(stop);
        }
      }) {}

WorkerProgress::~WorkerProgress() {
  printer_.request_stop();
  printer_.join();
}

void WorkerProgress::update(uint64_t iterations_done, uint64_t wrong, uint64_t degraded_blocks) {
  done_.store(iterations_done, std::memory_order_relaxed);
  wrong_.store(wrong, std::memory_order_relaxed);
  degraded_blocks_.store(degraded_blocks, std::memory_order_relaxed);
}

void WorkerProgress::print_until_stopped(const std::stop_token& stop) {
  const Clock::time_point start = Clock::now();
  std::unique_lock lock(mutex_);
  Clock::time_point next = start + (terminal_ ? Clock::duration(kQuiet) : kLogPeriod);
  bool printed = false;
  while (true) {
    stopped_.wait_until(lock, stop, next, [] { return false; });
    if (stop.stop_requested()) break;
    print_line(std::chrono::duration<double>(Clock::now() - start).count());
    printed = true;
    next += terminal_ ? Clock::duration(kTerminalPeriod) : kLogPeriod;
  }
  if (printed && terminal_) overwrite_line(STDERR_FILENO, "");
}

void WorkerProgress::report_until_stopped(const std::stop_token& stop, Duration period) {
  const std::chrono::nanoseconds pause(in_nanoseconds(period));
  std::unique_lock lock(mutex_);
  uint64_t reported = 0;
  while (true) {
    stopped_.wait_for(lock, stop, pause, [] { return false; });
    const uint64_t done = done_.load(std::memory_order_relaxed);
    if (done != reported) {
      print("done {} wrong {} degraded {}\n", done, wrong_.load(std::memory_order_relaxed),
            degraded_blocks_.load(std::memory_order_relaxed));
      std::fflush(stdout);
    }
    reported = done;
    if (stop.stop_requested()) return;
  }
}

void WorkerProgress::print_line(double elapsed_s) const {
  const uint64_t done = done_.load(std::memory_order_relaxed);
  const double gbytes = static_cast<double>(done) * static_cast<double>(iteration_bytes_) / 1e9;
  const std::string line = fmt::format(
      "{} of {} all-reduces, {:.0f} s, {:.3f} GB/s, {} wrong, {} degraded blocks", done,
      iterations_, elapsed_s, gbytes / elapsed_s, wrong_.load(std::memory_order_relaxed),
      degraded_blocks_.load(std::memory_order_relaxed));
  if (terminal_) {
    overwrite_line(STDERR_FILENO, line);
  } else {
    print_error("{}\n", line);
  }
}

}  // namespace tributary::cli
