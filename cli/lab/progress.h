// SPDX-License-Identifier: Apache-2.0
/// @file
/// A line on standard error that says how many points of an experiment, or how many of any other
/// items, are finished. Only on a terminal; nothing elsewhere.
///
/// Threads: Any thread may call update().
/// Tests:   tests/cli/lab/progress_test.cc
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "cli/status_line.h"

namespace tributary::cli {

/// "[#####     ] 12 of 24 points, 34 s, about 34 s left".
/// @param items The plural noun after the numbers.
[[nodiscard]] std::string progress_line(uint64_t done, uint64_t total, double elapsed_s,
                                        const char* items = "points");

class LabProgress {
 public:
  /// @param items As for progress_line(); must outlive the object.
  explicit LabProgress(const char* items = "points");

  void update(uint64_t done, uint64_t total);

 private:
  // Relaxed: figures for people, who do not mind one from before and one from after an update.
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> total_{0};
  StatusLine line_;
};

}  // namespace tributary::cli
